//! The revisions of an extension, as its ClusterObjectSets record them.

use anyhow::{Context as _, anyhow};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta},
};
use olm_api::{
    ConditionType::Succeeded,
    names::{
        BUNDLE_NAME, BUNDLE_VERSION, CATALOG_PROPERTIES_ANNOTATION, OWNER_NAME_LABEL, PROPERTIES_ANNOTATION,
        ROLLED_BACK_TO_ANNOTATION,
    },
    ownership::{ExtensionId, controlling_extension, is_taken_over, revision_of},
    v1::{ClusterExtension, ClusterObjectSet, LifecycleState},
};
use olm_dependencies::recorded_properties;
use olm_fbc::Property;
use olm_runtime::{bounded, if_exists};

/// The extension of this name.
///
/// # Errors
/// There is none, or it cannot be read.
pub(crate) async fn extension(client: &Client, name: &str) -> anyhow::Result<ClusterExtension> {
    found(client, name).await?.ok_or_else(|| absent(name))
}

/// The extension of this name, if there is one.
pub(crate) async fn found(client: &Client, name: &str) -> anyhow::Result<Option<ClusterExtension>> {
    let api: Api<ClusterExtension> = Api::all(client.clone());
    if_exists(api.get(name)).await.with_context(|| format!("reading ClusterExtension {name}"))
}

/// There is no extension of this name.
pub(crate) fn absent(name: &str) -> anyhow::Error {
    anyhow!("there is no ClusterExtension {name:?}: \"olm status\" lists all")
}

/// The revisions of an extension, the oldest first.
pub(crate) async fn revisions(
    client: &Client,
    extension: &ClusterExtension,
) -> anyhow::Result<Vec<ClusterObjectSet>> {
    let api: Api<ClusterObjectSet> = Api::all(client.clone());
    let labelled = format!("{OWNER_NAME_LABEL}={}", extension.name_any());
    let listed = bounded(api.list(&ListParams::default().labels(&labelled))).await;
    let mut sets = listed.context("listing ClusterObjectSets")?.items;
    sets.retain(|set| is_revision(&extension.metadata, set));
    sets.sort_by_key(|set| set.spec.revision);
    Ok(sets)
}

/// Whether a ClusterObjectSet is a revision of the extension; upstream's carry no mark before they are taken over.
pub(crate) fn is_revision(extension: &ObjectMeta, set: &ClusterObjectSet) -> bool {
    let id = ExtensionId::of(extension);
    let owner = if is_taken_over(extension) { revision_of } else { controlling_extension };
    id.is_some() && owner(&set.metadata) == id
}

/// The newest revision that is not archived.
pub(crate) fn latest_active(sets: &[ClusterObjectSet]) -> Option<&ClusterObjectSet> {
    let is_active = |set: &&ClusterObjectSet| set.spec.lifecycle_state == LifecycleState::Active;
    sets.iter().rev().find(is_active)
}

/// Whether a revision has rolled out.
pub(crate) fn has_rolled_out(set: &ClusterObjectSet) -> bool {
    set.status.as_ref().is_some_and(|status| status.conditions.is_true(Succeeded))
}

/// An annotation; empty if it is missing.
pub(crate) fn annotation<'a>(set: &'a ClusterObjectSet, key: &str) -> &'a str {
    set.annotations().get(key).map_or("", String::as_str)
}

/// The properties of a revision's bundle, those of its catalog included.
pub(crate) fn properties(set: &ClusterObjectSet) -> Vec<Property> {
    recorded_properties(
        annotation(set, CATALOG_PROPERTIES_ANNOTATION),
        annotation(set, PROPERTIES_ANNOTATION),
    )
}

/// The bundle of a revision, as name and version.
pub(crate) fn bundle(set: &ClusterObjectSet) -> (&str, &str) {
    (annotation(set, BUNDLE_NAME), annotation(set, BUNDLE_VERSION))
}

/// The revision whose objects came back with this one.
pub(crate) fn rolled_back_to(set: &ClusterObjectSet) -> Option<i64> {
    annotation(set, ROLLED_BACK_TO_ANNOTATION).parse().ok()
}
