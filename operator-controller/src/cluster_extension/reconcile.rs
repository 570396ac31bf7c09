//! One reconcile of a ClusterExtension: observe, decide, act, report.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use kube::{ResourceExt, api::ObjectMeta};
use olm_api::{
    Activity,
    ConditionType::Ready,
    ConditionWriter, Reason,
    names::{
        CLEANUP_CONTENT_MANAGER_CACHE_FINALIZER, CLEANUP_UNPACK_CACHE_FINALIZER, IDENTITY_ANNOTATION,
        PROGRAM_FIELD_MANAGER, TAKEN_OVER_ANNOTATION,
    },
    ownership::is_taken_over,
    v1::{ClusterExtension, ClusterExtensionStatus},
};
use olm_runtime::{Next, ObjectWriter, Reconciler};
use parking_lot::Mutex;

use super::{
    Context,
    act::{
        act,
        dependencies::{Removal, remove_unneeded},
        revision::RevisionWriter,
    },
    annotations::{is_guarded, is_paused, origin},
    decide::{
        decide,
        requeue::{self, requeue},
    },
    deletion,
    observe::{identity, observe, revisions::Revisions, takeover::mark_earlier},
    report::{
        Outcome, Report, StepError,
        status::{panicked, status},
    },
};
use crate::{
    deletion_guard,
    deletion_policy::extension::{ExtensionPolicy, Held, PolicyState, of_revision},
    interest::{Interest, Wanted},
};

/// Upstream's finalizers. Nothing here needs them, but objects of upstream carry them, and tools expect them.
pub(super) const FINALIZERS: [&str; 2] =
    [CLEANUP_UNPACK_CACHE_FINALIZER, CLEANUP_CONTENT_MANAGER_CACHE_FINALIZER];

/// How long pulls usually take.
const PULL_USUAL: Duration = Duration::from_secs(1);
/// How long it usually takes until a new revision says how far it is.
const REVISION_USUAL: Duration = Duration::from_millis(500);

/// The controller of ClusterExtensions.
pub(crate) struct Extensions {
    cx: Context,
    /// UIDs of extensions without Secrets that lack an owner: what was written for them last was written whole, or nothing
    /// was yet. A process that died, or a write that failed, may have left some, which the next reconcile removes.
    tidy: Mutex<BTreeSet<String>>,
    objects: ObjectWriter<ClusterExtension>,
}

impl Reconciler for Extensions {
    type Object = ClusterExtension;
    type Interest = Interest;

    const CONDITION: &'static str = Ready.as_str();

    fn state(extension: &ClusterExtension) -> Option<(&str, &str)> {
        extension.status.as_ref()?.conditions.state(Ready)
    }

    fn edited(&self, extension: &ClusterExtension) -> u64 {
        self.cx.edits.note(extension)
    }

    fn gone(&self, name: &str) {
        self.cx.edits.forget("ClusterExtension", name);
    }

    async fn reconcile(&self, extension: &ClusterExtension) -> (Next, BTreeSet<Interest>) {
        let wanted = Wanted::default();
        let (name, uid) = (extension.name_any(), extension.uid().unwrap_or_default());
        wanted.add([Interest::Settings, Interest::Policies, Interest::UpdatePolicies, Interest::Platform]);
        wanted.add([Interest::Job(name.clone())]);
        wanted.add(is_guarded(extension).then(|| Interest::CustomResources(name.clone())));
        wanted.add([Interest::Revisions(name), Interest::Revisions(uid)]);
        let next = self.next(extension, &wanted).await;
        (next, wanted.into_set())
    }

    async fn report_panic(&self, extension: &ClusterExtension) {
        let after = panicked(extension, self.cx.clock.now());
        if let Err(error) = self.write_status(extension, after, &Report::default()).await {
            tracing::warn!(extension = extension.name_any(), error, "reporting a panic");
        }
    }
}

