//! Brings objects to their desired state, as the revision's ServiceAccount.

use std::collections::BTreeSet;

use kube::{Client, Resource, ResourceExt};
use olm_api::{
    ConditionType, Reason,
    names::{CRD_CHANGES_ANNOTATION, CREATED_FIRST_ANNOTATION, OWNER_NAME_LABEL},
    v1::{ClusterObjectSet, CollisionProtection, ProgressionProbe},
};
use olm_object::{ObjectKey, text};
use olm_objectset::{
    Action, Owner, OwnershipContext, Workload, action, evaluate, for_revision, observation_digest,
    probe_failure, sha256, unserved_kind_report,
};
use olm_preflight::{REQUESTS, concurrently};
use olm_runtime::{DiscoveryError, Kind, Seen, api_text, is_namespace_missing, is_namespace_terminating};
use serde_json::{Value, json};

use crate::{
    cluster_object_set::{
        Context,
        checks::Check,
        observe::{
            Observed,
            content::{Item, LoadedPhase},
            siblings::{OtherOwner, Siblings, other_owner},
        },
        report::{Obstacle, Outcome, Unhealthy, has_succeeded, is_late, short_name},
    },
    crd_changes::CrdChanges,
    deletion_policy::revision::policy,
    webhook_certificates::{CaBundles, Injection},
};

use super::target::{Target, get_since};

/// On whose behalf, and with what, the objects of a revision are written.
pub(crate) struct Executor<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) client: Client,
    pub(crate) owner: Owner,
    pub(crate) siblings: Siblings,
    extension: Option<&'a str>,
    probes: &'a [ProgressionProbe],
    /// Objects whose kind a CustomResourceDefinition of the revision brings, and the cluster does not serve yet.
    pub(crate) awaited: BTreeSet<ObjectKey>,
    /// What webhooks are to trust, where the built-in provider makes their certificates.
    pub(crate) ca_bundles: CaBundles,
    /// What the revision records of its CRDs.
    crd_changes: CrdChanges,
    /// Whether the revision has not rolled out yet and nothing is known to be in its way.
    rolling_out: bool,
    /// Whether nothing was reported of the revision yet, and there is none before it: it finds nothing of its own.
    is_beginning: bool,
    /// Whether the revision has missed its deadline.
    late: bool,
    /// Name of the CRD that comes before everything else, until the revision has rolled out.
    first: Option<&'a str>,
}

/// Objects that a sentence names.
const NAMED_MAX: usize = 3;

/// How often an object that others write is read and written, at most.
const ATTEMPTS: usize = 3;

/// What an object waits for that was deleted and that something still holds.
const BEING_DELETED: &str = "is being deleted, and will be created again afterwards";

/// What an object waits for that a revision lost after it had missed its deadline.
const SUPERSEDED: &str = "belongs to a later revision";

/// An object after it was checked.
struct Step {
    current: Value,
    /// Whether it was created or applied.
    written: bool,
    /// Whether that changed its desired fields.
    changed: bool,
}

/// The state of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Healthy,
    /// The messages of its probes, and the way to its Pods where it is a workload.
    Unhealthy(Vec<String>, Option<Box<Workload>>),
    /// Probes have nothing to report yet; what it waits for.
    Waits(String),
    /// It is being deleted, and will be created again afterwards.
    Deleting,
    Collision {
        report: String,
        /// Whether the other owner is a ClusterObjectSet.
        with_set: bool,
        /// The other owner, if there is one.
        owner: Option<OtherOwner>,
    },
    Failed(String, Option<Obstacle>),
}

fn health(check: Check) -> State {
    match check.waits {
        _ if !check.failures.is_empty() => State::Unhealthy(check.failures, check.workload),
        Some(waits) => State::Waits(waits),
        None => State::Healthy,
    }
}

