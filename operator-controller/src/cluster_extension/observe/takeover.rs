//! Whose a ClusterObjectSet is, where that is not plain: revisions of an earlier program, which carry no mark, and sets
//! that claim to be revisions and are none.
//!
//! An earlier program is upstream's, or this one before it wrote marks. Its revisions are marked once, before anything
//! else is done for the extension, and the extension records that: a set without a mark that appears later is never
//! marked. Which sets are marked is decided by what stood in the extension's status before.

use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, Patch},
};
use olm_api::{
    names::{
        BUNDLE_NAME, BUNDLE_VERSION, OWNER_NAME_LABEL, PROGRAM_FIELD_MANAGER, REVISION_OF_ANNOTATION,
        TAKEN_OVER_ANNOTATION,
    },
    ownership::{
        ExtensionId, Relation, controlling_extension, is_taken_over, mark, named_like_revision_of, relation,
        revision_name,
    },
    v1::{ClusterExtension, ClusterObjectSet, LifecycleState},
};
use olm_runtime::{api_text, bounded, if_exists, patch_as};
use serde_json::json;

use crate::cluster_extension::Context;
use crate::cluster_extension::observe::revisions::Revisions;
use crate::cluster_object_set::report::has_succeeded;

/// Foreign sets that are named in `Ready`.
const NAMED_MAX: usize = 5;

/// Whether an earlier program made the set as a revision of the extension: it is the extension's by its reference and
/// its name, and is in the status that this program found.
pub(crate) fn is_earlier(extension: &ClusterExtension, set: &ClusterObjectSet) -> bool {
    let Some(id) = ExtensionId::of(&extension.metadata) else { return false };
    let number = set.spec.revision;
    let is_named = set.name_any() == revision_name(id.name, number)
        && set.labels().get(OWNER_NAME_LABEL).is_some_and(|name| name == id.name);
    let is_claimed = mark(&set.metadata).is_none() && controlling_extension(&set.metadata) == Some(id);
    !is_taken_over(&extension.metadata) && is_named && is_claimed && is_recorded(extension, set)
}

/// Whether the status of the extension records the set: as an active revision, by the bundle that is installed, or,
/// once archived, by a later one.
fn is_recorded(extension: &ClusterExtension, set: &ClusterObjectSet) -> bool {
    let Some(status) = &extension.status else { return false };
    let name = set.name_any();
    let mut active = status.active_revisions.iter().map(|revision| revision.name.as_str());
    if active.clone().any(|active| active == name) {
        return true;
    }
    let number = |name: &str| name.rsplit_once('-').and_then(|(_, number)| number.parse::<i64>().ok());
    match set.spec.lifecycle_state {
        LifecycleState::Archived => active.any(|active| number(active) > Some(set.spec.revision)),
        LifecycleState::Active => status.install.as_ref().is_some_and(|install| {
            let has = |key: &str, value: &str| set.annotations().get(key).is_some_and(|found| found == value);
            has_succeeded(set)
                && has(BUNDLE_NAME, &install.bundle.name)
                && has(BUNDLE_VERSION, &install.bundle.version)
        }),
    }
}

/// Marks what an earlier program made for the extension, and records that on the extension. Cut short, it is done again
/// from the start with the same outcome: the status is not written before.
pub(crate) async fn mark_earlier(cx: &Context, extension: &ClusterExtension) -> Result<(), String> {
    let (name, uid) = (extension.name_any(), extension.uid().unwrap_or_default());
    // Listed, because what is not marked now never is: the newest state decides, once in the life of an extension.
    let sets: Api<ClusterObjectSet> = Api::all(cx.controller());
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={name}"));
    let listed = bounded(sets.list(&mine)).await.map_err(|e| failed(&api_text(&e)))?;
    for set in listed.items.iter().filter(|set| is_earlier(extension, set)) {
        let patch = json!({"metadata": {
            // Only what was read.
            "uid": set.uid(),
            "resourceVersion": set.resource_version(),
            "annotations": {REVISION_OF_ANNOTATION: uid},
        }});
        let revision = set.name_any();
        cx.patch_set(extension, &revision, patch).await.map_err(|e| failed(&api_text(&e)))?;
        tracing::info!(extension = name, revision, "revision of an earlier program marked");
    }
    let patch = json!({"metadata": {"uid": uid, "annotations": {TAKEN_OVER_ANNOTATION: uid}}});
    let extensions: Api<ClusterExtension> = Api::all(cx.controller());
    let params = patch_as(PROGRAM_FIELD_MANAGER);
    let patched = if_exists(extensions.patch(&name, &params, &Patch::Merge(&patch))).await;
    patched.map(drop).map_err(|e| failed(&api_text(&e)))
}

fn failed(text: &str) -> String {
    format!("taking over the revisions of an earlier program: {text}")
}

/// Whether a set that was read is one of the extension's revisions.
pub(crate) fn is_revision(extension: &ClusterExtension, set: &ClusterObjectSet) -> bool {
    let id = ExtensionId::of(&extension.metadata);
    let is_ours = id.is_some_and(|id| relation(&set.metadata, id) == Relation::Revision);
    is_ours || is_earlier(extension, set)
}

/// A sentence about the sets that claim to be revisions of the extension, or have the name of one, and are none.
pub(crate) fn foreign_note(
    cx: &Context,
    extension: &ClusterExtension,
    revisions: &Revisions,
) -> Option<String> {
    let id = ExtensionId::of(&extension.metadata)?;
    let mut foreign: Vec<String> = Vec::new();
    for guarded in cx.sets.state() {
        let meta = guarded.meta();
        let name = meta.name.as_deref().unwrap_or_default();
        let is_foreign = match relation(meta, id) {
            Relation::Revision => false,
            Relation::Foreign => true,
            // Being deleted with its own extension.
            Relation::Unrelated => {
                named_like_revision_of(name) == Some(id.name) && controlling_extension(meta).is_none()
            }
        };
        // The watch may not have shown yet that it was marked.
        if is_foreign && !revisions.all().iter().any(|revision| Some(&revision.uid) == meta.uid.as_ref()) {
            foreign.push(name.to_owned());
        }
    }
    note(foreign)
}

fn note(mut foreign: Vec<String>) -> Option<String> {
    foreign.sort_unstable();
    let more = foreign.len().saturating_sub(NAMED_MAX);
    let named: Vec<String> = foreign.iter().take(NAMED_MAX).map(|name| format!("{name:?}")).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| {
        format!(
            "These ClusterObjectSets claim to be revisions of this extension, or have the name of one, but its controller did not make them, and they are ignored: {}{more}. Delete them.",
            named.join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