impl Extensions {
    pub(crate) fn new(cx: Context) -> Self {
        let objects = ObjectWriter::new(cx.controller(), PROGRAM_FIELD_MANAGER, cx.clock.clone());
        Self { cx, tidy: Mutex::default(), objects }
    }

    async fn next(&self, extension: &ClusterExtension, wanted: &Wanted) -> Next {
        let now = self.cx.clock.now();
        if let Some(left) = self.objects.behind(extension) {
            return Next::After(left);
        }
        if let Some(left) = self.cx.unseen_sets(extension, now) {
            return Next::After(left);
        }
        if extension.metadata.deletion_timestamp.is_some() {
            return self.release(extension, wanted).await;
        }
        if !FINALIZERS.iter().all(|f| extension.finalizers().iter().any(|p| p == f)) {
            return self.begin(extension).await;
        }
        if !is_taken_over(&extension.metadata) {
            return self.take_over(extension, now).await;
        }
        let policy = ExtensionPolicy { cx: &self.cx, extension }.check().await;
        if let PolicyState::TakenBack(_) = policy {
            return self.take_back(extension, &policy, now).await;
        }
        let refused = match remove_unneeded(&self.cx, extension, wanted).await {
            Removal::Begun => return Next::Await,
            Removal::Refused(why, at) => Some((why, at)),
            Removal::Needed => None,
        };
        let mut report = Report {
            unguarded: self.unguarded(extension),
            ..self.run((extension, wanted), policy, now).await
        };
        if let Some((why, at)) = refused {
            report.notes.push(why);
            report.resumes = report.resumes.into_iter().chain([at]).min();
        }
        if let Some(left) = self.postponed(extension, &report) {
            return Next::After(left);
        }
        if report.outcome != Outcome::Recorded {
            let after = status(extension, &report, now);
            if let Err(error) = self.write_status(extension, after, &report).await {
                return Next::Retry(format!("error updating status: {error}"));
            }
        }
        requeue(&report, now)
    }

    /// How long a state is not reported yet that is mostly over before anybody reads of it: a pull, and a first revision
    /// that has not said anything.
    fn postponed(&self, extension: &ClusterExtension, report: &Report) -> Option<Duration> {
        let are_silent = || report.revisions.as_ref().is_some_and(Revisions::are_silent);
        let (usual, elapsed) = match &report.outcome {
            Outcome::Pulling { elapsed, .. } => (PULL_USUAL, *elapsed),
            Outcome::Created(_) | Outcome::Settled if are_silent() => {
                // The time after the write, which this reconcile may have done.
                (REVISION_USUAL, self.cx.written_sets.since(extension, self.cx.clock.now())?)
            }
            _ => return None,
        };
        usual.checked_sub(elapsed).filter(|left| !left.is_zero())
    }

    /// Observes, decides and acts.
    async fn run(
        &self,
        (extension, wanted): (&ClusterExtension, &Wanted),
        policy: PolicyState,
        now: Timestamp,
    ) -> Report {
        let (cx, uid) = (&self.cx, extension.uid().unwrap_or_default());
        // What was written in its turn is in the store.
        cx.update_policies.release(&extension.name_any());
        // Put back when nothing was written or all of it, and in no other way out of the reconcile.
        let is_tidy = self.tidy.lock().remove(&uid);
        let notes = policy.note(extension).into_iter().chain(origin(extension)).collect();
        let guard;
        let (report, is_tidy) = match observe(cx, (extension, wanted), notes, is_tidy, now).await {
            Ok(observed) => {
                guard = deletion_guard::check(cx, extension, Some(&observed.account)).await;
                let (mut report, decision) = decide(cx, &observed).await;
                let mut is_whole = true;
                if let Some(decision) = decision {
                    report.outcome = act(cx, &observed, decision).await;
                    is_whole = report.error().is_none();
                }
                report.resumes = report.resumes.into_iter().chain(observed.untidy_until).min();
                (report, is_whole && observed.untidy_until.is_none())
            }
            Err(report) => {
                guard = deletion_guard::check(cx, extension, None).await;
                let is_as_before = is_tidy && report.error().is_none();
                (*report, is_as_before)
            }
        };
        if is_tidy {
            self.tidy.lock().insert(uid.clone());
        }
        let name = extension.name_any();
        // While it is paused, what it will want is not known.
        let is_settled = report.outcome == Outcome::Settled && !is_paused(extension, now);
        cx.installed.set_settled(&uid, is_settled);
        if report.created().is_none() {
            cx.update_policies.release(&name);
        }
        if report.needs_no_pull() {
            cx.bundles.release(&name);
        }
        if report.outcome != Outcome::Recorded {
            wanted.add(report.error().map(|_| Interest::Rbac));
        }
        if let Some(error) = report.error() {
            tracing::debug!(extension = name, %error, "not carried out");
        }
        Report { policy, guard, ..report }
    }