impl<'a> Executor<'a> {
    pub(crate) fn new(cx: &'a Context, observed: &Observed<'a>, siblings: Siblings) -> Self {
        let set = observed.set;
        let annotation = |name| set.annotations().get(name).map(String::as_str);
        Self {
            cx,
            client: observed.client.clone(),
            owner: Owner {
                api_version: ClusterObjectSet::api_version(&()).into_owned(),
                kind: ClusterObjectSet::kind(&()).into_owned(),
                name: set.name_any(),
                uid: set.uid().unwrap_or_default(),
                revision: set.spec.revision,
                policy: policy(set),
            },
            is_beginning: siblings.is_alone() && set.status.as_ref().is_none_or(|s| s.conditions.is_empty()),
            siblings,
            extension: set.labels().get(OWNER_NAME_LABEL).map(String::as_str),
            probes: &set.spec.progression_probes,
            awaited: BTreeSet::new(),
            ca_bundles: CaBundles::default(),
            crd_changes: CrdChanges::read(annotation(CRD_CHANGES_ANNOTATION)),
            rolling_out: is_rolling_out(set),
            late: is_late(set),
            first: annotation(CREATED_FIRST_ANNOTATION).filter(|_| !has_succeeded(set)),
        }
    }

    /// Brings the phases to their desired state, one after another, until one is not healthy. With the outcome come the
    /// objects that were changed.
    pub(crate) async fn roll_out(&self, phases: &[LoadedPhase]) -> (Outcome, BTreeSet<ObjectKey>) {
        let mut changed = BTreeSet::new();
        let is_first = |item: &&Item| item.known.key.is_crd() && self.first == Some(&item.known.key.name);
        let mut numbered = phases.iter().enumerate();
        let found = numbered.find_map(|(index, phase)| Some((index, phase.items.iter().find(is_first)?)));
        let mut first = None;
        if let Some((index, item)) = found {
            let (state, written) = self.bring(item).await;
            let outcome = summary(index, std::slice::from_ref(&state));
            changed.extend(written.clone());
            if !matches!(outcome, Outcome::Complete | Outcome::Incomplete { awaits_deletion: false, .. }) {
                return (outcome, changed);
            }
            first = Some((state, written));
        }
        for (index, phase) in phases.iter().enumerate() {
            let mut objects = Vec::with_capacity(phase.items.len());
            objects.extend(phase.items.iter().map(|item| {
                let brought = first.take_if(|((key, _), _)| *key == item.known.key);
                async { if let Some(brought) = brought { brought } else { self.bring(item).await } }
            }));
            let done = concurrently(REQUESTS, objects).await;
            let (states, written): (Vec<_>, Vec<_>) = done.into_iter().unzip();
            changed.extend(written.into_iter().flatten());
            let outcome = summary(index, &states);
            if outcome != Outcome::Complete {
                return (outcome, changed);
            }
        }
        (Outcome::Complete, changed)
    }

    /// An object and its state, and the object once more if it was changed.
    async fn bring(&self, item: &Item) -> ((ObjectKey, State), Option<ObjectKey>) {
        let key = &item.known.key;
        let (state, changed) = self.bring_one(key, item).await.unwrap_or_else(|state| (state, false));
        ((key.clone(), state), changed.then(|| key.clone()))
    }

    async fn bring_one(&self, key: &ObjectKey, item: &Item) -> Result<(State, bool), State> {
        let needs_bundle = item.known.needs_ca_bundle && !self.ca_bundles.is_empty();
        let injection = if needs_bundle { self.ca_bundles.injection(item.object()) } else { None };
        let digest = self.digest(item, injection.as_ref());
        let kind = self.kind(key).await.map_err(|error| self.without_kind(key, &error))?;
        let check = self.cx.checks.recall(&self.owner.uid, key).filter(|check| check.desired == digest);
        let seen = self.cx.watches.seen(&kind.resource, &key.namespace, &key.name);
        if let (Some(check), Seen::Present { uid, resource_version }) = (&check, &seen)
            && check.uid == *uid
            && check.resource_version == *resource_version
        {
            return Ok((health(check.clone()), false));
        }
        let desired = for_revision(item.to_object(), &self.owner, self.extension);
        let injection = injection.as_ref();
        let shown = match &seen {
            Seen::Present { resource_version, .. } => Some(resource_version.as_str()),
            Seen::Unknown | Seen::Absent => None,
        };
        let target =
            Target { api: kind.api(&self.client, &key.namespace), key, desired: &desired, injection };
        let applied = check.as_ref().and_then(|check| check.applied.clone());
        // What its kind's watch does not show is created without asking first whether it exists.
        let is_absent = seen == Seen::Absent || self.is_beginning && seen == Seen::Unknown;
        let is_new = self.rolling_out && check.is_none() && is_absent;
        let created = if is_new { Some(target.create().await) } else { None };
        let Step { current, written, changed } = match created {
            Some(Ok(current)) => Step { current, written: true, changed: true },
            Some(Err(error)) if !may_exist(&error) => return Err(failed(key, &error)),
            _ => self.step(&target, shown, item.protection, applied.as_deref()).await?,
        };
        let failures = evaluate(self.probes, &current);
        let waits = injection.filter(|injection| !injection.is_trusted(&current));
        let waits = waits.map(|_| "waits for the CA bundle of its webhook".to_owned());
        let applied = if written { Some(observation_digest(&current, &desired)) } else { applied };
        let [uid, resource_version] =
            ["/metadata/uid", "/metadata/resourceVersion"].map(|pointer| text(&current, pointer).to_owned());
        let workload = if failures.is_empty() { None } else { Workload::of(&current).map(Box::new) };
        let check = Check { desired: digest, uid, resource_version, applied, failures, waits, workload };
        self.cx.checks.remember(&self.owner.uid, key.clone(), check.clone());
        Ok((health(check), changed))
    }

