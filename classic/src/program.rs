//! Wires the parts of a process together and runs them.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use catalogd::{CatalogStore, Catalogd, StoreError};
use jiff::SignedDuration;
use olm_aggregate::ApiServer;
use olm_bundle::MEMORY_BYTES_MAX;
use olm_bundles::Bundles;
use olm_classic_core::resolve::Scope;
use olm_runtime::{
    DEFAULT_TERMS, EventPublisher, FlagError, LeaseLost, MemoryBudget, Process, ProcessError, SystemClock,
};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    Contents, Packages, Role, Roles,
    cluster_service_versions::CsvMetrics,
    install_plans::{self, InstallPlans, PlanMetrics, Seals},
    operators::Operators,
    packages::{self, SERVICE},
    readings::Readings,
    registry,
    sources::{self, INGEST_BYTES, Shares, SourceMetrics, Sources},
    subscriptions::{self, SubscriptionMetrics, Subscriptions},
};

/// Secret with the serving certificate that is made when none is given.
const SERVING_SECRET: &str = "olm-classic-serving-cert";
/// Service that metrics are scraped by.
const METRICS_SERVICE: &str = "olm-operator-metrics";

/// Why the program could not run, or had to end.
#[derive(Debug, Error)]
pub enum ClassicError {
    /// A flag cannot be followed.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// Certificate, ports, or a part that failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The store of catalogs cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder of bundles cannot be used.
    #[error("the folder of bundles below --cache-dir: {0}")]
    Bundles(#[source] std::io::Error),
    /// Another process may lead now.
    #[error(transparent)]
    LeadershipLost(#[from] LeaseLost),
}

/// What the flags add up to.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) roles: Roles,
    /// Namespace of the catalogs that every namespace sees.
    pub(crate) global_namespace: String,
    pub(crate) cache_dir: PathBuf,
    pub(crate) sources: sources::Options,
    /// What is resolved together.
    pub(crate) scope: Scope,
    /// How long a bundle may take to be pulled where its namespace does not say so; zero for any time.
    pub(crate) unpack_timeout: SignedDuration,
    /// How long errors of an InstallPlan are tried again before it has failed.
    pub(crate) plan_retry_timeout: SignedDuration,
    /// Address of the API of PackageManifests.
    pub(crate) packages_address: String,
    /// Address of the registry API.
    pub(crate) registry_address: String,
    /// Address of this Pod, where clients of the registry API reach it.
    pub(crate) advertised: Option<IpAddr>,
    /// Most memory of the catalogs of a namespace, in bytes.
    pub(crate) namespace_memory: usize,
    /// catalogd in this process, and the address of its content.
    pub(crate) cluster_catalogs: Option<(catalogd::Config, String)>,
}

/// olm-classic, ready to be run.
pub struct Classic {
    config: Config,
    process: Process,
    /// The content of catalogs on disk.
    store: Arc<CatalogStore>,
    /// The content of catalogs by CatalogSource.
    contents: Contents,
    /// The bundles on disk.
    bundles: Bundles,
    readings: Readings,
    /// For ingests.
    memory: MemoryBudget,
    /// The controller of ClusterCatalogs, with the same store.
    catalogd: Option<Catalogd>,
    /// Changes when there are other credentials.
    woken: watch::Sender<()>,
    source_metrics: SourceMetrics,
    plan_metrics: PlanMetrics,
    subscription_metrics: SubscriptionMetrics,
    seals: Seals,
    csv_metrics: CsvMetrics,
}

impl Classic {
    /// Opens the store and builds the parts; nothing runs yet.
    ///
    /// # Errors
    /// The folder of the store cannot be used.
    pub(crate) fn new(config: Config, mut process: Process) -> Result<Self, ClassicError> {
        process.metrics.objects().register("olm_classic_objects", &mut process.registry);
        let shares = Shares::new(process.puller.disk().clone(), config.global_namespace.clone());
        let budget_of = Box::new(move |slot: &str| shares.of(slot));
        let folder = |name| config.cache_dir.join(name);
        let bundles = Bundles::new(&process.puller, folder("bundles"), MemoryBudget::new(MEMORY_BYTES_MAX))
            .and_then(|bundles| bundles.noting(folder("reading")))
            .map_err(ClassicError::Bundles)?;
        let keeps = config.roles.has(Role::Catalog);
        let readings = Readings::new(config.namespace_memory, config.global_namespace.clone(), keeps);
        let admits = readings.clone();
        let store = CatalogStore::open_divided(&config.cache_dir, budget_of)?
            .admitting(Box::new(move |slot, generation| admits.admit(slot, generation)));
        let (store, memory) = (Arc::new(store), MemoryBudget::new(INGEST_BYTES));
        let catalogd = config.cluster_catalogs.as_ref().map(|(config, _)| {
            let (puller, clock) = (Arc::new(process.puller.clone()), Arc::new(SystemClock));
            let (client, metrics) = (process.client(), &process.metrics);
            let (store, registry) = (store.clone(), &mut process.registry);
            Catalogd::of_store(store, config.clone(), client, puller, clock, metrics, registry)
                .within(memory.clone())
        });
        let (woken, _) = watch::channel(());
        let source_metrics = SourceMetrics::register(&mut process.registry);
        let plan_metrics = PlanMetrics::register(&mut process.registry);
        let subscription_metrics = SubscriptionMetrics::register(&mut process.registry);
        let csv_metrics = CsvMetrics::register(&mut process.registry);
        let contents = Contents::default();
        let seals = Seals::new(process.client(), process.namespace());
        Ok(Self {
            config,
            process,
            store,
            contents,
            bundles,
            readings,
            memory,
            catalogd,
            woken,
            source_metrics,
            plan_metrics,
            subscription_metrics,
            seals,
            csv_metrics,
        })
    }

