//! The controller of InstallPlans: approval, permissions, the objects of each step, and what is reported.
//!
//! A step names a bundle and a file; the object is made from the bundle's content each time. Only plans with the seal of
//! this program are carried out, so that who may write InstallPlans has nothing made that no catalog offers ([`Seals`]).

mod content;
mod crds;
mod execute;
mod known;
mod metrics;
mod reconcile;
mod request;
mod seal;

use std::sync::Arc;

use jiff::SignedDuration;
use kube::Client;
use olm_api_classic::InstallPlan;
use olm_bundles::Bundles;
use olm_image::Puller;
use olm_runtime::{
    Accounts, BackoffLimits, Chance, Clock, ControllerMetrics, ControllerSettings, Discovery, EventPublisher,
    Interests, JobEnded, ObjectWriter, Source, on_change, run_controller,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Contents;
use content::BundleContent;
use known::Known;
pub(crate) use metrics::PlanMetrics;
use reconcile::Reconciler;
pub(crate) use seal::Seals;

/// Name of the controller in logs and metrics.
pub(crate) const CONTROLLER: &str = "installplan";
/// Field manager of all writes.
const FIELD_MANAGER: &str = "olm-classic";
/// Plans reconciled at the same time.
const CONCURRENCY: u16 = 4;

/// What wakes a plan besides its own changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    /// This replica leads from now on.
    Part,
    /// A Subscription or OperatorGroup of this namespace.
    Namespace(String),
    /// A role, a binding or a ServiceAccount, wherever it is.
    Permissions,
    /// A CRD.
    Definitions,
    /// A CatalogSource.
    Catalogs,
    /// A ClusterServiceVersion of this namespace that is made or deleted.
    Operators(String),
    /// An object that a plan has made, by kind, namespace and name.
    Object(String),
    /// A pull for the plan with this key has ended.
    Job(String),
}

impl olm_runtime::Interest for Interest {
    fn is_shared(&self) -> bool {
        !matches!(self, Self::Job(_))
    }
}

/// The controller, before it runs.
pub(crate) struct InstallPlans {
    pub(crate) accounts: Accounts,
    pub(crate) contents: Contents,
    pub(crate) bundles: Bundles,
    pub(crate) puller: Puller,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Chance,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) plan_metrics: PlanMetrics,
    pub(crate) seals: Seals,
    /// How long errors are tried again before a plan has failed.
    pub(crate) retry_timeout: SignedDuration,
}

impl InstallPlans {
    /// Runs until `shutdown`. Nothing is written while `leader` is false.
    pub(crate) async fn run(self, leader: watch::Receiver<bool>, shutdown: CancellationToken) {
        let client = self.accounts.controller();
        let interests = Interests::default();
        let known = Known::default();
        let source = Source::<InstallPlan>::all(client.clone(), &self.chance);
        let plans = source.store.clone();
        // What is not listed yet would be taken for lost.
        let source = source.gated(known.listed());
        let settings = ControllerSettings {
            name: CONTROLLER,
            concurrency: CONCURRENCY,
            backoff: BackoffLimits::default(),
            chance: self.chance.clone(),
        };
        let reconciler = self.reconciler(&client, plans, known.clone(), &interests, leader.clone());
        let metrics = self.metrics.clone();
        let controller = run_controller(settings, source, &interests, metrics, shutdown.clone(), reconciler);
        tokio::join!(
            controller,
            on_change(leader, &shutdown, || interests.fire(&Interest::Part)),
            known.follow(&client, &self.chance, &self.accounts, &interests, &shutdown),
        );
    }

    fn reconciler(
        &self,
        client: &Client,
        plans: reconcile::Plans,
        known: Known,
        interests: &Interests<Interest>,
        leader: watch::Receiver<bool>,
    ) -> Reconciler {
        let fired = interests.clone();
        let ended: JobEnded = Arc::new(move |job: &str| {
            let plan = content::plan_of_job(job);
            fired.fire(&Interest::Job(plan.to_owned()));
        });
        Reconciler {
            client: client.clone(),
            accounts: self.accounts.clone(),
            discovery: Discovery::new(client.clone()),
            plans,
            known,
            content: BundleContent {
                client: client.clone(),
                contents: self.contents.clone(),
                puller: self.puller.clone(),
                bundles: self.bundles.clone().pulling_by_jobs(ended, &self.chance),
            },
            writer: ObjectWriter::namespaced(client.clone(), FIELD_MANAGER, self.clock.clone()),
            events: EventPublisher::new(client.clone(), "olm-classic", None),
            seals: self.seals.clone(),
            metrics: self.plan_metrics.clone(),
            clock: self.clock.clone(),
            retry_timeout: self.retry_timeout,
            leader,
        }
    }
}
