//! One pass over a ClusterObjectSet: observe, act, report.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kube::{Api, Client, Resource, ResourceExt, core::DeserializeGuard, runtime::reflector::Store};
use olm_api::{
    names::{
        OWNER_NAME_LABEL, PROGRAM_FIELD_MANAGER, TEARDOWN_FINALIZER, WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION,
    },
    ownership::revision_of,
    v1::{ClusterObjectSet, ClusterObjectSetStatus, LifecycleState, ObservedPhase},
};
use olm_object::ObjectKey;
use olm_objectset::{DeletionPolicy, Owner, invalid_selector};
use olm_render::CertificateProvider;
use olm_runtime::{
    Accounts, Clock, Discovery, Next, OwnerChanged, PANIC_REPORT, WatchManager, api_text, bounded, post_as,
};

use crate::cluster_object_set::content;
use crate::cluster_object_set::content::{ContentError, LoadedPhase};
use crate::cluster_object_set::execute::{Executor, Pass};
use crate::cluster_object_set::kinds::without;
use crate::cluster_object_set::memory::Memory;
use crate::cluster_object_set::requeue::Pace;
use crate::cluster_object_set::siblings::Family;
use crate::cluster_object_set::status::{
    Deadline, Obstacle, Outcome, add_to_ready, deadline, in_order, set_conditions, torn_down,
};
use crate::cluster_object_set::watched::Identity;
use crate::deletion_policy::revision as keeping;
use crate::{
    events::Events,
    facts::kinds::Survey,
    facts::policies::Guard,
    facts::settings::Settings,
    interest::{Interest, Wanted},
    metrics::DriftRepairs,
    webhook_certificates::{self, CaBundles, Keeper, Kept},
};

/// How soon a revision that is to be taken over is looked at again, should its mark never come.
const TAKEOVER_RETRY: Duration = Duration::from_secs(10);

/// No object waits for its kind.
static NONE_AWAITED: BTreeSet<ObjectKey> = BTreeSet::new();

/// What the controller needs of the world.
#[derive(Clone)]
pub(crate) struct Ports {
    pub(crate) accounts: Accounts,
    pub(crate) discovery: Discovery,
    pub(crate) watches: WatchManager,
    pub(crate) sets: Store<DeserializeGuard<ClusterObjectSet>>,
    pub(crate) events: Events,
    /// Names the account of revisions that name none.
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) repairs: DriftRepairs,
    /// Whether rights are checked before objects are written that could not be checked with the others.
    pub(crate) preflight_permissions: bool,
    pub(crate) system_namespace: String,
    /// Life of the webhook certificates that are made here.
    pub(crate) certificate_lifetime: Duration,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The controller of ClusterObjectSets.
pub(crate) struct ObjectSets {
    pub(crate) ports: Ports,
    memory: Memory,
    certificates: webhook_certificates::Memory,
}

/// What a pass found out, beside the outcome.
struct Report {
    outcome: Outcome,
    /// Digests of the content, when it could be read and is what was recorded.
    observed: Option<Vec<ObservedPhase>>,
    /// When a webhook certificate is to be looked at again.
    certificates: Option<Timestamp>,
    /// Whether the objects have the form that the deletion policy asks for, when it was looked at.
    policy: Option<Result<(), String>>,
    /// The revision as it was last written in this pass: the version that its status goes with.
    given: Option<ClusterObjectSet>,
    /// The content is at fault, and nothing would tell that it was put right.
    look_again: bool,
}

impl From<Outcome> for Report {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, observed: None, certificates: None, policy: None, given: None, look_again: false }
    }
}

impl Report {
    fn content(error: &ContentError) -> Self {
        Self { look_again: true, ..Outcome::Blocked(error.to_string()).into() }
    }
}

impl ObjectSets {
    pub(crate) fn new(ports: Ports) -> Self {
        Self { ports, memory: Memory::default(), certificates: webhook_certificates::Memory::default() }
    }

