//! The program: flags to configuration, and everything that runs beside the controller.

use std::{sync::Arc, time::Duration};

use clap::{Parser, Subcommand};
use olm_image::Puller;
use olm_runtime::{
    CertWatcher, Certificate, Chance, ClientError, DEFAULT_TERMS, Elector, Fence, HttpError, LeaseLost,
    Metrics, ServerLimits, ServingSecret, TlsError, cluster_config, connect_counted, ends_in_time,
    health_router, listen, metrics_router, on_signal, serve, server_config,
};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    Catalogd, Config, ConfigError, FeatureGates, FlagError, LEASE, PullSecrets, SERVING_SECRET, SharedFlags,
    StoreError, SystemClock, log_gates,
};

/// Where catalog content is served without the flag.
const CATALOGS_ADDRESS: &str = ":8443";
/// Where metrics are served without the flag.
const METRICS_ADDRESS: &str = ":7443";

/// How long the program may take to end.
const ENDS: Duration = Duration::from_secs(8);

/// Serves the content of ClusterCatalogs.
#[derive(Debug, Clone, Parser)]
#[command(name = "catalogd", version, disable_version_flag = true, args_override_self = true)]
pub struct Command {
    #[command(subcommand)]
    command: Option<SubCommand>,
    /// What both programs are told.
    #[command(flatten)]
    pub shared: SharedFlags,
}

#[derive(Debug, Clone, Subcommand)]
enum SubCommand {
    /// Prints the version.
    Version,
}

