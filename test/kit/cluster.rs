//! A Kubernetes cluster for tests: a real control plane whose nodes are played, or the one of `KUBECONFIG`.
//!
//! Tests of one program share one cluster ([`Cluster::shared`]) and take a name prefix each
//! ([`unique_name`]). A [`Cluster`] belongs to no async runtime; clients do, so each test makes its own.

mod audit;
mod disturb;
pub mod given;
mod inventory;
mod services;
pub(crate) mod start;

use k8s_openapi::api::core::v1::Namespace;
use kube::Config;
use kube::api::{Api, ObjectMeta};
use kube::client::retry::RetryPolicy;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{Condition as _, conditions::is_crd_established};
use tokio::sync::OnceCell;
use tower::{BoxError, retry::Retry, service_fn};

pub use audit::AuditEvent;
pub use inventory::{inventory, objects};
pub use services::own_address;

use crate::permissions_used;
use crate::{pki::Authority, prelude::*};
use olm_test_programs::controlplane::{API_SERVER, CONTROLLERS, Tool, Tools};

/// What a cluster should be like.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many nodes are played.
    pub nodes: usize,
    /// Flags added to the API server's, such as `--emulated-version=1.34`.
    pub api_server_args: Vec<String>,
    /// Its programs, which may lack the controllers; without, all of them, which are built if need be.
    pub tools: Option<Tools>,
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes: 2, api_server_args: Vec::new(), tools: None }
    }
}

/// A cluster.
pub struct Cluster {
    kind: Kind,
}

enum Kind {
    Own(Box<Own>),
    Given { kubeconfig: PathBuf },
}

/// A control plane of our own. The fields are dropped in this order: the programs before their files.
struct Own {
    processes: Vec<Process>,
    tools: Tools,
    authority: Authority,
    server: String,
    etcd: String,
    directory: StateDirectory,
}

impl Drop for Own {
    fn drop(&mut self) {
        permissions_used::keep(self.directory.path());
    }
}