    /// One pass, and the interests whose firing brings the next one.
    pub(crate) async fn reconcile(&self, set: Arc<ClusterObjectSet>) -> (Next, BTreeSet<Interest>) {
        let wanted = Wanted::default();
        wanted.add(owners(&set).into_iter().map(Interest::Owned));
        let next = self.next(set, &wanted).await;
        (next, wanted.into_set())
    }

    async fn next(&self, set: Arc<ClusterObjectSet>, wanted: &Wanted) -> Next {
        let uid = set.uid().unwrap_or_default();
        if set.metadata.deletion_timestamp.is_some() {
            self.ports.watches.release(&uid);
            self.memory.forget(&uid);
            return self.finalizer(&set, false).await.map_or_else(Next::Retry, |_| Next::Await);
        }
        if torn_down(&set) {
            // Its account and content may be gone by now: nothing is asked of them any more.
            return self.finalizer(&set, false).await.map_or_else(Next::Retry, |_| Next::Await);
        }
        match self.is_before_takeover(&set).await {
            Ok(false) => {}
            // The mark's event brings the pass that goes on.
            Ok(true) => return Next::After(TAKEOVER_RETRY),
            Err(error) => return Next::Retry(error),
        }
        let now = self.ports.clock.now();
        if let Some(left) = self.memory.behind(&set, now) {
            // What was recorded of the content, and how far the roll-out got, would be taken for undone.
            return Next::After(left);
        }
        match self.give_default_account(&set).await {
            Ok(false) => {}
            // Its event brings the pass that acts.
            Ok(true) => return Next::Await,
            Err(error) => return Next::Retry(error),
        }
        let deadline = deadline(&set, now);
        if keeping::contradicts(&set) {
            let mut status = set.status.clone().unwrap_or_default();
            keeping::take_back(&mut status.conditions, &set, now);
            // Its event brings the pass that acts.
            return self.replace_status(&set, status, None).await.map_or_else(Next::Retry, |()| Next::Await);
        }
        match self.bind(&set).await {
            Ok(false) => {}
            // Its event brings the pass that acts.
            Ok(true) => return Next::Await,
            Err(error) => return Next::Retry(error),
        }
        let mut report = self.pass(&set, wanted).await;
        let unseen = self.unseen(&uid);
        let set = report.given.take().map_or(set, Arc::new);
        let unsettled = report.policy.clone().and_then(Result::err);
        // What may not be read is Blocked, and recovers with the permissions.
        let waits = unsettled.is_some()
            || matches!(report.outcome, Outcome::Retrying(_) | Outcome::Stuck { .. } | Outcome::Blocked(_));
        if waits {
            wanted.add([Interest::Rbac, Interest::Settings, Interest::Policies]);
        }
        let certificates = report.certificates;
        let pace =
            Pace { now, deadline, certificates, look_again: report.look_again, unseen: !unseen.is_empty() };
        if let Err(error) = self.write_status(&set, &report, &unseen, deadline, now).await {
            return pace.retry(format!("error updating status: {error}"));
        }
        pace.next(report.outcome, unsettled)
    }

    /// Says on the revision that its reconcile panicked.
    pub(crate) async fn report_panic(self: Arc<Self>, set: Arc<ClusterObjectSet>) {
        let now = self.ports.clock.now();
        let report = Outcome::Retrying(PANIC_REPORT.to_owned()).into();
        if let Err(error) = self.write_status(&set, &report, &[], deadline(&set, now), now).await {
            tracing::warn!(revision = set.name_any(), error, "reporting a panic");
        }
    }