    /// Digest of all that decides what an object is to be like, and what its probes say.
    fn digest(&self, item: &Item, injection: Option<&Injection>) -> String {
        let Owner { api_version, kind, name, uid, revision, policy } = &self.owner;
        let owner = (api_version, kind, name, uid, revision, policy.as_str());
        let injected = injection.map(|injection| injection.patch(item.object()));
        // Probes may change while the revision is active: their messages are not remembered beyond that.
        sha256(&json!([item.known.digest, owner, self.extension, injected, self.probes]))
    }

    /// Brings the object to its desired state, read in the version that its watch has `shown` or a later one. One that changes
    /// between being read and being written is read again: what was planned for it no longer holds, it may have another owner
    /// by now.
    ///
    /// # Errors
    /// Its state, when it is not this revision's or a request failed.
    async fn step(
        &self,
        target: &Target<'_>,
        mut shown: Option<&str>,
        protection: CollisionProtection,
        applied: Option<&str>,
    ) -> Result<Step, State> {
        for _ in 1..ATTEMPTS {
            match self.attempt(target, shown.take(), protection, applied).await? {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                ended => return ended.map_err(|error| failed(target.key, &error)),
            }
        }
        let ended = self.attempt(target, None, protection, applied).await?;
        ended.map_err(|error| failed(target.key, &error))
    }

    /// Reads the object, in the version that its watch has `shown` or a later one, plans, and does what was planned; the answer
    /// to the write.
    ///
    /// # Errors
    /// Its state, when it is not this revision's or it could not be read.
    async fn attempt(
        &self,
        target: &Target<'_>,
        shown: Option<&str>,
        protection: CollisionProtection,
        applied: Option<&str>,
    ) -> Result<Result<Step, kube::Error>, State> {
        let Target { api, key, desired, .. } = target;
        let live = get_since(api, &key.name, shown).await.map_err(|error| failed(key, &error))?;
        let Siblings { known, present } = &self.siblings;
        let context = OwnershipContext { owner: &self.owner, siblings: known, present: present.as_ref() };
        let planned = action(context, protection, desired, live.as_ref(), applied);
        let written = matches!(planned, Action::Create | Action::Apply { .. });
        let before = live.as_ref().filter(|_| written).map(|live| observation_digest(live, desired));
        let current = match planned {
            // What missed its deadline does not succeed by what replaces it.
            Action::Superseded if self.late => return Err(State::Waits(SUPERSEDED.to_owned())),
            Action::Superseded => return Err(State::Healthy),
            Action::Collision { report, with_set, owner } => {
                let owner = owner.map(|(kind, name)| other_owner(self.cx, &kind, &name));
                return Err(State::Collision { report, with_set, owner });
            }
            Action::AwaitDeletion => return Err(State::Deleting),
            Action::UpToDate => Ok(live.unwrap_or_default()),
            Action::Create => target.create().await,
            Action::Apply { metadata_patch } => {
                let live = live.unwrap_or_default();
                self.may_replace(key, &live, desired).await?;
                self.may_own(key, &live)
                    .await
                    .map_err(|why| State::Failed(format!("Object {key}: {why}"), None))?;
                target.apply(metadata_patch, live).await
            }
        };
        let injected = match current {
            Ok(current) => target.complete(current).await,
            Err(error) => Err(error),
        };
        Ok(injected.map(|current| {
            // An object that the server keeps in another form than it was written in is applied once by each process,
            // which may set its managers right: what else that did not change was no drift.
            let changed = written && before != Some(observation_digest(&current, desired));
            Step { current, written, changed }
        }))
    }

