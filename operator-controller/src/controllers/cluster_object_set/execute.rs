//! Carries out what the plan says about each object, as the revision's ServiceAccount.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use olm_api::{
    names::{OBJECT_FIELD_MANAGER, WEBHOOK_CERTIFICATES_FIELD_MANAGER},
    v1::ProgressionProbe,
};
use olm_objectset::{
    Action, BEFORE_REVISIONS, Context, ObjectKey, Owner, Sibling, Teardown, action, controller_of, evaluate,
    for_revision, lack_text, observation_digest, owner_references, probe_failure, sha256, teardown,
};
use olm_runtime::{Discovery, DiscoveryError, Kind, Seen, WatchManager, bounded};
use serde_json::{Value, json};

use crate::{
    concurrently::{REQUESTS, concurrently},
    webhook_certificates::{CaBundles, Injection},
};

use super::{
    content::{Item, LoadedPhase, api_text},
    memory::{Look, Memory},
};

/// On whose behalf, and with what, a revision is carried out.
pub(crate) struct Executor<'a> {
    pub(crate) client: Client,
    pub(crate) discovery: &'a Discovery,
    pub(crate) watches: &'a WatchManager,
    pub(crate) memory: &'a Memory,
    pub(crate) owner: Owner,
    pub(crate) extension: Option<String>,
    pub(crate) siblings: Vec<Sibling>,
    /// UIDs of all ClusterObjectSets with the extension's name, when they were asked for.
    pub(crate) present: Option<BTreeSet<String>>,
    pub(crate) probes: &'a [ProgressionProbe],
    /// Objects whose kind a CustomResourceDefinition of the revision brings, and the cluster does not serve yet.
    pub(crate) awaited: &'a BTreeSet<ObjectKey>,
    /// Takes the objects that were written although the revision had rolled out before.
    pub(crate) rewritten: Option<&'a Mutex<BTreeSet<ObjectKey>>>,
    /// What webhooks are to trust, where the built-in provider makes their certificates.
    pub(crate) ca_bundles: &'a CaBundles,
}

/// What an object waits for that somebody deleted and that something still holds.
const BEING_DELETED: &str = "is being deleted, and made anew once it has gone";

/// What became of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Done {
    Healthy,
    /// What its probes say.
    Unhealthy(Vec<String>),
    /// Probes have nothing to say yet; what it waits for.
    Waits(String),
    Collision(String),
    Failed(String),
}

fn health(failures: Vec<String>, waits: Option<String>) -> Done {
    match waits {
        _ if !failures.is_empty() => Done::Unhealthy(failures),
        Some(waits) => Done::Waits(waits),
        None => Done::Healthy,
    }
}

/// What became of a pass over all phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Everything is there and healthy.
    Complete,
    /// The first phase that is not healthy: what a probe says, and what else is waited for.
    Incomplete { failures: Vec<String>, waits: Vec<String> },
    /// Objects of a phase belong to somebody else.
    Collisions(String),
    /// Requests failed.
    Failed(String),
}

