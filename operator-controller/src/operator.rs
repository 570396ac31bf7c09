//! Wires the parts together and runs them.

mod campaign;
mod facts;
#[cfg(test)]
mod simulation;
mod wakes;

use std::sync::Arc;

use catalogd::{Catalogd, StoreError};
use futures::stream::BoxStream;
use olm_api::{
    ConditionType,
    names::{MANAGED_BY, MANAGED_BY_LABEL},
    v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet},
};
use olm_bundle::MEMORY_BYTES_MAX;
use olm_runtime::{
    BackoffLimits, ControllerSettings, Discovery, LeaseLost, MemoryBudget, OwnerChanged, Process,
    ProcessError, Source, SystemClock, Wake, WatchManager, run_controller,
};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{self, Waiting},
    admission::{self, Guard},
    bundles::Bundles,
    catalogs::{self, Catalogs},
    cluster_extension, cluster_object_set,
    config::Config,
    content::{Content, Remote},
    dependents::{self, Dependents},
    events::Events,
    interest::{Interest, Interests},
    kinds::{self, Crd},
    leftovers,
    metrics::DriftRepairs,
    platform::Platform,
    settings::Settings,
};
use facts::Gate;
pub(crate) use wakes::owners;
use wakes::{Everyone, WAKES, known_catalogs, names, revisions};

/// Lease of the extension side, upstream's.
const LEASE: &str = "9c4404e7.operatorframework.io";
/// Service that metrics are scraped by.
const METRICS_SERVICE: &str = "operator-controller-service";
/// Secret with the serving certificate, where catalogd runs on its own.
const METRICS_SECRET: &str = "operator-controller-serving-cert";

