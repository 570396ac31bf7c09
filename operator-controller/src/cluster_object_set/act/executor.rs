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
    Action, Owner, OwnershipContext, Workload, action, evaluate, for_revision, observation_digest, sha256,
    unserved_kind_report,
};
use olm_preflight::{REQUESTS, concurrently};
use olm_runtime::{DiscoveryError, Kind, Seen};
use serde_json::{Value, json};

use crate::{
    cluster_object_set::{
        Context,
        checks::Check,
        observe::{
            Observed,
            content::{Item, LoadedPhase},
            siblings::{Siblings, other_owner},
        },
        report::{Obstacle, Outcome, has_succeeded, is_late},
    },
    crd_changes::CrdChanges,
    deletion_policy::revision::policy,
    webhook_certificates::{CaBundles, Injection},
};

use super::{
    crds::are_all,
    state::{Brought, Change, State, failed, health, summary},
    target::{Target, get_since},
};

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
    pub(super) rolling_out: bool,
    /// Whether nothing was reported of the revision yet, and there is none before it: it finds nothing of its own.
    is_beginning: bool,
    /// Whether the revision has missed its deadline.
    late: bool,
    /// When its CRDs are created.
    pub(super) crds: CrdOrder,
}

/// When the CRDs of a revision are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrdOrder {
    /// Before everything else, until the revision has rolled out.
    First,
    /// In their phase.
    InPhase,
}

/// How often an object that others write is read and written, at most.
const ATTEMPTS: usize = 3;

/// What an object waits for that a revision lost after it had missed its deadline.
const SUPERSEDED: &str = "belongs to a later revision";

/// An object after it was checked.
struct Step {
    current: Value,
    /// Whether it was created or applied.
    written: bool,
    /// Whether that changed its desired fields, and how.
    change: Option<Change>,
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
            crds: match annotation(CREATED_FIRST_ANNOTATION) {
                Some(_) if !has_succeeded(set) => CrdOrder::First,
                _ => CrdOrder::InPhase,
            },
        }
    }

    /// Brings the phases to their desired state, one after another, until one is not healthy. Roles and bindings do not wait
    /// for CRDs that [are passed](Self::is_passed). With the outcome come the objects that were changed.
    pub(crate) async fn roll_out(&self, phases: &[LoadedPhase]) -> (Outcome, BTreeSet<ObjectKey>) {
        let mut changed = BTreeSet::new();
        let mut crds = match self.create_crds(phases).await {
            Ok(brought) => brought,
            Err(outcome) => return (outcome, changed),
        };
        let mut outcome = Outcome::Complete;
        for (index, phase) in phases.iter().enumerate() {
            if outcome != Outcome::Complete && !are_all(phase, ObjectKey::is_rbac) {
                break;
            }
            let mut objects = Vec::with_capacity(phase.items.len());
            objects.extend(phase.items.iter().map(|item| {
                let brought = crds.remove(&item.known.key);
                async { if let Some(brought) = brought { brought } else { self.bring(item).await } }
            }));
            let done = concurrently(REQUESTS, objects).await;
            changed.extend(done.iter().filter(|one| one.change.is_some()).map(|one| one.key.clone()));
            match summary(index, &done) {
                Outcome::Complete => {}
                waits if self.is_passed(phase) => outcome = waits,
                ended => return (ended, changed),
            }
        }
        (outcome, changed)
    }

    /// Brings an object to its desired state.
    pub(super) async fn bring(&self, item: &Item) -> Brought {
        let key = &item.known.key;
        let (state, change) = self.bring_one(key, item).await.unwrap_or_else(|state| (state, None));
        Brought { key: key.clone(), state, change }
    }

    async fn bring_one(&self, key: &ObjectKey, item: &Item) -> Result<(State, Option<Change>), State> {
        let injection = self.injection(item);
        let digest = self.digest(item, injection.as_ref());
        let kind = self.kind(key).await.map_err(|error| self.without_kind(key, &error))?;
        let check = self.cx.checks.recall(&self.owner.uid, key).filter(|check| check.desired == digest);
        let seen = self.cx.watches.seen(&kind.resource, &key.namespace, &key.name);
        if let (Some(check), Seen::Present { uid, resource_version }) = (&check, &seen)
            && check.uid == *uid
            && check.resource_version == *resource_version
        {
            return Ok((health(check.clone()), None));
        }
        let desired = self.desired(item);
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
        let Step { current, written, change } = match created {
            Some(Ok(current)) => Step { current, written: true, change: Some(Change::Created) },
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
        Ok((health(check), change))
    }

    /// The CA bundle that its webhooks are to have, if it has any.
    pub(super) fn injection(&self, item: &Item) -> Option<Injection> {
        let needs_bundle = item.known.needs_ca_bundle && !self.ca_bundles.is_empty();
        if needs_bundle { self.ca_bundles.injection(item.object()) } else { None }
    }

    /// The object as it is to be.
    pub(super) fn desired(&self, item: &Item) -> Value {
        for_revision(item.to_object(), &self.owner, self.extension)
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
        let change = match planned {
            Action::Create => Some(Change::Created),
            Action::Apply { .. } => Some(Change::Applied),
            _ => None,
        };
        let written = change.is_some();
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
                self.may_own(key, &live).await.map_err(|why| State::failed(key, why, None))?;
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
            let change = change.filter(|_| before != Some(observation_digest(&current, desired)));
            Step { current, written, change }
        }))
    }

    /// Checks the stored objects of a CRD once more, if they decided about its changes.
    async fn may_replace(&self, key: &ObjectKey, live: &Value, desired: &Value) -> Result<(), State> {
        let refusal =
            if key.is_crd() { self.crd_changes.refusal(&self.client, live, desired).await } else { None };
        let obstacle = Some(Obstacle::StoredObjects);
        refusal.map_or(Ok(()), |why| Err(State::failed(key, why, obstacle)))
    }

    /// What it means for an object that its kind was not found.
    fn without_kind(&self, key: &ObjectKey, error: &DiscoveryError) -> State {
        match error {
            DiscoveryError::Unknown { .. } if self.awaited.contains(key) => {
                State::Waits("waits for its kind to be served".to_owned())
            }
            DiscoveryError::Unknown { .. } => State::failed(key, unserved_kind_report(key), None),
            DiscoveryError::Unavailable { .. } => State::failed(key, error, None),
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

/// Whether the status reports nothing yet, or that the revision is rolling out undisturbed.
fn is_rolling_out(set: &ClusterObjectSet) -> bool {
    let conditions = set.status.as_ref().map(|status| &status.conditions);
    let progressing = conditions.and_then(|conditions| conditions.find(ConditionType::Progressing));
    !has_succeeded(set) && progressing.is_none_or(|c| c.reason == Reason::RollingOut.as_str())
}