    /// Runs until a signal comes.
    ///
    /// # Errors
    /// An address cannot be listened on, a part of the process failed, or leadership was lost.
    pub(crate) async fn run(mut self) -> Result<(), ClassicError> {
        let shutdown = self.process.shutdown.clone();
        self.serve().await?;
        let (woken, catalogd) = (self.woken.clone(), self.catalogd.clone());
        self.process
            .follow_pull_secrets(move || {
                woken.send_replace(());
                catalogd.iter().for_each(Catalogd::wake);
            })
            .await;
        let parts = [Part::default(), Part::default()];
        self.start_sources(&parts[0]);
        self.start_cluster_catalogs(&parts[1]);
        let led = Box::pin(self.lead(&parts, &shutdown)).await;
        self.process.end().await?;
        Ok(led?)
    }

    /// Starts the servers of metrics, health and of the roles, which run on every replica. A replica is ready, whether it
    /// leads or not, when it shows the packages of all CatalogSources that there were when it started.
    async fn serve(&mut self) -> Result<(), ClassicError> {
        let names = |service: &str| {
            let name = format!("{service}.{}.svc", self.process.namespace());
            [name.clone(), format!("{name}.cluster.local")]
        };
        let mut names = [names(METRICS_SERVICE), names(SERVICE)].concat();
        names.push("localhost".to_owned());
        let (namespace, folder) =
            (self.config.global_namespace.clone(), self.config.cache_dir.join("packages"));
        let packages = self.config.roles.has(Role::Packages).then(|| {
            let packages = Packages::new(namespace, folder);
            (ApiServer::new(packages.clone(), self.process.client()), packages)
        });
        let secret = if let Some(catalogd) = &self.config.cluster_catalogs {
            names.extend(catalogd.0.serving_names());
            names.sort_unstable();
            names.dedup();
            catalogd::SERVING_SECRET
        } else {
            SERVING_SECRET
        };
        let (of_catalogs, contents) = (self.config.roles.reads_catalogs(), self.contents.clone());
        let catalogd = self.catalogd.clone();
        let server = packages.as_ref().map(|(server, _)| server.clone());
        let ready = move || {
            if of_catalogs {
                contents.ready()?;
            }
            catalogd.as_ref().map_or(Ok(()), Catalogd::ready)?;
            server.as_ref().map_or(Ok(()), |server| server.ready())
        };
        let tls = self.process.serve((secret, &names), ready).await?;
        if let (Some(catalogd), Some((_, address))) = (&self.catalogd, &self.config.cluster_catalogs) {
            let router = catalogd.router();
            self.process.spawn_server("the server of catalogs", address, router, Some(tls))?;
        }
        if let Some(packages) = packages {
            let contents = self.contents.clone();
            let address = (self.config.packages_address.as_str(), secret);
            packages::start(&mut self.process, packages, contents, address)?;
        }
        if self.config.roles.has(Role::Catalog) {
            let contents = (self.contents.clone(), self.readings.clone());
            let address = &self.config.registry_address;
            let port = registry::start(&mut self.process, contents, address).map_err(ProcessError::from)?;
            self.config.sources.advertised = self.config.advertised.map(|ip| SocketAddr::new(ip, port));
        }
        Ok(())
    }

