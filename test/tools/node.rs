//! A real single node: a control plane, a container runtime, a kubelet, kube-proxy and cluster DNS, on this
//! machine, without a container engine. Needs root and what [`packages`] names.
//!
//! It stands in namespaces of its own and writes into one folder; dropped, or when the test process is gone, nothing
//! of it is left. This machine reaches its API server, and it reaches servers on [`Node::host_address`]; no request
//! of it leaves the machine. Left out of a real cluster's: network policies are stored and not enforced, there is
//! one node, and containers run under cgroups of whichever kind the machine has.

mod dns;
mod images;
mod namespaces;
pub mod packages;
mod programs;

use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::Api;

pub use images::{of_program, pause};

use crate::{
    cluster::{self, start},
    prelude::*,
};
use namespaces::Namespaces;
use olm_test_programs::GoModule;
use olm_test_programs::controlplane::{API_SERVER, CONTROLLERS, Tool, Tools, VERSION};

/// The node's name.
pub const NODE: &str = "node-0";
/// Until the container runtime, the node, and its DNS are there. Two cores may be building something beside.
const DEADLINE: Duration = Duration::from_mins(3);
/// The ports of the control plane, in a network of their own.
const PORTS: [u16; 3] = [2379, 2380, 6443];

/// The programs of a node, beside those of a control plane.
struct Programs {
    kubelet: PathBuf,
    kube_proxy: PathBuf,
    coredns: PathBuf,
}

impl Programs {
    /// Finds them, and builds them if they are not there (some minutes, once). Blocks.
    fn locate() -> Result<Self> {
        let link_flags = format!("-s -w -X k8s.io/component-base/version.gitVersion={VERSION}");
        let node = GoModule {
            folder: "tools/node",
            programs: &["kubelet", "kube-proxy"],
            renamed: &[],
            link_flags,
            tags: "",
        }
        .built()?;
        // It runs in an image without libraries.
        let link_flags = "-s -w -linkmode external -extldflags -static".to_owned();
        let dns = GoModule {
            folder: "tools/node/coredns",
            programs: &["coredns"],
            renamed: &[],
            link_flags,
            tags: "",
        }
        .built()?;
        Ok(Self {
            kubelet: node.join("kubelet"),
            kube_proxy: node.join("kube-proxy"),
            coredns: dns.join("coredns"),
        })
    }
}

/// A cluster with one real node. Dropped, it is gone.
pub struct Node {
    // Ended in this order: the namespaces end every program in them, then their files are removed.
    namespaces: Namespaces,
    cluster: Cluster,
    directory: PathBuf,
}

impl Node {
    /// Starts it, and waits until the node is ready and names are answered. [`packages::provide`] comes before.
    pub async fn start() -> Result<Self> {
        cluster::install_crypto_provider();
        let (tools, programs) = tokio::task::spawn_blocking(|| {
            let tools = Tools::locate(&[API_SERVER, CONTROLLERS].concat())?;
            Ok::<_, anyhow::Error>((tools, Programs::locate()?))
        })
        .await??;
        let directory = StateDirectory::new("node")?;
        let path = directory.path().to_owned();
        let namespaces = Namespaces::new(&path).await?;
        let server = format!("https://{}:{}", namespaces.address(), PORTS[2]);
        let authority = start::write_files(&path, &server, &[&namespaces.address()])?;
        let users = [
            ("kubelet", format!("system:node:{NODE}"), &["system:nodes"][..]),
            ("kube-proxy", "system:kube-proxy".to_owned(), &[]),
        ];
        for (name, user, groups) in users {
            // The kubelet's answers for its server as well.
            let files = authority.both(&user, groups, &[NODE, &namespaces.address()])?.write(&path, name)?;
            start::write_kubeconfig(&path.join(format!("{name}.kubeconfig")), &server, &path, &files)?;
        }
        let rules = path.join("masquerade.nft");
        std::fs::write(&rules, programs::masquerade())?;
        namespaces.run(&["nft", "-f", &rules.display().to_string()])?;

        let mut started = Starting { namespaces: &namespaces, path: &path, processes: Vec::new() };
        let [etcd, peer, port] = PORTS;
        started.run(&tools.path(Tool::Etcd), start::etcd_args(&path, etcd, peer))?;
        let mut args = start::api_server_args(&path, port, etcd);
        // A list is added to by a second flag.
        args.retain(|argument| !argument.starts_with("--authorization-mode"));
        args.extend(programs::api_server(&path, &namespaces));
        started.run(&tools.path(Tool::ApiServer), args)?;
        started.container_runtime(&programs.coredns).await?;

        let admin = cluster::client(&path.join("admin.kubeconfig")).await?;
        wait::until("the node's API server to be ready", DEADLINE, async || {
            started.check()?;
            let request = http::Request::get("/readyz").body(Vec::new())?;
            wait::check(admin.request_text(request).await? == "ok", || "not ok".to_owned())
        })
        .await?;
        let mut args = start::controller_manager_args(&path);
        args.push("--node-monitor-period=1s".to_owned());
        started.run(&tools.path(Tool::ControllerManager), args)?;
        started.run(&tools.path(Tool::Scheduler), start::scheduler_args(&path))?;
        started.run(&programs.kubelet, programs::kubelet(&path, &namespaces)?)?;
        started.run(&programs.kube_proxy, programs::kube_proxy(&path)?)?;
        started.ready(&admin).await?;

        let Starting { mut processes, .. } = started;
        processes.reverse();
        let cluster = Cluster::of_programs(processes, tools, authority, server, directory);
        Ok(Self { namespaces, cluster, directory: path })
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// An address of this machine that the node and its pods reach.
    pub fn host_address(&self) -> String {
        self.namespaces.host_address()
    }

    /// The process in whose namespaces the node is, as this machine numbers it.
    pub fn holder(&self) -> u32 {
        self.namespaces.holder()
    }

    /// Makes the node pull from a registry without TLS.
    pub fn allow_registry(&self, host: &str) -> Result<()> {
        programs::allow_registry(&self.directory, host)
    }

    /// Imports an archive of images, each under the name it has there.
    pub fn import(&self, archive: &Path) -> Result<()> {
        import(&self.namespaces, archive)
    }
}

/// Runs `ctr` on the container runtime.
fn ctr(namespaces: &Namespaces, args: &[&str]) -> Result<String> {
    namespaces.run(&[&["ctr", "-a", programs::SOCKET, "-n", "k8s.io"], args].concat())
}

fn import(namespaces: &Namespaces, archive: &Path) -> Result<()> {
    ctr(namespaces, &["images", "import", &archive.display().to_string()]).map(drop)
}

/// A node whose programs are being started.
struct Starting<'a> {
    namespaces: &'a Namespaces,
    path: &'a Path,
    processes: Vec<Process>,
}

