//! catalogd on its own, run against a cluster as an administrator would.

use crate::{
    operator::{GROUPS, install, kubectl_with},
    prelude::*,
    process::free_ports,
    supervisor::Program,
};

/// The user that a catalogd on its own is known as in the cluster.
pub const USER: &str = "system:serviceaccount:olmv1-system:catalogd-controller-manager";
const READY: Duration = Duration::from_mins(1);
/// The flag with the name that its certificate is for.
const EXTERNAL_ADDRESS: &str = "--external-address=";

/// A kubeconfig of its own account, with the rights it has when installed on its own.
pub fn kubeconfig(cluster: &Cluster) -> Result<PathBuf> {
    cluster.kubeconfig_for(USER, &GROUPS)
}

/// Applies the rights of its account, without its Pods.
pub(crate) fn install_rights(cluster: &Cluster) -> Result<()> {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/catalogd/catalogd.yaml");
    let text = std::fs::read_to_string(&manifests).with_context(|| manifests.display().to_string())?;
    let objects = olm_yaml::documents(&text).collect::<Result<Vec<_>, _>>()?;
    let is_right = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        kind == "ServiceAccount" || kind.ends_with("Role") || kind.ends_with("RoleBinding")
    };
    let rights: Vec<Value> = objects.into_iter().filter(is_right).collect();
    ensure!(rights.len() == 5, "account, roles and bindings in {}: {rights:?}", manifests.display());
    let list = json!({"apiVersion": "v1", "kind": "List", "items": rights}).to_string();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    kubectl_with(cluster, &apply, list.as_bytes()).map(drop)
}

/// How a catalogd, or an operator-controller, is started.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Flags beside those that every test needs.
    pub args: Vec<String>,
    /// Variables of its environment, at first those of the Deployment.
    pub env: BTreeMap<String, String>,
    /// Text of a shell that runs first and ends with `exec "$@"`; its `$0` is the cache folder.
    pub shell: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        let env = BTreeMap::from([("MIMALLOC_PURGE_DELAY".to_owned(), "0".to_owned())]);
        Self { args: Vec::new(), env, shell: None }
    }
}

impl Settings {
    /// Adds a flag.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// Runs the program through a shell.
    #[must_use]
    pub fn shell(mut self, text: &str) -> Self {
        self.shell = Some(text.to_owned());
        self
    }

    /// The address of served catalogs on this machine, unless a flag of the test says another.
    pub(crate) fn add_external_address(&self, args: &mut Vec<String>, port: u16) {
        if !self.args.iter().any(|arg| arg.starts_with(EXTERNAL_ADDRESS)) {
            args.push(format!("{EXTERNAL_ADDRESS}localhost:{port}"));
        }
    }

    /// What is to be started so that `binary` runs with these arguments.
    pub(crate) fn program(
        &self,
        binary: PathBuf,
        cache: &Path,
        mut args: Vec<String>,
    ) -> (PathBuf, Vec<String>) {
        let Some(text) = &self.shell else { return (binary, args) };
        let before =
            ["-c", text, &cache.display().to_string(), &binary.display().to_string()].map(str::to_owned);
        args.splice(0..0, before);
        (PathBuf::from("/bin/sh"), args)
    }
}

/// catalogd. Dropped, it is gone.
pub struct Catalogd {
    process: Process,
    port: u16,
    metrics_port: u16,
    health_port: u16,
    directory: StateDirectory,
}

impl Catalogd {
    /// Installs CRDs and rights, then starts the program with exactly these rights.
    pub async fn start(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        install(cluster)?;
        Self::start_installed(cluster, settings).await
    }

    /// Starts the program where CRDs and rights are installed already.
    pub async fn start_installed(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        let this = Self::begin(cluster, settings)?;
        this.ready().await?;
        Ok(this)
    }

    /// The same, without waiting for it to be ready.
    pub fn begin(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        let directory = StateDirectory::new("catalogd")?;
        let [port, metrics_port, health_port] = free_ports()?;
        let cache = directory.path().join("cache");
        std::fs::create_dir(&cache)?;
        let binary = match std::env::var_os("OLM_CATALOGD") {
            Some(path) => PathBuf::from(path),
            None => cargo_program("catalogd", "catalogd")?,
        };
        let mut args = vec![
            format!("--kubeconfig={}", kubeconfig(cluster)?.display()),
            format!("--system-namespace={SYSTEM_NAMESPACE}"),
            format!("--cache-dir={}", cache.display()),
            format!("--catalogs-server-addr=127.0.0.1:{port}"),
            format!("--metrics-bind-address=127.0.0.1:{metrics_port}"),
            format!("--health-probe-bind-address=127.0.0.1:{health_port}"),
        ];
        settings.add_external_address(&mut args, port);
        args.extend(settings.args.iter().cloned());
        let (program, args) = settings.program(binary, &cache, args);
        let program = Program {
            program,
            args,
            env: settings.env.clone(),
            env_remove: vec!["KUBECONFIG".to_owned(), "RUST_LOG".to_owned()],
            log: directory.path().join("catalogd.log"),
        };
        let process = Process::start("catalogd", program)?;
        Ok(Self { process, port, metrics_port, health_port, directory })
    }

    /// Waits until `/readyz` says so.
    pub async fn ready(&self) -> Result<()> {
        let url = self.readiness_url();
        wait::until("catalogd to be ready", READY, || async {
            self.process.check_running()?;
            let answer = reqwest::get(&url).await?;
            ensure!(answer.status().is_success(), "{}", answer.text().await?);
            Ok(())
        })
        .await
        .with_context(|| self.process.log_tail())
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The address under which catalogs are served.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// The address of its metrics.
    pub fn metrics_url(&self) -> String {
        format!("https://localhost:{}/metrics", self.metrics_port)
    }

    /// The address that tells whether it is ready.
    pub fn readiness_url(&self) -> String {
        format!("http://127.0.0.1:{}/readyz", self.health_port)
    }

    /// The address of all of a catalog.
    pub fn all(&self, catalog: &str) -> String {
        format!("{}/catalogs/{catalog}/api/v1/all", self.url())
    }

    /// The folder with its cache, as the process sees it.
    pub fn cache(&self) -> PathBuf {
        let path = self.directory.path().join("cache");
        let seen = PathBuf::from(format!("/proc/{}/root{}", self.process.pid(), path.display()));
        if seen.is_dir() { seen } else { path }
    }

    /// The most memory it ever had resident, in bytes.
    pub fn memory_peak(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    }
}
