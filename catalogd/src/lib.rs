//! catalogd: turns ClusterCatalogs into catalog content that is served over HTTP and read in process.
//!
//! A [`Catalogd`] is a value: built from a [`Config`], a client, a [`CatalogSource`] and a metrics registry,
//! it offers a router (for a listener), a reader (for resolution), a stream of changes, and
//! `run`, the controller. Content lives in a [`CatalogStore`] on disk and can always be fetched again;
//! validation of catalogs is not its business.

mod command;
mod compressed;
mod config;
mod controller;
mod error;
mod flags;
mod gc;
mod graphql;
mod http;
mod ingest;
pub mod limits;
mod reader;
mod source;
mod status;
mod store;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use axum::Router;
use kube::Client;
use olm_api::v1::ClusterCatalog;
use olm_object::names::is_subdomain;
use olm_runtime::{
    BackoffLimits, Chance, Clock, ControllerMetrics, ControllerSettings, Elector, Interests, LeaseLost,
    MemoryBudget, Metrics, Source, on_change, run_controller,
};
use prometheus_client::registry::Registry;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

pub use command::Command;
pub use config::{Config, ConfigError};
pub use controller::{FetchJobs, Fetched, Fetcher, Pulling, in_progress};
pub use error::CatalogdError;
pub use flags::{CatalogFlags, ServingFlags};
pub use http::ContentServer;
#[doc(hidden)]
pub use http::answer_graphql;
pub use ingest::IngestError;
pub use olm_fbc::CatalogFiles;
pub use reader::{
    CatalogDirectory, CatalogReader, HttpReader, LocalReader, RemoteCatalog, Trust, TrustError,
};
pub use source::{CONFIGS_LABEL, CatalogImage, CatalogSource, Pinned};
pub use store::{
    Admit, Announced, BudgetOf, CatalogChanged, CatalogStore, FileSum, Generation, RegistryContent,
    Resolution, Slot, StoreError,
};

use controller::CatalogReconciler;

/// Name of the controller in logs and metrics.
pub const CONTROLLER: &str = "catalogd-clustercatalog-controller";
/// Secret with the serving certificate that is made when none is given; the ConfigMap of the same name has the
/// authority that clients have to trust.
pub const SERVING_SECRET: &str = "catalogd-serving-cert";
/// Lease that the leader of several replicas holds.
pub const LEASE: &str = "catalogd-operator-lock";

/// catalogd, ready to be run.
#[derive(Clone)]
pub struct Catalogd {
    config: Config,
    client: Client,
    source: Arc<dyn CatalogSource>,
    memory: MemoryBudget,
    clock: Arc<dyn Clock>,
    store: Arc<CatalogStore>,
    server: ContentServer,
    controller_metrics: ControllerMetrics,
    /// Changes when every catalog is to be reconciled.
    woken: watch::Sender<()>,
}

impl Catalogd {
    /// Opens the store of `config` and registers the metrics. Reads the cache of an earlier process, which
    /// blocks for some 50 ms per 100 MB.
    pub fn new(
        config: Config,
        client: Client,
        source: Arc<dyn CatalogSource>,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
        registry: &mut Registry,
    ) -> Result<Self, StoreError> {
        let store = Arc::new(CatalogStore::open_within(&config.cache_dir, source.disk())?);
        Ok(Self::of_store(store, config, client, source, clock, metrics, registry))
    }

    /// As [`Catalogd::new`], with a store that another controller may keep catalogs in too: under names that no ClusterCatalog
    /// can have. Those are not served, compressed or collected here.
    pub fn of_store(
        store: Arc<CatalogStore>,
        config: Config,
        client: Client,
        source: Arc<dyn CatalogSource>,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
        registry: &mut Registry,
    ) -> Self {
        let server = ContentServer::new(Arc::clone(&store), &config, registry);
        let controller_metrics = metrics.controller(CONTROLLER);
        let (woken, _) = watch::channel(());
        let memory = MemoryBudget::new(limits::CONCURRENT_INGESTS * limits::INGEST_MEMORY_BYTES);
        Self { config, client, source, memory, clock, store, server, controller_metrics, woken }
    }

    /// Catalogs are ingested within this budget from now on, which others share.
    #[must_use]
    pub fn within(self, memory: MemoryBudget) -> Self {
        Self { memory, ..self }
    }

    /// Reconciles every catalog now: what failed is tried again without waiting, for instance because there are
    /// other credentials. What did not fail is left as it is.
    pub fn wake(&self) {
        self.woken.send_replace(());
    }

    /// The HTTP routes, to be put on a listener.
    pub fn router(&self) -> Router {
        self.server.router()
    }

