//! The InstallPlan of a solution.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::ResourceExt;
use olm_api_classic::{
    BundleLookup, InstallPlan, InstallPlanSpec, InstallPlanStatus, Step, StepResource, Subscription,
};
use olm_go::json::{Html, Object, into_raw};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::decide::AUTOMATIC;
use crate::{
    registry_model::Property,
    resolve::{Bundle, GeneratedSubscription},
};

/// The letters of generated names.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// The number of letters that a generated name has after its prefix.
const SUFFIX_LETTERS: usize = 5;

/// What goes into a plan.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The Subscriptions that were resolved together.
    pub subscriptions: &'a [&'a Subscription],
    /// `Automatic` or `Manual`.
    pub approval: &'a str,
    /// The number of the plan in its namespace.
    pub generation: i64,
    /// The objects, in order.
    pub steps: &'a [Step],
    /// The bundles that they come from.
    pub lookups: &'a [BundleLookup],
}

impl Draft<'_> {
    /// Names of the ClusterServiceVersions among the steps.
    fn csv_names(&self) -> Vec<String> {
        let csvs = self.steps.iter().filter(|step| step.resource.kind == "ClusterServiceVersion");
        let names: BTreeSet<String> = csvs.map(|step| step.resource.name.clone()).collect();
        names.into_iter().collect()
    }

    /// The plan without its status: the same for the same draft, its name too, so that it is not made twice.
    pub fn plan(&self) -> InstallPlan {
        let names = self.csv_names();
        let owner = |subscription: &&Subscription| OwnerReference {
            api_version: "operators.coreos.com/v1alpha1".to_owned(),
            kind: "Subscription".to_owned(),
            name: subscription.name_any(),
            uid: subscription.uid().unwrap_or_default(),
            controller: Some(false),
            block_owner_deletion: Some(false),
        };
        let owners: Vec<_> = self.subscriptions.iter().map(owner).collect();
        let mut hash = Sha256::new();
        hash.update(self.generation.to_be_bytes());
        let uids = owners.iter().map(|owner| owner.uid.as_str());
        for text in std::iter::once(self.namespace).chain(uids).chain(names.iter().map(String::as_str)) {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        }
        let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
        let suffix: String = hash.finalize().iter().take(SUFFIX_LETTERS).map(letter).collect();
        let metadata = ObjectMeta {
            name: Some(format!("install-{suffix}")),
            namespace: Some(self.namespace.to_owned()),
            owner_references: Some(owners),
            ..ObjectMeta::default()
        };
        let spec = InstallPlanSpec {
            cluster_service_version_names: names,
            approval: self.approval.to_owned(),
            approved: self.approval == AUTOMATIC,
            generation: Some(self.generation),
            ..InstallPlanSpec::default()
        };
        InstallPlan { metadata, spec, status: None }
    }

    /// The status that the plan begins with.
    pub fn status(&self) -> InstallPlanStatus {
        let phase = if self.approval == AUTOMATIC { "Installing" } else { "RequiresApproval" };
        let named = self.steps.iter().map(|step| step.resource.source_name.clone());
        let sources: BTreeSet<String> = named.filter(|name| !name.is_empty()).collect();
        InstallPlanStatus {
            phase: phase.to_owned(),
            catalog_sources: sources.into_iter().collect(),
            plan: self.steps.to_vec(),
            bundle_lookups: self.lookups.to_vec(),
            ..InstallPlanStatus::default()
        }
    }

    /// The plan that was made for these Subscriptions before the process ended, which none of them names yet.
    pub fn orphaned<'p>(&self, plans: impl IntoIterator<Item = &'p InstallPlan>) -> Option<&'p InstallPlan> {
        let wanted = self.plan();
        let noted =
            self.subscriptions.iter().filter_map(|one| one.status.as_ref()?.install_plan_generation).max();
        plans.into_iter().find(|plan| {
            plan.metadata.deletion_timestamp.is_none()
                && plan.spec.generation > noted
                && plan.metadata.owner_references == wanted.metadata.owner_references
                && plan.spec.approval == wanted.spec.approval
                && plan.spec.cluster_service_version_names == wanted.spec.cluster_service_version_names
        })
    }
}

/// The highest number of a plan that a namespace has had.
pub fn generation(subscriptions: &[Subscription], plans: &[&InstallPlan]) -> i64 {
    let noted = subscriptions.iter().filter_map(|one| one.status.as_ref()?.install_plan_generation);
    noted.chain(plans.iter().filter_map(|plan| plan.spec.generation)).max().unwrap_or_default().max(0)
}

/// The step that makes a Subscription for a bundle that no Subscription asks for.
pub fn subscription_step(namespace: &str, generated: &GeneratedSubscription) -> Step {
    let mut manifest = Vec::new();
    let mut object = Object::new(&mut manifest, Html::Escaped);
    object
        .key("metadata")
        .extend(json!({"name": generated.name, "namespace": namespace}).to_string().bytes());
    let mut spec = Vec::new();
    let mut fields = Object::new(&mut spec, Html::Escaped);
    fields.text("source", &generated.catalog);
    fields.text("sourceNamespace", &generated.catalog_namespace);
    fields.text("name", &generated.package);
    fields.text("channel", &generated.channel);
    fields.text("startingCSV", &generated.starting_csv);
    fields.text("installPlanApproval", AUTOMATIC);
    fields.end();
    object.key("spec").extend(into_raw(spec).get().bytes());
    object.key("status").extend("{\"lastUpdated\":null}".bytes());
    object.end();
    Step {
        resolving: generated.starting_csv.clone(),
        resource: StepResource {
            source_name: generated.catalog.clone(),
            source_namespace: generated.catalog_namespace.clone(),
            group: "operators.coreos.com".to_owned(),
            version: "v1alpha1".to_owned(),
            kind: "Subscription".to_owned(),
            name: generated.name.clone(),
            manifest: Some(format!("{}\n", into_raw(manifest).get())),
        },
        optional: None,
        status: "Unknown".to_owned(),
    }
}

/// How a plan names a bundle that was read for it.
pub fn lookup(bundle: &Bundle, properties: &[Property]) -> BundleLookup {
    BundleLookup {
        path: bundle.image.clone(),
        identifier: bundle.name.clone(),
        replaces: bundle.replaces.clone(),
        catalog_source_ref: ObjectReference {
            namespace: Some(bundle.catalog_namespace.clone()),
            name: Some(bundle.catalog.clone()),
            ..ObjectReference::default()
        },
        conditions: Vec::new(),
        properties: Some(properties_text(properties)),
    }
}

/// Properties as the annotation of a ClusterServiceVersion, and the lookup, have them.
pub fn properties_text(properties: &[Property]) -> String {
    let all: Vec<String> = properties
        .iter()
        .map(|one| {
            let mut text = Vec::new();
            let mut object = Object::new(&mut text, Html::Escaped);
            object.text("type", &one.kind);
            object.key("value").extend(one.value.bytes());
            object.end();
            into_raw(text).get().to_owned()
        })
        .collect();
    format!("{{\"properties\":[{}]}}", all.join(","))
}

#[cfg(test)]
mod tests;
