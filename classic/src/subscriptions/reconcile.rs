//! One namespace: observe, resolve, unpack, plan, report.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use olm_api_classic::{CatalogSource, ClusterServiceVersion, InstallPlan, OperatorGroup, Subscription};
use olm_bundles::Deadlines;
use olm_classic_core::{
    resolve::{Catalog, Part, Request, Scope, Solution, fails_forward, global_namespace, resolve},
    source::status::failure,
    subscription::{
        decide::{self, Decision, approval, awaits_plan, decide, members},
        deprecation, health,
        install_plan::{Draft, generation},
        orphan::{self, Adoption},
        outcome::{self, Outcome},
        state::{self, Named, plan_name},
        texts, unpack,
    },
};
use olm_runtime::{
    Clock, ControllerMetrics, EventPublisher, Next, ObjectWriter, PANIC_REPORT, api_text, bounded,
};
use tokio::sync::watch;

use super::{
    Interest, SubscriptionMetrics, act,
    facts::Facts,
    snapshots::{Snapshots, State},
    unpack::{Catalogs, Unpacked, Unpacker},
};
use crate::{Contents, SourceKey, install_plans::Seals, sources::now};

/// Everything a reconcile needs.
pub(super) struct Reconciler {
    pub(super) client: Client,
    pub(super) facts: Facts,
    pub(super) contents: Contents,
    pub(super) snapshots: Snapshots,
    pub(super) unpacker: Unpacker,
    pub(super) subscriptions: ObjectWriter<Subscription>,
    pub(super) plans: ObjectWriter<InstallPlan>,
    pub(super) events: EventPublisher,
    pub(super) metrics: ControllerMetrics,
    pub(super) subscription_metrics: SubscriptionMetrics,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) global_namespace: String,
    pub(super) unpack_timeout: Duration,
    pub(super) scope: Scope,
    pub(super) seals: Seals,
    pub(super) leader: watch::Receiver<bool>,
}

/// A reconcile under way.
struct Reconcile {
    namespace: String,
    now: Timestamp,
    /// The Subscriptions as they were found.
    before: Vec<Subscription>,
    /// The same as they will be.
    after: Vec<Subscription>,
    outcomes: Vec<Outcome>,
    /// What may be wrong with a ClusterServiceVersion without a Subscription, by the name of the Subscription.
    orphans: BTreeMap<String, String>,
    groups: Vec<OperatorGroup>,
    csvs: Vec<ClusterServiceVersion>,
    /// Plans of the namespace, and those that Subscriptions name and the watch has not seen yet.
    plans: Vec<InstallPlan>,
    catalogs: Catalogs,
    /// Catalogs without content, and why; those whose content is on its way.
    unread: BTreeMap<SourceKey, String>,
    coming: BTreeSet<(String, String)>,
    /// Jobs of bundles that are needed.
    jobs: BTreeSet<String>,
    again: Option<Duration>,
    failed: Option<String>,
}

impl olm_runtime::Reconciler for Reconciler {
    type Object = Namespace;
    type Interest = Interest;

    /// Subscriptions are counted, not namespaces.
    const CONDITION: &'static str = "";

    fn state(_: &Namespace) -> Option<(&str, &str)> {
        None
    }

    async fn reconcile(&self, namespace: &Namespace) -> (Next, BTreeSet<Interest>) {
        let name = namespace.name_any();
        let mut interests = BTreeSet::from([Interest::Part, Interest::Objects(name.clone())]);
        let subscriptions = self.facts.subscriptions.of(&name);
        let is_going = namespace.metadata.deletion_timestamp.is_some();
        if !*self.leader.borrow() || is_going || subscriptions.is_empty() {
            self.unpacker.release(&name);
            return (Next::Await, interests);
        }
        interests.extend([
            Interest::Job(name.clone()),
            Interest::Catalogs(name.clone()),
            Interest::Catalogs(self.global_namespace.clone()),
        ]);
        let behind = subscriptions.iter().filter_map(|one| self.subscriptions.behind(one)).max();
        if let Some(left) = behind {
            return (Next::After(left), interests);
        }
        (Box::pin(self.reconcile_all(name, subscriptions)).await, interests)
    }

    async fn report_panic(&self, namespace: &Namespace) {
        for subscription in self.facts.subscriptions.of(&namespace.name_any()) {
            let mut after = subscription.clone();
            let outcome = Outcome::Held("Panicked", PANIC_REPORT.to_owned());
            outcome::conclude(&mut after, &outcome, (None, None), now(&self.clock));
            if *self.leader.borrow()
                && let Err(error) =
                    self.subscriptions.set_status(&subscription, after.status.unwrap_or_default()).await
            {
                tracing::warn!(namespace = namespace.name_any(), error, "reporting a panic");
            }
        }
    }
}

