//! The other revisions of the extension that a revision belongs to.

use std::collections::BTreeSet;

use kube::{
    Resource, ResourceExt,
    api::{ListParams, Patch},
};
use olm_api::{
    names::{OWNER_NAME_LABEL, PROGRAM_FIELD_MANAGER},
    ownership::revision_of,
    v1::{ClusterObjectSet, LifecycleState},
};
use olm_objectset::{BEFORE_REVISIONS, Sibling};
use olm_runtime::{api_text, bounded, if_exists, patch_as};
use olm_text::one_line;
use serde_json::json;

use crate::cluster_object_set::Context;
use crate::facts::readable;

/// The siblings of a revision.
pub(crate) struct Siblings {
    pub(crate) known: Vec<Sibling>,
    /// UIDs of all sets that carry the extension's name, siblings or not, when the API server was asked.
    pub(crate) present: Option<BTreeSet<String>>,
}

impl Siblings {
    /// Whether there is no other revision of the extension.
    pub(crate) fn is_alone(&self) -> bool {
        self.known.iter().all(|sibling| sibling.revision == BEFORE_REVISIONS)
    }
}

/// Those that the watch shows.
pub(crate) fn known(cx: &Context, set: &ClusterObjectSet) -> Siblings {
    let state = cx.sets.state();
    let known = siblings(set, readable(&state));
    Siblings { known, present: None }
}

/// Those that the API server lists.
///
/// # Errors
/// Its answer.
pub(crate) async fn listed(cx: &Context, set: &ClusterObjectSet) -> Result<Siblings, String> {
    let owner = set.labels().get(OWNER_NAME_LABEL);
    let params = owner.map(|owner| ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={owner}")));
    let listed = bounded(cx.api().list(&params.unwrap_or_default())).await.map_err(|e| api_text(&e))?;
    let present = listed.iter().filter_map(ResourceExt::uid).collect();
    Ok(Siblings { known: siblings(set, listed.iter()), present: Some(present) })
}

/// Who has an object that a revision wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OtherOwner {
    /// A revision of this extension.
    Extension(String),
    /// Another object, by kind and name.
    Object(String),
}

/// The owner that a controller reference names: a revision counts as its extension.
pub(crate) fn other_owner(cx: &Context, kind: &str, name: &str) -> OtherOwner {
    let is_it = |set: &&ClusterObjectSet| kind == ClusterObjectSet::kind(&()) && set.name_any() == name;
    let state = cx.sets.state();
    let set = readable(&state).find(is_it);
    match set.and_then(|set| revision_of(&set.metadata)) {
        Some(extension) => OtherOwner::Extension(extension.name.to_owned()),
        None => OtherOwner::Object(one_line(&format!("{kind} {name}")).into_owned()),
    }
}

/// Archives the revisions that this one supersedes.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn archive_older(cx: &Context, set: &ClusterObjectSet) -> Result<(), String> {
    let state = cx.sets.state();
    let others = readable(&state);
    let mut older: Vec<String> = others
        .filter(|other| is_sibling(set, other) && other.spec.revision < set.spec.revision)
        .filter(|other| other.spec.lifecycle_state == LifecycleState::Active)
        .map(ResourceExt::name_any)
        .collect();
    older.sort_unstable();
    for name in older {
        let patch = json!({"spec": {"lifecycleState": "Archived"}});
        let params = patch_as(PROGRAM_FIELD_MANAGER);
        let archived = if_exists(cx.api().patch(&name, &params, &Patch::Merge(&patch))).await;
        if archived.map_err(|e| format!("archiving revision {name:?}: {}", api_text(&e)))?.is_some() {
            tracing::info!(revision = name, superseded_by = set.name_any(), "revision archived");
        }
    }
    Ok(())
}

/// Two object sets are siblings when both are revisions of one extension.
fn is_sibling(set: &ClusterObjectSet, other: &ClusterObjectSet) -> bool {
    let owner = revision_of(&set.metadata);
    owner.is_some() && owner == revision_of(&other.metadata) && set.uid() != other.uid()
}

fn siblings<'a>(set: &ClusterObjectSet, others: impl Iterator<Item = &'a ClusterObjectSet>) -> Vec<Sibling> {
    others
        .filter(|other| is_sibling(set, other))
        .map(|other| Sibling { uid: other.uid().unwrap_or_default(), revision: other.spec.revision })
        .chain(
            revision_of(&set.metadata).map(|o| Sibling { uid: o.uid.to_owned(), revision: BEFORE_REVISIONS }),
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use olm_api::{names::REVISION_OF_ANNOTATION, v1::ClusterObjectSetSpec};

    use super::*;

    fn set(uid: &str, api_version: &str, owner: (&str, &str), mark: &str) -> ClusterObjectSet {
        let mut set = ClusterObjectSet::new(uid, ClusterObjectSetSpec::default());
        set.metadata.uid = Some(uid.to_owned());
        set.metadata.owner_references = Some(vec![OwnerReference {
            api_version: api_version.to_owned(),
            kind: "ClusterExtension".to_owned(),
            name: owner.0.to_owned(),
            uid: owner.1.to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        set.annotations_mut().insert(REVISION_OF_ANNOTATION.to_owned(), mark.to_owned());
        set
    }

    #[test]
    fn who_only_claims_the_extension_is_no_sibling() {
        const API: &str = "olm.operatorframework.io/v1";
        let ours = set("a", API, ("ext", "u"), "u");
        assert!(is_sibling(&ours, &set("b", API, ("ext", "u"), "u")));
        let others = [
            set("a", API, ("ext", "u"), "u"),
            set("b", "not.olm/v1", ("ext", "u"), "u"),
            set("b", API, ("mine", "u"), "u"),
            set("b", API, ("ext", "x"), "x"),
            set("b", API, ("ext", "u"), ""),
        ];
        for other in others {
            assert!(!is_sibling(&ours, &other), "{other:?}");
            assert!(!is_sibling(&other, &ours), "{other:?}");
        }
        // What an extension's own objects are counted by is nothing that a claim gives.
        let claiming = set("b", "not.olm/v1", ("ext", "u"), "u");
        assert!(siblings(&claiming, std::iter::once(&ours)).is_empty());
        assert_eq!(siblings(&ours, std::iter::once(&claiming)).len(), 1);
    }
}
