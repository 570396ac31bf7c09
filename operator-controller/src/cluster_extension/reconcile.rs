//! One pass over a ClusterExtension: observe, decide, act, report.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use catalogd::Clock;
use jiff::Timestamp;
use kube::{Api, ResourceExt, api::PostParams, core::DeserializeGuard, runtime::reflector::Store};
use olm_api::{
    ConditionStatus,
    ConditionType::Ready,
    ConditionUpdate, Reason,
    names::{
        CLEANUP_CONTENT_MANAGER_CACHE_FINALIZER, CLEANUP_UNPACK_CACHE_FINALIZER, PROGRAM_FIELD_MANAGER,
        TAKEN_OVER_ANNOTATION,
    },
    ownership::is_taken_over,
    v1::{ClusterExtension, ClusterExtensionStatus, ClusterObjectSet},
};
use olm_runtime::{Accounts, Discovery, Next, OwnWrites, api_text, bounded};

use crate::cluster_extension::act::revision::RevisionWriter;
use crate::cluster_extension::decide::{Features, Steps};
use crate::cluster_extension::observe::identity;
use crate::cluster_extension::observe::identity::{Identity, Record};
use crate::cluster_extension::observe::service_account as validate;
use crate::cluster_extension::observe::takeover::mark_earlier;
use crate::cluster_extension::report::status::{panicked, status};
use crate::cluster_extension::report::{Progress, StepError};
use crate::deletion_policy::extension as keeping;
use crate::deletion_policy::extension::{Keeping, Told};
use crate::{
    access::{User, Waiting},
    admission::Guard,
    bundles::Bundles,
    catalogs::Catalogs,
    dependents::Dependents,
    events::Events,
    finalizers,
    interest::{Interest, Wanted},
    platform::Platform,
    settings::Settings,
};

/// The original's finalizers. Ours need no clean-up, but objects it left behind carry them, and tools expect them.
const FINALIZERS: [&str; 2] = [CLEANUP_UNPACK_CACHE_FINALIZER, CLEANUP_CONTENT_MANAGER_CACHE_FINALIZER];

/// How soon a deletion that is held is looked at again; nothing tells of every remedy.
const HELD_RETRY: Duration = Duration::from_secs(10);
/// How soon revisions that are to come to rest are looked at again, should no event come.
const AT_REST_RETRY: Duration = Duration::from_secs(1);
/// How soon revisions that could not be read are looked at again.
const UNKNOWN_RETRY: Duration = Duration::from_secs(10);
/// How soon a release that cannot be read is looked at again; nothing announces that its Secret has changed.
const TAKEOVER_RETRY: Duration = Duration::from_mins(1);

/// What the controller needs of the world.
#[derive(Clone)]
pub(crate) struct Ports {
    pub(crate) accounts: Accounts,
    pub(crate) discovery: Discovery,
    pub(crate) catalogs: Catalogs,
    pub(crate) bundles: Bundles,
    pub(crate) events: Events,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) sets: Store<DeserializeGuard<ClusterObjectSet>>,
    pub(crate) dependents: Arc<Dependents>,
    pub(crate) platform: Arc<Platform>,
    pub(crate) features: Features,
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) system_namespace: String,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The controller of ClusterExtensions.
pub(crate) struct Extensions {
    ports: Ports,
    /// UIDs of extensions whose last pass went well, or that nothing was written for yet. A process that died, or a pass
    /// that failed, may have left Secrets without an owner, which are looked for at the next pass.
    tidy: Mutex<BTreeSet<String>>,
    writes: OwnWrites,
}

impl Extensions {
    pub(crate) fn new(ports: Ports) -> Self {
        Self { ports, tidy: Mutex::default(), writes: OwnWrites::default() }
    }

    /// One pass, and the interests whose firing brings the next one.
    pub(crate) async fn reconcile(&self, extension: Arc<ClusterExtension>) -> (Next, BTreeSet<Interest>) {
        let wanted = Wanted::default();
        wanted.add([Interest::Job(extension.name_any())]);
        let next = self.next(extension, &wanted).await;
        (next, wanted.into_set())
    }