impl Reconciler {
    async fn reconcile_all(&self, namespace: String, before: Vec<Subscription>) -> Next {
        let mut reconcile = match self.observe(namespace, before).await {
            Ok(reconcile) => reconcile,
            // What may be missing must not be taken for what is gone.
            Err(error) => return Next::Retry(error),
        };
        match global_namespace(&reconcile.groups, &self.global_namespace) {
            Ok(global) => {
                let global = global.map(str::to_owned);
                self.read_catalogs(&mut reconcile, global.as_deref());
                reconcile.adopt();
                if !reconcile.after.iter().all(awaits_plan) {
                    let began = Instant::now();
                    match resolved(&reconcile, global, self.scope).await {
                        Ok(parts) => {
                            let has_succeeded = parts.iter().all(|part| part.outcome.is_ok());
                            self.subscription_metrics.resolved(began.elapsed(), has_succeeded);
                            self.carry_out(&mut reconcile, &parts).await;
                        }
                        Err(error) => reconcile.failed = Some(error),
                    }
                }
            }
            Err(_) => reconcile.report_groups(),
        }
        let jobs = std::mem::take(&mut reconcile.jobs);
        self.unpacker.want(&reconcile.namespace, jobs);
        self.write(&mut reconcile).await;
        match (reconcile.failed, reconcile.again) {
            (Some(error), _) => Next::Retry(error),
            (None, Some(wait)) => Next::After(wait),
            (None, None) => Next::Await,
        }
    }

    /// Everything that is known, with the Subscriptions brought up to it.
    async fn observe(&self, namespace: String, before: Vec<Subscription>) -> Result<Reconcile, String> {
        let mut reconcile = Reconcile {
            now: now(&self.clock),
            after: before.clone(),
            outcomes: vec![Outcome::Await(None); before.len()],
            orphans: BTreeMap::new(),
            groups: self.facts.groups.of(&namespace),
            csvs: self.facts.csvs.of(&namespace),
            plans: self.facts.plans.of(&namespace),
            catalogs: BTreeMap::new(),
            unread: BTreeMap::new(),
            coming: BTreeSet::new(),
            jobs: BTreeSet::new(),
            again: None,
            failed: None,
            before,
            namespace,
        };
        let fails_forward = fails_forward(&reconcile.groups);
        let sources = self.visible(&reconcile);
        for at in 0..reconcile.after.len() {
            let plan = match plan_name(&reconcile.after[at]).map(str::to_owned) {
                Some(name) => self.plan(&mut reconcile, &name).await?,
                None => None,
            };
            let subscription = &mut reconcile.after[at];
            let current = subscription.status.as_ref().and_then(|status| status.current_csv.clone());
            let current = current.or_else(|| subscription.spec.starting_csv.clone());
            let has_csv = reconcile.csvs.iter().any(|csv| Some(csv.name_any()) == current);
            let named = Named { has_csv, plan: plan.as_ref(), fails_forward };
            state::follow(subscription, &named, reconcile.now);
            health::follow(subscription, &sources.iter().collect::<Vec<_>>(), reconcile.now);
        }
        for source in sources {
            reconcile.catalogs.insert(SourceKey::of(&source), (source, None));
        }
        Ok(reconcile)
    }

    /// The CatalogSources whose health is shown: those of the namespace, and the global ones.
    fn visible(&self, reconcile: &Reconcile) -> Vec<CatalogSource> {
        let mut sources = self.facts.sources.of(&reconcile.namespace);
        if self.global_namespace != reconcile.namespace {
            sources.extend(self.facts.sources.of(&self.global_namespace));
        }
        sources
    }

    /// A plan that a Subscription names. What the watch does not have may be too new for it.
    async fn plan(&self, reconcile: &mut Reconcile, name: &str) -> Result<Option<InstallPlan>, String> {
        if let Some(plan) = reconcile.plans.iter().find(|plan| plan.name_any() == name) {
            return Ok(Some(plan.clone()));
        }
        let api = Api::<InstallPlan>::namespaced(self.client.clone(), &reconcile.namespace);
        let found = bounded(api.get_opt(name)).await;
        let found = found.map_err(|error| format!("reading InstallPlan {name}: {}", api_text(&error)))?;
        reconcile.plans.extend(found.clone());
        Ok(found)
    }

