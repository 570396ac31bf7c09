//! Wires the parts together and runs them.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use catalogd::{Catalogd, PullSecrets, StoreError, SystemClock};
use futures::{FutureExt, StreamExt, stream::BoxStream};
use kube::{
    ResourceExt,
    core::DeserializeGuard,
    runtime::reflector::{ObjectRef, Store},
};
use olm_api::{
    names::{MANAGED_BY, MANAGED_BY_LABEL},
    v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet},
};
use olm_image::Puller;
use olm_runtime::{
    Accounts, BackoffLimits, CertWatcher, Certificate, ClientError, ControllerSettings, Discovery, Elector,
    HttpError, Metrics, OwnerChanged, ServerLimits, ServingSecret, Source, Terms, TlsError, Wake,
    WatchManager, health_router, listen, run_controller, serve, server_config,
};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{self, Waiting},
    admission::{self, Guard},
    bundles::Bundles,
    catalogs::{self, Catalogs},
    config::Config,
    controllers::{cluster_extension, cluster_object_set},
    dependents::{self, Dependents},
    events::Events,
    kinds::{self, Awaited, Wakes},
    platform::Platform,
    settings::Settings,
};

/// Lease of the extension side, the original's.
const LEASE: &str = "9c4404e7.operatorframework.io";
/// Extensions worked on at the same time.
const CONCURRENT_EXTENSIONS: u16 = 8;
/// Revisions worked on at the same time.
const CONCURRENT_SETS: u16 = 8;
/// Wakes that may wait in a channel before their sender waits.
const WAKES: usize = 1024;

/// Why the program could not run, or had to end.
#[derive(Debug, Error)]
pub enum OperatorError {
    /// No client for the cluster.
    #[error(transparent)]
    Client(#[from] ClientError),
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
    /// An address cannot be listened on.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The certificate for serving cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Another process leads now.
    #[error("leadership lost: another process may lead now, this one ends to start afresh")]
    LeadershipLost,
}

/// operator-controller with catalogd inside, ready to be run.
pub struct Operator {
    config: Config,
    accounts: Accounts,
    catalogd: Catalogd,
    credentials: Option<PullSecrets>,
    bundles: Bundles,
    metrics: Metrics,
    guard: Guard,
    platform: Arc<Platform>,
}

impl Operator {
    /// Opens caches and builds the parts; nothing runs yet.
    ///
    /// # Errors
    /// A cache folder or the cluster's configuration cannot be used.
    pub fn new(config: Config) -> Result<Self, OperatorError> {
        let accounts = Accounts::new(&config.cluster)?;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let guard = Guard::new(&mut registry);
        let platform = Arc::new(Platform::register(&mut registry));
        let puller = Puller::new(config.puller.clone());
        // Without Secrets to look at, the credentials stay those of the configuration.
        let credentials = (config.global_pull_secret.is_some() || config.own_account.is_some()).then(|| {
            let (global, account) = (config.global_pull_secret.clone(), config.own_account.clone());
            PullSecrets::new(accounts.controller(), puller.keyring().clone(), global, account)
        });
        let bundles = Bundles::new(puller.clone(), config.cache_path.join("bundles")).map_err(|source| {
            OperatorError::Cache { path: config.cache_path.display().to_string(), source }
        })?;
        let catalogd = Catalogd::new(
            config.catalogd.clone(),
            accounts.controller(),
            Arc::new(puller),
            Arc::new(SystemClock),
            &metrics,
            &mut registry,
        )?;
        Ok(Self { config, accounts, catalogd, credentials, bundles, metrics, guard, platform })
    }

