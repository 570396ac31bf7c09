//! One plan: observe, decide, carry out, report.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, Preconditions},
    runtime::reflector::Store,
};
use olm_api_classic::{InstallPlan, InstallPlanStatus, OperatorGroup, Subscription};
use olm_classic_core::{
    plan::{
        Action, PLANS_MAX, View, account, begin, collectable, finish, is_approved, is_superseded, object,
        problem, report, texts,
    },
    subscription::state::plan_name,
};
use olm_runtime::{
    Accounts, Clock, Discovery, EventPublisher, Guarded, Next, ObjectWriter, PANIC_REPORT, api_text, bounded,
    if_exists, patch_as,
};
use serde_json::json;
use tokio::sync::watch;

use super::{
    FIELD_MANAGER, Interest, PlanMetrics, Seals,
    content::BundleContent,
    execute::{execute, publish, restore},
    known::{Known, object_key},
};
use crate::sources::now;

/// All plans, as their watch last saw them.
pub(super) type Plans = Store<Guarded<InstallPlan>>;

/// Shortest and longest time to the next look at a CRD that is not served yet.
const SERVED_CHECK: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// Everything a reconcile needs.
pub(super) struct Reconciler {
    pub(super) client: Client,
    pub(super) accounts: Accounts,
    pub(super) discovery: Discovery,
    pub(super) plans: Plans,
    pub(super) known: Known,
    pub(super) content: BundleContent,
    pub(super) writer: ObjectWriter<InstallPlan>,
    pub(super) events: EventPublisher,
    pub(super) seals: Seals,
    pub(super) metrics: PlanMetrics,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) retry_timeout: SignedDuration,
    pub(super) leader: watch::Receiver<bool>,
}

impl olm_runtime::Reconciler for Reconciler {
    type Object = InstallPlan;
    type Interest = Interest;

    const CONDITION: &'static str = texts::READY;

    fn state(plan: &InstallPlan) -> Option<(&str, &str)> {
        let conditions = &plan.status.as_ref()?.conditions;
        let ready = conditions.iter().find(|one| one.type_.as_deref() == Some(Self::CONDITION))?;
        Some((ready.status.as_deref()?, ready.reason.as_deref()?))
    }

    async fn reconcile(&self, plan: &InstallPlan) -> (Next, BTreeSet<Interest>) {
        let mut interests = BTreeSet::from([Interest::Part]);
        if let Some(left) = self.writer.behind(plan) {
            return (Next::After(left), interests);
        }
        if plan.metadata.deletion_timestamp.is_some() || !*self.leader.borrow() {
            return (Next::Await, interests);
        }
        let next = self.plan(plan, &mut interests).await;
        (next, interests)
    }

    async fn report_panic(&self, plan: &InstallPlan) {
        let mut status = plan.status.clone().unwrap_or_default();
        report(&mut status, "Panicked", PANIC_REPORT, now(&self.clock));
        let _ = self.writer.set_status(plan, status).await;
    }
}

impl Reconciler {
    async fn plan(&self, plan: &InstallPlan, interests: &mut BTreeSet<Interest>) -> Next {
        let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
        interests.insert(Interest::Namespace(namespace.clone()));
        interests.insert(Interest::Job(format!("{namespace}/{name}")));
        let siblings = self.siblings(&namespace);
        let siblings: Vec<&InstallPlan> = siblings.iter().filter_map(|one| one.0.as_ref().ok()).collect();
        match self.collect(plan, &namespace, &siblings).await {
            Ok(true) => return Next::Await,
            Ok(false) => {}
            Err(error) => return Next::Retry(error),
        }
        let now = now(&self.clock);
        let is_sealed = match self.seals.is_sealed(plan).await {
            Ok(is_sealed) => is_sealed,
            Err(error) => return Next::Retry(error),
        };
        let groups = Api::<OperatorGroup>::namespaced(self.client.clone(), &namespace);
        let account = match bounded(groups.list(&ListParams::default())).await {
            Ok(groups) => account(&groups.items),
            Err(error) => return Next::Retry(api_text(&error)),
        };
        let is_superseded = is_superseded(plan, &siblings);
        let view = View { plan, account: &account, is_sealed, is_superseded, now };
        let (status, action) = begin(&view);
        match action {
            Action::Ignore => Next::Await,
            Action::Report => self.write(plan, status).await.unwrap_or(Next::Await),
            Action::Retry => {
                let cause = account.err().map(|error| error.to_string()).unwrap_or_default();
                let text = format!("attenuated service account query failed - {cause}");
                self.write(plan, status).await.unwrap_or(Next::Retry(text))
            }
            Action::Restore if is_superseded => Next::Await,
            Action::Restore => self.restore(plan, &namespace, interests).await,
            Action::Execute => self.execute(plan, status, interests, now).await,
        }
    }