    /// The content of the catalogs that the namespace resolves with, and what it says of what is installed.
    fn read_catalogs(&self, reconcile: &mut Reconcile, global: Option<&str>) {
        let Reconcile { catalogs, unread, coming, namespace, .. } = reconcile;
        for (key, (source, read)) in catalogs.iter_mut() {
            if key.namespace != *namespace && Some(key.namespace.as_str()) != global {
                continue;
            }
            let state = self.contents.get(key).map(|content| self.snapshots.get(key, &content));
            let cause = match (state, failure(source)) {
                (Some(State::Ready(ready)), _) => {
                    *read = Some(ready);
                    continue;
                }
                (Some(State::Failed(cause)), _) | (None, Some(cause)) => cause,
                (Some(State::Reading), _) | (None, None) => {
                    coming.insert((key.namespace.clone(), key.name.clone()));
                    "its content is being read".to_owned()
                }
            };
            unread.insert(key.clone(), cause);
        }
        for subscription in &mut reconcile.after {
            if let Some((_, Some(read))) = reconcile.catalogs.get(&key_of(subscription)) {
                deprecation::follow(subscription, &read.snapshot, reconcile.now);
            }
        }
    }

    /// Does what follows from the parts of a resolution.
    async fn carry_out(&self, reconcile: &mut Reconcile, parts: &[Part]) {
        // What is installed without a Subscription and requires something goes along with the next plan, as upstream.
        let alone = parts.iter().filter(|part| part.subscriptions.is_empty());
        let mut alone: Vec<Solution> = alone.filter_map(|part| part.outcome.clone().ok()).collect();
        let all = reconcile.after.clone();
        for part in parts.iter().filter(|part| !part.subscriptions.is_empty()) {
            let outcome = match decide::waits_for_catalogs(part, &reconcile.coming) {
                Some(text) => Outcome::Await(Some(text)),
                None => match decide(part, &all, &reconcile.csvs) {
                    Decision::Await => continue,
                    Decision::Settled => Outcome::Settled,
                    Decision::Failed { reason, message, explanation } => {
                        let explanation = reconcile.explained(part, explanation);
                        Outcome::Unresolved { reason, message, explanation }
                    }
                    Decision::Held(reason, text) => Outcome::Held(reason, text),
                    Decision::Install(mut solution) => {
                        for other in alone.drain(..) {
                            solution.bundles.extend(other.bundles);
                            solution.generated.extend(other.generated);
                        }
                        self.install(reconcile, part, &solution).await
                    }
                },
            };
            let of_part = all.iter().map(|one| part.subscriptions.contains(&one.name_any()));
            for (known, _) in reconcile.outcomes.iter_mut().zip(of_part).filter(|(_, is_of_part)| *is_of_part)
            {
                known.clone_from(&outcome);
            }
        }
    }

    /// Makes the plan of a solution when its bundles are here.
    async fn install(&self, reconcile: &mut Reconcile, part: &Part, solution: &Solution) -> Outcome {
        reconcile.jobs.extend(Unpacker::jobs(&reconcile.namespace, solution));
        let (attempt, retry) = unpack::times(&reconcile.groups, self.unpack_timeout);
        let of_namespace = (reconcile.namespace.as_str(), Deadlines { attempt, retry });
        let unpacked = self.unpacker.unpack(of_namespace, solution, &reconcile.catalogs).await;
        let (steps, lookups) = match unpacked {
            Unpacked::Done(steps, lookups) => (steps, lookups),
            Unpacked::Not(outcome, again) => {
                reconcile.again = reconcile.again.into_iter().chain(again).min();
                return outcome;
            }
        };
        let all = reconcile.after.clone();
        let members = members(part, &all);
        let owners: Vec<&Subscription> = match self.scope {
            Scope::Namespace => all.iter().collect(),
            Scope::Related => members,
        };
        let draft = Draft {
            namespace: &reconcile.namespace,
            approval: approval(owners.iter().copied()),
            subscriptions: &owners,
            generation: generation(&all, &reconcile.plans.iter().collect::<Vec<_>>()) + 1,
            steps: &steps,
            lookups: &lookups,
        };
        let writer = (&self.plans, &self.seals);
        let plan = match act::ensure_plan(&self.client, writer, &draft, &reconcile.plans, reconcile.now).await
        {
            Ok(plan) => plan,
            Err(cause) => {
                let message = texts::plan_not_made(&cause);
                reconcile.failed = Some(message.clone());
                let (reason, explanation) = (texts::PLAN_NOT_MADE, message.clone());
                return Outcome::NotUnpacked { reason, message, explanation, is_retried: true };
            }
        };
        for (name, csv) in &solution.updates {
            if let Some(subscription) = reconcile.after.iter_mut().find(|one| one.name_any() == *name) {
                outcome::planned(subscription, csv, &plan);
                let named = Named { plan: Some(&plan), ..Named::default() };
                state::follow(subscription, &named, reconcile.now);
            }
        }
        reconcile.plans.retain(|known| known.name_any() != plan.name_any());
        reconcile.plans.push(plan);
        Outcome::Settled
    }

