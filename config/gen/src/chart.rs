//! The generated files of the Helm chart. Its templates change what values change in them and print the rest as it is,
//! so chart and kustomize cannot drift apart.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{parts::Parts, variants::Variant};

const FOLDER: &str = "helm/olmv1/files";
/// What `helm uninstall` leaves in place: with the CRDs would go every extension and what it installed, with the
/// namespace the content of revisions.
const KEEP: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// The files of the chart, below `config`.
pub(crate) fn files(parts: &Parts, variants: &[Variant]) -> Vec<(PathBuf, Vec<Value>)> {
    let cloned = |objects: &[Value]| objects.to_vec();
    let (namespace, rbac) = parts.rbac.split_at(1);
    let is = |kind: &'static str| move |object: &&Value| object["kind"] == kind;
    let only =
        |objects: &[Value], kind: &'static str| objects.iter().filter(is(kind)).cloned().collect::<Vec<_>>();
    let without = |objects: &[Value], kinds: &[&str]| {
        let stays = |object: &&Value| !kinds.iter().any(|kind| object["kind"] == *kind);
        objects.iter().filter(stays).cloned().collect::<Vec<_>>()
    };
    let (cluster_role, rbac): (Vec<Value>, Vec<Value>) =
        rbac.iter().cloned().partition(|object| object["kind"] == "ClusterRole");
    let mut files = vec![
        ("namespace", kept(namespace)),
        ("crds", kept(&parts.crds)),
        ("rbac", [rbac, cloned(&parts.people)].concat()),
        ("cluster-role", cluster_role),
        ("restricted-cluster-role", vec![parts.restricted.clone()]),
        ("admission", [cloned(&parts.policies), cloned(&parts.warnings)].concat()),
        ("leftovers", cloned(&parts.leftovers)),
        ("network-policies", only(&parts.network, "NetworkPolicy")),
        ("operator-controller-budget", only(&parts.network, "PodDisruptionBudget")),
        ("operator-controller-deployment", vec![parts.deployment.clone()]),
        ("catalogd", without(&parts.catalogd, &["Deployment", "PodDisruptionBudget"])),
        ("catalogd-budget", only(&parts.catalogd, "PodDisruptionBudget")),
        ("catalogd-deployment", only(&parts.catalogd, "Deployment")),
        ("catalogd-retired-deployment", vec![parts.catalogd_retired.clone()]),
        ("classic-crds", kept(&parts.classic_crds)),
        ("classic", without(&parts.classic, &["Deployment"])),
        ("cluster-catalogs", cloned(&parts.cluster_catalogs)),
        ("classic-deployment", only(&parts.classic, "Deployment")),
    ];
    for service in only(&parts.network, "Service") {
        let name = if service["metadata"]["name"] == "catalogd-service" {
            "catalogd-service"
        } else {
            "metrics-service"
        };
        files.push((name, vec![service]));
    }
    for variant in variants {
        files.push((variant.name, variant.objects.clone()));
    }
    let path = |name: &str| Path::new(FOLDER).join(format!("{name}.yaml"));
    let mut files: Vec<_> = files.into_iter().map(|(name, objects)| (path(name), objects)).collect();
    for variant in variants {
        files.push((path(&format!("{}-additions", variant.name)), vec![variant.additions.clone()]));
    }
    files
}

fn kept(objects: &[Value]) -> Vec<Value> {
    let keep = |object: &Value| {
        let mut object = object.clone();
        object["metadata"]["annotations"][KEEP.0] = json!(KEEP.1);
        object
    };
    objects.iter().map(keep).collect()
}
