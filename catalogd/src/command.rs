//! The program: flags to configuration, and everything that runs beside the controller.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Parser;
use olm_image::{Puller, PullerConfig};
use olm_runtime::{
    CertWatcher, ClientError, DEFAULT_TERMS, Elector, HttpError, Metrics, ServerLimits, ServingCert,
    TlsError, TlsProfile, TlsProfileError, cluster_config, connect, health_router, listen, on_signal,
    self_signed, serve, server_config,
};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    Catalogd, Config, ConfigError, LEASE, PullSecrets, StoreError, SystemClock, own_account, pull_secret_name,
};

/// Namespace where the process neither runs in one nor is told one.
const DEFAULT_NAMESPACE: &str = "olmv1-system";
/// Where a pod finds its account.
const ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Serves the content of ClusterCatalogs.
#[derive(Debug, Clone, Parser)]
#[command(name = "catalogd", version)]
pub struct Command {
    /// Address that catalog content is served on.
    #[arg(long, default_value = ":8443")]
    catalogs_server_addr: String,
    /// Host, with port if it is not the scheme's, under which clients reach the content server.
    #[arg(long, default_value = "catalogd-service.olmv1-system.svc")]
    external_address: String,
    /// File of the serving certificate; without it one is made.
    #[arg(long, default_value = "")]
    tls_cert: String,
    /// File of the serving certificate's key.
    #[arg(long, default_value = "")]
    tls_key: String,
    /// Address of the metrics; not served by this program, so only empty or 0 is accepted.
    #[arg(long, default_value = "")]
    metrics_bind_address: String,
    /// Address of profiles; not served by this program, so only 0 is accepted.
    #[arg(long, default_value = "0")]
    pprof_bind_address: String,
    /// Accepted and without effect: there is no webhook.
    #[arg(long, default_value_t = 9443)]
    webhook_server_port: u16,
    /// Address of /healthz and /readyz; 0 turns them off.
    #[arg(long, default_value = ":8081")]
    health_probe_bind_address: String,
    /// Whether several replicas elect a leader.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Namespace of this process, for its lease.
    #[arg(long, default_value = "")]
    system_namespace: String,
    /// Where content is kept.
    #[arg(long, default_value = "/var/cache/catalogd")]
    cache_dir: PathBuf,
    /// Time between two garbage collections, as 12h, 30m, 10s.
    #[arg(long, default_value = "12h")]
    gc_interval: String,
    /// Folder with certificates of authorities for registries.
    #[arg(long, default_value = "")]
    pull_cas_dir: String,
    /// Secret with credentials for registries, as <namespace>/<name>.
    #[arg(long, default_value = "")]
    global_pull_secret: String,
    /// Features by name, as <name>=true,<name>=false; may be given several times.
    #[arg(long)]
    feature_gates: Vec<String>,
    /// TLS profile: modern, intermediate, old or custom.
    #[arg(long, default_value = "intermediate")]
    tls_profile: String,
    /// Lowest TLS version of the custom profile.
    #[arg(long, default_value = "TLSv1.2")]
    tls_custom_version: String,
    /// TLS 1.2 cipher suites of the custom profile.
    #[arg(long, value_delimiter = ',')]
    tls_custom_ciphers: Vec<String>,
    /// Key exchange groups of the custom profile.
    #[arg(long, value_delimiter = ',')]
    tls_custom_curves: Vec<String>,
    /// Configuration of the cluster's client.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Registries that are spoken to without TLS, as host:port.
    #[arg(long)]
    insecure_registry: Vec<String>,
    /// Verbosity of the logs: 4 is debug, 8 everything.
    #[arg(short, long, default_value_t = 0)]
    pub v: u8,
}