    /// Runs until `shutdown`.
    ///
    /// # Errors
    /// An address cannot be listened on, or leadership was lost.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), OperatorError> {
        let (leads, leader) = watch::channel(false);
        let mut tasks = self.serve(&shutdown).await?;
        if let Some(credentials) = self.credentials.take() {
            if let Err(error) = credentials.load().await {
                tracing::warn!(%error, "starting without credentials for registries");
            }
            let (catalogd, shutdown) = (self.catalogd.clone(), shutdown.clone());
            tasks.push(tokio::spawn(async move { credentials.run(shutdown, || catalogd.wake()).await }));
        }
        tasks.push(tokio::spawn(self.catalogd.clone().run(leader, shutdown.clone())));
        let lost = match self.config.leader_election {
            None => {
                Box::pin(self.lead(&leads, shutdown.clone())).await;
                false
            }
            Some(terms) => Box::pin(self.campaign(terms, &leads, &shutdown)).await,
        };
        shutdown.cancel();
        for task in tasks {
            // They end with `shutdown`; a panic in one has been logged by the runtime.
            let _ = task.await;
        }
        if lost { Err(OperatorError::LeadershipLost) } else { Ok(()) }
    }

    /// Leads when elected. Returns whether leadership was lost.
    ///
    /// catalogd's lease is a second one: while somebody else holds it, the original's catalogd included, the
    /// catalogs here follow.
    async fn campaign(
        &self,
        terms: Terms,
        leads: &watch::Sender<bool>,
        shutdown: &CancellationToken,
    ) -> bool {
        let client = self.accounts.controller();
        let (namespace, identity) = (&self.config.system_namespace, &self.config.identity);
        let candidate = |lease: &str| Elector::new(client.clone(), namespace, lease, identity, terms);
        let catalogs_lost = AtomicBool::new(false);
        let lead = |stop| Box::pin(self.lead(leads, stop));
        let lost = candidate(LEASE)
            .lead(shutdown.clone(), |stop| async {
                let lost = candidate(catalogd::LEASE).lead(stop, lead).await;
                catalogs_lost.store(lost, Ordering::Relaxed);
            })
            .await;
        lost || catalogs_lost.load(Ordering::Relaxed)
    }

    /// Starts the servers of catalogs and health, which run on every replica.
    async fn serve(
        &self,
        shutdown: &CancellationToken,
    ) -> Result<Vec<tokio::task::JoinHandle<()>>, OperatorError> {
        let mut tasks = Vec::new();
        let certificate = if let Some((cert, key)) = &self.config.tls {
            Certificate::Files(CertWatcher::new(cert, key)?)
        } else {
            let (client, namespace) = (self.accounts.controller(), &self.config.system_namespace);
            let names = self.config.catalogd.serving_names();
            Certificate::Kept(Box::new(
                ServingSecret::open(client, namespace, catalogd::SERVING_SECRET, &names).await?,
            ))
        };
        let tls = server_config(certificate.serving(), &self.config.tls_profile)?;
        tasks.push(tokio::spawn(certificate.run(shutdown.clone())));
        let catalogs = listen(&self.config.catalogs_address)?;
        tasks.push(spawn_server("catalogs", catalogs, self.catalogd.router(), Some(tls), shutdown));
        if let Some(address) = &self.config.health_address {
            let content = self.catalogd.clone();
            let health = health_router(move || content.ready());
            tasks.push(spawn_server("health", listen(address)?, health, None, shutdown));
        }
        Ok(tasks)
    }

    /// Runs everything that only the leader may do.
    async fn lead(&self, leads: &watch::Sender<bool>, stop: CancellationToken) {
        leads.send_replace(true);
        self.metrics.leading(true);
        self.controllers(stop).await;
        leads.send_replace(false);
        self.metrics.leading(false);
    }