    /// Starts the controllers of OLM Classic, which run on every replica.
    fn start_sources(&mut self, part: &Part) {
        let (leader, over, shutdown) =
            (part.leader.subscribe(), part.ended.clone(), self.process.shutdown.clone());
        let sources = self.config.roles.reads_catalogs().then(|| self.sources());
        let subscriptions = self.config.roles.has(Role::Catalog).then(|| self.subscriptions());
        let plans = self.config.roles.has(Role::Catalog).then(|| self.install_plans());
        let operators = self.config.roles.has(Role::Olm).then(|| self.operators());
        let bundles = self.bundles.clone();
        tracing::info!(namespace = self.config.global_namespace, "catalogs of this namespace are for all");
        self.process.spawn("the controllers", async move {
            let sources = async {
                match sources {
                    Some(sources) => Box::pin(sources.run(leader.clone(), shutdown.clone())).await,
                    None => shutdown.cancelled().await,
                }
            };
            let subscriptions = async {
                if let Some(subscriptions) = subscriptions {
                    Box::pin(subscriptions.run(leader.clone(), shutdown.clone())).await;
                }
            };
            let plans = async {
                if let Some(plans) = plans {
                    Box::pin(plans.run(leader.clone(), shutdown.clone())).await;
                }
            };
            let operators = async {
                if let Some(operators) = operators {
                    Box::pin(operators.run(leader.clone(), shutdown.clone())).await;
                }
            };
            let stop = async {
                shutdown.cancelled().await;
                bundles.stop();
            };
            tokio::join!(sources, subscriptions, plans, operators, stop);
            over.cancel();
        });
    }

    /// Starts the controller of ClusterCatalogs, if there is one.
    fn start_cluster_catalogs(&mut self, part: &Part) {
        let Some(catalogd) = self.catalogd.clone() else { return };
        let (chance, shutdown) = (self.process.chance.clone(), self.process.shutdown.clone());
        let (running, over) = (catalogd.run(part.leader.subscribe(), chance, shutdown), part.ended.clone());
        self.process.spawn("the controller of ClusterCatalogs", async move {
            running.await;
            over.cancel();
        });
    }

    /// The controller of CatalogSources.
    fn sources(&self) -> Sources {
        Sources {
            client: self.process.client(),
            store: self.store.clone(),
            contents: self.contents.clone(),
            readings: self.readings.clone(),
            memory: self.memory.clone(),
            puller: self.process.puller.clone(),
            clock: Arc::new(SystemClock),
            chance: self.process.chance.clone(),
            metrics: self.process.metrics.controller(sources::CONTROLLER),
            source_metrics: self.source_metrics.clone(),
            options: self.config.sources.clone(),
            woken: self.woken.subscribe(),
        }
    }

