//! Wires the parts together and runs them.

mod campaign;
mod loops;
#[cfg(test)]
mod simulation;

use std::sync::Arc;

use catalogd::{Catalogd, StoreError};
use olm_bundle::MEMORY_BYTES_MAX;
use olm_bundles::Bundles;
use olm_runtime::{LeaseLost, MemoryBudget, Process, ProcessError, SystemClock};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Config,
    content::{Content, Remote},
    events::Events,
    facts::{platform::Platform, policies::Guard},
    leftovers,
    metrics::DriftRepairs,
};
pub(crate) use loops::{Loops, Options};

/// Lease of the extension side, upstream's.
pub const LEASE: &str = "9c4404e7.operatorframework.io";
/// Service that metrics are scraped by.
const METRICS_SERVICE: &str = "operator-controller-service";
/// Secret with the serving certificate, where catalogd runs on its own.
const METRICS_SECRET: &str = "operator-controller-serving-cert";

/// Why the program could not run, or had to end.
#[derive(Debug, Error)]
pub enum OperatorError {
    /// Certificate, ports, or a part that failed.
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
    #[error(transparent)]
    LeadershipLost(#[from] LeaseLost),
}

/// operator-controller with catalogd inside, ready to be run.
pub struct Operator {
    config: Config,
    process: Process,
    loops: Loops,
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
        let clock = Arc::new(SystemClock);
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
                clock.clone(),
                &process.metrics,
                &mut process.registry,
            )?;
            Content::Embedded(Box::new(catalogd.within(memory)))
        };
        let loops = Loops {
            accounts: process.accounts.clone(),
            content,
            bundles,
            metrics: process.metrics.clone(),
            guard,
            platform,
            repairs,
            options: Options {
                system_namespace: process.namespace().to_owned(),
                identity: process.identity().to_owned(),
                default_account: config.default_account.clone(),
                catalog_deadline: config.catalog_deadline,
                features: config.gates.features(config.webhook_certificates.provider),
                certificate_lifetime: config.webhook_certificates.lifetime,
                concurrency: config.max_concurrent_reconciles,
            },
            clock,
            chance: process.chance.clone(),
        };
        Ok(Self { config, process, loops })
    }

    /// Runs until a signal comes.
    ///
    /// # Errors
    /// An address cannot be listened on, a part of the process failed, or leadership was lost.
    pub async fn run(mut self) -> Result<(), OperatorError> {
        let shutdown = self.process.shutdown.clone();
        let (leads, leader) = watch::channel(false);
        self.serve().await?;
        let content = self.loops.content.clone();
        self.process.follow_pull_secrets(move || content.wake()).await;
        let catalogs_ended = CancellationToken::new();
        if let Content::Embedded(catalogd) = &self.loops.content {
            let running = catalogd.clone().run(leader, self.process.chance.clone(), shutdown.clone());
            let ended = catalogs_ended.clone();
            self.process.spawn("the controller of catalogs", async move {
                running.await;
                ended.cancel();
            });
        }
        let (bundles, asked_to_end) = (self.loops.bundles.clone(), shutdown.clone());
        self.process.spawn("the bundles", async move {
            asked_to_end.cancelled().await;
            bundles.stop();
        });
        let leftovers = self.leftovers(shutdown.clone());
        self.process.spawn("the report on leftovers", leftovers);
        let led = if self.process.leader_elect() {
            Box::pin(self.campaign(&leads, &catalogs_ended)).await
        } else {
            leads.send_replace(true);
            Box::pin(self.lead(shutdown)).await;
            Ok(())
        };
        self.process.end().await?;
        Ok(led?)
    }

    /// Before leading: a leftover may be what this program waits for.
    fn leftovers(&self, shutdown: CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        let client = self.process.client();
        let events = Events::new(client.clone(), self.process.identity());
        let namespace = self.process.namespace().to_owned();
        let embedded = matches!(self.loops.content, Content::Embedded(_));
        async move {
            let reporting = Box::pin(leftovers::report(client, &namespace, embedded, &events));
            let _ = shutdown.run_until_cancelled(reporting).await;
        }
    }

    /// Starts the servers of catalogs, metrics and health, which run on every replica.
    async fn serve(&mut self) -> Result<(), ProcessError> {
        let (secret, names) = self.kept_certificate();
        let content = self.loops.content.clone();
        let tls = self.process.serve((secret, &names), move || content.ready()).await?;
        if let Content::Embedded(catalogd) = &self.loops.content {
            let (address, router) = (&self.config.catalogs_address, catalogd.router());
            self.process.spawn_server("the server of catalogs", address, router, Some(tls))?;
        }
        Ok(())
    }

    /// The Secret with the serving certificate that is made here, and the names that it is for. Beside a catalogd
    /// on its own, that one's Secret is left to it.
    fn kept_certificate(&self) -> (&'static str, Vec<String>) {
        let (secret, mut names) = if let Content::Embedded(_) = &self.loops.content {
            (catalogd::SERVING_SECRET, self.config.catalogd.serving_names())
        } else {
            (METRICS_SECRET, vec!["localhost".to_owned()])
        };
        let own = format!("{METRICS_SERVICE}.{}.svc", self.process.namespace());
        names.extend([own.clone(), format!("{own}.cluster.local")]);
        (secret, names)
    }

    /// Works on extensions and revisions, which only the leader may do.
    async fn lead(&self, stop: CancellationToken) {
        self.process.metrics.leading(true);
        Box::pin(self.loops.run(stop)).await;
        self.process.metrics.leading(false);
    }
}