    /// Carries out the steps and reports what became of them.
    async fn execute(
        &self,
        plan: &InstallPlan,
        status: InstallPlanStatus,
        interests: &mut BTreeSet<Interest>,
        at: Timestamp,
    ) -> Next {
        match self.is_wanted(plan).await {
            Ok(true) => {}
            // It is collected, or a Subscription will name it.
            Ok(false) => return Next::Await,
            Err(error) => return Next::Retry(error),
        }
        if let Err(error) = self.note_approval(plan).await {
            return Next::Retry(error);
        }
        let outcome = execute(self, plan, &status).await;
        let failure = outcome.failure.clone();
        let pulls = outcome.waits_for.is_some();
        let is_waiting = outcome.steps.iter().any(|step| step.status == texts::WAITING_FOR_API);
        if failure.is_some() {
            interests.extend([Interest::Permissions, Interest::Catalogs]);
            interests.insert(Interest::Operators(plan.namespace().unwrap_or_default()));
        }
        if failure.is_some() || is_waiting {
            interests.insert(Interest::Definitions);
        }
        let began = status.start_time.as_ref().map_or(at, |time| time.0);
        let now = now(&self.clock);
        let (status, action) = finish(status, outcome, self.retry_timeout, now);
        let next = match (action, failure) {
            (Action::Retry, Some(failure)) => {
                // The end of the time for attempts is reported when it comes.
                let left = began + self.retry_timeout;
                let left = left.duration_since(now).unsigned_abs() + Duration::from_millis(100);
                if now >= began + self.retry_timeout {
                    Next::Retry(failure.text)
                } else {
                    Next::RetryWithin(failure.text, left)
                }
            }
            (Action::Retry, None) if pulls => Next::After(SERVED_CHECK[1]),
            (Action::Retry, None) => {
                let passed = now.duration_since(began).unsigned_abs() / 4;
                Next::After(passed.clamp(SERVED_CHECK[0], SERVED_CHECK[1]))
            }
            _ => Next::Await,
        };
        self.write(plan, status).await.unwrap_or(next)
    }

    /// Whether one of the Subscriptions that the plan was made for exists and names it. They are read from the API server:
    /// what a person removes together with a Subscription must not be made again because a watch lags behind. A plan that
    /// none names yet is the result of a resolution that was not recorded: what it would make would be an input of the next.
    async fn is_wanted(&self, plan: &InstallPlan) -> Result<bool, String> {
        let (owners, name) = (subscriptions(plan), plan.name_any());
        if owners.is_empty() {
            return Ok(true);
        }
        let api = Api::<Subscription>::namespaced(self.client.clone(), &plan.namespace().unwrap_or_default());
        let found = bounded(api.list(&ListParams::default())).await;
        let found = found.map_err(|error| format!("listing Subscriptions: {}", api_text(&error)))?;
        let is_owner = |one: &Subscription| one.uid().is_some_and(|uid| owners.contains(&uid.as_str()));
        Ok(found.items.iter().any(|one| is_owner(one) && plan_name(one) == Some(name.as_str())))
    }

    /// Sets `spec.approved` on a plan that was approved by its digest, as other programs read that.
    async fn note_approval(&self, plan: &InstallPlan) -> Result<(), String> {
        if plan.spec.approved || !is_approved(plan) {
            return Ok(());
        }
        let api = Api::<InstallPlan>::namespaced(self.client.clone(), &plan.namespace().unwrap_or_default());
        let patch = json!({
            "metadata": {"resourceVersion": plan.metadata.resource_version},
            "spec": {"approved": true},
        });
        let (name, params, patch) = (plan.name_any(), patch_as(FIELD_MANAGER), Patch::Merge(patch));
        let written = if_exists(api.patch(&name, &params, &patch)).await.map_err(|error| api_text(&error))?;
        if let Some(written) = &written {
            self.writer.wrote(written);
            return Err("the plan is read again after its approval".to_owned());
        }
        Ok(())
    }