    async fn next(&self, extension: Arc<ClusterExtension>, wanted: &Wanted) -> Next {
        let name = extension.name_any();
        let api: Api<ClusterExtension> = Api::all(self.ports.accounts.controller());
        let now = self.ports.clock.now();
        if let Some(left) = self.writes.behind(&*extension, now) {
            return Next::After(left);
        }
        if extension.metadata.deletion_timestamp.is_some() {
            self.forget(&name, &extension.uid().unwrap_or_default());
            return self.release(&api, &extension).await;
        }
        if !FINALIZERS.iter().all(|f| extension.finalizers().iter().any(|p| p == f)) {
            return self.begin(&api, &extension).await;
        }
        let mut progress = Progress { unguarded: self.ports.guard.complaint(), ..Progress::default() };
        if !is_taken_over(&extension.metadata) {
            return self.take_over(&api, &extension, &progress, now).await;
        }
        let told = self.keeping(&extension).look().await;
        let policy = told.as_ref().unwrap_or(&Told::AsBefore);
        let mut after = extension.status.clone().unwrap_or_default();
        if let Told::TakenBack(_) = policy {
            policy.set_condition(&mut after.conditions, extension.metadata.generation, now);
            // Its event brings the pass that acts.
            let written = self.write_status(&api, &extension, after, &progress).await;
            return written.map_or_else(Next::Retry, |()| Next::Await);
        }
        progress.notes.extend(policy.note(&extension));
        if keeping::of_revision(&extension).is_some() && progress.unguarded.is_none() {
            progress.unguarded = self.ports.guard.complaint_about_deletion();
        }
        let result = self.pass(&extension, &mut progress, (wanted, now)).await;
        if progress.recorded {
            return Next::Await;
        }
        if needs_no_pull(&progress, &result) {
            self.ports.bundles.release(&name);
        }
        self.ports.waiting.waits(&User::Extension(name.clone()), result.is_err());
        after = status(&extension, &progress, result.as_ref().copied(), now);
        policy.set_condition(&mut after.conditions, extension.metadata.generation, now);
        if let Err(error) = self.write_status(&api, &extension, after, &progress).await {
            return Next::Retry(format!("error updating status: {error}"));
        }
        match result {
            Ok(()) => match told {
                Ok(_) => match &progress.waits_for_content {
                    Some(why) => progress.next_pull(why).unwrap_or_else(|| Next::Retry(why.clone())),
                    None => progress.look_again.map_or(Next::Await, Next::After),
                },
                Err(error) => Next::Retry(error),
            },
            Err(StepError::Takeover { text, terminal: true }) => {
                tracing::warn!(extension = name, error = text, "not taken over");
                Next::After(TAKEOVER_RETRY)
            }
            Err(error) if progress.look_again.is_some() => {
                tracing::info!(extension = name, %error, "waiting");
                Next::After(progress.look_again.unwrap_or_default())
            }
            Err(error) if progress.next_pull.is_some() => {
                progress.next_pull(&error.to_string()).unwrap_or(Next::Await)
            }
            Err(error) if error.is_terminal() => Next::Blocked(error.to_string()),
            Err(error) => Next::Retry(error.to_string()),
        }
    }

    /// Forgets what is known of an extension that is being deleted, and ends what it waits for.
    fn forget(&self, name: &str, uid: &str) {
        self.ports.waiting.forget(&User::Extension(name.to_owned()));
        self.ports.dependents.needs_nothing(name);
        self.ports.platform.forget(name);
        self.ports.bundles.release(name);
        self.tidy().remove(uid);
        self.writes.forget(uid);
    }

    /// Gives an extension its finalizers; the event of that brings the pass that goes on. One that nobody has worked on
    /// before has nothing to be taken over, which is recorded in the same write.
    async fn begin(&self, api: &Api<ClusterExtension>, extension: &ClusterExtension) -> Next {
        let is_new = extension.status.as_ref().is_none_or(|status| status.conditions.is_empty());
        let uid = extension.uid().filter(|_| is_new && !is_taken_over(&extension.metadata));
        let record = uid.as_deref().map(|uid| (TAKEN_OVER_ANNOTATION, uid));
        match finalizers::set_with(api, extension, &FINALIZERS, record).await {
            Ok(written) => {
                // Secrets come after the finalizers.
                self.tidy().extend(written.and_then(|extension| extension.uid()));
                Next::Await
            }
            Err(error) => Next::Retry(error),
        }
    }

    /// Marks the revisions of an earlier program; the event of that brings the pass that goes on.
    async fn take_over(
        &self,
        api: &Api<ClusterExtension>,
        extension: &ClusterExtension,
        progress: &Progress,
        now: Timestamp,
    ) -> Next {
        let Err(text) = mark_earlier(&self.ports.accounts.controller(), extension).await else {
            return Next::Await;
        };
        let error = StepError::Takeover { text, terminal: false };
        let after = status(extension, progress, Err(&error), now);
        let written = self.write_status(api, extension, after, progress).await;
        Next::Retry(written.err().unwrap_or(error.to_string()))
    }

    /// Says on the extension that its reconcile panicked.
    pub(crate) async fn report_panic(self: Arc<Self>, extension: Arc<ClusterExtension>) {
        let api: Api<ClusterExtension> = Api::all(self.ports.accounts.controller());
        let after = panicked(&extension, self.ports.clock.now());
        if let Err(error) = self.write_status(&api, &extension, after, &Progress::default()).await {
            tracing::warn!(extension = extension.name_any(), error, "reporting a panic");
        }
    }

