//! The controller of Subscriptions: one reconcile for each namespace that has some.
//!
//! It reads what the watches and [`Contents`] have, decides with the pure functions of `olm_classic_core::subscription`, and
//! writes statuses and InstallPlans. Bundles are pulled by jobs, catalogs read outside of the workers: no namespace waits
//! for another one. What has not changed is not written.

mod act;
mod facts;
mod metrics;
mod reconcile;
mod snapshots;
mod unpack;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use olm_bundles::Bundles;
use olm_classic_core::resolve::Scope;
use olm_image::Puller;
use olm_runtime::{
    BackoffLimits, Chance, Clock, ControllerMetrics, ControllerSettings, EventPublisher, Interests, JobEnded,
    ObjectWriter, Source, on_change, run_controller,
};
use parking_lot::Mutex;
use tokio::sync::{broadcast::error::RecvError, watch};
use tokio_util::sync::CancellationToken;

use crate::{Contents, install_plans::Seals, sources::SourceMetrics};
use facts::{Facts, Watches};
pub(crate) use metrics::SubscriptionMetrics;
use reconcile::Reconciler;
use snapshots::Snapshots;
use unpack::Unpacker;
pub(crate) use unpack::manifests;

/// Name of the controller in logs and metrics.
pub(crate) const CONTROLLER: &str = "subscription";
/// Namespaces reconciled at the same time.
const CONCURRENCY: u16 = 4;

/// What wakes a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    /// This replica leads from now on.
    Part,
    /// An object of this namespace.
    Objects(String),
    /// A CatalogSource of this namespace, or its content.
    Catalogs(String),
    /// A pull for this namespace has ended.
    Job(String),
}

impl olm_runtime::Interest for Interest {
    fn is_shared(&self) -> bool {
        !matches!(self, Self::Job(_))
    }
}

/// The controller, before it runs.
pub(crate) struct Subscriptions {
    pub(crate) client: Client,
    pub(crate) contents: Contents,
    pub(crate) bundles: Bundles,
    pub(crate) puller: Puller,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Chance,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) subscription_metrics: SubscriptionMetrics,
    pub(crate) source_metrics: SourceMetrics,
    /// The namespace whose catalogs every namespace sees.
    pub(crate) global_namespace: String,
    /// How long a bundle may take to be pulled where its namespace does not say so; zero for any time.
    pub(crate) unpack_timeout: Duration,
    /// What is resolved together.
    pub(crate) scope: Scope,
    pub(crate) seals: Seals,
}

impl Subscriptions {
    /// Runs until `shutdown`. Nothing is written while `leader` is false.
    pub(crate) async fn run(self, leader: watch::Receiver<bool>, shutdown: CancellationToken) {
        let interests = Interests::default();
        let metrics = (&self.metrics, &self.subscription_metrics);
        let (facts, Watches { drives, listed }) =
            Facts::watch(&self.client, &self.chance, &interests, metrics);
        let (fired, source_metrics) = (interests.clone(), self.source_metrics.clone());
        let snapshots = Snapshots::new(self.global_namespace.clone(), move |key| {
            source_metrics.snapshot(key);
            fired.fire(&Interest::Catalogs(key.namespace.clone()));
        });
        let source = Source::<Namespace>::all(self.client.clone(), &self.chance);
        // What is not listed yet would be taken for missing.
        let source = source.gated(async {
            join_all(listed).await;
        });
        let settings = ControllerSettings {
            name: CONTROLLER,
            concurrency: CONCURRENCY,
            backoff: BackoffLimits::default(),
            chance: self.chance.clone(),
        };
        let reconciler = self.reconciler(facts, snapshots.clone(), &interests, leader.clone());
        let metrics = self.metrics.clone();
        let controller = run_controller(settings, source, &interests, metrics, shutdown.clone(), reconciler);
        tokio::join!(
            controller,
            shutdown.run_until_cancelled(join_all(drives)),
            on_change(leader, &shutdown, || interests.fire(&Interest::Part)),
            self.follow_contents(&snapshots, &interests, &shutdown),
        );
    }

    fn reconciler(
        &self,
        facts: Facts,
        snapshots: Snapshots,
        interests: &Interests<Interest>,
        leader: watch::Receiver<bool>,
    ) -> Reconciler {
        let fired = interests.clone();
        let ended: JobEnded = Arc::new(move |job: &str| {
            // The name of a job begins with its namespace.
            let namespace = job.split('/').next().unwrap_or_default();
            fired.fire(&Interest::Job(namespace.to_owned()));
        });
        Reconciler {
            client: self.client.clone(),
            facts,
            contents: self.contents.clone(),
            snapshots,
            unpacker: Unpacker {
                client: self.client.clone(),
                puller: self.puller.clone(),
                bundles: self.bundles.clone().pulling_by_jobs(ended, &self.chance),
                wanted: Mutex::new(BTreeMap::new()),
            },
            subscriptions: ObjectWriter::namespaced(
                self.client.clone(),
                act::FIELD_MANAGER,
                self.clock.clone(),
            ),
            plans: ObjectWriter::namespaced(self.client.clone(), act::FIELD_MANAGER, self.clock.clone()),
            events: EventPublisher::new(self.client.clone(), "olm-classic", None),
            metrics: self.metrics.clone(),
            subscription_metrics: self.subscription_metrics.clone(),
            clock: self.clock.clone(),
            global_namespace: self.global_namespace.clone(),
            unpack_timeout: self.unpack_timeout,
            scope: self.scope,
            seals: self.seals.clone(),
            leader,
        }
    }

    /// Wakes the namespaces that see a catalog when its content changes, until `shutdown`.
    async fn follow_contents(
        &self,
        snapshots: &Snapshots,
        interests: &Interests<Interest>,
        shutdown: &CancellationToken,
    ) {
        let mut changes = self.contents.changes();
        while let Some(change) = shutdown.run_until_cancelled(changes.recv()).await {
            let keys = match change {
                Ok(key) => vec![key],
                Err(RecvError::Lagged(_)) => snapshots.keys(),
                Err(RecvError::Closed) => return,
            };
            for key in keys {
                if self.contents.get(&key).is_none() {
                    snapshots.forget(&key);
                }
                interests.fire(&Interest::Catalogs(key.namespace));
            }
        }
    }
}
