//! The shell of a program: what it starts with, serves on every replica, and ends with.
//!
//! [`run_main`] is its `main`: logs, signals, the exit code. A [`Process`] has the clients, metrics and credentials;
//! it serves metrics and health, keeps the serving certificate, and makes candidates for leases. The program adds what it
//! is for.

use std::{fmt::Display, panic::AssertUnwindSafe, process::ExitCode, sync::Arc, time::Duration};

use axum::Router;
use futures::FutureExt;
use kube::Client;
use olm_image::Puller;
use prometheus_client::registry::Registry;
use rustls::{ServerConfig, server::danger::ClientCertVerifier};
use thiserror::Error;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    chance::Chance,
    client::{Accounts, ClientError},
    controller::panic_text,
    fence::Fence,
    flags::{ProcessFlags, ProcessSettings},
    http::{HttpError, ServerLimits, health_router, listen, metrics_router, serve},
    lease::{Elector, Terms},
    memory::keep_small,
    metrics::Metrics,
    pull_secrets::PullSecrets,
    shutdown::{ends_in_time, on_signal, run_program},
    telemetry::init,
    tls::{CertWatcher, Certificate, ServingCert, ServingSecret, TlsError, server_config, server_config_for},
};

/// How long a program may take to end after a signal.
const ENDS: Duration = Duration::from_secs(9);
/// How long servers and other parts may take to end once nothing is written any more.
const PARTS_END: Duration = Duration::from_secs(3);

/// Runs a program until `work` ends, which gets a token that a signal cancels.
///
/// Errors are printed as upstream prints them. Anything that still runs 9 s after the signal is dropped.
pub fn run_main<E: Display, F: Future<Output = Result<(), E>>>(
    program: &'static str,
    flags: &ProcessFlags,
    work: impl FnOnce(CancellationToken) -> F,
) -> ExitCode {
    if flags.wants_version() {
        print_version(program);
        return ExitCode::SUCCESS;
    }
    keep_small();
    let traces = init(flags.verbosity, program);
    for sentence in flags.without_effect() {
        tracing::warn!("{sentence}");
    }
    // The only failure is that a provider is installed already, which is what is wanted.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let ended = run_program(async {
        let shutdown = on_signal()?;
        Ok::<_, std::io::Error>(ends_in_time(work(shutdown.clone()), &shutdown, ENDS).await)
    });
    traces.end();
    let error = match ended.and_then(|ended| ended) {
        Ok(None | Some(Ok(()))) => return ExitCode::SUCCESS,
        Ok(Some(Err(error))) => format!("{error:#}"),
        Err(error) => format!("starting: {error}"),
    };
    print_error(&error);
    ExitCode::FAILURE
}

/// Prints the version, quoted as upstream does.
#[expect(clippy::print_stdout, reason = "the sub-command's output")]
fn print_version(program: &str) {
    println!("{:?}", format!("{program} version {}", env!("CARGO_PKG_VERSION")));
}

#[expect(clippy::print_stderr, reason = "the last words of the program, after logging")]
fn print_error(error: &str) {
    eprintln!("Error: {error}");
}

/// Why a process could not start, or had to end.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// No client for the cluster.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The certificate for serving cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A server or another part ended before the process was to end.
    #[error("{part} ended unexpectedly ({cause}): the program ends, so that it is started afresh")]
    Part {
        /// Its name.
        part: &'static str,
        /// Its error or panic.
        cause: String,
    },
}

/// A process: clients, metrics, credentials, and the parts that run on every replica.
pub struct Process {
    /// Clients for the cluster. Their writes end when a lease is lost.
    pub accounts: Accounts,
    /// Pulls images with the credentials that Secrets hold.
    pub puller: Puller,
    /// Metrics of controllers.
    pub metrics: Metrics,
    /// Takes further metrics until [`Process::serve`].
    pub registry: Registry,
    /// Jitters the waits of this process.
    pub chance: Chance,
    /// Cancelled by a signal, and by what ends the process from within.
    pub shutdown: CancellationToken,
    settings: ProcessSettings,
    fence: Fence,
    serving: Option<Arc<ServingCert>>,
    parts: JoinSet<Result<(), ProcessError>>,
}

