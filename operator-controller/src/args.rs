//! Flags and environment of operator-controller, the original's names and defaults, catalogd's included.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use clap::{ArgAction, Parser, Subcommand};
use olm_image::{Keyring, PullerConfig};
use olm_runtime::{DEFAULT_TERMS, cluster_config};
use operator_controller::{Config, Gates, account};

/// Namespace of the system when neither a flag nor the pod says otherwise.
const SYSTEM_NAMESPACE: &str = "olmv1-system";
/// Where a pod finds its account and the namespace it runs in.
const POD_ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Where registries are configured when `CONTAINERS_REGISTRIES_CONF` does not say otherwise.
const REGISTRIES_CONF: &str = "/etc/containers/registries.conf";

/// Where the administrator says which images need a signature.
const SIGNATURE_POLICY: &str = "/etc/containers/policy.json";

/// Installs and upgrades operators from catalogs, and serves the catalogs.
#[derive(Debug, Parser)]
#[command(name = "operator-controller", version, disable_version_flag = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Kubeconfig of the cluster; without it KUBECONFIG, ~/.kube/config or the pod's account is used.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Namespace of leases and of the Secrets that hold revisions [default: the pod's, else olmv1-system].
    #[arg(long)]
    system_namespace: Option<String>,
    /// Folder for pulled bundles.
    #[arg(long, default_value = "/var/cache/operator-controller")]
    cache_path: PathBuf,
    /// Folder for catalog content.
    #[arg(long, default_value = "/var/cache/catalogd")]
    cache_dir: PathBuf,
    /// Address on which catalog content is served.
    #[arg(long, default_value = ":8443")]
    catalogs_server_addr: String,
    /// host[:port] under which clients reach the catalog server; goes into status.urls.
    #[arg(long, default_value = "catalogd-service.olmv1-system.svc")]
    external_address: String,
    /// Certificate for serving; a self-signed one is made without it.
    #[arg(long)]
    tls_cert: Option<PathBuf>,
    /// Key of --tls-cert.
    #[arg(long)]
    tls_key: Option<PathBuf>,
    /// Address of /healthz and /readyz; 0 turns them off.
    #[arg(long, default_value = ":8081")]
    health_probe_bind_address: String,
    /// Campaign for leadership, for several replicas.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    leader_elect: bool,
    /// Folder with certificates of registries.
    #[arg(long)]
    pull_cas_dir: Option<PathBuf>,
    /// Secret with credentials for registries: <namespace>/<name>.
    #[arg(long)]
    global_pull_secret: Option<String>,
    /// Docker configuration file with credentials for registries, for runs outside a pod.
    #[arg(long)]
    registry_config: Option<PathBuf>,
    /// Account of extensions that name none: [<namespace>/]<name>. Overrides the ConfigMap olmv1-settings, for a
    /// process whose cluster has no admission policies.
    #[arg(long)]
    default_service_account: Option<String>,
    /// Time between two clean-ups of catalog content, for instance 12h.
    #[arg(long, default_value = "12h", value_parser = duration)]
    gc_interval: Duration,
    /// How long a catalog that has never been served is waited for, where another one has an answer.
    #[arg(long, default_value = "2m", value_parser = duration)]
    catalog_deadline: Duration,
    /// Feature gates: Name=true|false, separated by commas.
    #[arg(long)]
    feature_gates: Vec<String>,
    /// Verbosity of the log: 0 for outcomes, 4 for progress, 8 for everything.
    #[arg(short = 'v', long = "v", default_value_t = 0, action = ArgAction::Set)]
    verbosity: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints the version.
    Version,
}

fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|d| Duration::try_from(d).ok())
        .ok_or_else(|| format!("{text:?} is no duration: write for instance 90s, 15m or 12h"))
}

impl Args {
    pub(crate) fn wants_version(&self) -> bool {
        matches!(self.command, Some(Command::Version))
    }

    pub(crate) fn verbosity(&self) -> u8 {
        self.verbosity
    }