    async fn pass(&self, set: &ClusterObjectSet, wanted: &Wanted) -> Report {
        let account = match self.account(set) {
            Ok(account) => account,
            Err(outcome) => return outcome.into(),
        };
        wanted.add([Interest::ServiceAccount(account.clone())]);
        let client = match self.client(set, &account).await {
            Ok(client) => client,
            Err(outcome) => return outcome.into(),
        };
        let controller = self.ports.accounts.controller();
        let loaded = content::load(set, &controller, Some(&client), &self.ports.system_namespace).await;
        let phases = match loaded {
            Ok(phases) => phases,
            Err(error) if error.is_blocking() => return Report::content(&error),
            Err(error) => return Outcome::Retrying(error.to_string()).into(),
        };
        if let Some(text) = invalid_selector(&set.spec.progression_probes) {
            return Outcome::Retrying(format!("invalid label selector in progressionProbe ({text})")).into();
        }
        let observed = content::digests(&phases);
        if let Err(error) = content::verify(set, &observed) {
            return Report::content(&error);
        }
        let none = CaBundles::default();
        let executor = self.executor(set, client.clone(), self.known_family(set), &none);
        let settled = keeping::settle(set, &executor, &phases).await;
        let identity = Identity { account: &account, client: &client };
        let report = self.carry_out(set, &identity, &phases, wanted).await;
        Report { observed: Some(observed), policy: report.policy.clone().or(settled), ..report }
    }

    async fn carry_out(
        &self,
        set: &ClusterObjectSet,
        identity: &Identity<'_>,
        phases: &[LoadedPhase],
        wanted: &Wanted,
    ) -> Report {
        let client = identity.client.clone();
        if set.spec.lifecycle_state == LifecycleState::Archived {
            return self.archive(set, client, phases).await.into();
        }
        let given = match self.finalizer(set, true).await {
            Ok(given) => given,
            Err(error) => return Outcome::Retrying(error).into(),
        };
        let set = given.as_ref().unwrap_or(set);
        let kept = match self.keep_certificates(set, client.clone(), phases).await {
            Ok(kept) => kept,
            Err(error) => {
                // The Secrets of webhooks have a form too.
                let policy = (!keeping::is_settled(set)).then(|| Err(error.clone()));
                return Report { policy, given, ..Outcome::Retrying(error).into() };
            }
        };
        let mut recorded = None;
        let outcome = self.activate(set, identity, (phases, &kept.bundles), &mut recorded, wanted).await;
        Report { certificates: kept.next, given: recorded.or(given), ..outcome.into() }
    }

    /// The step of the built-in provider, for revisions that record it.
    async fn keep_certificates(
        &self,
        set: &ClusterObjectSet,
        client: Client,
        phases: &[LoadedPhase],
    ) -> Result<Kept, String> {
        let Some(extension) = revision_of(&set.metadata).filter(|_| has_built_in_certificates(set)) else {
            return Ok(Kept::default());
        };
        let keeper = Keeper {
            client,
            discovery: &self.ports.discovery,
            watches: &self.ports.watches,
            memory: &self.certificates,
            extension: (extension.name, extension.uid),
            kept: keeping::policy(set) == DeletionPolicy::Orphan,
            lifetime: self.ports.certificate_lifetime,
        };
        let objects: Vec<_> = phases.iter().flat_map(|phase| &phase.items).map(|item| &item.stored).collect();
        keeper.keep(&objects, self.ports.clock.now()).await
    }