impl Cluster {
    /// The cluster that the tests of this program share, with this project's CRDs in it.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED
            .get_or_try_init(|| async {
                let cluster = Self::start(Options::default()).await?;
                cluster.apply_crds(olm_api::crds::all()).await?;
                Ok(cluster)
            })
            .await
    }

    /// Starts a cluster; takes the one of `KUBECONFIG` if that is set, which `options` cannot change.
    pub async fn start(options: Options) -> Result<Self> {
        install_crypto_provider();
        if let Some(list) = olm_test_programs::variable("KUBECONFIG") {
            return Ok(Self { kind: Kind::Given { kubeconfig: given::copy(&given::read(&list)?)? } });
        }
        let tools = if let Some(tools) = options.tools.clone() {
            tools
        } else {
            let locate = || Tools::locate(&[API_SERVER, CONTROLLERS].concat());
            tokio::task::spawn_blocking(locate).await??
        };
        Ok(Self { kind: Kind::Own(Box::new(start::start(&tools, &options).await?)) })
    }

    /// A cluster whose programs somebody else started. They are ended in the order given.
    pub(crate) fn of_programs(
        processes: Vec<Process>,
        tools: Tools,
        authority: Authority,
        server: String,
        directory: StateDirectory,
    ) -> Self {
        // Its etcd is not to be reached from here.
        let own = Own { processes, tools, authority, server, etcd: String::new(), directory };
        Self { kind: Kind::Own(Box::new(own)) }
    }

    /// The kubeconfig of somebody who may do everything.
    pub fn kubeconfig_admin(&self) -> PathBuf {
        match &self.kind {
            Kind::Own(own) => own.directory.path().join("admin.kubeconfig"),
            Kind::Given { kubeconfig } => kubeconfig.clone(),
        }
    }

    /// The kubeconfig of a user in groups, made now. The user has no rights but those that RBAC gives.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let name = unique_name("user");
        match &self.kind {
            Kind::Own(own) => {
                let files = own.authority.client(user, groups)?.write(own.directory.path(), &name)?;
                let path = own.directory.path().join(format!("{name}.kubeconfig"));
                start::write_kubeconfig(&path, &own.server, own.directory.path(), &files)?;
                Ok(path)
            }
            Kind::Given { kubeconfig } => {
                let mut config = Kubeconfig::read_from(kubeconfig)?;
                for info in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
                    info.impersonate = Some(user.to_owned());
                    info.impersonate_groups = Some(groups.iter().map(|&group| group.to_owned()).collect());
                }
                // Kept until the end of the run: clients read the file when they are made.
                let path = StateDirectory::kept(&name)?.join("kubeconfig");
                std::fs::write(&path, serde_json::to_string(&config)?)?;
                Ok(path)
            }
        }
    }

    /// A client that may do everything.
    pub async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig_admin()).await
    }

    /// A client of a user in groups.
    pub async fn client_for(&self, user: &str, groups: &[&str]) -> Result<Client> {
        client(&self.kubeconfig_for(user, groups)?).await
    }

    /// The path of `kubectl`: the control plane's, or the one found in `PATH` for a given cluster.
    pub fn kubectl(&self) -> PathBuf {
        match &self.kind {
            Kind::Own(own) => own.tools.path(Tool::Kubectl),
            Kind::Given { .. } => PathBuf::from(Tool::Kubectl.file_name()),
        }
    }

    /// `kubectl` with the folder of its caches beside the cluster's other files, if the cluster is the test's own.
    pub fn kubectl_command(&self) -> Command {
        let mut command = Command::new(self.kubectl());
        if let Kind::Own(own) = &self.kind {
            command.env("KUBECACHEDIR", own.directory.path().join("kubectl"));
        }
        command
    }

    /// Every write the API server has answered so far, in order. Not known for a given cluster.
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        self.audit_events_since(0)
    }

    /// The writes answered since [`Cluster::audit_mark`] gave this mark.
    pub fn audit_events_since(&self, mark: u64) -> Result<Vec<AuditEvent>> {
        audit::read(&self.audit_log()?, mark)
    }

    /// A mark of now in the audit log, for [`Cluster::audit_events_since`].
    pub fn audit_mark(&self) -> Result<u64> {
        let log = self.audit_log()?;
        Ok(std::fs::metadata(&log).with_context(|| format!("reading {}", log.display()))?.len())
    }

    /// The programs of the control plane, for tests that look at their logs or end one. Empty for a given
    /// cluster.
    pub fn processes(&self) -> &[Process] {
        match &self.kind {
            Kind::Own(own) => &own.processes,
            Kind::Given { .. } => &[],
        }
    }

    /// Applies CRDs and waits until they are served.
    pub async fn apply_crds(&self, crds: Vec<CustomResourceDefinition>) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client().await?);
        for crd in &crds {
            let name = crd.metadata.name.as_deref().unwrap_or_default();
            api.patch(name, &PatchParams::apply("olm-test").force(), &Patch::Apply(crd))
                .await
                .with_context(|| format!("applying the CRD {name}"))?;
        }
        for crd in &crds {
            let name = crd.metadata.name.as_deref().unwrap_or_default();
            wait::until(&format!("the CRD {name} to be served"), DEADLINE, || async {
                let crd = api.get(name).await?;
                wait::check(is_crd_established().matches_object(Some(&crd)), || format!("{:?}", crd.status))
            })
            .await?;
        }
        Ok(())
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str) -> Result<()> {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        Api::all(self.client().await?)
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("creating the namespace {name}"))?;
        Ok(())
    }

    fn audit_log(&self) -> Result<PathBuf> {
        match &self.kind {
            Kind::Own(own) => Ok(own.directory.path().join("audit.log")),
            Kind::Given { .. } => bail!("the cluster of KUBECONFIG shows no audit log"),
        }
    }
}

/// A name nobody else has: `base`, a hyphen and six random characters. Tests begin the names of everything
/// they make with one.
pub fn unique_name(base: &str) -> String {
    let suffix: String =
        std::iter::repeat_with(|| fastrand::alphanumeric().to_ascii_lowercase()).take(6).collect();
    format!("{base}-{suffix}")
}

/// A client that uses a kubeconfig and repeats what the API server has no time for.
///
/// It is made as the programs' is, which send at once, as those in Go do: with kube's own connections a request with a body
/// can wait 40 ms for the acknowledgement of its head.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let config = config(kubeconfig).await?;
    let namespace = config.default_namespace.clone();
    let client = olm_runtime::connect(config)?;
    let send = service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await.map_err(BoxError::from) }
    });
    Ok(Client::new(Retry::new(RetryPolicy::server_retry(), send), namespace))
}

async fn config(kubeconfig: &Path) -> Result<Config> {
    let read =
        Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
    Ok(Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?)
}

/// The TLS of this process; several tests may come here first.
pub fn install_crypto_provider() {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// A node that kwok plays.
fn node(name: &str) -> serde_json::Value {
    let roles = ["worker", "master", "control-plane", "infra"];
    let mut labels = json!({
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
        // A kubelet still sets these two as well.
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
    });
    for role in roles {
        labels[format!("node-role.kubernetes.io/{role}")] = json!("");
    }
    let size = json!({"cpu": "512", "memory": "4Ti", "pods": "5000", "ephemeral-storage": "4Ti"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": size, "capacity": size},
    })
}