    /// The controller of Subscriptions.
    fn subscriptions(&self) -> Subscriptions {
        Subscriptions {
            client: self.process.client(),
            contents: self.contents.clone(),
            bundles: self.bundles.clone(),
            puller: self.process.puller.clone(),
            clock: Arc::new(SystemClock),
            chance: self.process.chance.clone(),
            metrics: self.process.metrics.controller(subscriptions::CONTROLLER),
            subscription_metrics: self.subscription_metrics.clone(),
            source_metrics: self.source_metrics.clone(),
            global_namespace: self.config.global_namespace.clone(),
            unpack_timeout: self.config.unpack_timeout.unsigned_abs(),
            scope: self.config.scope,
            seals: self.seals.clone(),
        }
    }

    /// The controller of InstallPlans.
    fn install_plans(&self) -> InstallPlans {
        InstallPlans {
            accounts: self.process.accounts.clone(),
            contents: self.contents.clone(),
            bundles: self.bundles.clone(),
            puller: self.process.puller.clone(),
            clock: Arc::new(SystemClock),
            chance: self.process.chance.clone(),
            metrics: self.process.metrics.controller(install_plans::CONTROLLER),
            plan_metrics: self.plan_metrics.clone(),
            seals: self.seals.clone(),
            retry_timeout: self.config.plan_retry_timeout,
        }
    }

    /// The controllers of operators.
    fn operators(&self) -> Operators {
        let client = self.process.client();
        Operators {
            events: EventPublisher::new(client.clone(), "olm-classic", Some(self.process.identity())),
            client,
            accounts: self.process.accounts.clone(),
            clock: Arc::new(SystemClock),
            chance: self.process.chance.clone(),
            csv_metrics: self.csv_metrics.clone(),
            metrics_of_csvs: self.process.metrics.controller("clusterserviceversion"),
            metrics_of_groups: self.process.metrics.controller("operatorgroup"),
            metrics_of_configs: self.process.metrics.controller("olmconfig"),
            metrics_of_adoption: self.process.metrics.controller("adoption"),
            metrics_of_components: self.process.metrics.controller("operator"),
        }
    }

    /// Has the controllers write while this process leads, or always if it need not be elected. ClusterCatalogs have a lease
    /// of their own, which catalogd on its own has as well.
    async fn lead(
        &self,
        [sources, catalogs]: &[Part; 2],
        shutdown: &CancellationToken,
    ) -> Result<(), LeaseLost> {
        let lease = self.config.roles.lease().filter(|_| self.process.leader_elect());
        let Some(lease) = lease else {
            sources.leader.send_replace(self.config.roles.lease().is_some());
            catalogs.leader.send_replace(true);
            sources.ended.cancelled().await;
            return Ok(());
        };
        let held = CancellationToken::new();
        let set_leader = |leader| {
            self.process.metrics.leading(leader);
            sources.leader.send_replace(leader);
            held.cancel();
        };
        let elector = self.process.elector(lease, DEFAULT_TERMS);
        let first = async {
            let led = catalogd::campaign(&elector, set_leader, &sources.ended, shutdown).await;
            shutdown.cancel();
            led
        };
        let second = async {
            if self.catalogd.is_none() {
                return Ok(());
            }
            let elector = self.process.elector(catalogd::LEASE, DEFAULT_TERMS);
            let set_leader = |leader| {
                catalogs.leader.send_replace(leader);
            };
            catalogd::campaign_beside(&held, &elector, set_leader, &catalogs.ended, shutdown).await
        };
        let (first, second) = tokio::join!(first, second);
        first.and(second)
    }
}

/// A part of the process that writes while it leads.
#[derive(Debug)]
struct Part {
    leader: watch::Sender<bool>,
    /// Cancelled when it writes nothing any more.
    ended: CancellationToken,
}

impl Default for Part {
    fn default() -> Self {
        Self { leader: watch::Sender::new(false), ended: CancellationToken::new() }
    }
}