    /// Rolls the revision out; `recorded` becomes the revision as it is when something was recorded on it.
    async fn activate(
        &self,
        set: &ClusterObjectSet,
        identity: &Identity<'_>,
        (phases, ca_bundles): (&[LoadedPhase], &CaBundles),
        recorded: &mut Option<ClusterObjectSet>,
        wanted: &Wanted,
    ) -> Outcome {
        let (survey, client) = (self.survey(set, phases, wanted).await, identity.client);
        self.hold(set, &survey, identity, phases);
        if let Err(error) = self.check_arrived(set, client, phases, &survey).await {
            return Outcome::Retrying(error);
        }
        match self.record_left_out(set, &survey.left_out).await {
            Ok(written) => *recorded = written,
            Err(error) => return Outcome::Retrying(error),
        }
        let phases = &*without(phases, &survey.left_out);
        let rewritten = Mutex::default();
        let executor = |family| Executor {
            awaited: &survey.awaited,
            rolling_out: is_rolling_out(set),
            rewritten: has_succeeded(set).then_some(&rewritten),
            ..self.executor(set, client.clone(), family, ca_bundles)
        };
        let mut pass = executor(self.known_family(set)).roll_out(phases).await;
        if matches!(&pass, Pass::Collisions { with_sets: true, .. }) {
            // The other owner may be a sibling that this process has not heard of yet, or gone for good.
            let family = match self.listed_family(set).await {
                Ok(family) => family,
                Err(error) => return Outcome::Retrying(error),
            };
            pass = executor(family).roll_out(phases).await;
        }
        self.tell_rewritten(set, rewritten.into_inner().unwrap_or_else(PoisonError::into_inner)).await;
        match pass {
            // Until the status says that this revision is the installed one, the older one is: without it the
            // extension would look as if nothing were installed, and any version would do. The status' own event
            // brings the next pass.
            Pass::Complete if !has_succeeded(set) => Outcome::Complete,
            Pass::Complete => match self.archive_older(set).await {
                Ok(()) => Outcome::Complete,
                Err(error) => Outcome::Retrying(error),
            },
            Pass::Incomplete { failures, waits, awaits_deletion } => {
                // The kinds of a CRD that has just been applied can be watched from now on.
                self.hold(set, &self.survey(set, phases, wanted).await, identity, phases);
                Outcome::Incomplete { failures, waits, awaits_deletion }
            }
            Pass::Collisions { message, .. } => Outcome::Stuck { message, obstacle: Obstacle::Collision },
            Pass::Failed { text: message, obstacle: Some(obstacle) } => Outcome::Stuck { message, obstacle },
            Pass::Failed { text, obstacle: None } => Outcome::Retrying(text),
        }
    }

    async fn archive(&self, set: &ClusterObjectSet, client: Client, phases: &[LoadedPhase]) -> Outcome {
        let ca_bundles = CaBundles::default();
        match self.executor(set, client, self.known_family(set), &ca_bundles).tear_down(phases).await {
            Ok(true) => {
                let uid = set.uid().unwrap_or_default();
                self.ports.watches.release(&uid);
                self.memory.forget(&uid);
                Outcome::Archived
            }
            Ok(false) => Outcome::Archiving,
            Err(error) => Outcome::Retrying(format!("error archiving revision: {error}")),
        }
    }

    fn executor<'a>(
        &'a self,
        set: &'a ClusterObjectSet,
        client: Client,
        family: Family,
        ca_bundles: &'a CaBundles,
    ) -> Executor<'a> {
        Executor {
            client,
            discovery: &self.ports.discovery,
            watches: &self.ports.watches,
            memory: &self.memory,
            owner: owner(set),
            extension: set.labels().get(OWNER_NAME_LABEL).cloned(),
            siblings: family.siblings,
            present: family.present,
            probes: &set.spec.progression_probes,
            awaited: &NONE_AWAITED,
            rolling_out: false,
            rewritten: None,
            ca_bundles,
        }
    }

    /// Watches the revision's objects, and the Secrets of its webhook certificates.
    fn hold(&self, set: &ClusterObjectSet, survey: &Survey, identity: &Identity<'_>, phases: &[LoadedPhase]) {
        let objects = || phases.iter().flat_map(|phase| &phase.items).map(|item| &item.stored);
        let mut watched = identity.watched(objects(), &survey.known);
        if has_built_in_certificates(set) {
            watched.extend(identity.certificates(objects()));
        }
        self.ports.watches.hold(&set.uid().unwrap_or_default(), &watched);
    }

    /// What is said of kinds whose watch keeps failing, in sentences for `Ready`.
    fn unseen(&self, uid: &str) -> Vec<String> {
        let told = |(kind, text): (String, String)| {
            format!(
                "Changes of {kind} objects are not noticed at once, because watching the kind fails ({text}). Until that works again, they are checked every 30 seconds."
            )
        };
        self.ports.watches.failing(uid).into_iter().map(told).collect()
    }

    /// Writes the status if it is another one; `unseen` is which changes are not seen.
    async fn write_status(
        &self,
        set: &ClusterObjectSet,
        report: &Report,
        unseen: &[String],
        deadline: Deadline,
        now: Timestamp,
    ) -> Result<(), String> {
        let before = set.status.clone().unwrap_or_default();
        let mut after = before.clone();
        set_conditions(&mut after.conditions, set, &report.outcome, deadline, now);
        add_to_ready(&mut after.conditions, unseen, now);
        keeping::set_condition(&mut after.conditions, set, report.policy.as_ref(), &report.outcome, now);
        after.conditions = in_order(&after.conditions);
        if let Some(observed) = &report.observed
            && after.observed_phases.is_empty()
        {
            after.observed_phases.clone_from(observed);
        }
        if after == before {
            Ok(())
        } else {
            self.replace_status(set, after, report.outcome.obstacle()).await
        }
    }

    async fn replace_status(
        &self,
        set: &ClusterObjectSet,
        after: ClusterObjectSetStatus,
        obstacle: Option<&Obstacle>,
    ) -> Result<(), String> {
        let before = set.status.clone().unwrap_or_default();
        let mut updated = set.clone();
        updated.status = Some(after.clone());
        let api: Api<ClusterObjectSet> = Api::all(self.ports.accounts.controller());
        let params = post_as(PROGRAM_FIELD_MANAGER);
        match bounded(api.replace_status(&set.name_any(), &params, &updated)).await {
            Ok(written) => {
                self.wrote(&written);
                self.ports.events.set(set, (&before, &after), obstacle).await;
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(api_text(&error)),
        }
    }

    /// Adds or removes the teardown finalizer, if that is not done yet.
    async fn finalizer(
        &self,
        set: &ClusterObjectSet,
        wanted: bool,
    ) -> Result<Option<ClusterObjectSet>, String> {
        let api: Api<ClusterObjectSet> = Api::all(self.ports.accounts.controller());
        let written = crate::finalizers::set(&api, set, &[TEARDOWN_FINALIZER], wanted).await?;
        if let Some(written) = written.as_ref().filter(|_| wanted) {
            self.wrote(written);
        }
        Ok(written)
    }

    /// Keeps the version of a revision that was written.
    pub(crate) fn wrote(&self, set: &ClusterObjectSet) {
        self.memory.wrote(set, self.ports.clock.now());
    }
}