/// Why the program ended.
#[derive(Debug, Error)]
pub enum CommandError {
    /// A flag that both programs have.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// A feature gate.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No cluster.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A port.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Signals cannot be caught, or a folder cannot be made.
    #[error("starting: {0}")]
    Io(#[from] std::io::Error),
    /// The lease went to another process.
    #[error("{0}: this one ends to start afresh")]
    LeaseLost(#[from] LeaseLost),
}

impl Command {
    /// Runs until a signal comes.
    ///
    /// # Errors
    /// The flags contradict each other, something at the start fails, or the lease is lost.
    pub async fn run(self) -> Result<(), CommandError> {
        if matches!(self.command, Some(SubCommand::Version)) {
            tell_version();
            return Ok(());
        }
        let config = self.config()?;
        for told in self.shared.without_effect() {
            tracing::warn!("{told}");
        }
        log_gates(config.gates());
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let profile = self.shared.tls_profile()?;
        let shutdown = on_signal()?;
        let cluster = cluster_config(self.shared.kubeconfig.as_deref()).await?;
        let client = connect_counted(cluster, metrics.requests())?;
        let (fence, chance) = (Fence::default(), Chance::default());
        let puller = Puller::new(self.shared.puller(config.cache_dir.join("spool"))?);
        let credentials = self.credentials(&client, &puller, &chance).await?;
        let clock = Arc::new(SystemClock);
        let names = config.serving_names();
        let catalogd = Catalogd::new(
            config,
            fence.around(client.clone()),
            Arc::new(puller),
            clock,
            &metrics,
            &mut registry,
        )?;
        let certificate = self.certificate(&client, &names, &chance, &metrics).await?;
        let tls = server_config(certificate.serving(), &profile)?;
        let content = serve(
            listen(&self.shared.catalogs_address(CATALOGS_ADDRESS))?,
            catalogd.router(),
            Some(tls.clone()),
            ServerLimits::default(),
            shutdown.clone(),
        );
        let metrics_page =
            self.metrics(metrics_router(Arc::new(registry), client.clone()), tls, shutdown.clone());
        let health = self.health(catalogd.clone(), shutdown.clone());
        let watching = async {
            certificate.run(shutdown.clone()).await;
            Ok(())
        };
        let woken = catalogd.clone();
        let secrets = async {
            if let Some(credentials) = credentials {
                credentials.run(shutdown.clone(), || woken.wake()).await;
            }
            Ok(())
        };
        let leading = self.lead(catalogd, (client, &fence, &chance), &metrics, shutdown.clone());
        let parts = async {
            let ended =
                tokio::try_join!(content_result(content), metrics_page, health, watching, secrets, leading);
            ended.map(|_| ())
        };
        let ended = Box::pin(ends_in_time(parts, &shutdown, ENDS)).await;
        shutdown.cancel();
        ended.unwrap_or_else(|| {
            tracing::warn!("parts that did not end in time are dropped");
            Ok(())
        })
    }

    /// The credentials that are kept in Secrets, read once. Without Secrets, those of the configuration stay.
    async fn credentials(
        &self,
        client: &kube::Client,
        puller: &Puller,
        chance: &Chance,
    ) -> Result<Option<PullSecrets>, CommandError> {
        let (secret, account) = (self.shared.pull_secret()?, self.shared.account());
        if secret.is_none() && account.is_none() {
            return Ok(None);
        }
        let credentials = PullSecrets::new(client.clone(), puller.keyring().clone(), secret, account, chance);
        if let Err(error) = credentials.load().await {
            tracing::warn!(%error, "starting without credentials for registries");
        }
        Ok(Some(credentials))
    }

    /// That of the flags, else the one that the cluster keeps.
    async fn certificate(
        &self,
        client: &kube::Client,
        names: &[String],
        chance: &Chance,
        metrics: &Metrics,
    ) -> Result<Certificate, CommandError> {
        if let Some((cert, key)) = self.shared.certificate_files()? {
            return Ok(Certificate::Files(
                CertWatcher::new(&cert, &key)?.counted(metrics.certificate_reads()),
            ));
        }
        let (client, namespace) = (client.clone(), self.shared.namespace());
        let kept = ServingSecret::open(client, &namespace, SERVING_SECRET, names, chance).await?;
        Ok(Certificate::Kept(Box::new(kept)))
    }

    /// The settings of catalogd itself.
    fn config(&self) -> Result<Config, CommandError> {
        self.shared.certificate_files()?;
        let mut config = self.shared.config()?;
        config.apply_feature_gates(&FeatureGates::parse(&self.shared.feature_gates)?)?;
        Ok(config)
    }

    async fn metrics(
        &self,
        router: axum::Router,
        tls: Arc<rustls::ServerConfig>,
        shutdown: CancellationToken,
    ) -> Result<(), CommandError> {
        let Some(address) = self.shared.metrics_address(METRICS_ADDRESS) else { return Ok(()) };
        Ok(serve(listen(&address)?, router, Some(tls), ServerLimits::default(), shutdown).await?)
    }

    async fn health(&self, catalogd: Catalogd, shutdown: CancellationToken) -> Result<(), CommandError> {
        let Some(address) = self.shared.health_address() else { return Ok(()) };
        let listener = listen(&address)?;
        let router = health_router(move || catalogd.ready());
        Ok(serve(listener, router, None, ServerLimits::default(), shutdown).await?)
    }

    /// Runs the controller, as leader when this process is or need not be elected.
    async fn lead(
        &self,
        catalogd: Catalogd,
        (client, fence, chance): (kube::Client, &Fence, &Chance),
        metrics: &Metrics,
        shutdown: CancellationToken,
    ) -> Result<(), CommandError> {
        let (leader, leads) = watch::channel(!self.shared.leader_elect);
        if !self.shared.leader_elect {
            catalogd.run(leads, chance.clone(), shutdown).await;
            drop(leader);
            return Ok(());
        }
        let (namespace, identity) = (self.shared.namespace(), self.shared.identity("catalogd"));
        let elector = Elector::new(client, &namespace, LEASE, &identity, DEFAULT_TERMS);
        let elector = elector.seeded(chance).fenced(fence);
        let catalogs_ended = CancellationToken::new();
        let election = async {
            let led = elector.lead(shutdown.clone(), |stop| async {
                metrics.leading(true);
                leader.send_replace(true);
                stop.cancelled_owned().await;
                // What is written as leader ends before the lease is released.
                catalogs_ended.cancelled().await;
                leader.send_replace(false);
                metrics.leading(false);
            });
            let led = led.await;
            shutdown.cancel();
            Ok(led?)
        };
        let running = async {
            catalogd.run(leads, chance.clone(), shutdown.clone()).await;
            catalogs_ended.cancel();
            Ok(())
        };
        tokio::try_join!(election, running).map(|_| ())
    }
}

/// Prints the version, quoted as the original does.
#[expect(clippy::print_stdout, reason = "the sub-command's output")]
fn tell_version() {
    println!("{:?}", format!("catalogd version {}", env!("CARGO_PKG_VERSION")));
}

async fn content_result(serving: impl Future<Output = Result<(), HttpError>>) -> Result<(), CommandError> {
    Ok(serving.await?)
}

#[cfg(test)]
mod tests;
