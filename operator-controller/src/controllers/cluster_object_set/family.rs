//! The revisions of one extension among each other: who is whose sibling, and who is superseded.

use std::collections::BTreeSet;

use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use olm_api::{
    names::{OWNER_NAME_LABEL, PROGRAM_FIELD_MANAGER},
    v1::{ClusterObjectSet, LifecycleState},
};
use olm_objectset::{BEFORE_REVISIONS, Sibling};
use olm_runtime::bounded;
use serde_json::json;

use super::{
    content::api_text,
    reconcile::{ObjectSets, extension_owner},
};

/// The other revisions that carry the extension's name.
pub(super) struct Family {
    pub(super) siblings: Vec<Sibling>,
    /// UIDs of all of them, siblings or not, when the API server was asked.
    pub(super) present: Option<BTreeSet<String>>,
}

impl ObjectSets {
    pub(super) fn known_family(&self, set: &ClusterObjectSet) -> Family {
        let state = self.ports.sets.state();
        let siblings = siblings(set, state.iter().filter_map(|guarded| guarded.0.as_ref().ok()));
        Family { siblings, present: None }
    }

    pub(super) async fn listed_family(&self, set: &ClusterObjectSet) -> Result<Family, String> {
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
    pub(super) async fn archive_older(&self, set: &ClusterObjectSet) -> Result<(), String> {
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
            let params = PatchParams {
                field_manager: Some(PROGRAM_FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            match bounded(api.patch(&name, &params, &Patch::Merge(&patch))).await {
                Ok(_) => tracing::info!(revision = name, superseded_by = set.name_any(), "revision archived"),
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(format!("archiving revision {name:?}: {}", api_text(&error))),
            }
        }
        Ok(())
    }
}

/// Two revisions are siblings when the same ClusterExtension (by UID) controls both; labels prove nothing.
fn is_sibling(set: &ClusterObjectSet, other: &ClusterObjectSet) -> bool {
    let owner = extension_owner(set).map(|o| &o.uid);
    owner.is_some() && owner == extension_owner(other).map(|o| &o.uid) && set.uid() != other.uid()
}

fn siblings<'a>(set: &ClusterObjectSet, others: impl Iterator<Item = &'a ClusterObjectSet>) -> Vec<Sibling> {
    others
        .filter(|other| is_sibling(set, other))
        .map(|other| Sibling { uid: other.uid().unwrap_or_default(), revision: other.spec.revision })
        .chain(extension_owner(set).map(|o| Sibling { uid: o.uid.clone(), revision: BEFORE_REVISIONS }))
        .collect()
}