/// The owners of objects whose changes concern the revision: itself, and its extension, to whom the Secrets of webhooks
/// belong.
fn owners(set: &ClusterObjectSet) -> Vec<OwnerChanged> {
    let named = |kind: &str, name: String| OwnerChanged::Named { kind: kind.to_owned(), name };
    let kept = |uid: String| OwnerChanged::Kept { uid };
    let own = [named("ClusterObjectSet", set.name_any()), kept(set.uid().unwrap_or_default())];
    let references = set.owner_references().iter();
    let extensions = references.clone().filter(|r| r.kind == "ClusterExtension");
    let extensions = extensions.map(|r| named(&r.kind, r.name.clone()));
    own.into_iter().chain(extensions).chain(references.map(|r| kept(r.uid.clone()))).collect()
}

/// Whether the certificates of the revision's webhooks are made here.
fn has_built_in_certificates(set: &ClusterObjectSet) -> bool {
    let provider = set.annotations().get(WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION);
    provider.map(String::as_str) == Some(CertificateProvider::BuiltIn.as_str())
}

/// Whether the status says nothing yet, or that the revision is rolling out undisturbed.
fn is_rolling_out(set: &ClusterObjectSet) -> bool {
    let conditions = set.status.as_ref().map(|status| &status.conditions);
    let progressing = conditions.and_then(|conditions| conditions.find(olm_api::ConditionType::Progressing));
    !has_succeeded(set) && progressing.is_none_or(|c| c.reason == olm_api::Reason::RollingOut.as_str())
}

/// Whether the status says that the revision has rolled out.
fn has_succeeded(set: &ClusterObjectSet) -> bool {
    set.status.as_ref().is_some_and(|s| s.conditions.is_true(olm_api::ConditionType::Succeeded))
}

fn owner(set: &ClusterObjectSet) -> Owner {
    Owner {
        api_version: ClusterObjectSet::api_version(&()).into_owned(),
        kind: ClusterObjectSet::kind(&()).into_owned(),
        name: set.name_any(),
        uid: set.uid().unwrap_or_default(),
        revision: set.spec.revision,
        policy: keeping::policy(set),
    }
}