impl Starting<'_> {
    fn run(&mut self, program: &Path, args: Vec<String>) -> Result<()> {
        let name = program.file_name().context("a program has a name")?.to_string_lossy().into_owned();
        let log = self.path.join(format!("{name}.log"));
        self.processes.push(Process::start(&name, self.namespaces.program(program, args, log))?);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.processes.iter().try_for_each(Process::check_running)
    }

    /// Starts the container runtime and gives it the images without which no pod can be.
    async fn container_runtime(&mut self, coredns: &Path) -> Result<()> {
        let containerd = packages::find("containerd").context("containerd is not installed")?;
        self.run(&containerd, programs::containerd(self.path)?)?;
        let archives = images::archives(self.path, coredns)?;
        wait::until("the container runtime", DEADLINE, async || {
            self.check()?;
            ctr(self.namespaces, &["version"]).map(drop)
        })
        .await?;
        archives.iter().try_for_each(|archive| import(self.namespaces, archive))
    }

    /// Waits until the node is ready, gives it its DNS and waits for that.
    async fn ready(&self, admin: &kube::Client) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(admin.clone());
        wait::until("the node to be ready", DEADLINE, async || {
            self.check()?;
            let node = nodes.get(NODE).await?;
            wait::check(start::is_ready(&node), || {
                format!("{:?}", node.status.and_then(|status| status.conditions))
            })
        })
        .await
        .map_err(|error| self.explain(&error))?;
        for object in dns::objects() {
            apply(admin, &object).await?;
        }
        let deployments: Api<Deployment> = Api::namespaced(admin.clone(), dns::NAMESPACE);
        wait::until("the cluster's DNS", DEADLINE, async || {
            self.check()?;
            let status = deployments.get(dns::DEPLOYMENT).await?.status.unwrap_or_default();
            wait::check(status.ready_replicas == Some(1), || format!("{status:?}"))
        })
        .await
        .map_err(|error| self.explain(&error))
    }

    /// Adds the ends of all logs.
    fn explain(&self, error: &anyhow::Error) -> anyhow::Error {
        let logs: Vec<_> = self.processes.iter().map(Process::log_tail).collect();
        anyhow::anyhow!("{error:#}\n{}", logs.join("\n"))
    }
}

async fn apply(client: &kube::Client, object: &Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types = object.types.clone().context("an object has a kind")?;
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    let kind = kube::api::GroupVersionKind::gvk(group, version, &types.kind);
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let params = PatchParams::apply("olm-test").force();
    api.patch(name, &params, &Patch::Apply(&object))
        .await
        .with_context(|| format!("applying {} {name}", types.kind))?;
    Ok(())
}
