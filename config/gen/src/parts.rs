//! The parts that installations are put together from, each a file of `config` and of the chart.

use std::path::PathBuf;

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::{classic, leftovers, network, people, pods, rbac, split, variants, warnings};

/// Replicas of operator-controller: one leads, both serve catalogs.
const REPLICAS: u32 = 2;

/// The objects of the product, sorted by what they are for.
pub(crate) struct Parts {
    /// Each in a file of its own, named after the CRD.
    pub(crate) crds: Vec<Value>,
    /// Namespace, ServiceAccount and permissions of operator-controller.
    pub(crate) rbac: Vec<Value>,
    /// The permissions in the cluster, except to act as any ServiceAccount.
    pub(crate) restricted: Value,
    /// Roles for people.
    pub(crate) people: Vec<Value>,
    /// Policies that guard, and what they read.
    pub(crate) policies: Vec<Value>,
    /// Policies that warn.
    pub(crate) warnings: Vec<Value>,
    /// Services, NetworkPolicies, budget.
    pub(crate) network: Vec<Value>,
    /// Of operator-controller.
    pub(crate) deployment: Value,
    /// Upstream's, emptied.
    pub(crate) leftovers: Vec<Value>,
    /// catalogd's Deployment at no replicas.
    pub(crate) catalogd_retired: Value,
    /// catalogd on its own.
    pub(crate) catalogd: Vec<Value>,
    /// The CRDs of OLM Classic.
    pub(crate) classic_crds: Vec<Value>,
    /// OLM Classic: namespace, permissions, network objects, Deployment.
    pub(crate) classic: Vec<Value>,
    /// What lets OLM Classic serve ClusterCatalogs too.
    pub(crate) cluster_catalogs: Vec<Value>,
}

impl Parts {
    /// Makes them all, labelled.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let crds = |all: Vec<CustomResourceDefinition>, name: &str| -> anyhow::Result<Vec<Value>> {
            let value =
                |crd: CustomResourceDefinition| serde_json::to_value(&crd).context("serializing a CRD");
            all.into_iter().map(|crd| Ok(labelled(value(crd)?, name))).collect()
        };
        Ok(Self {
            crds: crds(olm_api::crds::all(), "olmv1")?,
            classic_crds: crds(olm_api_classic::crds::all(), classic::NAME)?,
            classic: classic::objects().into_iter().map(|object| labelled(object, classic::NAME)).collect(),
            cluster_catalogs: classic::cluster_catalogs()
                .into_iter()
                .map(|object| labelled(object, classic::NAME))
                .collect(),
            rbac: all_labelled(rbac::objects()),
            restricted: labelled(rbac::cluster_role(rbac::Accounts::Granted), "operator-controller"),
            people: all_labelled(people::objects()),
            policies: all_labelled(operator_controller::admission_objects(rbac::NAMESPACE)?),
            warnings: all_labelled(warnings::objects()),
            network: all_labelled(network::objects()),
            deployment: labelled(pods::OPERATOR_CONTROLLER.deployment(REPLICAS), "operator-controller"),
            leftovers: all_labelled(leftovers::objects()),
            catalogd_retired: labelled(leftovers::catalogd(), "catalogd"),
            catalogd: all_labelled(split::objects()),
        })
    }

    /// Everything of the default installation, in the order it can be applied.
    pub(crate) fn install(&self) -> Vec<&Value> {
        // The namespace comes before ServiceAccount and roles.
        let (namespace, rbac) = self.rbac.split_at(1);
        let groups: [&[Value]; 8] = [
            namespace,
            &self.crds,
            rbac,
            &self.people,
            &self.policies,
            &self.warnings,
            &self.network,
            &self.leftovers,
        ];
        groups.into_iter().flatten().chain([&self.catalogd_retired, &self.deployment]).collect()
    }

    /// The files of the kustomize bases, below `config`.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<&Value>)> {
        let file = |path: &str, objects: Vec<_>| (PathBuf::from(path), objects);
        let mut files = vec![
            file("rbac/operator-controller.yaml", self.rbac.iter().collect()),
            file("overlays/restricted-accounts/cluster-role.patch.yaml", vec![&self.restricted]),
            file("rbac/people.yaml", self.people.iter().collect()),
            file("admission/operator-controller.yaml", self.policies.iter().collect()),
            file("admission/warnings.yaml", self.warnings.iter().collect()),
            file("manager/network.yaml", self.network.iter().collect()),
            file("manager/deployment.yaml", vec![&self.deployment]),
            file("leftovers/upstream.yaml", self.leftovers.iter().collect()),
            file("catalogd-retired/deployment.yaml", vec![&self.catalogd_retired]),
            file("catalogd/catalogd.yaml", self.catalogd.iter().collect()),
            file("classic/crds.yaml", self.classic_crds.iter().collect()),
            file("classic/classic.yaml", self.classic.iter().collect()),
            file("components/cluster-catalogs/objects.yaml", self.cluster_catalogs.iter().collect()),
            file("install.yaml", self.install()),
        ];
        for crd in &self.crds {
            let (group, plural) = (&crd["spec"]["group"], &crd["spec"]["names"]["plural"]);
            let name = format!(
                "crd/{}_{}.yaml",
                group.as_str().unwrap_or_default(),
                plural.as_str().unwrap_or_default()
            );
            files.push((PathBuf::from(name), vec![crd]));
        }
        files
    }
}

/// The additions of a variant, with their labels.
pub(crate) fn variants() -> Vec<variants::Variant> {
    let labelled_ones = |mut variant: variants::Variant| {
        variant.objects = all_labelled(variant.objects);
        variant
    };
    variants::all().into_iter().map(labelled_ones).collect()
}

fn all_labelled(objects: Vec<Value>) -> Vec<Value> {
    objects.into_iter().map(|object| labelled(object, "operator-controller")).collect()
}

/// The labels by which people find what belongs to the product; a name that is there stays.
fn labelled(mut object: Value, name: &str) -> Value {
    let labels = &mut object["metadata"]["labels"];
    if labels.get("app.kubernetes.io/name").is_none() {
        labels["app.kubernetes.io/name"] = json!(name);
    }
    labels["app.kubernetes.io/part-of"] = json!("olm");
    object
}