    /// Reports, and writes what is different from before.
    async fn write(&self, reconcile: &mut Reconcile) {
        let Reconcile { after, before, outcomes, csvs, plans, now, failed, .. } = reconcile;
        for ((subscription, before), outcome) in after.iter_mut().zip(before.iter()).zip(outcomes.iter()) {
            outcome::report(subscription, outcome, *now);
            let status = subscription.status.as_ref();
            let current = status.and_then(|status| status.current_csv.as_ref());
            let csv = csvs.iter().find(|csv| Some(&csv.name_any()) == current);
            let recorded = status.and_then(|status| status.install_plan_ref.as_ref()?.name.as_ref());
            let plan = plans.iter().find(|plan| Some(&plan.name_any()) == recorded);
            outcome::conclude(subscription, outcome, (csv, plan), *now);
            let known = before.status.clone().unwrap_or_default();
            outcome::dated(&known, subscription, *now);
            act::publish(&self.events, before, subscription).await;
            let wanted = subscription.status.clone().unwrap_or_default();
            let ready = wanted.conditions.iter().find(|one| one.type_ == texts::READY);
            let state = ready.map(|one| (one.status.as_str(), one.reason.as_deref().unwrap_or_default()));
            self.metrics.objects().observe(subscription, texts::READY, state);
            if let Err(error) = self.subscriptions.set_status(before, wanted).await {
                *failed = Some(format!("writing the status of Subscription {}: {error}", before.name_any()));
            }
        }
    }
}

impl Reconcile {
    /// Has Subscriptions take over what is installed without one.
    fn adopt(&mut self) {
        for at in 0..self.after.len() {
            let key = key_of(&self.after[at]);
            let Some((_, Some(read))) = self.catalogs.get(&key) else { continue };
            match orphan::adoption(&self.after[at], &self.after, &self.csvs, &read.snapshot) {
                Adoption::None => {}
                Adoption::Adopt(csv) => orphan::adopt(&mut self.after[at], &csv),
                Adoption::Refused(text) => drop(self.orphans.insert(self.after[at].name_any(), text)),
            }
        }
    }

    /// An explanation with what is known of ClusterServiceVersions that were not taken over.
    fn explained(&self, part: &Part, explanation: String) -> String {
        let refused = part.subscriptions.iter().filter_map(|name| self.orphans.get(name));
        let texts: Vec<String> = refused.cloned().chain([explanation]).collect();
        texts.join(". ")
    }

    /// Without exactly one OperatorGroup nothing is resolved. Upstream does not say so.
    fn report_groups(&mut self) {
        let count = self.groups.len();
        let (namespace, message) = (&self.namespace, texts::groups_found(count));
        let explanation = if count == 0 {
            format!("namespace {namespace} has no OperatorGroup: create one")
        } else {
            let names: Vec<_> = self.groups.iter().map(ResourceExt::name_any).collect();
            format!(
                "namespace {namespace} has {count} OperatorGroups, {}: delete all but one",
                names.join(", ")
            )
        };
        let outcome = Outcome::Unresolved { reason: texts::RESOLUTION_PREVENTED, message, explanation };
        self.outcomes.fill(outcome);
    }
}

/// Resolves outside of the workers.
async fn resolved(reconcile: &Reconcile, global: Option<String>, scope: Scope) -> Result<Vec<Part>, String> {
    let (namespace, subscriptions, csvs) =
        (reconcile.namespace.clone(), reconcile.after.clone(), reconcile.csvs.clone());
    let fails_forward = fails_forward(&reconcile.groups);
    let catalogs: Vec<_> = reconcile
        .catalogs
        .iter()
        .map(|(key, (source, read))| (key.clone(), source.spec.priority, read.clone()))
        .collect();
    let unread = reconcile.unread.clone();
    let work = tokio::task::spawn_blocking(move || {
        let visible = catalogs.iter().filter_map(|(key, priority, read)| {
            let content = match (read, unread.get(key)) {
                (Some(read), _) => Ok(&read.snapshot),
                (None, Some(cause)) => Err(cause.as_str()),
                (None, None) => return None,
            };
            let priority = i32::try_from(priority.unwrap_or_default()).unwrap_or_default();
            Some(Catalog { namespace: &key.namespace, name: &key.name, priority, content })
        });
        let visible: Vec<_> = visible.collect();
        let request = Request {
            namespace: &namespace,
            global: global.as_deref(),
            subscriptions: &subscriptions,
            csvs: &csvs,
            scope,
            fails_forward,
        };
        resolve(&request, &visible)
    });
    work.await.map_err(|error| format!("resolving: {error}"))
}

fn key_of(subscription: &Subscription) -> SourceKey {
    SourceKey {
        namespace: subscription.spec.source_namespace.clone(),
        name: subscription.spec.source.clone(),
    }
}