    async fn controllers(&self, stop: CancellationToken) {
        let client = self.accounts.controller();
        let discovery = Discovery::new(client.clone());
        let waiting = Arc::new(Waiting::default());
        let (wake_extension, woken_extensions) = mpsc::channel::<String>(WAKES);
        let (wake_set, woken_sets) = mpsc::channel::<String>(WAKES);
        let (owner_changed, changed_owners) = mpsc::channel::<OwnerChanged>(WAKES);

        let dependents = Arc::new(Dependents::new(wake_extension.clone()));
        let sets = revisions(client.clone(), wake_extension.clone(), dependents.clone());
        let extensions = Source::<ClusterExtension>::all(client.clone());
        let known_catalogs = Source::<ClusterCatalog>::all(client.clone());
        let settings = Settings::new(self.config.default_account.clone());
        let kinds = Arc::new(Awaited::default());
        let (changed_crd, changed_crds) = mpsc::channel::<String>(WAKES);
        let kind_wakes =
            Wakes { extensions: wake_extension.clone(), sets: wake_set.clone(), crds: changed_crd };
        let events = Events::new(client.clone(), &self.config.identity);
        let ports = cluster_extension::Ports {
            accounts: self.accounts.clone(),
            discovery: discovery.clone(),
            catalogs: Catalogs::new(
                known_catalogs.store.clone(),
                self.catalogd.reader(),
                self.config.catalog_deadline,
            ),
            bundles: self.bundles.clone(),
            events: events.clone(),
            waiting: waiting.clone(),
            sets: sets.store.clone(),
            dependents: dependents.clone(),
            kinds: kinds.clone(),
            platform: self.platform.clone(),
            features: self.config.gates.features(self.config.webhook_certificates.provider),
            settings: settings.clone(),
            guard: self.guard.clone(),
            system_namespace: self.config.system_namespace.clone(),
        };
        let managed = format!("{MANAGED_BY_LABEL}={MANAGED_BY}");
        let watches = WatchManager::new(client.clone(), &managed, owner_changed);
        let set_ports = self.set_ports(&ports, watches);
        let all_extensions = extensions.store.clone();
        let (of_all, known) = (wake_extension.clone(), extensions.store.clone());
        let wake_all = async || wake_each(&known, &of_all).await;
        let namespace = &self.config.system_namespace;
        let set_wakes = vec![names(woken_sets), owners(changed_owners, sets.store.clone())];
        let extension_wakes = vec![names(woken_extensions)];
        tokio::join!(
            catalogs::follow(
                known_catalogs,
                self.catalogd.changes(),
                all_extensions,
                wake_extension.clone(),
                stop.clone()
            ),
            kinds::run(client.clone(), discovery, kinds, kind_wakes, stop.clone()),
            dependents::run(
                client.clone(),
                changed_crds,
                dependents,
                &self.platform,
                &wake_all,
                stop.clone()
            ),
            settings.follow(client.clone(), namespace, &wake_all, stop.clone()),
            admission::run(client.clone(), namespace, self.guard.clone(), events, &wake_all, stop.clone()),
            access::run(client, waiting, wake_extension, wake_set, stop.clone()),
            self.run_extensions(extensions, extension_wakes, ports, stop.clone()),
            self.run_sets(sets, set_wakes, set_ports, stop),
        );
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
            kinds: shared.kinds.clone(),
            preflight_permissions: shared.features.preflight_permissions,
            system_namespace: shared.system_namespace.clone(),
            certificate_lifetime: self.config.webhook_certificates.lifetime,
        }
    }

    async fn run_extensions(
        &self,
        source: Source<ClusterExtension>,
        wakes: Vec<BoxStream<'static, Wake<ClusterExtension>>>,
        ports: cluster_extension::Ports,
        stop: CancellationToken,
    ) {
        let name = "controller-operator-cluster-extension-controller";
        let settings = ControllerSettings {
            name,
            concurrency: CONCURRENT_EXTENSIONS,
            backoff: BackoffLimits::default(),
        };
        let controller = Arc::new(cluster_extension::Extensions::new(ports));
        let reconcile = move |extension| {
            let controller = controller.clone();
            async move { Box::pin(controller.reconcile(extension)).await }
        };
        run_controller(settings, source, wakes, self.metrics.controller(name), stop, reconcile).await;
    }

    async fn run_sets(
        &self,
        source: Source<ClusterObjectSet>,
        wakes: Vec<BoxStream<'static, Wake<ClusterObjectSet>>>,
        ports: cluster_object_set::Ports,
        stop: CancellationToken,
    ) {
        let name = "clusterobjectset";
        let settings =
            ControllerSettings { name, concurrency: CONCURRENT_SETS, backoff: BackoffLimits::default() };
        let controller = Arc::new(cluster_object_set::ObjectSets::new(ports));
        let reconcile = move |set| {
            let controller = controller.clone();
            async move { Box::pin(controller.reconcile(set)).await }
        };
        run_controller(settings, source, wakes, self.metrics.controller(name), stop, reconcile).await;
    }
}

