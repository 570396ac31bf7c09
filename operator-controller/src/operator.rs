//! Wires the parts together and runs them.

mod campaign;
mod loops;
#[cfg(test)]
mod simulation;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use catalogd::{Catalogd, PullSecrets, StoreError, SystemClock};
use futures::FutureExt;
use olm_bundle::MEMORY_BYTES_MAX;
use olm_image::Puller;
use olm_runtime::{
    Accounts, CertWatcher, Certificate, Chance, ClientError, Fence, HttpError, LeaseLost, MemoryBudget,
    Metrics, ServerLimits, ServingSecret, TlsError, ends_in_time, health_router, listen, metrics_router,
    serve, server_config,
};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    bundles::Bundles,
    config::Config,
    content::{Content, Remote},
    events::Events,
    facts::{platform::Platform, policies::Guard},
    leftovers,
};
pub(crate) use loops::{Loops, Options};

/// Lease of the extension side, the original's.
const LEASE: &str = "9c4404e7.operatorframework.io";
/// Service that metrics are scraped by.
const METRICS_SERVICE: &str = "operator-controller-service";
/// How long servers and other parts may take to end once nothing is written any more.
const PARTS_END: Duration = Duration::from_secs(3);
/// Secret with the serving certificate, where catalogd runs on its own.
const METRICS_SECRET: &str = "operator-controller-serving-cert";

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
    /// Another process may lead now.
    #[error("{0}: this one ends to start afresh")]
    LeadershipLost(#[from] LeaseLost),
}

/// operator-controller with catalogd inside, ready to be run.
pub struct Operator {
    config: Config,
    accounts: Accounts,
    content: Content,
    credentials: Option<PullSecrets>,
    bundles: Bundles,
    metrics: Metrics,
    registry: Arc<Registry>,
    guard: Guard,
    platform: Arc<Platform>,
    fence: Fence,
    chance: Chance,
}

impl Operator {
    /// Opens caches and builds the parts; nothing runs yet.
    ///
    /// # Errors
    /// A cache folder or the cluster's configuration cannot be used.
    pub fn new(config: Config) -> Result<Self, OperatorError> {
        let (fence, chance) = (Fence::default(), Chance::default());
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let accounts = Accounts::counted(&config.cluster, &metrics.requests(), &fence)?;
        let guard = Guard::new(&mut registry);
        let platform = Arc::new(Platform::register(&mut registry));
        let puller = Puller::new(config.puller.clone());
        // Without Secrets to look at, the credentials stay those of the configuration.
        let credentials = (config.global_pull_secret.is_some() || config.own_account.is_some()).then(|| {
            let (global, account) = (config.global_pull_secret.clone(), config.own_account.clone());
            PullSecrets::new(accounts.controller(), puller.keyring().clone(), global, account, &chance)
        });
        let memory = MemoryBudget::new(MEMORY_BYTES_MAX);
        let folder = |name| config.cache_path.join(name);
        let bundles = Bundles::new(&puller, folder("bundles"), memory.clone())
            .and_then(|bundles| bundles.noting(folder("reading")))
            .map_err(|source| OperatorError::Cache {
                path: config.cache_path.display().to_string(),
                source,
            })?;
        let cluster = accounts.controller();
        let content = if let Some(remote) = &config.remote_catalogd {
            Content::Remote(Remote::new(remote, cluster, &folder("catalogs"), puller.disk().clone())?)
        } else {
            let catalogd = Catalogd::new(
                config.catalogd.clone(),
                cluster,
                Arc::new(puller),
                Arc::new(SystemClock),
                &metrics,
                &mut registry,
            )?;
            Content::Embedded(Box::new(catalogd.within(memory)))
        };
        Ok(Self {
            config,
            accounts,
            content,
            credentials,
            bundles,
            metrics,
            registry: Arc::new(registry),
            guard,
            platform,
            fence,
            chance,
        })
    }