    /// Makes permissions again that were lost.
    async fn restore(&self, plan: &InstallPlan, namespace: &str, interests: &mut BTreeSet<Interest>) -> Next {
        let steps = plan.status.iter().flat_map(|status| &status.plan).enumerate();
        let mut lost = Vec::new();
        for (index, step) in steps.filter(|(_, step)| object::is_permission(step)) {
            let resource = &step.resource;
            let within = if resource.kind.starts_with("Cluster") { "" } else { namespace };
            interests.insert(Interest::Object(object_key(&resource.kind, within, &resource.name)));
            if !self.known.has(&resource.kind, within, &resource.name) {
                lost.push(index);
            }
        }
        if lost.is_empty() {
            return Next::Await;
        }
        // They are made once their ClusterServiceVersion exists.
        interests.insert(Interest::Operators(namespace.to_owned()));
        match restore(self, plan, &lost).await {
            Ok(()) => Next::Await,
            Err(failure) => {
                interests.insert(Interest::Permissions);
                Next::Retry(failure.text)
            }
        }
    }

    /// Writes the status, and publishes a problem that is new; what is to happen instead of the next step if that fails.
    async fn write(&self, plan: &InstallPlan, status: InstallPlanStatus) -> Option<Next> {
        let before = plan.status.as_ref().and_then(problem);
        if let Some((reason, text)) = problem(&status).filter(|found| Some(*found) != before) {
            publish(&self.events, plan, None, (reason, text)).await;
        }
        let error = self.writer.set_status(plan, status.clone()).await.err()?;
        // Steps that are done would be reported as found if they were carried out once more.
        let Some(current) = self.relabelled(plan).await else { return Some(Next::Retry(error)) };
        self.writer.set_status(&current, status).await.err().map(Next::Retry)
    }

    /// The plan as it is now, if nothing but its metadata has changed since it was read.
    async fn relabelled(&self, plan: &InstallPlan) -> Option<InstallPlan> {
        let namespace = plan.namespace().unwrap_or_default();
        let api = Api::<InstallPlan>::namespaced(self.client.clone(), &namespace);
        let current = bounded(api.get_opt(&plan.name_any())).await.ok()??;
        let is_same =
            current.uid() == plan.uid() && current.spec == plan.spec && current.status == plan.status;
        (is_same && current.resource_version() != plan.resource_version()).then_some(current)
    }

    fn siblings(&self, namespace: &str) -> Vec<Arc<Guarded<InstallPlan>>> {
        let all = self.plans.state();
        all.into_iter().filter(|one| one.namespace().as_deref() == Some(namespace)).collect()
    }

    /// Deletes what a namespace does not need any more; whether this plan is among it.
    async fn collect(
        &self,
        plan: &InstallPlan,
        namespace: &str,
        siblings: &[&InstallPlan],
    ) -> Result<bool, String> {
        let owners = subscriptions(plan);
        let is_orphan = !owners.is_empty() && !self.known.has_subscription(namespace, &owners);
        if !is_orphan && siblings.len() <= PLANS_MAX {
            return Ok(false);
        }
        let api = Api::<Subscription>::namespaced(self.client.clone(), namespace);
        let subscriptions =
            bounded(api.list(&ListParams::default())).await.map_err(|error| api_text(&error))?;
        let subscriptions: Vec<&Subscription> = subscriptions.items.iter().collect();
        let api = Api::<InstallPlan>::namespaced(self.client.clone(), namespace);
        let mut is_collected = false;
        for (name, uid) in collectable(siblings, &subscriptions) {
            is_collected |= plan.uid().as_deref() == Some(&*uid);
            let preconditions = Preconditions { uid: Some(uid), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match if_exists(api.delete(&name, &params)).await {
                Ok(_) => {}
                // Another plan has the name now.
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                Err(error) => return Err(api_text(&error)),
            }
        }
        Ok(is_collected)
    }
}

/// The UIDs of the Subscriptions that a plan was made for.
fn subscriptions(plan: &InstallPlan) -> Vec<&str> {
    let owners = plan.owner_references().iter();
    owners.filter(|owner| owner.kind == "Subscription").map(|owner| owner.uid.as_str()).collect()
}
