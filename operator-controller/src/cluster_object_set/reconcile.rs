//! One reconcile of a ClusterObjectSet: observe, decide, act, report.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use olm_api::{
    ConditionType,
    names::TEARDOWN_FINALIZER,
    v1::{ClusterObjectSet, ClusterObjectSetStatus},
};
use olm_runtime::{Next, OwnerChanged, PANIC_REPORT, Reconciler};

use super::{
    Context,
    act::act,
    decide::decide,
    observe::observe,
    report::{
        Outcome, Report, Unhealthy, deadline,
        status::{status, torn_down},
        unhealthy_since,
    },
    requeue::{requeue, retry},
};
use crate::interest::{Interest, Wanted};

/// How soon one report of what a roll-out waits for follows another.
const DETAILS_SPACING: Duration = Duration::from_secs(2);

/// The controller of ClusterObjectSets.
pub(crate) struct ObjectSets(pub(crate) Context);

impl Reconciler for ObjectSets {
    type Object = ClusterObjectSet;
    type Interest = Interest;

    const CONDITION: &'static str = ConditionType::Progressing.as_str();

    fn state(set: &ClusterObjectSet) -> Option<(&str, &str)> {
        set.status.as_ref()?.conditions.state(ConditionType::Progressing)
    }

    /// That of its extension: the revision of what a person has just edited doesn't wait for newer revisions of others.
    fn edited(&self, set: &ClusterObjectSet) -> u64 {
        match extensions(set).next() {
            Some(owner) => self.0.edits.last(&owner.kind, &owner.name),
            None => self.0.edits.note(set),
        }
    }

    fn gone(&self, name: &str) {
        self.0.edits.forget("ClusterObjectSet", name);
    }

    async fn reconcile(&self, set: &ClusterObjectSet) -> (Next, BTreeSet<Interest>) {
        let wanted = Wanted::default();
        wanted.add(owners(set).into_iter().map(Interest::Owned));
        let next = self.next(set, &wanted).await;
        (next, wanted.into_set())
    }

    async fn report_panic(&self, set: &ClusterObjectSet) {
        let report = Outcome::Retrying(PANIC_REPORT.to_owned()).into();
        let after = status(set, &report, self.0.clock.now());
        if let Err(error) = self.write_status(set, after, &report).await {
            tracing::warn!(revision = set.name_any(), error, "reporting a panic");
        }
    }
}

impl ObjectSets {
    async fn next(&self, set: &ClusterObjectSet, wanted: &Wanted) -> Next {
        let now = self.0.clock.now();
        if set.metadata.deletion_timestamp.is_some() || torn_down(set) {
            return self.release(set).await;
        }
        if let Some(left) = self.0.objects.behind(set) {
            return Next::After(left);
        }
        let report = self.run(set, wanted).await;
        if report.outcome.error().is_some() || report.policy_error().is_some() {
            wanted.add([Interest::Rbac, Interest::Settings, Interest::Policies]);
        }
        let after = status(set, &report, now);
        if let Some(left) = self.postponed(set, &after, &report) {
            return Next::After(left);
        }
        match self.write_status(set, after, &report).await {
            Ok(()) => requeue(&report, deadline(set, now), now),
            Err(error) => retry(format!("error updating status: {error}"), deadline(set, now), now),
        }
    }

    /// Observes, decides and acts.
    async fn run(&self, set: &ClusterObjectSet, wanted: &Wanted) -> Report {
        let report = match observe(&self.0, set, wanted).await {
            Ok(observed) => act(&self.0, &observed, decide(set)).await,
            Err(outcome) => outcome.into(),
        };
        Report { unseen: self.unseen(set), unhealthy_since: unhealthy_since(set), ..report }
    }

    /// How long the status is not written yet: while a revision rolls out, what it waits for changes with every object.
    fn postponed(
        &self,
        set: &ClusterObjectSet,
        after: &ClusterObjectSetStatus,
        report: &Report,
    ) -> Option<Duration> {
        let (before, after) = (&set.status.as_ref()?.conditions, &after.conditions);
        let is_detail = matches!(report.outcome, Outcome::Incomplete { .. })
            && [ConditionType::Progressing, ConditionType::Ready]
                .iter()
                .all(|type_| before.state(*type_).is_some() && before.state(*type_) == after.state(*type_));
        self.0.objects.left(set, DETAILS_SPACING).filter(|_| is_detail && before != after)
    }

    /// Sentences about kinds whose watch keeps failing.
    fn unseen(&self, set: &ClusterObjectSet) -> Vec<String> {
        let sentence = |(kind, text): (String, String)| {
            format!(
                "Changes of {kind} objects are not noticed at once, because watching the kind fails ({text}). Until that works again, they are checked every 30 seconds."
            )
        };
        self.0.watches.failing(&set.uid().unwrap_or_default()).into_iter().map(sentence).collect()
    }

    /// Ends with a revision that is being deleted, or of which nothing is left. Its ServiceAccount and its content may be
    /// gone by now: they are not asked for.
    async fn release(&self, set: &ClusterObjectSet) -> Next {
        self.0.forget(set);
        let removed = self.0.objects.remove_finalizers(set, &[TEARDOWN_FINALIZER]).await;
        removed.map_or_else(Next::Retry, |_| Next::Await)
    }

    /// Publishes what Pods of unhealthy workloads report, once for each kind of failure.
    async fn report_findings(&self, set: &ClusterObjectSet, unhealthy: &[Unhealthy]) {
        let found = unhealthy.iter().filter_map(|one| Some((one.object.clone(), one.failure()?))).collect();
        let news = self.0.checks.news(&set.uid().unwrap_or_default(), found);
        for one in unhealthy {
            if let Some(kind) = one.failure().filter(|kind| news.contains(&(one.object.clone(), *kind))) {
                self.0.events.unhealthy(set, kind.as_str(), &one.to_string()).await;
            }
        }
    }

    async fn write_status(
        &self,
        set: &ClusterObjectSet,
        after: ClusterObjectSetStatus,
        report: &Report,
    ) -> Result<(), String> {
        let before = set.status.clone().unwrap_or_default();
        if self.0.objects.set_status(set, after.clone()).await?.is_some() {
            self.0.events.set(set, (&before, &after), report.outcome.obstacle()).await;
        }
        self.report_findings(set, report.outcome.unhealthy()).await;
        Ok(())
    }
}

/// The owners of objects whose changes concern the revision: itself, and its extension, to whom the Secrets of webhooks
/// belong.
fn owners(set: &ClusterObjectSet) -> Vec<OwnerChanged> {
    let named = |kind: &str, name: String| OwnerChanged::Named { kind: kind.to_owned(), name };
    let kept = |uid: String| OwnerChanged::Uid { uid };
    let own = [named("ClusterObjectSet", set.name_any()), kept(set.uid().unwrap_or_default())];
    let extensions = extensions(set).map(|r| named(&r.kind, r.name.clone()));
    let all = set.owner_references().iter().map(|r| kept(r.uid.clone()));
    own.into_iter().chain(extensions).chain(all).collect()
}

/// The references of a revision to its extension.
fn extensions(set: &ClusterObjectSet) -> impl Iterator<Item = &OwnerReference> {
    set.owner_references().iter().filter(|owner| owner.kind == "ClusterExtension")
}