impl Process {
    /// Makes clients and metrics; nothing runs yet.
    ///
    /// # Errors
    /// There is no client for the cluster.
    pub fn new(settings: ProcessSettings, shutdown: &CancellationToken) -> Result<Self, ProcessError> {
        let fence = Fence::default();
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        Ok(Self {
            accounts: Accounts::counted(&settings.cluster, &metrics.requests(), &fence)?,
            puller: Puller::new(settings.puller.clone()),
            metrics,
            registry,
            chance: Chance::default(),
            shutdown: shutdown.child_token(),
            settings,
            fence,
            serving: None,
            parts: JoinSet::new(),
        })
    }

    /// The process's own client.
    pub fn client(&self) -> Client {
        self.accounts.controller()
    }

    /// Where leases and Secrets of the program are.
    pub fn namespace(&self) -> &str {
        &self.settings.namespace
    }

    /// Name of this process in leases and Events.
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    /// Whether this process campaigns for leadership.
    pub fn leader_elect(&self) -> bool {
        self.settings.leader_elect
    }

    /// Whether the authorities of the serving certificate are published in a ConfigMap: not when it comes from files.
    pub fn publishes_authorities(&self) -> bool {
        self.settings.tls.is_none()
    }

    /// A candidate for a lease. Losing it ends all writes of this process.
    pub fn elector(&self, lease: &str, terms: Terms) -> Elector {
        Elector::new(self.accounts.elector(), self.namespace(), lease, self.identity(), terms)
            .seeded(&self.chance)
            .fenced(&self.fence)
    }

    /// Serves metrics and health, and follows the serving certificate: that of the flags, else one for `names` that is
    /// kept in the Secret `secret`. Returns what further servers are to use.
    ///
    /// # Errors
    /// The certificate cannot be used, or an address cannot be listened on.
    pub async fn serve(
        &mut self,
        (secret, names): (&str, &[String]),
        ready: impl Fn() -> Result<(), String> + Clone + Send + Sync + 'static,
    ) -> Result<Arc<ServerConfig>, ProcessError> {
        let certificate = if let Some((cert, key)) = &self.settings.tls {
            Certificate::Files(CertWatcher::new(cert, key)?.counted(self.metrics.certificate_reads()))
        } else {
            let (client, namespace) = (self.client(), &self.settings.namespace);
            let kept = ServingSecret::open(client, namespace, secret, names, &self.chance).await?;
            Certificate::Kept(Box::new(kept))
        };
        let tls = server_config(certificate.serving(), &self.settings.tls_profile)?;
        self.serving = Some(certificate.serving());
        self.spawn("the serving certificate", certificate.run(self.shutdown.clone()));
        if let Some(address) = self.settings.metrics_address.clone() {
            let registry = Arc::new(std::mem::take(&mut self.registry));
            let router = metrics_router(registry, self.client());
            self.spawn_server("the server of metrics", &address, router, Some(tls.clone()))?;
        }
        if let Some(address) = self.settings.health_address.clone() {
            self.spawn_server("the server of health checks", &address, health_router(ready), None)?;
        }
        Ok(tls)
    }