    /// Reads the same content in process.
    pub fn reader(&self) -> LocalReader {
        LocalReader::new(Arc::clone(&self.store))
    }

    /// Reports every catalog whose content is replaced or removed, from now on.
    pub fn changes(&self) -> broadcast::Receiver<CatalogChanged> {
        self.store.changes()
    }

    /// The content.
    pub fn store(&self) -> &Arc<CatalogStore> {
        &self.store
    }

    /// What is missing until this replica may be sent requests: it is ready when every catalog whose status
    /// names content has that content here, was tried once, or has kept it waiting for a minute.
    ///
    /// # Errors
    /// The text names what is missing.
    pub fn ready(&self) -> Result<(), String> {
        if !self.store.is_synced() {
            return Err("catalogs have not been listed yet".to_owned());
        }
        match self.store.awaited() {
            Some(catalog) => Err(format!("catalog {catalog} is not served yet")),
            None => Ok(()),
        }
    }

    /// Runs the controller, the garbage collection and the compression of what is served until `shutdown`. While
    /// `leader` is false this replica follows: it serves the content that the statuses name and writes nothing.
    /// Its waits are of the sequence of `chance`.
    pub async fn run(self, leader: watch::Receiver<bool>, chance: Chance, shutdown: CancellationToken) {
        let source = Source::<ClusterCatalog>::all(self.client.clone(), &chance);
        let catalogs = source.store.clone();
        let interests = Interests::default();
        let fired = interests.clone();
        let ended = move |catalog: &str| fired.fire(&Interest::Job(catalog.to_owned()));
        let jobs = FetchJobs::new(Arc::new(ended), BackoffLimits::default(), chance.clone());
        let reconciler = CatalogReconciler::new(
            self.client,
            Arc::clone(&self.store),
            (self.source, self.memory),
            self.clock,
            leader.clone(),
            self.config.base_url(),
            jobs.clone(),
        );
        let settings = ControllerSettings {
            name: CONTROLLER,
            concurrency: limits::CONCURRENT_RECONCILES,
            backoff: BackoffLimits::default(),
            chance,
        };
        let waking = async {
            tokio::join!(
                on_change(leader, &shutdown, || interests.fire(&Interest::Part)),
                on_change(self.woken.subscribe(), &shutdown, || {
                    jobs.retry_now();
                    interests.fire(&Interest::Part);
                }),
            );
        };
        let metrics = self.controller_metrics;
        let controller = run_controller(settings, source, &interests, metrics, shutdown.clone(), reconciler);
        let collector = gc::run(catalogs, self.store, self.config.gc_interval, shutdown.clone());
        tokio::join!(controller, collector, waking, self.server.run(shutdown.clone()));
    }
}

/// Campaigns for catalogs' lease; `set_leader` hears when it is held and when no longer. What is written as leader has
/// ended, and cancelled `ended`, before the lease is released.
pub async fn campaign(
    elector: &Elector,
    set_leader: impl Fn(bool),
    ended: &CancellationToken,
    shutdown: &CancellationToken,
) -> Result<(), LeaseLost> {
    let work = async |stop: CancellationToken| {
        set_leader(true);
        stop.cancelled().await;
        ended.cancelled().await;
        set_leader(false);
    };
    elector.lead(shutdown.clone(), work).await
}

/// The same for a process that holds another lease too: catalogs' lease is campaigned for once `held` is cancelled, so that
/// one process has both. When it ends, `shutdown` is cancelled.
///
/// # Errors
/// The lease was lost.
pub async fn campaign_beside(
    held: &CancellationToken,
    elector: &Elector,
    set_leader: impl Fn(bool),
    ended: &CancellationToken,
    shutdown: &CancellationToken,
) -> Result<(), LeaseLost> {
    // Seen from the start on: a leader that died leaves both, and they run out together.
    let both = async { held.run_until_cancelled(elector.follow()).await };
    if shutdown.run_until_cancelled(both).await.is_none() {
        return Ok(());
    }
    let led = campaign(elector, set_leader, ended, shutdown).await;
    shutdown.cancel();
    led
}

/// Whether a ClusterCatalog can have this name. Other controllers of a store have names of another form.
fn is_catalog_name(name: &str) -> bool {
    is_subdomain(name)
}

/// What brings a reconcile of catalogs beside their own changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Interest {
    /// This replica leads from now on, or there are other credentials.
    Part,
    /// The job of the catalog of this name has ended.
    Job(String),
}

impl olm_runtime::Interest for Interest {
    fn is_shared(&self) -> bool {
        matches!(self, Self::Part)
    }
}
