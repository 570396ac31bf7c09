//! A program of ours as a process: operator-controller, or catalogd on its own.

use std::ops::Deref;

use crate::{prelude::*, process::free_ports, supervisor::Program};

/// The flag with the name that the certificate of catalogs is for.
const EXTERNAL_ADDRESS: &str = "--external-address=";

/// How a program of ours is started.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Flags beside those that every test needs.
    pub args: Vec<String>,
    /// Variables of its environment.
    pub env: BTreeMap<String, String>,
    /// Text of a shell that runs first and ends with `exec "$@"`; its `$0` is the cache folder.
    pub shell: Option<String>,
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
    fn add_external_address(&self, args: &mut Vec<String>, port: u16) {
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

/// Waits until a program reports at `url` that it is ready.
pub(crate) async fn ready(process: &Process, url: &str) -> Result<()> {
    wait::until(&format!("{} to be ready", process.name()), DEADLINE, || async {
        process.check_running()?;
        let answer = reqwest::get(url).await?;
        ensure!(answer.status().is_success(), "{}", answer.text().await?);
        Ok(())
    })
    .await
    .with_context(|| process.log_tail())
}

/// An instance of one of our programs. Dropped, it is gone.
pub struct Instance {
    process: Process,
    catalogs_port: u16,
    metrics_port: u16,
    health_port: u16,
    directory: StateDirectory,
}

impl Instance {
    /// Starts a program whose own objects are in `namespace`; `flags` are those with its folders, below its cache.
    pub(crate) fn begin(
        name: &str,
        (kubeconfig, namespace): (&Path, &str),
        settings: &Settings,
        flags: impl FnOnce(&Path) -> Vec<String>,
    ) -> Result<Self> {
        let directory = StateDirectory::new(name)?;
        let [catalogs_port, metrics_port, health_port] = free_ports()?;
        let cache = directory.path().join("cache");
        fs::create_dir(&cache)?;
        // `OLM_CATALOGD`, `OLM_OPERATOR_CONTROLLER` or `OLM_OLM_CLASSIC`, or what cargo builds.
        let binary = match std::env::var_os(format!("OLM_{}", name.to_uppercase().replace('-', "_"))) {
            Some(path) => PathBuf::from(path),
            None => cargo_program(name, name)?,
        };
        let mut args = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--system-namespace={namespace}"),
            format!("--catalogs-server-addr=127.0.0.1:{catalogs_port}"),
            format!("--metrics-bind-address=127.0.0.1:{metrics_port}"),
            format!("--health-probe-bind-address=127.0.0.1:{health_port}"),
        ];
        args.extend(flags(&cache));
        settings.add_external_address(&mut args, catalogs_port);
        args.extend(settings.args.iter().cloned());
        let (program, args) = settings.program(binary, &cache, args);
        let program = Program {
            program,
            args,
            env: settings.env.clone(),
            env_remove: ["KUBECONFIG", "RUST_LOG", "POD_IP"].map(str::to_owned).to_vec(),
            log: directory.path().join("log"),
        };
        let process = Process::start(name, program)?;
        Ok(Self { process, catalogs_port, metrics_port, health_port, directory })
    }

    /// Waits until `/readyz` says so.
    pub async fn ready(&self) -> Result<()> {
        ready(&self.process, &self.readiness_url()).await
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The address under which catalogs are served.
    pub fn catalogs_url(&self) -> String {
        format!("https://localhost:{}", self.catalogs_port)
    }

    /// The port of 127.0.0.1 on which catalogs are served.
    pub fn catalogs_port(&self) -> u16 {
        self.catalogs_port
    }

    /// The address of all of a catalog.
    pub fn all(&self, catalog: &str) -> String {
        format!("{}/catalogs/{catalog}/api/v1/all", self.catalogs_url())
    }

    /// The address of its metrics.
    pub fn metrics_url(&self) -> String {
        format!("https://localhost:{}/metrics", self.metrics_port)
    }

    /// The address that tells whether it is ready.
    pub fn readiness_url(&self) -> String {
        format!("http://127.0.0.1:{}/readyz", self.health_port)
    }

    /// The folder with its caches, as the process sees it.
    pub fn cache(&self) -> PathBuf {
        let path = self.directory.path().join("cache");
        let seen = PathBuf::from(format!("/proc/{}/root{}", self.process.pid(), path.display()));
        if seen.is_dir() { seen } else { path }
    }
}

/// operator-controller with catalogd inside. Dropped, it is gone.
pub struct Operator(pub(crate) Instance);

/// catalogd on its own. Dropped, it is gone.
pub struct Catalogd(pub(crate) Instance);

impl Deref for Operator {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.0
    }
}

impl Deref for Catalogd {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.0
    }
}
