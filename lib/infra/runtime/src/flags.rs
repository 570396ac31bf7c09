//! Flags and environment of every program, with upstream's names and defaults.
//!
//! A program flattens [`ProcessFlags`] into its own flags and turns them into [`ProcessSettings`] once, at its start.

mod klog;

use std::{
    fmt::Display,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use olm_image::{DiskBudget, Keyring, PullerConfig};
use thiserror::Error;

use crate::{
    client::{AccountRef, cluster_config},
    pull_secrets::{own_account, pull_secret_name},
    tls::TlsProfile,
};

/// Default namespace of a process outside of a Pod.
const DEFAULT_NAMESPACE: &str = "olmv1-system";
/// Default size of the caches: the volume of the Deployment has 4 GiB, and a Pod that exceeds it is evicted.
const CACHE_MEBIBYTES: u32 = 3840;
/// Folder with a Pod's ServiceAccount.
const ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Default file of the registries configuration, unless `CONTAINERS_REGISTRIES_CONF` names another.
const REGISTRIES_CONF: &str = "/etc/containers/registries.conf";
/// Default file of the signature policy, unless `CONTAINERS_POLICY_JSON` names another.
const SIGNATURE_POLICY: &str = "/etc/containers/policy.json";

/// Flags that every program has.
#[derive(Debug, Clone, Args)]
pub struct ProcessFlags {
    #[command(subcommand)]
    command: Option<Command>,
    /// Kubeconfig of the cluster; otherwise KUBECONFIG, ~/.kube/config or the Pod's ServiceAccount is used.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the program's Leases and Secrets [default: the Pod's, else olmv1-system].
    #[arg(long, default_value = "", hide_default_value = true)]
    system_namespace: String,
    /// File with the serving certificate; without it one is issued, kept in a Secret and renewed.
    #[arg(long, default_value = "", hide_default_value = true)]
    tls_cert: String,
    /// File with the key of --tls-cert.
    #[arg(long, default_value = "", hide_default_value = true)]
    tls_key: String,
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
    /// Address of /healthz and /readyz; 0 turns them off.
    #[arg(long, default_value = ":8081")]
    health_probe_bind_address: String,
    /// Address of /metrics, over HTTPS, for tokens whose user may get that path; 0 turns it off [default: :8443 for
    /// operator-controller, :7443 for catalogd].
    #[arg(long, default_value = "", hide_default_value = true)]
    metrics_bind_address: String,
    /// Accepted for upstream's manifests; there are no profiles to serve.
    #[arg(long, default_value = "0", hide = true)]
    pprof_bind_address: String,
    /// Accepted for upstream's manifests; there is no webhook.
    #[arg(long, default_value_t = 9443, hide = true)]
    webhook_server_port: u16,
    /// Elect a leader; needed with several replicas.
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set, value_parser = boolean)]
    pub leader_elect: bool,
    /// Most MiB of disk space for catalogs, bundles and running pulls together: a little less than the volume of both
    /// cache folders has.
    #[arg(long, default_value_t = CACHE_MEBIBYTES)]
    cache_limit: u32,
    /// Folder with certificates for registries: CA certificates in *.crt, client certificates in *.cert and *.key; read
    /// again when it changes.
    #[arg(long, default_value = "", hide_default_value = true)]
    pull_cas_dir: String,
    /// Secret with credentials for registries: <namespace>/<name>.
    #[arg(long, default_value = "", hide_default_value = true)]
    global_pull_secret: String,
    /// Docker configuration file with credentials for registries, for use outside of a Pod.
    #[arg(long)]
    registry_config: Option<PathBuf>,
    /// Registries without TLS or with an untrusted certificate, as host:port.
    #[arg(long)]
    insecure_registry: Vec<String>,
    /// Feature gates: Name=true|false, separated by commas; AllAlpha is for those that are not named.
    #[arg(long)]
    pub feature_gates: Vec<String>,
    /// Verbosity of the log: 0 for outcomes, 4 for progress, 8 for everything.
    #[arg(short = 'v', long = "v", default_value_t = 0, action = clap::ArgAction::Set)]
    pub verbosity: u8,
    /// Other flags of upstream's log.
    #[command(flatten)]
    klog: klog::KlogFlags,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Prints the version.
    Version,
}

/// Settings that every program has.
#[derive(Clone)]
pub struct ProcessSettings {
    /// The cluster.
    pub cluster: kube::Config,
    /// Where leases and Secrets of the program are.
    pub namespace: String,
    /// Name of this process in leases and Events.
    pub identity: String,
    /// How images are pulled.
    pub puller: PullerConfig,
    /// Secret with credentials for registries: namespace and name.
    pub pull_secret: Option<(String, String)>,
    /// The program's own account, whose pull secrets are used too; `None` outside of a pod.
    pub account: Option<AccountRef>,
    /// Certificate and key for serving; when absent they are made and kept in a Secret.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Versions and algorithms of TLS.
    pub tls_profile: TlsProfile,
    /// Where `/metrics` is served over HTTPS.
    pub metrics_address: Option<String>,
    /// Where `/healthz` and `/readyz` are served.
    pub health_address: Option<String>,
    /// Whether this process campaigns for leadership.
    pub leader_elect: bool,
}

/// Why the flags of a process cannot be followed: a sentence that names the flag.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct FlagError(String);

