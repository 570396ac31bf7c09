//! The revisions of one extension among each other: who is whose sibling, and who is superseded.

use std::collections::BTreeSet;

use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch},
};
use olm_api::{
    names::{OWNER_NAME_LABEL, PROGRAM_FIELD_MANAGER},
    ownership::revision_of,
    v1::{ClusterObjectSet, LifecycleState},
};
use olm_objectset::{BEFORE_REVISIONS, Sibling};
use olm_runtime::{api_text, bounded, patch_as};
use serde_json::json;

use crate::cluster_object_set::reconcile::ObjectSets;

/// The other revisions that carry the extension's name.
pub(crate) struct Family {
    pub(crate) siblings: Vec<Sibling>,
    /// UIDs of all of them, siblings or not, when the API server was asked.
    pub(crate) present: Option<BTreeSet<String>>,
}

impl ObjectSets {
    pub(crate) fn known_family(&self, set: &ClusterObjectSet) -> Family {
        let state = self.ports.sets.state();
        let siblings = siblings(set, state.iter().filter_map(|guarded| guarded.0.as_ref().ok()));
        Family { siblings, present: None }
    }

    pub(crate) async fn listed_family(&self, set: &ClusterObjectSet) -> Result<Family, String> {
        let listed = self.list(set).await?;
        let present = listed.iter().filter_map(ResourceExt::uid).collect();
        Ok(Family { siblings: siblings(set, listed.iter()), present: Some(present) })
    }

    async fn list(&self, set: &ClusterObjectSet) -> Result<Vec<ClusterObjectSet>, String> {
        let api: Api<ClusterObjectSet> = Api::all(self.ports.accounts.controller());
        let params = match set.labels().get(OWNER_NAME_LABEL) {
            Some(owner) => ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={owner}")),
            None => ListParams::default(),
        };
        Ok(bounded(api.list(&params)).await.map_err(|e| api_text(&e))?.items)
    }

    /// Archives the revisions that this one supersedes.
    pub(crate) async fn archive_older(&self, set: &ClusterObjectSet) -> Result<(), String> {
        let mut older: Vec<String> = self
            .ports
            .sets
            .state()
            .iter()
            .filter_map(|guarded| guarded.0.as_ref().ok())
            .filter(|other| is_sibling(set, other) && other.spec.revision < set.spec.revision)
            .filter(|other| other.spec.lifecycle_state == LifecycleState::Active)
            .map(ResourceExt::name_any)
            .collect();
        older.sort_unstable();
        let api: Api<ClusterObjectSet> = Api::all(self.ports.accounts.controller());
        for name in older {
            let patch = json!({"spec": {"lifecycleState": "Archived"}});
            let params = patch_as(PROGRAM_FIELD_MANAGER);
            match bounded(api.patch(&name, &params, &Patch::Merge(&patch))).await {
                Ok(_) => tracing::info!(revision = name, superseded_by = set.name_any(), "revision archived"),
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(format!("archiving revision {name:?}: {}", api_text(&error))),
            }
        }
        Ok(())
    }
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