/// Serves in a task of its own; a server that fails or panics ends the process, so that it is started afresh.
fn spawn_server(
    name: &'static str,
    listener: std::net::TcpListener,
    router: axum::Router,
    tls: Option<Arc<rustls::ServerConfig>>,
    shutdown: &CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        let server = serve(listener, router, tls, ServerLimits::default(), shutdown.clone());
        match AssertUnwindSafe(server).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(server = name, %error, "server ended"),
            Err(_) => tracing::error!(server = name, "server panicked"),
        }
        shutdown.cancel();
    })
}

/// Wakes every extension.
async fn wake_each(extensions: &Store<DeserializeGuard<ClusterExtension>>, wake: &mpsc::Sender<String>) {
    for extension in extensions.state() {
        // A closed channel means that the process is ending.
        let _ = wake.send(extension.name_any()).await;
    }
}

/// The revisions. One that changes wakes its extension, and those that wait for something to be installed.
fn revisions(
    client: kube::Client,
    wake: mpsc::Sender<String>,
    dependents: Arc<Dependents>,
) -> Source<ClusterObjectSet> {
    Source::<ClusterObjectSet>::all(client).observed(move |set| {
        let owner =
            set.owner_references().iter().find(|r| r.controller == Some(true)).map(|r| r.name.clone());
        let (wake, dependents) = (wake.clone(), dependents.clone());
        let goes = set.metadata.deletion_timestamp.is_some();
        async move {
            if let Some(owner) = owner {
                // A closed channel means that the process is ending.
                let _ = wake.send(owner).await;
            }
            if goes { dependents.wake_met().await } else { dependents.wake().await }
        }
    })
}

/// Wakes by name.
fn names<K>(receiver: mpsc::Receiver<String>) -> BoxStream<'static, Wake<K>>
where
    K: kube::Resource<DynamicType = ()> + 'static,
{
    futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|name| (name, receiver))
    })
    .map(|name| ObjectRef::<DeserializeGuard<K>>::new(&name))
    .boxed()
}

/// Wakes of the revisions whose objects changed; what belongs to an extension as a whole, such as the Secrets of
/// its webhooks, wakes all of its revisions.
fn owners(
    receiver: mpsc::Receiver<OwnerChanged>,
    sets: Store<DeserializeGuard<ClusterObjectSet>>,
) -> BoxStream<'static, Wake<ClusterObjectSet>> {
    let of_extension = |extension: &str, set: &ClusterObjectSet| {
        set.owner_references().iter().any(|r| r.kind == "ClusterExtension" && r.name == extension)
    };
    futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|owner| (owner, receiver))
    })
    .flat_map(move |owner| {
        let state = sets.state();
        let known = state.iter().filter_map(|guarded| guarded.0.as_ref().ok());
        let woken: Vec<String> = match owner {
            OwnerChanged::Named { kind, name } => match kind.as_str() {
                "ClusterObjectSet" => vec![name],
                "ClusterExtension" => {
                    known.filter(|set| of_extension(&name, set)).map(ResourceExt::name_any).collect()
                }
                _ => Vec::new(),
            },
            // The Secrets of webhooks belong to the extension.
            OwnerChanged::Kept { uid } => {
                let is_owner = |set: &&ClusterObjectSet| {
                    set.uid().as_deref() == Some(uid.as_str())
                        || set.owner_references().iter().any(|r| r.uid == uid)
                };
                known.filter(is_owner).map(ResourceExt::name_any).collect()
            }
        };
        futures::stream::iter(woken)
    })
    .map(|name| ObjectRef::new(&name))
    .boxed()
}
