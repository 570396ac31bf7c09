//! Carries out what the plan says about each object, as the revision's ServiceAccount.

mod teardown;

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use olm_api::{
    names::{OBJECT_FIELD_MANAGER, WEBHOOK_CERTIFICATES_FIELD_MANAGER},
    v1::ProgressionProbe,
};
use olm_object::{ObjectKey, text};
use olm_objectset::{
    Action, Owner, OwnershipContext, Sibling, action, evaluate, for_revision, observation_digest,
    probe_failure, sha256, unserved_kind_report,
};
use olm_runtime::{
    Discovery, DiscoveryError, Kind, Seen, WatchManager, api_text, bounded, is_namespace_missing,
    is_namespace_terminating, patch_as, post_as,
};
use serde_json::{Value, json};

use crate::{
    concurrently::{REQUESTS, concurrently},
    webhook_certificates::{CaBundles, Injection},
};

use crate::cluster_object_set::content::{Item, LoadedPhase};
use crate::cluster_object_set::memory::{Look, Memory};
use crate::cluster_object_set::status::Obstacle;

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
    /// Whether the revision has not rolled out yet and nothing is known to be in its way.
    pub(crate) rolling_out: bool,
    /// Takes the objects that were written although the revision had rolled out before.
    pub(crate) rewritten: Option<&'a Mutex<BTreeSet<ObjectKey>>>,
    /// What webhooks are to trust, where the built-in provider makes their certificates.
    pub(crate) ca_bundles: &'a CaBundles,
}

/// What an object waits for that somebody deleted and that something still holds.
const BEING_DELETED: &str = "is being deleted, and will be created again afterwards";

/// An object after it was looked at.
struct Step {
    current: Value,
    /// Whether it was created or applied.
    written: bool,
    /// Whether that changed what it says about the desired fields.
    changed: bool,
}