    /// Checks the stored objects of a CRD once more, if they decided about its changes.
    async fn may_replace(&self, key: &ObjectKey, live: &Value, desired: &Value) -> Result<(), State> {
        let refusal =
            if key.is_crd() { self.crd_changes.refusal(&self.client, live, desired).await } else { None };
        let failed = |why| State::Failed(format!("Object {key}: {why}"), Some(Obstacle::StoredObjects));
        refusal.map_or(Ok(()), |why| Err(failed(why)))
    }

    /// What it means for an object that its kind was not found.
    fn without_kind(&self, key: &ObjectKey, error: &DiscoveryError) -> State {
        match error {
            DiscoveryError::Unknown { .. } if self.awaited.contains(key) => {
                State::Waits("waits for its kind to be served".to_owned())
            }
            DiscoveryError::Unknown { .. } => {
                State::Failed(format!("Object {key}: {}", unserved_kind_report(key)), None)
            }
            DiscoveryError::Unavailable { .. } => State::Failed(format!("Object {key}: {error}"), None),
        }
    }

    pub(crate) async fn kind(&self, key: &ObjectKey) -> Result<Kind, DiscoveryError> {
        self.cx.discovery.kind(&key.api_version(), &key.kind).await
    }
}

/// Whether an object that could not be created may exist.
fn may_exist(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists() || status.is_forbidden())
}