    /// The configuration that flags, environment and cluster add up to.
    ///
    /// # Errors
    /// Flags contradict each other, or a file they name cannot be used.
    pub(crate) async fn into_config(self) -> anyhow::Result<Config> {
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => bail!(
                "unable to configure TLS certificates: tls-cert and tls-key flags must be used together"
            ),
        };
        let system_namespace = self.system_namespace.unwrap_or_else(pod_namespace);
        let default_account =
            self.default_service_account.as_deref().map(|text| account(text, &system_namespace));
        let mut catalogd = catalogd::Config {
            cache_dir: self.cache_dir,
            external_address: self.external_address,
            gc_interval: self.gc_interval,
            ..catalogd::Config::default()
        };
        let mut gates = Gates::default();
        for text in &self.feature_gates {
            gates.apply(text, &mut catalogd)?;
        }
        let puller = puller(self.pull_cas_dir, self.registry_config.as_deref(), &self.cache_path)?;
        Ok(Config {
            cluster: cluster_config(self.kubeconfig.as_deref()).await?,
            system_namespace,
            cache_path: self.cache_path,
            puller,
            catalogd,
            catalogs_address: self.catalogs_server_addr,
            tls,
            health_address: Some(self.health_probe_bind_address).filter(|a| a != "0" && !a.is_empty()),
            leader_election: self.leader_elect.then_some(DEFAULT_TERMS),
            identity: identity(),
            default_account: default_account.transpose().map_err(anyhow::Error::msg)?,
            global_pull_secret: self.global_pull_secret.as_deref().map(pull_secret).transpose()?,
            own_account: catalogd::own_account(Path::new(POD_ACCOUNT_FOLDER).join("token").as_path()),
            catalog_deadline: self.catalog_deadline,
            gates,
        })
    }
}

fn puller(
    cas_dir: Option<PathBuf>,
    registry_config: Option<&Path>,
    cache_path: &Path,
) -> anyhow::Result<PullerConfig> {
    let spool = cache_path.join("spool");
    std::fs::create_dir_all(&spool).with_context(|| format!("cache folder {}", spool.display()))?;
    let mut puller = PullerConfig::new(spool);
    let conf =
        std::env::var_os("CONTAINERS_REGISTRIES_CONF").map_or_else(|| REGISTRIES_CONF.into(), PathBuf::from);
    puller.registries_conf = Some(conf);
    // Without this file everything is accepted; with it, a scope that asks for a signature is refused.
    puller.policy = Some(PathBuf::from(SIGNATURE_POLICY)).filter(|path| path.exists());
    puller.cas_dir = cas_dir;
    if let Some(path) = registry_config {
        let text = std::fs::read(path).with_context(|| format!("registry-config {}", path.display()))?;
        puller.keyring.set(
            Keyring::from_docker_config(&text)
                .with_context(|| format!("registry-config {}", path.display()))?,
        );
    }
    Ok(puller)
}

fn pod_namespace() -> String {
    let file = Path::new(POD_ACCOUNT_FOLDER).join("namespace");
    std::fs::read_to_string(file).map_or_else(|_| SYSTEM_NAMESPACE.to_owned(), |n| n.trim().to_owned())
}

/// The pod's name, else the machine's, with a random part as client-go adds one.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}_{:016x}", if host.is_empty() { "operator-controller" } else { host }, fastrand::u64(..))
}

fn pull_secret(text: &str) -> anyhow::Result<(String, String)> {
    catalogd::pull_secret_name(text)
        .context("value of global-pull-secret should be of the format <namespace>/<name>")
}

/// Prints the version, quoted as the original does.
#[expect(clippy::print_stdout, reason = "the sub-command's output")]
pub(crate) fn tell_version() {
    println!("{:?}", format!("operator-controller version {}", env!("CARGO_PKG_VERSION")));
}

/// Prints why the program ends.
#[expect(clippy::print_stderr, reason = "the last words of the program, after logging")]
pub(crate) fn tell(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_both_programs_are_accepted() {
        let args = Args::try_parse_from([
            "operator-controller",
            "--leader-elect",
            "--feature-gates=BoxcutterRuntime=true",
            "--catalogs-server-addr=:8444",
            "--gc-interval=1h",
            "-v=4",
        ])
        .unwrap();
        assert!(args.leader_elect);
        assert_eq!(args.verbosity(), 4);
        assert_eq!(args.gc_interval, Duration::from_hours(1));
        let off = Args::try_parse_from(["operator-controller", "--leader-elect=false"]).unwrap();
        assert!(!off.leader_elect);
        assert!(Args::try_parse_from(["operator-controller", "version"]).unwrap().wants_version());
        assert!(Args::try_parse_from(["operator-controller", "--gc-interval=soon"]).is_err());
    }
}