    /// Lets the extension go. Objects go by garbage collection, through the revisions' owner references; what a
    /// deletion policy keeps has none.
    async fn release(&self, api: &Api<ClusterExtension>, extension: &ClusterExtension) -> Next {
        if extension.finalizers().iter().any(|f| FINALIZERS.contains(&f.as_str())) {
            let writer = RevisionWriter {
                client: self.ports.accounts.controller(),
                system_namespace: &self.ports.system_namespace,
                extension,
                account_uid: None,
                sets: &self.ports.sets,
            };
            if let Err(error) = writer.tidy_secrets().await {
                return Next::Retry(error);
            }
            match self.keeping(extension).release().await {
                Ok(true) => {}
                Ok(false) => return Next::After(AT_REST_RETRY),
                Err(text) => {
                    self.ports.waiting.waits(&User::Extension(extension.name_any()), true);
                    let mut after = extension.status.clone().unwrap_or_default();
                    let message = format!("The deletion is held: {text}");
                    let generation = extension.metadata.generation;
                    let update = ConditionUpdate::new(
                        Ready,
                        ConditionStatus::False,
                        Reason::Blocked,
                        message,
                        generation,
                    );
                    after.conditions.set(update, self.ports.clock.now());
                    let written = self.write_status(api, extension, after, &Progress::default()).await;
                    return written.map_or_else(Next::Retry, |()| Next::After(HELD_RETRY));
                }
            }
        }
        let removed = finalizers::set(api, extension, &FINALIZERS, false).await;
        removed.map_or_else(Next::Retry, |_| Next::Await)
    }

    fn keeping<'a>(&'a self, extension: &'a ClusterExtension) -> Keeping<'a> {
        let ports = &self.ports;
        let default_account = ports.settings.default_account();
        Keeping { extension, accounts: &ports.accounts, sets: &ports.sets, default_account }
    }

    async fn pass(
        &self,
        extension: &ClusterExtension,
        progress: &mut Progress,
        (wanted, now): (&Wanted, Timestamp),
    ) -> Result<(), StepError> {
        let ports = &self.ports;
        let uid = extension.uid().unwrap_or_default();
        let default = ports.settings.default_account();
        match validate::account(extension, default.as_ref()) {
            Some(account) => {
                let recorded = Record::of(extension).filter(|record| record.account == account);
                let uid = recorded.and_then(|record| record.service_account);
                ports.waiting.acts_as(User::Extension(extension.name_any()), &account, uid);
            }
            None => ports.waiting.forget(&User::Extension(extension.name_any())),
        }
        let mut checked = validate::check(extension, &ports.accounts, &ports.settings).await;
        let default = default.as_ref();
        let identity = Identity::check(extension, &ports.accounts, default, checked.is_ok()).await;
        let identity = identity.unwrap_or_else(|error| {
            checked = Err(error.after(checked.as_ref().err()));
            Identity::default()
        });
        progress.notes.extend(identity::note(extension, default));
        // Put back when the pass has gone well, and in no other way out of it.
        let is_tidy = self.tidy().remove(&uid);
        let steps = Steps {
            extension,
            accounts: &ports.accounts,
            discovery: &ports.discovery,
            catalogs: &ports.catalogs,
            bundles: &ports.bundles,
            sets: &ports.sets,
            dependents: &ports.dependents,
            wanted,
            platform: &ports.platform,
            features: ports.features,
            system_namespace: &ports.system_namespace,
            identity,
            now,
            only_plans: false,
            enforcement: ports.guard.enforcement(),
            is_tidy,
        };
        let account = match checked {
            Ok(account) => account,
            Err(error) => {
                // What is installed is told all the same.
                let account = validate::account(extension, default);
                if let Err(error) = steps.known(account.as_ref(), progress).await {
                    tracing::warn!(extension = extension.name_any(), %error, "revisions not known");
                    let waits_for_a_person = matches!(error, StepError::Takeover { terminal: true, .. });
                    // What is wrong with the extension itself may bring no other pass.
                    progress.look_again =
                        Some(if waits_for_a_person { TAKEOVER_RETRY } else { UNKNOWN_RETRY });
                } else {
                    steps.record(progress).await?;
                }
                return Err(error);
            }
        };
        let result = steps.run(&account, progress).await;
        if result.is_ok() && (is_tidy || !progress.recorded) {
            self.tidy().insert(uid);
        }
        result
    }

    fn tidy(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.tidy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write_status(
        &self,
        api: &Api<ClusterExtension>,
        extension: &ClusterExtension,
        after: ClusterExtensionStatus,
        progress: &Progress,
    ) -> Result<(), String> {
        let before = extension.status.clone().unwrap_or_default();
        if after == before {
            if progress.crossed.is_some() {
                self.ports.events.extension(extension, &before, &after, progress).await;
            }
            return Ok(());
        }
        let mut updated = extension.clone();
        updated.status = Some(after.clone());
        let params =
            PostParams { field_manager: Some(PROGRAM_FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match bounded(api.replace_status(&extension.name_any(), &params, &updated)).await {
            Ok(written) => {
                self.writes.wrote(&written, self.ports.clock.now());
                self.ports.events.extension(extension, &before, &after, progress).await;
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(api_text(&error)),
        }
    }
}

/// Whether a reconcile came to the conclusion that nothing is to be pulled. One that knows nothing leaves a pull alone.
fn needs_no_pull(progress: &Progress, result: &Result<(), StepError>) -> bool {
    let knows_nothing = matches!(
        result,
        Err(StepError::Validation { .. } | StepError::Takeover { .. } | StepError::Revisions(_))
    );
    progress.pulling.is_none() && progress.next_pull.is_none() && !knows_nothing
}