fn failed(key: &ObjectKey, error: &kube::Error) -> State {
    State::Failed(format!("Object {key}: {}", api_text(error)), obstacle(key, error))
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

/// Whether the status reports nothing yet, or that the revision is rolling out undisturbed.
fn is_rolling_out(set: &ClusterObjectSet) -> bool {
    let conditions = set.status.as_ref().map(|status| &status.conditions);
    let progressing = conditions.and_then(|conditions| conditions.find(ConditionType::Progressing));
    !has_succeeded(set) && progressing.is_none_or(|c| c.reason == Reason::RollingOut.as_str())
}

/// Sums a phase up: errors come before collisions, collisions before failed probes.
fn summary(phase: usize, states: &[(ObjectKey, State)]) -> Outcome {
    let (mut errors, mut obstacle) = (Vec::new(), None);
    let (mut collisions, mut owners, mut with_set) = (Vec::new(), Vec::new(), false);
    let (mut failures, mut unhealthy, mut waits, mut awaits_deletion) =
        (Vec::new(), Vec::new(), Vec::new(), false);
    for (key, state) in states {
        match state {
            State::Healthy => {}
            State::Failed(error, found) => {
                errors.push(error.as_str());
                obstacle = obstacle.or(found.clone());
            }
            State::Collision { report, with_set: is_set, owner } => {
                collisions.push(report.as_str());
                owners.push((key, owner.as_ref()));
                with_set |= is_set;
            }
            State::Unhealthy(messages, workload) => {
                // Of failed probes the first is reported, as upstream does.
                if failures.is_empty() {
                    failures.push(probe_failure(key, messages));
                }
                let (object, failures, workload) = (key.clone(), messages.clone(), workload.clone());
                unhealthy.push(Unhealthy { object, failures, workload, finding: None });
            }
            State::Waits(text) => waits.push(probe_failure(key, std::slice::from_ref(text))),
            State::Deleting => {
                waits.push(probe_failure(key, &[BEING_DELETED.to_owned()]));
                awaits_deletion = true;
            }
        }
    }
    match obstacle {
        Some(obstacle) => Outcome::Stuck { message: errors.join("\n"), obstacle },
        None if !errors.is_empty() => Outcome::Retrying(errors.join("\n")),
        None if !collisions.is_empty() => Outcome::Stuck {
            message: format!("revision object collisions in phase {phase}\n{}", collisions.join("\n\n")),
            obstacle: Obstacle::Collision { with_set, remedy: collision_remedy(&owners) },
        },
        None if failures.is_empty() && waits.is_empty() => Outcome::Complete,
        None => Outcome::Incomplete { failures, unhealthy, waits, awaits_deletion },
    }
}

/// Whose the objects are, in words, and what to do about it: about the first one and all that have the same owner.
fn collision_remedy(objects: &[(&ObjectKey, Option<&OtherOwner>)]) -> String {
    let owner = objects.first().and_then(|(_, owner)| *owner);
    let siblings: Vec<_> = objects.iter().filter(|(_, other)| *other == owner).collect();
    let first: Vec<_> = siblings.iter().take(NAMED_MAX).map(|(key, _)| short_name(key)).collect();
    let more = siblings.len() - first.len();
    let names = first.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() };
    let (belongs, exists) = if siblings.len() == 1 { ("belongs", "exists") } else { ("belong", "exist") };
    match owner {
        Some(OtherOwner::Extension(name)) => {
            format!("{names} {belongs} to ClusterExtension {name}: remove one of the two extensions.")
        }
        Some(OtherOwner::Object(owner)) => format!(
            "{names} {belongs} to {owner}: delete that owner or this extension, or what is not needed of its objects."
        ),
        None => format!(
            "{names} {exists} already, not made by this extension: delete what is not needed, or remove this extension."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, state: State) -> (ObjectKey, State) {
        let key =
            ObjectKey::of(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}));
        (key, state)
    }

    #[test]
    fn a_phase_is_summed_up_by_its_worst_object() {
        let healthy = object("a", State::Healthy);
        let unhealthy = object("b", State::Unhealthy(vec!["x".into(), "y".into()], None));
        let second = object("c", State::Unhealthy(vec!["z".into()], None));
        let owner = Some(OtherOwner::Extension("e".to_owned()));
        let collision = object("d", State::Collision { report: "Object D".into(), with_set: true, owner });
        let failure = object("e", State::Failed("Object e: forbidden".into(), Some(Obstacle::Forbidden)));
        assert_eq!(summary(0, std::slice::from_ref(&healthy)), Outcome::Complete);
        let incomplete = |failures: &[&str], waits: &[&str], awaits_deletion| Outcome::Incomplete {
            failures: failures.iter().map(ToString::to_string).collect(),
            unhealthy: Vec::new(),
            waits: waits.iter().map(ToString::to_string).collect(),
            awaits_deletion,
        };
        let of_all = |items: &[&(ObjectKey, State)]| {
            summary(3, &items.iter().map(|i| (*i).clone()).collect::<Vec<_>>())
        };
        let of = |items: &[&(ObjectKey, State)]| {
            let mut outcome = of_all(items);
            if let Outcome::Incomplete { unhealthy, .. } = &mut outcome {
                unhealthy.clear();
            }
            outcome
        };
        let all = of_all(&[&healthy, &unhealthy, &second]);
        let lines: Vec<String> = all.unhealthy().iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["ConfigMap b: x and y", "ConfigMap c: z"]);
        assert_eq!(
            of(&[&healthy, &unhealthy, &second]),
            incomplete(&["Object ConfigMap.v1 b: x and y"], &[], false)
        );
        // What no probe has a verdict about yet is kept apart.
        let waiting = object("f", State::Waits("waits for its kind".into()));
        let waits = ["Object ConfigMap.v1 f: waits for its kind"];
        assert_eq!(of(&[&healthy, &waiting]), incomplete(&[], &waits, false));
        assert_eq!(of(&[&waiting, &second]), incomplete(&["Object ConfigMap.v1 c: z"], &waits, false));
        let waits = ["Object ConfigMap.v1 g: is being deleted, and will be created again afterwards"];
        assert_eq!(of(&[&healthy, &object("g", State::Deleting)]), incomplete(&[], &waits, true));
        let stuck = |message: &str, obstacle| Outcome::Stuck { message: message.into(), obstacle };
        assert_eq!(
            of(&[&unhealthy, &collision]),
            stuck(
                "revision object collisions in phase 3\nObject D",
                Obstacle::Collision {
                    with_set: true,
                    remedy: "ConfigMap d belongs to ClusterExtension e: remove one of the two extensions."
                        .into(),
                }
            )
        );
        let other = object("g", State::Failed("Object g: timeout".into(), None));
        assert_eq!(
            of(&[&collision, &other, &failure]),
            stuck("Object g: timeout\nObject e: forbidden", Obstacle::Forbidden)
        );
        assert_eq!(of(&[&other]), Outcome::Retrying("Object g: timeout".into()));
    }
}