/// What became of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Done {
    Healthy,
    /// What its probes say.
    Unhealthy(Vec<String>),
    /// Probes have nothing to say yet; what it waits for.
    Waits(String),
    /// It is being deleted, and will be created again afterwards.
    Goes,
    /// The report, and whether the other owner is a ClusterObjectSet.
    Collision(String, bool),
    /// What went wrong, and what somebody has to do something about.
    Failed(String, Option<Obstacle>),
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
    /// The first phase that is not healthy: what a probe says, what else is waited for, and whether that is the end of a
    /// deletion.
    Incomplete { failures: Vec<String>, waits: Vec<String>, awaits_deletion: bool },
    /// Objects of a phase have another owner.
    Collisions {
        /// Which objects, and whose.
        message: String,
        /// Whether one belongs to a ClusterObjectSet, which may be a sibling that is not known yet.
        with_sets: bool,
    },
    /// Requests failed.
    Failed {
        /// All errors.
        text: String,
        /// What is in the way of the first that only a person can remove.
        obstacle: Option<Obstacle>,
    },
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
        if let (Some(look), Seen::Present { uid, resource_version }) = (&look, &seen)
            && look.uid == *uid
            && look.resource_version == *resource_version
        {
            return health(look.failures.clone(), look.waits.clone());
        }
        let api = self.api(&kind, key);
        let unseen = self.rolling_out && look.is_none() && seen == Seen::Absent;
        let created =
            if unseen { self.create_unseen(&api, &desired, injection.as_ref()).await } else { Ok(None) };
        let applied = look.and_then(|look| look.applied);
        let step = match created {
            Ok(Some(created)) => Ok(Step { current: created, written: true, changed: true }),
            Ok(None) => self.step(&api, item, &desired, applied.as_deref(), injection.as_ref()).await,
            Err(error) => Err(failed(key, &error)),
        };
        let Step { current, written, changed } = match step {
            Ok(step) => step,
            Err(done) => return done,
        };
        self.note_rewritten(key, changed);
        let failures = evaluate(self.probes, &current);
        let waits = injection.filter(|injection| !injection.is_done(&current));
        let waits = waits.map(|_| "waits for the CA bundle of its webhook".to_owned());
        let applied = if written { Some(observation_digest(&current, &desired)) } else { applied };
        self.remember(
            key,
            &current,
            Look {
                desired: digest,
                applied,
                failures: failures.clone(),
                waits: waits.clone(),
                ..Look::default()
            },
        );
        health(failures, waits)
    }

    /// Keeps what the look at an object found; whose look it was is told by the object.
    fn remember(&self, key: &ObjectKey, current: &Value, look: Look) {
        let [uid, resource_version] =
            ["/metadata/uid", "/metadata/resourceVersion"].map(|pointer| text(current, pointer).to_owned());
        self.memory.remember(&self.owner.uid, key.clone(), Look { uid, resource_version, ..look });
    }

    /// Creates an object that its kind's watch does not show, without asking first whether somebody else has made it.
    /// None if somebody has, or if that cannot be told.
    async fn create_unseen(
        &self,
        api: &Api<DynamicObject>,
        desired: &Value,
        injection: Option<&Injection>,
    ) -> Result<Option<Value>, kube::Error> {
        match self.create(api, desired, injection).await {
            Ok(created) => Ok(Some(created)),
            Err(kube::Error::Api(status)) if status.is_already_exists() || status.is_forbidden() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Looks at the object, plans, and does what was planned.
    ///
    /// # Errors
    /// What became of it, when it is not this revision's to look at or a request failed.
    async fn step(
        &self,
        api: &Api<DynamicObject>,
        item: &Item,
        desired: &Value,
        applied: Option<&str>,
        injection: Option<&Injection>,
    ) -> Result<Step, Done> {
        let key = &ObjectKey::of(&item.stored);
        let live = get(api, &key.name).await.map_err(|error| failed(key, &error))?;
        let (owner, siblings) = (&self.owner, self.siblings.as_slice());
        let context = OwnershipContext { owner, siblings, present: self.present.as_ref() };
        let planned = action(context, item.protection, desired, live.as_ref(), applied);
        let written = matches!(planned, Action::Create | Action::Apply { .. });
        let before = live.as_ref().filter(|_| written).map(|live| observation_digest(live, desired));
        let current = match planned {
            Action::Superseded => return Err(Done::Healthy),
            Action::Collision { report, with_set } => return Err(Done::Collision(report, with_set)),
            Action::AwaitDeletion => return Err(Done::Goes),
            Action::UpToDate => Ok(live.unwrap_or_default()),
            Action::Create => self.create(api, desired, injection).await,
            Action::Apply { metadata_patch } => {
                let live = live.unwrap_or_default();
                self.apply(api, key, desired, metadata_patch, (&live, injection)).await
            }
        };
        let current = match current {
            Ok(current) => self.inject(api, key, desired, current, injection).await,
            Err(error) => Err(error),
        };
        let current = current.map_err(|error| failed(key, &error))?;
        // An object that the server keeps in another form than it was written in is applied once by each process, which
        // may set its managers right: what else that did not change was no drift.
        let changed = written && before != Some(observation_digest(&current, desired));
        Ok(Step { current, written, changed })
    }

    fn note_rewritten(&self, key: &ObjectKey, changed: bool) {
        if let Some(rewritten) = self.rewritten.filter(|_| changed) {
            rewritten.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        }
    }

    /// What it means for an object that its kind was not found.
    fn without_kind(&self, key: &ObjectKey, error: &DiscoveryError) -> Done {
        match error {
            DiscoveryError::Unknown { .. } if self.awaited.contains(key) => {
                Done::Waits("waits for its kind to be served".to_owned())
            }
            DiscoveryError::Unknown { .. } => {
                Done::Failed(format!("Object {key}: {}", unserved_kind_report(key)), None)
            }
            DiscoveryError::Unavailable { .. } => Done::Failed(format!("Object {key}: {error}"), None),
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
        let params = post_as(OBJECT_FIELD_MANAGER);
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
            let params = patch_as(OBJECT_FIELD_MANAGER);
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

    pub(crate) async fn kind(&self, key: &ObjectKey) -> Result<Kind, DiscoveryError> {
        self.discovery.kind(&key.api_version(), &key.kind).await
    }

    pub(crate) fn api(&self, kind: &Kind, key: &ObjectKey) -> Api<DynamicObject> {
        if kind.namespaced && !key.namespace.is_empty() {
            Api::namespaced_with(self.client.clone(), &key.namespace, &kind.resource)
        } else {
            Api::all_with(self.client.clone(), &kind.resource)
        }
    }
}

pub(crate) async fn get(api: &Api<DynamicObject>, name: &str) -> Result<Option<Value>, kube::Error> {
    bounded(api.get_opt(name)).await?.map(|object| value(&object)).transpose()
}

fn value(object: &DynamicObject) -> Result<Value, kube::Error> {
    serde_json::to_value(object).map_err(kube::Error::SerdeError)
}

fn failed(key: &ObjectKey, error: &kube::Error) -> Done {
    Done::Failed(format!("Object {key}: {}", api_text(error)), obstacle(key, error))
}

/// What is in the way, where it does not pass by itself.
fn obstacle(key: &ObjectKey, error: &kube::Error) -> Option<Obstacle> {
    let kube::Error::Api(status) = error else { return None };
    if is_namespace_missing(status) {
        let text =
            format!("Namespace {:?} does not exist: create it, or delete the extension.", key.namespace);
        return Some(Obstacle::Missing(text));
    }
    if is_namespace_terminating(status) {
        return Some(Obstacle::Missing(format!(
            "Namespace {:?} is being deleted: create it again once it is gone, or delete the extension.",
            key.namespace
        )));
    }
    status.is_forbidden().then_some(Obstacle::Forbidden)
}

/// Sums a phase up: errors come before collisions, collisions before failed probes.
fn judge(phase: usize, done: &[(ObjectKey, Done)]) -> Pass {
    let failed = || {
        done.iter().filter_map(|(_, done)| match done {
            Done::Failed(error, obstacle) => Some((error.as_str(), obstacle)),
            _ => None,
        })
    };
    let errors: Vec<&str> = failed().map(|(error, _)| error).collect();
    if !errors.is_empty() {
        let obstacle = failed().find_map(|(_, obstacle)| obstacle.clone());
        return Pass::Failed { text: errors.join("\n"), obstacle };
    }
    let collisions: Vec<(&str, bool)> = done
        .iter()
        .filter_map(|(_, done)| match done {
            Done::Collision(report, with_set) => Some((report.as_str(), *with_set)),
            _ => None,
        })
        .collect();
    if !collisions.is_empty() {
        let reports: Vec<&str> = collisions.iter().map(|(report, _)| *report).collect();
        return Pass::Collisions {
            message: format!("revision object collisions in phase {phase}\n{}", reports.join("\n\n")),
            with_sets: collisions.iter().any(|(_, with_set)| *with_set),
        };
    }
    let first_failure = done.iter().find_map(|(key, done)| match done {
        Done::Unhealthy(messages) => Some(probe_failure(key, messages)),
        _ => None,
    });
    let waits: Vec<String> = done
        .iter()
        .filter_map(|(key, done)| match done {
            Done::Waits(text) => Some(probe_failure(key, std::slice::from_ref(text))),
            Done::Goes => Some(probe_failure(key, &[BEING_DELETED.to_owned()])),
            _ => None,
        })
        .collect();
    if first_failure.is_none() && waits.is_empty() {
        return Pass::Complete;
    }
    let awaits_deletion = done.iter().any(|(_, done)| *done == Done::Goes);
    Pass::Incomplete { failures: first_failure.into_iter().collect(), waits, awaits_deletion }
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
        let collision = done("d", Done::Collision("Object D".into(), true));
        let failure = done("e", Done::Failed("Object e: forbidden".into(), Some(Obstacle::Forbidden)));
        assert_eq!(judge(0, std::slice::from_ref(&healthy)), Pass::Complete);
        let incomplete = |failures: &[&str], waits: &[&str], awaits_deletion| Pass::Incomplete {
            failures: failures.iter().map(ToString::to_string).collect(),
            waits: waits.iter().map(ToString::to_string).collect(),
            awaits_deletion,
        };
        let of =
            |items: &[&(ObjectKey, Done)]| judge(3, &items.iter().map(|i| (*i).clone()).collect::<Vec<_>>());
        assert_eq!(
            of(&[&healthy, &unhealthy, &second]),
            incomplete(&["Object ConfigMap.v1 b: x and y"], &[], false)
        );
        // What no probe has spoken about yet is told apart.
        let waiting = done("f", Done::Waits("waits for its kind".into()));
        let waits = ["Object ConfigMap.v1 f: waits for its kind"];
        assert_eq!(of(&[&healthy, &waiting]), incomplete(&[], &waits, false));
        assert_eq!(of(&[&waiting, &second]), incomplete(&["Object ConfigMap.v1 c: z"], &waits, false));
        let goes = done("g", Done::Goes);
        let waits = ["Object ConfigMap.v1 g: is being deleted, and will be created again afterwards"];
        assert_eq!(of(&[&healthy, &goes]), incomplete(&[], &waits, true));
        assert_eq!(
            of(&[&unhealthy, &collision]),
            Pass::Collisions {
                message: "revision object collisions in phase 3\nObject D".into(),
                with_sets: true,
            }
        );
        let other = done("g", Done::Failed("Object g: timeout".into(), None));
        assert_eq!(
            of(&[&collision, &other, &failure]),
            Pass::Failed {
                text: "Object g: timeout\nObject e: forbidden".into(),
                obstacle: Some(Obstacle::Forbidden),
            }
        );
        assert_eq!(of(&[&other]), Pass::Failed { text: "Object g: timeout".into(), obstacle: None });
    }
}
