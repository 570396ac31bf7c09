//! Our program, run against a cluster as an administrator would: CRDs and rights applied, then started.

use std::{io::Write as _, process::Stdio};

use crate::{
    catalogd::{self, Settings},
    prelude::*,
    process::free_ports,
    supervisor::Program,
};

/// The user that the program is known as in the cluster.
pub const USER: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";
/// What a kubelet gives the program to end: `terminationGracePeriodSeconds` of its Deployment.
pub const GRACE: Duration = Duration::from_secs(40);
/// The namespace of its Secrets and leases.
pub const SYSTEM_NAMESPACE: &str = "olmv1-system";
pub(crate) const GROUPS: [&str; 3] =
    ["system:serviceaccounts", "system:serviceaccounts:olmv1-system", "system:authenticated"];
const READY: Duration = Duration::from_secs(30);

/// operator-controller with catalogd inside. Dropped, it is gone.
pub struct Operator {
    process: Process,
    catalogs_port: u16,
    metrics_port: u16,
    health_port: u16,
    directory: StateDirectory,
}

impl Operator {
    /// Installs CRDs and rights, then starts the program with exactly these rights.
    pub async fn start(cluster: &Cluster, images: &Images, extra_args: &[&str]) -> Result<Self> {
        Self::start_as(cluster, &kubeconfig(cluster)?, images, extra_args).await
    }

    /// The same, with a kubeconfig that leads to the cluster in some other way, through a proxy for instance.
    pub async fn start_as(
        cluster: &Cluster,
        kubeconfig: &Path,
        images: &Images,
        extra_args: &[&str],
    ) -> Result<Self> {
        install(cluster)?;
        Self::start_with(kubeconfig, images, extra_args).await
    }

    /// Starts the program where CRDs and rights are installed already.
    pub async fn start_installed(cluster: &Cluster, images: &Images, extra_args: &[&str]) -> Result<Self> {
        Self::start_with(&kubeconfig(cluster)?, images, extra_args).await
    }

    /// The same, with variables of its environment; one of them names the registries configuration.
    pub async fn start_installed_with(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        Self::start_settings(&kubeconfig(cluster)?, settings).await
    }

    async fn start_with(kubeconfig: &Path, images: &Images, extra_args: &[&str]) -> Result<Self> {
        let conf = images.registries_conf().display().to_string();
        let settings = Settings::default().env("CONTAINERS_REGISTRIES_CONF", conf);
        let settings = extra_args.iter().fold(settings, |settings, arg| settings.arg(*arg));
        Self::start_settings(kubeconfig, &settings).await
    }

    async fn start_settings(kubeconfig: &Path, settings: &Settings) -> Result<Self> {
        let directory = StateDirectory::new("operator-controller")?;
        let [catalogs_port, metrics_port, health_port] = free_ports()?;
        let cache = directory.path().join("cache");
        let mut args = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--system-namespace={SYSTEM_NAMESPACE}"),
            format!("--cache-path={}", cache.join("bundles").display()),
            format!("--cache-dir={}", cache.join("catalogs").display()),
            format!("--catalogs-server-addr=127.0.0.1:{catalogs_port}"),
            format!("--metrics-bind-address=127.0.0.1:{metrics_port}"),
            format!("--health-probe-bind-address=127.0.0.1:{health_port}"),
        ];
        settings.add_external_address(&mut args, catalogs_port);
        args.extend(settings.args.iter().cloned());
        let (program, args) = settings.program(program()?, &cache, args);
        let program = Program {
            program,
            args,
            env: settings.env.clone(),
            env_remove: vec!["KUBECONFIG".to_owned(), "RUST_LOG".to_owned()],
            log: directory.path().join("operator-controller.log"),
        };
        let process = Process::start("operator-controller", program)?;
        let operator = Self { process, catalogs_port, metrics_port, health_port, directory };
        operator.ready().await?;
        Ok(operator)
    }

    /// Waits until `/readyz` says so.
    pub async fn ready(&self) -> Result<()> {
        wait::until("operator-controller to be ready", READY, || async {
            self.process.check_running()?;
            let answer = reqwest::get(self.readiness_url()).await?;
            ensure!(answer.status().is_success(), "{}", answer.text().await?);
            Ok(())
        })
        .await
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

    /// The address of its metrics.
    pub fn metrics_url(&self) -> String {
        format!("https://localhost:{}/metrics", self.metrics_port)
    }

    /// The address that tells whether it is ready.
    pub fn readiness_url(&self) -> String {
        format!("http://127.0.0.1:{}/readyz", self.health_port)
    }

    /// The folder with its caches.
    pub fn directory(&self) -> PathBuf {
        self.directory.path().join("cache")
    }
}

/// The program: `OLM_OPERATOR_CONTROLLER`, or the one cargo builds.
fn program() -> Result<PathBuf> {
    match std::env::var_os("OLM_OPERATOR_CONTROLLER") {
        Some(path) => Ok(PathBuf::from(path)),
        None => cargo_program("operator-controller", "operator-controller"),
    }
}

/// A kubeconfig of the program's own account, with the rights it has when installed.
pub fn kubeconfig(cluster: &Cluster) -> Result<PathBuf> {
    cluster.kubeconfig_for(USER, &GROUPS)
}

/// Applies the generated CRDs, rights and admission policies with kubectl, as an administrator does.
pub fn install(cluster: &Cluster) -> Result<()> {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    for part in ["crd", "rbac", "admission"] {
        kubectl(
            cluster,
            &["apply", "--server-side", "--force-conflicts", "-k", &config.join(part).display().to_string()],
        )?;
    }
    catalogd::install_rights(cluster)?;
    kubectl(cluster, &["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"])?;
    cluster.show_kinds_to_collector()
}

/// Replaces the rights with those of an overlay of `config/overlays`.
pub fn overlay(cluster: &Cluster, name: &str) -> Result<()> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/overlays").join(name);
    let role = folder.join("cluster-role.patch.yaml");
    kubectl(cluster, &["apply", "--server-side", "--force-conflicts", "-f", &role.display().to_string()])?;
    Ok(())
}

/// Runs kubectl as admin and returns what it prints.
pub fn kubectl(cluster: &Cluster, args: &[&str]) -> Result<String> {
    kubectl_with(cluster, args, b"").map(|(output, _)| output)
}

/// The same with a standard input; returns the errors that it prints too.
pub fn kubectl_with(cluster: &Cluster, args: &[&str], input: &[u8]) -> Result<(String, String)> {
    let mut kubectl = Command::new(cluster.kubectl())
        .arg(format!("--kubeconfig={}", cluster.kubeconfig_admin().display()))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("running kubectl")?;
    // One that does not read its input may have ended already.
    drop(kubectl.stdin.take().context("no standard input")?.write_all(input));
    let output = kubectl.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "kubectl {}: {}", args.join(" "), errors.trim());
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), errors))
}
