//! The controller of ClusterServiceVersions: looks up the facts that the next step needs, makes the step, carries out its
//! effects and writes the status.

mod api_services;
mod cleanup;
mod condition;
mod copies;
mod effects;
mod ensured;
mod facts;
mod install;
mod metrics;
mod requirements;
mod serving;
mod webhooks;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{Client, Resource, ResourceExt, runtime::reflector::ObjectRef};
use olm_api_classic::{
    ClusterServiceVersion, OperatorCondition,
    names::{API_LABEL_PREFIX, CSV_FINALIZER},
};
use olm_classic_core::{
    csv::{Again, Effect, Fact, Step, View, chain, step},
    group::{membership::Group, provided},
};
use olm_runtime::{Accounts, Clock, EventPublisher, Next, ObjectWriter};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};

use crate::{
    operator_groups::now,
    operators::{Interest, Stores},
};
pub(crate) use ensured::Ensured;
use install::Authorities;
pub(crate) use metrics::CsvMetrics;

/// Most facts that a step may ask for. There are twelve.
const FACTS_MAX: usize = 16;

/// Everything a reconcile needs.
#[derive(Clone)]
pub(crate) struct Reconciler {
    pub(crate) client: Client,
    pub(crate) accounts: Accounts,
    pub(crate) stores: Stores,
    pub(crate) objects: Arc<ObjectWriter<ClusterServiceVersion>>,
    pub(crate) conditions: Arc<ObjectWriter<OperatorCondition>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: EventPublisher,
    pub(crate) metrics: CsvMetrics,
    /// The permissions with which an installation failed, by UID: others revive it.
    pub(crate) failed: Arc<Mutex<BTreeMap<String, String>>>,
    pub(crate) ensured: Ensured,
    /// The operators, by UID, of which was published that they are not copied.
    pub(crate) announced: Arc<Mutex<BTreeSet<String>>>,
    pub(crate) leader: watch::Receiver<bool>,
}

/// One reconcile of an operator.
struct Observed<'a> {
    csv: &'a ClusterServiceVersion,
    namespace: String,
    name: String,
    /// The group, once it is known.
    group: Option<Group>,
    interests: BTreeSet<Interest>,
    /// The client that writes what the operator is made of.
    writer: Client,
    /// What the certificates were when they were first read: a decision must not see them go between two looks.
    authorities: OnceCell<Option<Authorities>>,
}

impl olm_runtime::Reconciler for Reconciler {
    type Object = ClusterServiceVersion;
    type Interest = Interest;

    const CONDITION: &'static str = "Phase";

    fn state(csv: &ClusterServiceVersion) -> Option<(&str, &str)> {
        let status = csv.status.as_ref()?;
        Some((status.phase.as_deref()?, status.reason.as_deref()?))
    }

    async fn reconcile(&self, csv: &ClusterServiceVersion) -> (Next, BTreeSet<Interest>) {
        if let Some(left) = self.objects.behind(csv) {
            return (Next::After(left), BTreeSet::from([Interest::Part]));
        }
        if !*self.leader.borrow() || !self.is_known(csv) {
            return (Next::Await, BTreeSet::from([Interest::Part]));
        }
        let namespace = csv.namespace().unwrap_or_default();
        let interests = [
            Interest::Part,
            Interest::Csvs(namespace.clone()),
            Interest::Groups(namespace.clone()),
            Interest::Belongings(format!("{namespace}/{}", csv.name_any())),
        ];
        let mut observed = Observed {
            csv,
            namespace,
            name: csv.name_any(),
            group: None,
            interests: interests.into(),
            writer: self.client.clone(),
            authorities: OnceCell::new(),
        };
        let next = match Box::pin(self.advance(&mut observed)).await {
            Ok(next) => next,
            Err(error) => Next::Retry(error),
        };
        (next, observed.interests)
    }

    async fn report_panic(&self, csv: &ClusterServiceVersion) {
        let about = csv.object_ref(&());
        self.events.publish(&about, true, "InternalError", olm_runtime::PANIC_REPORT).await;
    }
}

impl Reconciler {
    fn is_known(&self, csv: &ClusterServiceVersion) -> bool {
        self.stores
            .csvs
            .get(&ObjectRef::new(&csv.name_any()).within(&csv.namespace().unwrap_or_default()))
            .is_some()
    }

    async fn advance(&self, observed: &mut Observed<'_>) -> Result<Next, String> {
        if chain::is_copy(observed.csv) {
            return self.keep_copy(observed).await;
        }
        if observed.csv.metadata.deletion_timestamp.is_some() {
            return self.finish(observed).await;
        }
        if self.prepare(observed.csv).await? {
            // The object is reconciled again as it is now.
            return Ok(Next::Await);
        }
        self.ensure_condition(observed).await?;
        let (mut view, time) = (View::default(), now(&self.clock));
        for _ in 0..FACTS_MAX {
            let step = step(observed.csv, &view, time);
            let asked: Vec<Fact> = step.effects.iter().filter_map(asked).collect();
            if asked.is_empty() {
                return self.carry_out(observed, step).await;
            }
            for fact in asked {
                self.look_up(observed, &mut view, fact, time).await?;
            }
        }
        Err("a step asked for more facts than there are".to_owned())
    }

    /// Adds the finalizer and the labels by which an operator is found by its APIs. Whether that was a change.
    async fn prepare(&self, csv: &ClusterServiceVersion) -> Result<bool, String> {
        let apis = provided::apis(csv).unwrap_or_default();
        let labels: BTreeMap<String, &str> = apis
            .required
            .iter()
            .map(|api| (api, "required"))
            .chain(apis.provided.iter().map(|api| (api, "provided")))
            .map(|(api, word)| (format!("{API_LABEL_PREFIX}{}", api.hash()), word))
            .collect();
        let written = self
            .objects
            .add_finalizers(csv, &[CSV_FINALIZER], |meta| {
                let known = meta.labels.get_or_insert_default();
                known.retain(|label, _| !label.starts_with(API_LABEL_PREFIX) || labels.contains_key(label));
                known.extend(labels.iter().map(|(label, word)| (label.clone(), (*word).to_owned())));
            })
            .await?;
        Ok(written.is_some())
    }

    async fn carry_out(&self, observed: &mut Observed<'_>, step: Step) -> Result<Next, String> {
        for effect in &step.effects {
            self.effect(observed, effect).await?;
            if matches!(effect, Effect::Annotate(_) | Effect::Provide(_)) {
                // The next step is about the object, or the group, as it is now.
                return Ok(Next::Await);
            }
        }
        if step.effects.contains(&Effect::Delete) {
            return Ok(Next::Await);
        }
        let is_settled = self.objects.set_status(observed.csv, step.status).await?.is_none();
        let next = match step.again {
            Again::Await => Next::Await,
            Again::After(wait) => Next::After(Duration::try_from(wait).unwrap_or(Duration::from_secs(1))),
            Again::Retry(text) => Next::Retry(text),
            Again::Blocked(text) => Next::Blocked(text),
        };
        // A status that was written comes back as an event: what is copied then is the newest.
        let is_copied = !is_settled || self.ensure_copies(observed).await?;
        Ok(if is_copied { next } else { copies::then_more(next) })
    }
}

fn asked(effect: &Effect) -> Option<Fact> {
    match effect {
        Effect::Ask(fact) => Some(*fact),
        _ => None,
    }
}