/// Why the program ended.
#[derive(Debug, Error)]
pub enum CommandError {
    /// One of the pair is missing.
    #[error("tls-cert and tls-key flags must be used together")]
    TlsPair,
    /// Metrics without a certificate, as upstream.
    #[error("metrics-bind-address requires tls-cert and tls-key flags")]
    MetricsTls,
    /// A listener that this program does not have.
    #[error("{0}: not supported by catalogd on its own, leave the flag out")]
    Unsupported(&'static str),
    /// No `<namespace>/<name>`.
    #[error("value of global-pull-secret should be of the format <namespace>/<name>")]
    PullSecretFormat,
    /// No duration.
    #[error("invalid value {0:?} of gc-interval, want a duration like 12h")]
    GcInterval(String),
    /// A feature gate.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A TLS flag.
    #[error(transparent)]
    TlsProfile(#[from] TlsProfileError),
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
    /// The lease went to somebody else.
    #[error("leader election lost")]
    LeaseLost,
}

impl Command {
    /// Runs until a signal comes.
    ///
    /// # Errors
    /// The flags contradict each other, something at the start fails, or the lease is lost.
    pub async fn run(self) -> Result<(), CommandError> {
        let config = self.config()?;
        let profile = TlsProfile::from_flags(
            &self.tls_profile,
            &self.tls_custom_version,
            &self.tls_custom_ciphers,
            &self.tls_custom_curves,
        )?;
        let secret = self.pull_secret()?;
        let shutdown = on_signal()?;
        let client = connect(cluster_config(self.kubeconfig.as_deref()).await?)?;
        let puller = self.puller()?;
        let account = own_account(Path::new(ACCOUNT_FOLDER).join("token").as_path());
        let credentials = PullSecrets::new(client.clone(), puller.keyring().clone(), secret, account);
        if let Err(error) = credentials.load().await {
            tracing::warn!(%error, "starting without credentials for registries");
        }
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let clock = Arc::new(SystemClock);
        let catalogd =
            Catalogd::new(config, client.clone(), Arc::new(puller), clock, &metrics, &mut registry)?;
        let (serving, watcher) = self.certificate()?;
        let tls = server_config(serving, &profile)?;
        let content = serve(
            listen(&self.catalogs_server_addr)?,
            catalogd.router(),
            Some(tls),
            ServerLimits::default(),
            shutdown.clone(),
        );
        let ready = catalogd.clone();
        let health = self.health(ready, shutdown.clone());
        let watching = async {
            if let Some(watcher) = watcher {
                watcher.run(shutdown.clone()).await;
            }
            Ok(())
        };
        let secrets = async {
            credentials.run(shutdown.clone()).await;
            Ok(())
        };
        let leading = self.lead(catalogd, client, &metrics, shutdown.clone());
        let ended = tokio::try_join!(content_result(content), health, watching, secrets, leading);
        shutdown.cancel();
        ended.map(|_| ())
    }

    /// The settings of catalogd itself.
    fn config(&self) -> Result<Config, CommandError> {
        if self.tls_cert.is_empty() != self.tls_key.is_empty() {
            return Err(CommandError::TlsPair);
        }
        if !matches!(self.metrics_bind_address.as_str(), "" | "0") {
            return Err(if self.tls_cert.is_empty() {
                CommandError::MetricsTls
            } else {
                CommandError::Unsupported("metrics-bind-address")
            });
        }
        if self.pprof_bind_address != "0" {
            return Err(CommandError::Unsupported("pprof-bind-address"));
        }
        let interval = self.gc_interval.parse::<jiff::SignedDuration>().ok();
        let gc_interval = interval
            .and_then(|interval| interval.try_into().ok())
            .filter(|interval| *interval > std::time::Duration::ZERO)
            .ok_or_else(|| CommandError::GcInterval(self.gc_interval.clone()))?;
        let mut config = Config {
            cache_dir: self.cache_dir.clone(),
            external_address: self.external_address.clone(),
            gc_interval,
            ..Config::default()
        };
        for gates in &self.feature_gates {
            config.apply_feature_gates(gates)?;
        }
        Ok(config)
    }

    fn pull_secret(&self) -> Result<Option<(String, String)>, CommandError> {
        if self.global_pull_secret.is_empty() {
            return Ok(None);
        }
        pull_secret_name(&self.global_pull_secret).map(Some).ok_or(CommandError::PullSecretFormat)
    }

    fn puller(&self) -> Result<Puller, CommandError> {
        let spool = self.cache_dir.join("spool");
        std::fs::create_dir_all(&spool)?;
        let mut config = PullerConfig::new(spool);
        let file = |path: &str| Some(PathBuf::from(path)).filter(|path| path.exists());
        config.registries_conf = file("/etc/containers/registries.conf");
        config.policy = file("/etc/containers/policy.json");
        config.cas_dir = Some(PathBuf::from(&self.pull_cas_dir)).filter(|path| !path.as_os_str().is_empty());
        config.insecure_hosts.extend(self.insecure_registry.iter().cloned());
        Ok(Puller::new(config))
    }

    fn certificate(&self) -> Result<(Arc<ServingCert>, Option<CertWatcher>), CommandError> {
        if self.tls_cert.is_empty() {
            let host = self.external_address.split(':').next().unwrap_or_default();
            let names = ["localhost", host, &format!("{host}.cluster.local")].map(str::to_owned);
            tracing::warn!("no tls-cert given: serving with a certificate made for this process only");
            return Ok((self_signed(&names)?.serving, None));
        }
        let watcher = CertWatcher::new(self.tls_cert.as_ref(), self.tls_key.as_ref())?;
        Ok((watcher.serving(), Some(watcher)))
    }

    async fn health(&self, catalogd: Catalogd, shutdown: CancellationToken) -> Result<(), CommandError> {
        if self.health_probe_bind_address == "0" {
            return Ok(());
        }
        let listener = listen(&self.health_probe_bind_address)?;
        let router = health_router(move || catalogd.ready());
        Ok(serve(listener, router, None, ServerLimits::default(), shutdown).await?)
    }

    /// Runs the controller, as leader when this process is or need not be elected.
    async fn lead(
        &self,
        catalogd: Catalogd,
        client: kube::Client,
        metrics: &Metrics,
        shutdown: CancellationToken,
    ) -> Result<(), CommandError> {
        let (leader, leads) = watch::channel(!self.leader_elect);
        if !self.leader_elect {
            catalogd.run(leads, shutdown).await;
            drop(leader);
            return Ok(());
        }
        let namespace = self.namespace();
        let identity = format!(
            "{}_{:016x}",
            std::env::var("HOSTNAME").unwrap_or_else(|_| "catalogd".into()),
            fastrand::u64(..)
        );
        let elector = Elector::new(client, &namespace, LEASE, &identity, DEFAULT_TERMS);
        let election = async {
            let lost = elector.lead(shutdown.clone(), |stop| async {
                metrics.leading(true);
                leader.send_replace(true);
                stop.cancelled_owned().await;
                leader.send_replace(false);
                metrics.leading(false);
            });
            let lost = lost.await;
            shutdown.cancel();
            if lost { Err(CommandError::LeaseLost) } else { Ok(()) }
        };
        let running = async {
            catalogd.run(leads, shutdown.clone()).await;
            Ok(())
        };
        tokio::try_join!(election, running).map(|_| ())
    }

    fn namespace(&self) -> String {
        if !self.system_namespace.is_empty() {
            return self.system_namespace.clone();
        }
        let own = std::fs::read_to_string(Path::new(ACCOUNT_FOLDER).join("namespace"))
            .ok()
            .map(|text| text.trim().to_owned());
        own.filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }
}

async fn content_result(serving: impl Future<Output = Result<(), HttpError>>) -> Result<(), CommandError> {
    Ok(serving.await?)
}

#[cfg(test)]
mod tests;