/// Why the program could not run, or had to end.
#[derive(Debug, Error)]
pub enum OperatorError {
    /// Certificate or ports.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The cache cannot be used.
    #[error("cache folder {path}: {source}")]
    Cache {
        /// The folder.
        path: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The catalogs' store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process may lead now.
    #[error("{0}: this one ends to start afresh")]
    LeadershipLost(#[from] LeaseLost),
}

/// operator-controller with catalogd inside, ready to be run.
pub struct Operator {
    config: Config,
    process: Process,
    content: Content,
    bundles: Bundles,
    guard: Guard,
    platform: Arc<Platform>,
    repairs: DriftRepairs,
}

impl Operator {
    /// Opens caches and builds the parts; nothing runs yet.
    ///
    /// # Errors
    /// A cache folder cannot be used.
    pub fn new(config: Config, mut process: Process) -> Result<Self, OperatorError> {
        let guard = Guard::new(&mut process.registry);
        let platform = Arc::new(Platform::register(&mut process.registry));
        let repairs = DriftRepairs::register(&mut process.registry);
        process.metrics.objects().register("olm_objects", &mut process.registry);
        let memory = MemoryBudget::new(MEMORY_BYTES_MAX);
        let folder = |name| config.cache_path.join(name);
        let bundles = Bundles::new(&process.puller, folder("bundles"), memory.clone())
            .and_then(|bundles| bundles.noting(folder("reading")))
            .map_err(|source| OperatorError::Cache {
                path: config.cache_path.display().to_string(),
                source,
            })?;
        let (cluster, puller) = (process.client(), &process.puller);
        let content = if let Some(remote) = &config.remote_catalogd {
            Content::Remote(Remote::new(remote, cluster, &folder("catalogs"), puller.disk().clone())?)
        } else {
            let catalogd = Catalogd::new(
                config.catalogd.clone(),
                cluster,
                Arc::new(puller.clone()),
                Arc::new(SystemClock),
                &process.metrics,
                &mut process.registry,
            )?;
            Content::Embedded(Box::new(catalogd.within(memory)))
        };
        Ok(Self { config, process, content, bundles, guard, platform, repairs })
    }

    /// Runs until a signal comes.
    ///
    /// # Errors
    /// An address cannot be listened on, or leadership was lost.
    pub async fn run(mut self) -> Result<(), OperatorError> {
        let shutdown = self.process.shutdown.clone();
        let (leads, leader) = watch::channel(false);
        self.serve().await?;
        let content = self.content.clone();
        self.process.follow_pull_secrets(move || content.wake()).await;
        let catalogs_ended = CancellationToken::new();
        if let Content::Embedded(catalogd) = &self.content {
            let running = catalogd.clone().run(leader, self.process.chance.clone(), shutdown.clone());
            // Also when it panics.
            let ended = catalogs_ended.clone().drop_guard();
            self.process.spawn(async move {
                running.await;
                drop(ended);
            });
        }
        let (bundles, asked_to_end) = (self.bundles.clone(), shutdown.clone());
        self.process.spawn(async move {
            asked_to_end.cancelled().await;
            bundles.stop();
        });
        let leftovers = self.leftovers(shutdown.clone());
        self.process.spawn(leftovers);
        let led = if self.process.leader_elect() {
            Box::pin(self.campaign(&leads, &catalogs_ended)).await
        } else {
            leads.send_replace(true);
            Box::pin(self.lead(shutdown)).await;
            Ok(())
        };
        self.process.end().await;
        Ok(led?)
    }

    /// Before leading: a leftover may be what this program waits for.
    fn leftovers(&self, shutdown: CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        let client = self.process.client();
        let events = Events::new(client.clone(), self.process.identity());
        let namespace = self.process.namespace().to_owned();
        let embedded = matches!(self.content, Content::Embedded(_));
        async move {
            let reporting = Box::pin(leftovers::report(client, &namespace, embedded, &events));
            let _ = shutdown.run_until_cancelled(reporting).await;
        }
    }

    /// Starts the servers of catalogs, metrics and health, which run on every replica.
    async fn serve(&mut self) -> Result<(), ProcessError> {
        let (secret, names) = self.kept_certificate();
        let content = self.content.clone();
        let tls = self.process.serve((secret, &names), move || content.ready()).await?;
        if let Content::Embedded(catalogd) = &self.content {
            let (address, router) = (&self.config.catalogs_address, catalogd.router());
            self.process.spawn_server("catalogs", address, router, Some(tls))?;
        }
        Ok(())
    }

    /// The Secret with the serving certificate that is made here, and the names that it is for. Beside a catalogd
    /// on its own, that one's Secret is left to it.
    fn kept_certificate(&self) -> (&'static str, Vec<String>) {
        let own = format!("{METRICS_SERVICE}.{}.svc", self.process.namespace());
        let own = [own.clone(), format!("{own}.cluster.local")];
        match &self.content {
            Content::Embedded(_) => {
                let mut names = self.config.catalogd.serving_names();
                names.extend(own);
                (catalogd::SERVING_SECRET, names)
            }
            Content::Remote(_) => {
                let mut names = vec!["localhost".to_owned()];
                names.extend(own);
                (METRICS_SECRET, names)
            }
        }
    }

    /// Works on extensions and revisions, which only the leader may do.
    async fn lead(&self, stop: CancellationToken) {
        self.process.metrics.leading(true);
        Box::pin(self.controllers(stop)).await;
        self.process.metrics.leading(false);
    }

    async fn controllers(&self, stop: CancellationToken) {
        let (client, chance) = (self.process.client(), &self.process.chance);
        let discovery = Discovery::new(client.clone());
        let waiting = Arc::new(Waiting::default());
        let (wake_extension, woken_extensions) = mpsc::channel::<String>(WAKES);
        let (wake_set, woken_sets) = mpsc::channel::<String>(WAKES);
        let (owner_changed, changed_owners) = mpsc::channel::<OwnerChanged>(WAKES);

        let dependents = Arc::new(Dependents::new(wake_extension.clone()));
        let extensions = Source::<ClusterExtension>::all(client.clone(), chance);
        let wake_owner = (wake_extension.clone(), extensions.store.clone());
        let sets = revisions(client.clone(), chance, wake_owner, dependents.clone());
        let (known_catalogs, changed_catalogs) = known_catalogs(client.clone(), chance);
        let settings = Settings::new(self.config.default_account.clone());
        let interests = Interests::default();
        let (changed_crd, changed_crds) = mpsc::channel::<Crd>(WAKES);
        let events = Events::new(client.clone(), self.process.identity());
        let fired = interests.clone();
        let ended = Arc::new(move |extension: &str| fired.fire(&Interest::Job(extension.to_owned())));
        let ports = cluster_extension::Ports {
            accounts: self.process.accounts.clone(),
            discovery: discovery.clone(),
            catalogs: self.catalogs(&known_catalogs),
            bundles: self.bundles.clone().pulling_by_jobs(ended, chance),
            events: events.clone(),
            waiting: waiting.clone(),
            sets: sets.store.clone(),
            dependents: dependents.clone(),
            platform: self.platform.clone(),
            features: self.config.gates.features(self.config.webhook_certificates.provider),
            settings: settings.clone(),
            guard: self.guard.clone(),
            system_namespace: self.process.namespace().to_owned(),
            clock: Arc::new(SystemClock),
        };
        let managed = format!("{MANAGED_BY_LABEL}={MANAGED_BY}");
        let watches = WatchManager::new(client.clone(), &managed, owner_changed, chance.clone());
        let set_ports = self.set_ports(&ports, watches);
        let (all_extensions, catalogs) = (extensions.store.clone(), known_catalogs.store.clone());
        let everyone = Everyone::new(&extensions.store, &wake_extension, &waiting, &wake_set);
        let wake_all = async || everyone.wake().await;
        let accounts = self.process.accounts.clone();
        let namespace = self.process.namespace();
        let gate = Gate::default();
        let facts = self.facts((&extensions, &sets, &known_catalogs), &settings);
        let opening = gate.open_after(facts, &stop);
        let (extensions, sets) = (extensions.gated(gate.opened()), sets.gated(gate.opened()));
        let set_wakes = (&interests, vec![names(woken_sets), owners(changed_owners, sets.store.clone())]);
        let extension_wakes = (&interests, vec![names(woken_extensions)]);
        let (changes, guard) = (self.content.changes(), self.guard.clone());
        let guarding =
            admission::run(client.clone(), chance, namespace, guard, events, &wake_all, stop.clone());
        tokio::join!(
            opening,
            self.content.follow(catalogs, changed_catalogs, stop.clone()),
            catalogs::follow(known_catalogs, changes, all_extensions, wake_extension.clone(), stop.clone()),
            kinds::run(client.clone(), chance, discovery, interests.clone(), changed_crd, stop.clone()),
            self.follow_dependents(changed_crds, dependents, &wake_all, stop.clone()),
            settings.follow(client.clone(), chance, namespace, &wake_all, stop.clone()),
            guarding,
            access::run(client, chance, waiting, accounts, wake_extension, wake_set, stop.clone()),
            self.run_extensions(extensions, extension_wakes, ports, stop.clone()),
            self.run_sets(sets, set_wakes, set_ports, stop.clone()),
        );
    }

    async fn follow_dependents(
        &self,
        changed_crds: mpsc::Receiver<Crd>,
        dependents: Arc<Dependents>,
        wake_all: &impl AsyncFn(),
        stop: CancellationToken,
    ) {
        let client = self.process.client();
        dependents::run(
            client,
            &self.process.chance,
            changed_crds,
            dependents,
            &self.platform,
            wake_all,
            stop,
        )
        .await;
    }

    /// The catalogs that extensions are resolved from.
    fn catalogs(&self, known: &Source<ClusterCatalog>) -> Catalogs {
        Catalogs::new(known.store.clone(), self.content.reader(), self.config.catalog_deadline)
    }

    /// What the controller of revisions needs: much of it is shared with the one of extensions.
    fn set_ports(
        &self,
        shared: &cluster_extension::Ports,
        watches: WatchManager,
    ) -> cluster_object_set::Ports {
        cluster_object_set::Ports {
            accounts: shared.accounts.clone(),
            discovery: shared.discovery.clone(),
            watches,
            sets: shared.sets.clone(),
            waiting: shared.waiting.clone(),
            events: shared.events.clone(),
            settings: shared.settings.clone(),
            guard: shared.guard.clone(),
            repairs: self.repairs.clone(),
            preflight_permissions: shared.features.preflight_permissions,
            system_namespace: shared.system_namespace.clone(),
            certificate_lifetime: self.config.webhook_certificates.lifetime,
            clock: shared.clock.clone(),
        }
    }

    async fn run_extensions(
        &self,
        source: Source<ClusterExtension>,
        wakes: (&Interests, Vec<BoxStream<'static, Wake<ClusterExtension>>>),
        ports: cluster_extension::Ports,
        stop: CancellationToken,
    ) {
        let name = "controller-operator-cluster-extension-controller";
        let settings = ControllerSettings {
            name,
            concurrency: self.config.max_concurrent_reconciles,
            backoff: BackoffLimits::default(),
            chance: self.process.chance.clone(),
        };
        let controller = Arc::new(cluster_extension::Extensions::new(ports));
        let reporter = controller.clone();
        let report_panic = move |extension| reporter.clone().report_panic(extension);
        let objects = self.process.metrics.objects();
        let reconcile = move |extension: Arc<ClusterExtension>| {
            let controller = controller.clone();
            let conditions = extension.status.as_ref().map(|status| &status.conditions);
            let state = conditions.and_then(|all| all.state(ConditionType::Ready));
            objects.observe(&*extension, "ClusterExtension", "Ready", state);
            async move { Box::pin(controller.reconcile(extension)).await }
        };
        let metrics = self.process.metrics.controller(name);
        run_controller(settings, source, wakes, metrics, stop, reconcile, report_panic).await;
    }

    async fn run_sets(
        &self,
        source: Source<ClusterObjectSet>,
        wakes: (&Interests, Vec<BoxStream<'static, Wake<ClusterObjectSet>>>),
        ports: cluster_object_set::Ports,
        stop: CancellationToken,
    ) {
        let name = "clusterobjectset";
        let concurrency = self.config.max_concurrent_reconciles;
        let (backoff, chance) = (BackoffLimits::default(), self.process.chance.clone());
        let settings = ControllerSettings { name, concurrency, backoff, chance };
        let controller = Arc::new(cluster_object_set::ObjectSets::new(ports));
        let reporter = controller.clone();
        let report_panic = move |set| reporter.clone().report_panic(set);
        let objects = self.process.metrics.objects();
        let reconcile = move |set: Arc<ClusterObjectSet>| {
            let controller = controller.clone();
            let conditions = set.status.as_ref().map(|status| &status.conditions);
            let state = conditions.and_then(|all| all.state(ConditionType::Progressing));
            objects.observe(&*set, "ClusterObjectSet", "Progressing", state);
            async move { Box::pin(controller.reconcile(set)).await }
        };
        let metrics = self.process.metrics.controller(name);
        run_controller(settings, source, wakes, metrics, stop, reconcile, report_panic).await;
    }
}