impl FlagError {
    /// With this sentence.
    pub fn of(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

impl ProcessFlags {
    /// The settings that the flags of `program` add up to, with its own default for the address of metrics. The folder
    /// `spool` is for pulls, and emptied.
    ///
    /// # Errors
    /// A flag cannot be followed, or there is no cluster: the text names the flag.
    pub async fn settings(
        &self,
        program: &str,
        metrics_address: &str,
        spool: PathBuf,
    ) -> Result<ProcessSettings, FlagError> {
        Ok(ProcessSettings {
            tls: self.certificate_files()?,
            tls_profile: self.tls_profile()?,
            pull_secret: self.pull_secret()?,
            cluster: cluster_config(self.kubeconfig.as_deref(), None).await.map_err(FlagError::of)?,
            namespace: self.namespace(),
            identity: identity(program),
            puller: self.puller(spool)?,
            account: own_account(Path::new(ACCOUNT_FOLDER).join("token").as_path()),
            metrics_address: self.metrics_address(metrics_address),
            health_address: self.health_address(),
            leader_elect: self.leader_elect,
        })
    }

    /// Whether only the version is asked for.
    pub(crate) fn wants_version(&self) -> bool {
        matches!(self.command, Some(Command::Version))
    }

    /// Certificate and key for serving, when files are given.
    ///
    /// # Errors
    /// Only one of both files is given.
    pub fn certificate_files(&self) -> Result<Option<(PathBuf, PathBuf)>, FlagError> {
        match (self.tls_cert.as_str(), self.tls_key.as_str()) {
            ("", "") => Ok(None),
            ("", _) | (_, "") => Err(FlagError::of("tls-cert and tls-key flags must be used together")),
            (cert, key) => Ok(Some((cert.into(), key.into()))),
        }
    }

    /// The versions and algorithms of TLS connections.
    ///
    /// # Errors
    /// The profile, or a version, cipher or curve, is not known.
    pub fn tls_profile(&self) -> Result<TlsProfile, FlagError> {
        TlsProfile::from_flags(
            &self.tls_profile,
            &self.tls_custom_version,
            &self.tls_custom_ciphers,
            &self.tls_custom_curves,
        )
        .map_err(FlagError::of)
    }

    /// How images are pulled. `spool` is emptied: another process may have left files there.
    ///
    /// # Errors
    /// The folder cannot be emptied, or a file that a flag names cannot be used.
    pub fn puller(&self, spool: PathBuf) -> Result<PullerConfig, FlagError> {
        let failed = |error| FlagError(format!("cache folder {}: {error}", spool.display()));
        match std::fs::remove_dir_all(&spool) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => std::fs::create_dir_all(&spool).map_err(failed)?,
        }
        let mut config = PullerConfig::new(spool);
        config.disk = DiskBudget::new(u64::from(self.cache_limit) << 20);
        config.registries_conf = Some(path_from("CONTAINERS_REGISTRIES_CONF", REGISTRIES_CONF));
        // Without this file everything is accepted; with it, a scope that asks for a signature is refused.
        config.policy = Some(path_from("CONTAINERS_POLICY_JSON", SIGNATURE_POLICY));
        config.cas_dir = Some(PathBuf::from(&self.pull_cas_dir)).filter(|path| !path.as_os_str().is_empty());
        config.check_certificates().map_err(|error| FlagError(format!("pull-cas-dir: {error}")))?;
        config.insecure_hosts.extend(self.insecure_registry.iter().cloned());
        if let Some(path) = &self.registry_config {
            let failed =
                |error: &dyn Display| FlagError(format!("registry-config {}: {error}", path.display()));
            let text = std::fs::read(path).map_err(|error| failed(&error))?;
            let keyring = Keyring::from_docker_config(&text).map_err(|error| failed(&error))?;
            config.keyring.set(keyring.named("--registry-config"));
        }
        Ok(config)
    }

    /// Namespace and name of the Secret with credentials, if one is given.
    ///
    /// # Errors
    /// The value has another form.
    pub fn pull_secret(&self) -> Result<Option<(String, String)>, FlagError> {
        if self.global_pull_secret.is_empty() {
            return Ok(None);
        }
        let malformed = "value of global-pull-secret should be of the format <namespace>/<name>";
        pull_secret_name(&self.global_pull_secret).map(Some).ok_or_else(|| FlagError::of(malformed))
    }

    /// Where metrics are served, if anywhere; the program's own `default` without the flag.
    pub fn metrics_address(&self, default: &str) -> Option<String> {
        match self.metrics_bind_address.as_str() {
            "0" => None,
            "" => Some(default.to_owned()),
            address => Some(address.to_owned()),
        }
    }

    /// Where health is served, if anywhere.
    pub fn health_address(&self) -> Option<String> {
        Some(self.health_probe_bind_address.clone()).filter(|address| !matches!(address.as_str(), "0" | ""))
    }

    /// Sentences about flags that are accepted and do nothing, for the log.
    pub fn without_effect(&self) -> Vec<String> {
        let mut sentences = self.klog.without_effect();
        if !matches!(self.pprof_bind_address.as_str(), "0" | "") {
            sentences.push("--pprof-bind-address has no effect: there are no profiles to serve".to_owned());
        }
        sentences
    }

    /// The namespace given, else the pod's, else the default one.
    pub fn namespace(&self) -> String {
        if !self.system_namespace.is_empty() {
            return self.system_namespace.clone();
        }
        let own = std::fs::read_to_string(Path::new(ACCOUNT_FOLDER).join("namespace")).ok();
        own.map(|text| text.trim().to_owned())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }
}

/// A name for this process in leases and events: the pod's or the machine's, with a random part as client-go adds one.
fn identity(program: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty()).unwrap_or(program);
    format!("{host}_{:016x}", fastrand::u64(..))
}

/// A boolean in the spellings that upstream's flags take.
fn boolean(text: &str) -> Result<bool, String> {
    crate::gates::boolean(text).ok_or_else(|| "want true or false".to_owned())
}

fn path_from(variable: &str, default: &str) -> PathBuf {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map_or_else(|| default.into(), PathBuf::from)
}
