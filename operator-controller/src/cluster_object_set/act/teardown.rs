//! Removes the objects that a revision still owns, in reverse order of phases.

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
};
use olm_object::ObjectKey;
use olm_objectset::{BEFORE_REVISIONS, Teardown, controller_of, owner_references, teardown};
use olm_preflight::{REQUESTS, concurrently};
use olm_runtime::{DiscoveryError, api_text, as_conflict, bounded, if_exists};
use serde_json::{Value, json};

use super::{executor::Executor, get};
use crate::cluster_object_set::observe::content::LoadedPhase;

impl Executor<'_> {
    /// Removes what the revision still owns. `true` when nothing is left.
    ///
    /// # Errors
    /// A request failed; the text names the object.
    pub(crate) async fn tear_down(&self, phases: &[LoadedPhase]) -> Result<bool, String> {
        for phase in phases.iter().rev() {
            let mut objects = Vec::with_capacity(phase.items.len());
            objects.extend(phase.items.iter().rev().map(|item| self.remove(&item.known.key)));
            let mut all_gone = true;
            let mut errors = Vec::new();
            for result in concurrently(REQUESTS, objects).await {
                match result {
                    Ok(gone) => all_gone &= gone,
                    Err(error) => errors.push(error),
                }
            }
            if !errors.is_empty() {
                errors.sort_unstable();
                return Err(errors.join("\n"));
            }
            if !all_gone {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn remove(&self, key: &ObjectKey) -> Result<bool, String> {
        let failed = |error: &kube::Error| format!("Object {key}: {}", api_text(error));
        let kind = match self.kind(key).await {
            Ok(kind) => kind,
            // A kind that is gone has no objects.
            Err(DiscoveryError::Unknown { .. }) => return Ok(true),
            Err(error) => return Err(format!("Object {key}: {error}")),
        };
        let api = kind.api(&self.client, &key.namespace);
        let Some(live) = get(&api, &key.name).await.map_err(|e| failed(&e))? else { return Ok(true) };
        let action = match teardown(&live, &self.owner) {
            // No later revision wanted what Helm had made.
            Teardown::Leave if self.is_of_helm(&live) && self.owner.policy.keeps_when_dropped(key) => {
                Teardown::Keep
            }
            Teardown::Leave if self.is_of_helm(&live) => Teardown::Delete,
            action => action,
        };
        let done = match action {
            Teardown::Leave => return Ok(true),
            Teardown::Keep => self.form(&api, key, &live).await.map(|()| true),
            Teardown::Release => self.release(&api, key, &live).await.map(|()| true),
            Teardown::Delete if live.pointer("/metadata/deletionTimestamp").is_some() => return Ok(false),
            Teardown::Delete => {
                let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
                let params = DeleteParams::background().preconditions(Preconditions {
                    uid: text("/metadata/uid"),
                    resource_version: text("/metadata/resourceVersion"),
                });
                if_exists(api.delete(&key.name, &params)).await.map(|deleted| deleted.is_none())
            }
        };
        match done {
            // It has changed since it was read: the next reconcile finds out whose it is by now.
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
            done => done.map_err(|error| failed(&error)),
        }
    }

    /// Whether the extension itself controls an object, as upstream's Helm runtime had it.
    pub(crate) fn is_of_helm(&self, live: &Value) -> bool {
        let controller = controller_of(live).and_then(|reference| reference.get("uid")?.as_str());
        self.siblings
            .known
            .iter()
            .any(|s| s.revision == BEFORE_REVISIONS && Some(s.uid.as_str()) == controller)
    }

    /// Drops this revision's owner reference; the object has another controller.
    async fn release(
        &self,
        api: &Api<DynamicObject>,
        key: &ObjectKey,
        live: &Value,
    ) -> Result<(), kube::Error> {
        let kept: Vec<&Value> =
            owner_references(live).filter(|r| r.get("uid") != Some(&json!(self.owner.uid))).collect();
        let patch = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": live.pointer("/metadata/resourceVersion")},
            {"op": "replace", "path": "/metadata/ownerReferences", "value": kept},
        ]);
        let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
        let params = PatchParams::default();
        let patched = bounded(api.patch(&key.name, &params, &Patch::Json::<()>(patch))).await;
        patched.map(drop).map_err(as_conflict)
    }
}