    /// For a server beside those of [`Process::serve`] that verifies its clients' certificates; `None` before that.
    ///
    /// # Errors
    /// The TLS settings leave no version or algorithm.
    pub fn tls_for(
        &self,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<Option<Arc<ServerConfig>>, ProcessError> {
        let config = |serving| server_config_for(serving, &self.settings.tls_profile, clients);
        Ok(self.serving.clone().map(config).transpose()?)
    }

    /// Serves in a task of its own; a server that fails or panics ends the process with an error.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn spawn_server(
        &mut self,
        name: &'static str,
        address: &str,
        router: Router,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<(), ProcessError> {
        let listener = listen(address)?;
        self.start(name, serve(listener, router, tls, ServerLimits::default(), self.shutdown.clone()));
        Ok(())
    }

    /// Reads the credentials for registries from their Secrets and follows them; `on_change` is called when they became
    /// others. Without Secrets, those of the flags stay.
    pub async fn follow_pull_secrets(&mut self, on_change: impl Fn() + Send + Sync + 'static) {
        let (secret, account) = (self.settings.pull_secret.clone(), self.settings.account.clone());
        if secret.is_none() && account.is_none() {
            return;
        }
        let keyring = self.puller.keyring().clone();
        let credentials = PullSecrets::new(self.client(), keyring, secret, account, &self.chance);
        if let Err(error) = credentials.load().await {
            tracing::warn!(%error, "starting without credentials for registries");
        }
        self.spawn("the credentials for registries", credentials.run(self.shutdown.clone(), on_change));
    }

    /// Runs a part in a task of its own, which ends by itself once `shutdown` is cancelled. One that panics ends the
    /// process with an error.
    pub fn spawn(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        self.start(name, part.map(Ok));
    }

    fn start(
        &mut self,
        part: &'static str,
        work: impl Future<Output = Result<(), HttpError>> + Send + 'static,
    ) {
        let shutdown = self.shutdown.clone();
        self.parts.spawn(async move {
            let cause = match AssertUnwindSafe(work).catch_unwind().await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(panic) => panic_text(&*panic).to_owned(),
            };
            shutdown.cancel();
            Err(ProcessError::Part { part, cause })
        });
    }

    /// Ends the process: waits 3 s for its parts and drops them then.
    ///
    /// # Errors
    /// A part had failed.
    pub async fn end(mut self) -> Result<(), ProcessError> {
        self.shutdown.cancel();
        let mut result = Ok(());
        let ended = async {
            while let Some(ended) = self.parts.join_next().await {
                // Panics are caught before.
                result = std::mem::replace(&mut result, Ok(())).and(ended.unwrap_or(Ok(())));
            }
        };
        if tokio::time::timeout(PARTS_END, ended).await.is_err() {
            tracing::warn!("parts that did not end in time are dropped");
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> Process {
        // The only failure is that a provider is installed already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let settings = ProcessSettings {
            cluster: kube::Config::new("http://127.0.0.1:1".parse().unwrap()),
            namespace: "n".to_owned(),
            identity: "i".to_owned(),
            puller: olm_image::PullerConfig::new(std::env::temp_dir()),
            pull_secret: None,
            account: None,
            tls: None,
            tls_profile: crate::TlsProfile::default(),
            metrics_address: None,
            health_address: None,
            leader_elect: false,
        };
        Process::new(settings, &CancellationToken::new()).unwrap()
    }

    #[tokio::test]
    async fn a_part_that_fails_ends_the_process_with_an_error_that_names_it() {
        let mut process = process();
        let stops = process.shutdown.clone();
        process.spawn("a part that waits", async move { stops.cancelled().await });
        let broken = std::io::Error::other("broken");
        process.start("the server of catalogs", async { Err(HttpError::Serve(broken)) });
        process.shutdown.clone().cancelled().await;
        assert_eq!(
            process.end().await.unwrap_err().to_string(),
            "the server of catalogs ended unexpectedly (serving: broken): the program ends, so that it is started afresh"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_not_lost_behind_a_part_that_does_not_end() {
        let mut process = process();
        process.spawn("a part that hangs", std::future::pending());
        process.spawn("the catalogs", async { panic!("made to panic") });
        process.shutdown.clone().cancelled().await;
        let text = process.end().await.unwrap_err().to_string();
        assert!(text.starts_with("the catalogs ended unexpectedly (made to panic)"), "{text}");
    }

    #[tokio::test]
    async fn parts_that_end_with_the_process_are_no_error() {
        let mut process = process();
        let stops = process.shutdown.clone();
        process.spawn("a part that waits", async move { stops.cancelled().await });
        assert!(process.end().await.is_ok());
    }
}