    /// What is wrong with the admission policies that guard the extension.
    fn unguarded(&self, extension: &ClusterExtension) -> Option<String> {
        let guard = &self.cx.guard;
        let of_deletion = || of_revision(extension).and_then(|_| guard.complaint_about_deletion());
        let of_guard = || is_guarded(extension).then(|| guard.complaint_about_guard()).flatten();
        guard.complaint().or_else(of_deletion).or_else(of_guard)
    }

    /// Forgets what is known of an extension that is being deleted, and ends what it waits for.
    fn forget(&self, name: &str, uid: &str) {
        self.cx.installed.forget(name);
        self.cx.installed.set_settled(uid, false);
        self.cx.custom_resources.forget(uid);
        self.cx.platform.forget(name);
        self.cx.bundles.release(name);
        self.cx.update_policies.release(name);
        self.tidy.lock().remove(uid);
        self.objects.forget(uid);
        self.cx.written_sets.forget(uid);
    }

    /// Gives an extension its finalizers; the event of that causes the next reconcile. One that was never reconciled
    /// before has nothing to be taken over, which is recorded in the same write, with the ServiceAccount that it uses.
    async fn begin(&self, extension: &ClusterExtension) -> Next {
        let is_new = extension.status.as_ref().is_none_or(|status| status.conditions.is_empty());
        let uid = extension.uid().filter(|_| is_new && !is_taken_over(&extension.metadata));
        let identity = if uid.is_some() { identity(&self.cx, extension).await } else { None };
        let record = |meta: &mut ObjectMeta| {
            let record = uid.iter().map(|uid| (TAKEN_OVER_ANNOTATION, uid));
            let record = record.chain(identity.iter().map(|record| (IDENTITY_ANNOTATION, record)));
            let record = record.map(|(key, value)| (key.to_owned(), value.clone()));
            meta.annotations.get_or_insert_default().extend(record);
        };
        match self.objects.add_finalizers(extension, &FINALIZERS, record).await {
            Ok(written) => {
                // Secrets come after the finalizers.
                self.tidy.lock().extend(written.and_then(|extension| extension.uid()));
                Next::Await
            }
            Err(error) => Next::Retry(error),
        }
    }

    /// Marks the revisions of an earlier program; the event of that causes the next reconcile.
    async fn take_over(&self, extension: &ClusterExtension, now: Timestamp) -> Next {
        let Err(text) = mark_earlier(&self.cx, extension).await else {
            return Next::Await;
        };
        let outcome = Outcome::Failed(StepError::Takeover { text: text.clone(), terminal: false });
        let report = Report { outcome, unguarded: self.cx.guard.complaint(), ..Report::default() };
        let written = self.write_status(extension, status(extension, &report, now), &report).await;
        Next::Retry(written.err().unwrap_or(text))
    }

    /// Takes back what the status claims about the deletion policy; the event of that causes the next reconcile.
    async fn take_back(&self, extension: &ClusterExtension, policy: &PolicyState, now: Timestamp) -> Next {
        let mut after = extension.status.clone().unwrap_or_default();
        policy.set_condition(&mut after.conditions, extension.metadata.generation, now);
        let written = self.write_status(extension, after, &Report::default()).await;
        written.map_or_else(Next::Retry, |()| Next::Await)
    }