    /// Runs until `shutdown`.
    ///
    /// # Errors
    /// An address cannot be listened on, or leadership was lost.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), OperatorError> {
        // Cancelled by what ends this process from within, too.
        let shutdown = shutdown.child_token();
        let (leads, leader) = watch::channel(false);
        let (bundles, asked_to_end) = (self.bundles.clone(), shutdown.clone());
        let stop_noting = async move {
            asked_to_end.cancelled().await;
            bundles.stop();
        };
        let mut tasks = self.serve(&shutdown).await?;
        if let Some(credentials) = self.credentials.take() {
            if let Err(error) = credentials.load().await {
                tracing::warn!(%error, "starting without credentials for registries");
            }
            let (content, shutdown) = (self.content.clone(), shutdown.clone());
            tasks.push(tokio::spawn(async move { credentials.run(shutdown, || content.wake()).await }));
        }
        let catalogs_ended = CancellationToken::new();
        if let Content::Embedded(catalogd) = &self.content {
            let running = catalogd.clone().run(leader, self.chance.clone(), shutdown.clone());
            // Also when it panics.
            let ended = catalogs_ended.clone().drop_guard();
            tasks.push(tokio::spawn(async move {
                running.await;
                drop(ended);
            }));
        }
        tasks.push(tokio::spawn(stop_noting));
        tasks.push(tokio::spawn(self.leftovers(shutdown.clone())));
        let led = match self.config.leader_election {
            None => {
                leads.send_replace(true);
                Box::pin(self.lead(shutdown.clone())).await;
                Ok(())
            }
            Some(terms) => Box::pin(self.campaign(terms, &leads, &catalogs_ended, &shutdown)).await,
        };
        shutdown.cancel();
        let ended = async {
            for task in &mut tasks {
                // They end with `shutdown`; a panic in one has been logged by the runtime.
                let _ = task.await;
            }
        };
        if ends_in_time(ended, &shutdown, PARTS_END).await.is_none() {
            tracing::warn!("parts that did not end in time are dropped");
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
        }
        Ok(led?)
    }

    /// Before leading: a leftover may be what this program waits for.
    fn leftovers(&self, shutdown: CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        let client = self.accounts.controller();
        let events = Events::new(client.clone(), &self.config.identity);
        let namespace = self.config.system_namespace.clone();
        let embedded = matches!(self.content, Content::Embedded(_));
        async move {
            let reporting = Box::pin(leftovers::report(client, &namespace, embedded, &events));
            let _ = shutdown.run_until_cancelled(reporting).await;
        }
    }

    /// Starts the servers of catalogs, metrics and health, which run on every replica.
    async fn serve(
        &self,
        shutdown: &CancellationToken,
    ) -> Result<Vec<tokio::task::JoinHandle<()>>, OperatorError> {
        let mut tasks = Vec::new();
        let certificate = if let Some((cert, key)) = &self.config.tls {
            Certificate::Files(CertWatcher::new(cert, key)?.counted(self.metrics.certificate_reads()))
        } else {
            let (client, namespace) = (self.accounts.controller(), &self.config.system_namespace);
            let (secret, names) = self.kept_certificate();
            let kept = ServingSecret::open(client, namespace, secret, &names, &self.chance).await?;
            Certificate::Kept(Box::new(kept))
        };
        let tls = server_config(certificate.serving(), &self.config.tls_profile)?;
        tasks.push(tokio::spawn(certificate.run(shutdown.clone())));
        if let Some(address) = &self.config.metrics_address {
            let router = metrics_router(self.registry.clone(), self.accounts.controller());
            tasks.push(spawn_server("metrics", listen(address)?, router, Some(tls.clone()), shutdown));
        }
        if let Content::Embedded(catalogd) = &self.content {
            let catalogs = listen(&self.config.catalogs_address)?;
            tasks.push(spawn_server("catalogs", catalogs, catalogd.router(), Some(tls), shutdown));
        }
        if let Some(address) = &self.config.health_address {
            let content = self.content.clone();
            let health = health_router(move || content.ready());
            tasks.push(spawn_server("health", listen(address)?, health, None, shutdown));
        }
        Ok(tasks)
    }

    /// The Secret with the serving certificate that is made here, and the names that it is for. Beside a catalogd
    /// on its own, that one's Secret is left to it.
    fn kept_certificate(&self) -> (&'static str, Vec<String>) {
        let own = format!("{METRICS_SERVICE}.{}.svc", self.config.system_namespace);
        let own = [own.clone(), format!("{own}.cluster.local")];
        if let Content::Embedded(_) = &self.content {
            let mut names = self.config.catalogd.serving_names();
            names.extend(own);
            (catalogd::SERVING_SECRET, names)
        } else {
            let mut names = vec!["localhost".to_owned()];
            names.extend(own);
            (METRICS_SECRET, names)
        }
    }

    /// Works on extensions and revisions, which only the leader may do.
    async fn lead(&self, stop: CancellationToken) {
        self.metrics.leading(true);
        Box::pin(self.loops().run(stop)).await;
        self.metrics.leading(false);
    }

    /// The controllers, as they run here.
    fn loops(&self) -> Loops {
        let config = &self.config;
        Loops {
            accounts: self.accounts.clone(),
            content: self.content.clone(),
            bundles: self.bundles.clone(),
            metrics: self.metrics.clone(),
            guard: self.guard.clone(),
            platform: self.platform.clone(),
            options: Options {
                system_namespace: config.system_namespace.clone(),
                identity: config.identity.clone(),
                default_account: config.default_account.clone(),
                catalog_deadline: config.catalog_deadline,
                features: config.gates.features(config.webhook_certificates.provider),
                certificate_lifetime: config.webhook_certificates.lifetime,
                concurrency: config.max_concurrent_reconciles,
            },
            clock: Arc::new(SystemClock),
            chance: self.chance.clone(),
        }
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