impl Executor<'_> {
    /// Brings the phases to their desired state, one after another; stops at the first that is not healthy.
    pub(crate) async fn roll_out(&self, phases: &[LoadedPhase]) -> Pass {
        for (index, phase) in phases.iter().enumerate() {
            let mut objects = Vec::with_capacity(phase.items.len());
            objects.extend(phase.items.iter().map(|item| self.bring(item)));
            let done = concurrently(REQUESTS, objects).await;
            let pass = judge(index, &done);
            if pass != Pass::Complete {
                return pass;
            }
        }
        Pass::Complete
    }

    async fn bring(&self, item: &Item) -> (ObjectKey, Done) {
        let key = ObjectKey::of(&item.stored);
        let done = self.bring_one(&key, item).await;
        (key, done)
    }

    async fn bring_one(&self, key: &ObjectKey, item: &Item) -> Done {
        let desired = for_revision(&item.stored, &self.owner, self.extension.as_deref());
        let injection = self.ca_bundles.injection(&desired);
        // Probes may change while the revision stands: what they said of the object is not remembered beyond that.
        let digest =
            sha256(&json!([desired, injection.as_ref().map(|one| one.patch(&desired)), self.probes]));
        let kind = match self.kind(key).await {
            Ok(kind) => kind,
            Err(error) => return self.without_kind(key, &error),
        };
        let look = self.memory.recall(&self.owner.uid, key).filter(|look| look.desired == digest);
        let seen = self.watches.seen(&kind.resource, &key.namespace, &key.name);
        if let (Some(look), Seen::Present { uid, resource_version }) = (&look, seen)
            && look.uid == uid
            && look.resource_version == resource_version
        {
            return health(look.failures.clone(), look.waits.clone());
        }
        let api = self.api(&kind, key);
        let live = match get(&api, &key.name).await {
            Ok(live) => live,
            Err(error) => return failed(key, &error),
        };
        let (owner, siblings) = (&self.owner, self.siblings.as_slice());
        let context = Context { owner, siblings, present: self.present.as_ref() };
        let applied = look.as_ref().and_then(|look| look.applied.as_deref());
        let planned = action(context, item.protection, &desired, live.as_ref(), applied);
        let written = matches!(planned, Action::Create | Action::Apply { .. });
        let before = live.as_ref().map(|live| observation_digest(live, &desired));
        let current = match planned {
            Action::Leave => return Done::Healthy,
            Action::Collision { report } => return Done::Collision(report),
            Action::AwaitDeletion => return Done::Waits(BEING_DELETED.to_owned()),
            Action::Nothing => Ok(live.unwrap_or_default()),
            Action::Create => self.create(&api, &desired, injection.as_ref()).await,
            Action::Apply { metadata_patch } => {
                let live = live.unwrap_or_default();
                self.apply(&api, key, &desired, metadata_patch, (&live, injection.as_ref())).await
            }
        };
        let current = match current {
            Ok(current) => self.inject(&api, key, &desired, current, injection.as_ref()).await,
            Err(error) => Err(error),
        };
        let current = match current {
            Ok(current) => current,
            Err(error) => return failed(key, &error),
        };
        // An object that the server keeps in another form than it was written in is applied once by each process:
        // what that did not change was no drift.
        let after = observation_digest(&current, &desired);
        self.note_rewritten(key, written && before.as_ref() != Some(&after));
        let failures = evaluate(self.probes, &current);
        let waits = injection.filter(|injection| !injection.is_done(&current));
        let waits = waits.map(|_| "waits for the CA bundle of its webhook".to_owned());
        let text =
            |pointer: &str| current.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let look = Look {
            desired: digest,
            uid: text("/metadata/uid"),
            resource_version: text("/metadata/resourceVersion"),
            applied: if written { Some(after) } else { look.and_then(|look| look.applied) },
            failures: failures.clone(),
            waits: waits.clone(),
        };
        self.memory.remember(&self.owner.uid, key.clone(), look);
        health(failures, waits)
    }

    fn note_rewritten(&self, key: &ObjectKey, written: bool) {
        if let Some(rewritten) = self.rewritten.filter(|_| written) {
            rewritten.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        }
    }

    /// What it means for an object that its kind was not found.
    fn without_kind(&self, key: &ObjectKey, error: &DiscoveryError) -> Done {
        match error {
            DiscoveryError::Unknown { .. } if self.awaited.contains(key) => {
                Done::Waits("waits for its kind to be served".to_owned())
            }
            DiscoveryError::Unknown { .. } => Done::Failed(format!("Object {key}: {}", lack_text(key))),
            DiscoveryError::Unavailable { .. } => Done::Failed(format!("Object {key}: {error}")),
        }
    }

    /// Creates an object; what its webhooks are to trust is there from the first moment.
    async fn create(
        &self,
        api: &Api<DynamicObject>,
        desired: &Value,
        injection: Option<&Injection>,
    ) -> Result<Value, kube::Error> {
        let desired = injection.map_or_else(|| desired.clone(), |injection| injection.fill(desired));
        let params =
            PostParams { field_manager: Some(OBJECT_FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let object: DynamicObject = serde_json::from_value(desired).map_err(kube::Error::SerdeError)?;
        value(&bounded(api.create(&params, &object)).await?)
    }

    async fn apply(
        &self,
        api: &Api<DynamicObject>,
        key: &ObjectKey,
        desired: &Value,
        metadata_patch: Vec<Value>,
        (live, injection): (&Value, Option<&Injection>),
    ) -> Result<Value, kube::Error> {
        if let Some(injection) =
            injection.filter(|injection| injection.fits(live) && metadata_patch.is_empty())
        {
            // Kept by its own manager first, so that this apply does not take it away for a moment.
            self.inject(api, key, desired, live.clone(), Some(injection)).await?;
        }
        if !metadata_patch.is_empty() {
            let patch =
                serde_json::from_value(Value::Array(metadata_patch)).map_err(kube::Error::SerdeError)?;
            let params = PatchParams {
                field_manager: Some(OBJECT_FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            bounded(api.patch(&key.name, &params, &Patch::Json::<()>(patch))).await?;
        }
        let params = PatchParams::apply(OBJECT_FIELD_MANAGER).force();
        value(&bounded(api.patch(&key.name, &params, &Patch::Apply(desired))).await?)
    }

    /// Sees to it that the object's webhooks trust what they should, under a field manager of its own.
    async fn inject(
        &self,
        api: &Api<DynamicObject>,
        key: &ObjectKey,
        desired: &Value,
        current: Value,
        injection: Option<&Injection>,
    ) -> Result<Value, kube::Error> {
        match injection {
            Some(injection) if !injection.is_done(&current) => {
                let params = PatchParams::apply(WEBHOOK_CERTIFICATES_FIELD_MANAGER).force();
                let patch = Patch::Apply(injection.patch(desired));
                value(&bounded(api.patch(&key.name, &params, &patch)).await?)
            }
            _ => Ok(current),
        }
    }

    /// Removes what the revision still owns, in reverse order of phases. `true` when nothing is left.
    ///
    /// # Errors
    /// A request failed; the text names the object.
    pub(crate) async fn tear_down(&self, phases: &[LoadedPhase]) -> Result<bool, String> {
        for phase in phases.iter().rev() {
            let mut objects = Vec::with_capacity(phase.items.len());
            objects.extend(phase.items.iter().rev().map(|item| self.remove(&item.stored)));
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

    async fn remove(&self, stored: &Value) -> Result<bool, String> {
        let key = ObjectKey::of(stored);
        let told = |error: &kube::Error| format!("Object {key}: {}", api_text(error));
        let kind = match self.kind(&key).await {
            Ok(kind) => kind,
            // A kind that is gone has no objects.
            Err(DiscoveryError::Unknown { .. }) => return Ok(true),
            Err(error) => return Err(format!("Object {key}: {error}")),
        };
        let api = self.api(&kind, &key);
        let Some(live) = get(&api, &key.name).await.map_err(|e| told(&e))? else { return Ok(true) };
        self.memory.forget_object(&self.owner.uid, &key);
        let fate = match teardown(&live, &self.owner) {
            // No later revision wanted what Helm had made.
            Teardown::Leave if self.is_of_helm(&live) && self.owner.policy.keeps_when_dropped(&key) => {
                Teardown::Keep
            }
            Teardown::Leave if self.is_of_helm(&live) => Teardown::Delete,
            fate => fate,
        };
        match fate {
            Teardown::Leave => Ok(true),
            Teardown::Keep => {
                self.form(&api, &key, &live).await.map_err(|e| told(&e))?;
                Ok(true)
            }
            Teardown::Release => {
                self.release(&api, &key, &live).await.map_err(|e| told(&e))?;
                Ok(true)
            }
            Teardown::Delete if live.pointer("/metadata/deletionTimestamp").is_some() => Ok(false),
            Teardown::Delete => {
                let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
                let params = DeleteParams::background().preconditions(Preconditions {
                    uid: text("/metadata/uid"),
                    resource_version: text("/metadata/resourceVersion"),
                });
                match bounded(api.delete(&key.name, &params)).await {
                    Ok(_) => Ok(false),
                    Err(kube::Error::Api(status)) if status.is_not_found() => Ok(true),
                    Err(error) => Err(told(&error)),
                }
            }
        }
    }

    /// Whether the extension itself controls an object, as the original's Helm runtime had it.
    pub(super) fn is_of_helm(&self, live: &Value) -> bool {
        let controller = controller_of(live).and_then(|reference| reference.get("uid")?.as_str());
        self.siblings.iter().any(|s| s.revision == BEFORE_REVISIONS && Some(s.uid.as_str()) == controller)
    }

    /// Drops this revision's owner reference; somebody else is the controller.
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
        bounded(api.patch(&key.name, &PatchParams::default(), &Patch::Json::<()>(patch))).await.map(drop)
    }

    pub(super) async fn kind(&self, key: &ObjectKey) -> Result<Kind, DiscoveryError> {
        self.discovery.kind(&key.api_version(), &key.kind).await
    }

    pub(super) fn api(&self, kind: &Kind, key: &ObjectKey) -> Api<DynamicObject> {
        if kind.namespaced && !key.namespace.is_empty() {
            Api::namespaced_with(self.client.clone(), &key.namespace, &kind.resource)
        } else {
            Api::all_with(self.client.clone(), &kind.resource)
        }
    }
}

pub(super) async fn get(api: &Api<DynamicObject>, name: &str) -> Result<Option<Value>, kube::Error> {
    bounded(api.get_opt(name)).await?.map(|object| value(&object)).transpose()
}

fn value(object: &DynamicObject) -> Result<Value, kube::Error> {
    serde_json::to_value(object).map_err(kube::Error::SerdeError)
}

fn failed(key: &ObjectKey, error: &kube::Error) -> Done {
    Done::Failed(format!("Object {key}: {}", api_text(error)))
}

/// Sums a phase up: errors come before collisions, collisions before failed probes.
fn judge(phase: usize, done: &[(ObjectKey, Done)]) -> Pass {
    let errors: Vec<&str> = done
        .iter()
        .filter_map(|(_, done)| match done {
            Done::Failed(error) => Some(error.as_str()),
            _ => None,
        })
        .collect();
    if !errors.is_empty() {
        return Pass::Failed(errors.join("\n"));
    }
    let collisions: Vec<&str> = done
        .iter()
        .filter_map(|(_, done)| match done {
            Done::Collision(report) => Some(report.as_str()),
            _ => None,
        })
        .collect();
    if !collisions.is_empty() {
        return Pass::Collisions(format!(
            "revision object collisions in phase {phase}\n{}",
            collisions.join("\n\n")
        ));
    }
    let first_failure = done.iter().find_map(|(key, done)| match done {
        Done::Unhealthy(messages) => Some(probe_failure(key, messages)),
        _ => None,
    });
    let waits: Vec<String> = done
        .iter()
        .filter_map(|(key, done)| match done {
            Done::Waits(text) => Some(probe_failure(key, std::slice::from_ref(text))),
            _ => None,
        })
        .collect();
    if first_failure.is_none() && waits.is_empty() {
        return Pass::Complete;
    }
    Pass::Incomplete { failures: first_failure.into_iter().collect(), waits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(name: &str, done: Done) -> (ObjectKey, Done) {
        let key =
            ObjectKey::of(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}));
        (key, done)
    }

    #[test]
    fn a_phase_is_judged_by_its_worst_object() {
        let healthy = done("a", Done::Healthy);
        let unhealthy = done("b", Done::Unhealthy(vec!["x".into(), "y".into()]));
        let second = done("c", Done::Unhealthy(vec!["z".into()]));
        let collision = done("d", Done::Collision("Object D".into()));
        let failure = done("e", Done::Failed("Object e: forbidden".into()));
        assert_eq!(judge(0, std::slice::from_ref(&healthy)), Pass::Complete);
        let of =
            |items: &[&(ObjectKey, Done)]| judge(3, &items.iter().map(|i| (*i).clone()).collect::<Vec<_>>());
        assert_eq!(
            of(&[&healthy, &unhealthy, &second]),
            Pass::Incomplete { failures: vec!["Object ConfigMap.v1 b: x and y".into()], waits: vec![] }
        );
        // What no probe has spoken about yet is told apart.
        let waiting = done("f", Done::Waits("is being deleted".into()));
        let waits = || vec!["Object ConfigMap.v1 f: is being deleted".to_owned()];
        assert_eq!(of(&[&healthy, &waiting]), Pass::Incomplete { failures: vec![], waits: waits() });
        assert_eq!(
            of(&[&waiting, &second]),
            Pass::Incomplete { failures: vec!["Object ConfigMap.v1 c: z".into()], waits: waits() }
        );
        assert_eq!(
            of(&[&unhealthy, &collision]),
            Pass::Collisions("revision object collisions in phase 3\nObject D".into())
        );
        assert_eq!(of(&[&collision, &failure]), Pass::Failed("Object e: forbidden".into()));
    }
}