    /// Removes the finalizers. Objects are deleted by garbage collection, through the revisions' owner references; what
    /// a deletion policy keeps has none.
    async fn release(&self, extension: &ClusterExtension, wanted: &Wanted) -> Next {
        let uid = extension.uid().unwrap_or_default();
        self.forget(&extension.name_any(), &uid);
        let finalizers = extension.finalizers();
        let has_own = finalizers.iter().any(|name| FINALIZERS.contains(&name.as_str()));
        if has_own {
            if let Some(held) = deletion_guard::held(&self.cx, extension).await {
                wanted.add([Interest::Rbac]);
                return self.hold(extension, &held).await;
            }
            match (ExtensionPolicy { cx: &self.cx, extension }).release().await {
                Ok(true) => {}
                Ok(false) => return self.await_rest(extension, requeue::AT_REST_RETRY).await,
                Err(held) => {
                    wanted.add([Interest::Rbac]);
                    return self.hold(extension, &held).await;
                }
            }
            // Without the extension nothing would ever remove them.
            let writer = RevisionWriter { cx: &self.cx, extension, account_uid: None };
            if let Err(error) = writer.tidy_secrets(Timestamp::MAX).await {
                return Next::Retry(error);
            }
        }
        match self.objects.remove_finalizers(extension, &FINALIZERS).await {
            Err(error) => Next::Retry(error),
            // What others have to do with it first.
            Ok(None) if !has_own && !finalizers.is_empty() => {
                self.await_rest(extension, requeue::HELD_RETRY).await
            }
            Ok(_) => Next::Await,
        }
    }

    /// Reports why a deletion is held.
    async fn hold(&self, extension: &ClusterExtension, held: &Held) -> Next {
        let message = format!("The deletion is held: {}", held.text);
        let activity = if held.recovers { Activity::Reconciling } else { Activity::Stalled };
        let activity = activity(Reason::Blocked, &message);
        self.report_deletion(extension, (Reason::Blocked, &message, activity), requeue::HELD_RETRY).await
    }

    /// Reports what a deletion waits for, if it does so for longer than deletions usually take.
    async fn await_rest(&self, extension: &ClusterExtension, retry: Duration) -> Next {
        let begun = extension.metadata.deletion_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0);
        let now = self.cx.clock.now();
        let since = Duration::try_from(now.duration_since(begun)).unwrap_or_default();
        if let Some(left) = requeue::DELETION_USUAL.checked_sub(since).filter(|left| !left.is_zero()) {
            return Next::After(left.min(retry));
        }
        let text = deletion::waits(&self.cx, extension).await;
        let activity = Activity::Reconciling(Reason::Reconciling, &text);
        self.report_deletion(extension, (Reason::Reconciling, &text, activity), retry).await
    }

    async fn report_deletion(
        &self,
        extension: &ClusterExtension,
        (reason, message, activity): (Reason, &str, Activity<'_>),
        retry: Duration,
    ) -> Next {
        let mut after = extension.status.clone().unwrap_or_default();
        let (conditions, now) = (&mut after.conditions, self.cx.clock.now());
        let mut writer = ConditionWriter { conditions, generation: extension.metadata.generation, now };
        writer.summarize(false, reason, message, activity);
        let written = self.write_status(extension, after, &Report::default()).await;
        written.map_or_else(Next::Retry, |()| Next::After(retry))
    }

    async fn write_status(
        &self,
        extension: &ClusterExtension,
        after: ClusterExtensionStatus,
        report: &Report,
    ) -> Result<(), String> {
        let before = extension.status.clone().unwrap_or_default();
        let written = self.objects.set_status(extension, after.clone()).await?;
        if written.is_some() || report.crossed.is_some() {
            self.cx.events.extension(extension, &before, &after, report).await;
        }
        Ok(())
    }
}
