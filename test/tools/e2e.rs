//! A cluster with real nodes for `make e2e`: the one of `KUBECONFIG`, else one of kind if a container engine answers,
//! else a node of this machine's own ([`crate::tools::node`]).
//!
//! Beside it stands a registry that this machine pushes to and that nodes and pods pull from.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process::StateDirectory;
use crate::registry::Registry;
use crate::tools::node::{Node, packages};

/// The registry as this machine reaches it, and as nodes and pods do. No TLS.
pub const REGISTRY_PUSH: &str = "OLM_E2E_REGISTRY_PUSH";
/// See [`REGISTRY_PUSH`].
pub const REGISTRY_PULL: &str = "OLM_E2E_REGISTRY_PULL";
/// Set when the nodes' processes are this machine's own, so that figures can be taken of them.
pub const OWN_NODE: &str = "OLM_E2E_OWN_NODE";
/// Where the images of `install.yaml` are, if not under the names that are there: another prefix than
/// `localhost/olmv1/`.
pub const IMAGE_PREFIX: &str = "OLM_E2E_IMAGE_PREFIX";

/// A folder with `install.yaml` of another commit and the archives of its images, named with [`PREVIOUS_PREFIX`].
pub const PREVIOUS: &str = "OLM_E2E_PREVIOUS";
/// What the images' names of another commit begin with.
pub const PREVIOUS_PREFIX: &str = "localhost/previous/";

/// A name of a registry that does not exist: the programs' registries configuration leads from it to the one that does.
pub const MIRRORED: &str = "mirrored-registry.example.com:5000";

/// Container engines, in the order in which they are asked.
const ENGINES: [&str; 2] = ["docker", "podman"];
/// Seconds an engine may take to say that it is there.
const ENGINE_SECONDS: &str = "15";
/// Name of the cluster that kind makes.
const KIND_CLUSTER: &str = "olm-e2e";

/// Which cluster it will be.
#[derive(Debug)]
pub enum Choice {
    /// That of `KUBECONFIG`.
    Given(PathBuf),
    /// One that kind makes in this engine.
    Kind(&'static str),
    /// A node of this machine's own.
    Node,
}

impl Choice {
    /// Chooses, and installs what a node of one's own needs, or demands it to be there. The error says in one sentence
    /// why there is nothing to choose from.
    pub fn make(install: bool) -> Result<Self, String> {
        if let Some(path) = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
            return Ok(Self::Given(PathBuf::from(path)));
        }
        let answers = |engine: &&'static str| {
            let mut info = Command::new("timeout");
            info.args([ENGINE_SECONDS, engine, "info"]).output().is_ok_and(|output| output.status.success())
        };
        if packages::find("kind").is_some()
            && let Some(engine) = ENGINES.into_iter().filter(|e| packages::find(e).is_some()).find(answers)
        {
            return Ok(Self::Kind(engine));
        }
        packages::provide(install).map(|()| Self::Node)
    }
}

/// The cluster and its registry. Dropped, what was made for it is gone.
pub struct Place {
    // The registry listens on an address of the node's link.
    registry: Option<Registry>,
    made: Made,
}

enum Made {
    Given(PathBuf),
    ByKind(KindCluster),
    Node(Box<Node>),
}

struct KindCluster {
    engine: &'static str,
    directory: StateDirectory,
}

impl Place {
    /// Starts what was chosen.
    pub async fn start(choice: Choice) -> Result<Self> {
        match choice {
            Choice::Given(kubeconfig) => {
                for name in [REGISTRY_PUSH, REGISTRY_PULL] {
                    ensure!(
                        std::env::var_os(name).is_some(),
                        "with KUBECONFIG, {name} has to name a registry without TLS that the cluster reaches too"
                    );
                }
                Ok(Self { registry: None, made: Made::Given(kubeconfig) })
            }
            Choice::Kind(engine) => {
                let cluster = KindCluster { engine, directory: StateDirectory::new("kind")? };
                cluster.start()?;
                let registry = Registry::start_on(&cluster.gateway()?, None)?;
                cluster.allow_registry(&registry.address())?;
                Ok(Self { registry: Some(registry), made: Made::ByKind(cluster) })
            }
            Choice::Node => {
                let node = Node::start().await?;
                let registry = Registry::start_on(&node.host_address(), None)?;
                node.allow_registry(&registry.address())?;
                Ok(Self { registry: Some(registry), made: Made::Node(Box::new(node)) })
            }
        }
    }

    /// Gives the nodes the images of an archive. A given cluster has to have them already.
    pub fn load(&self, archive: &Path) -> Result<()> {
        match &self.made {
            Made::Given(_) => Ok(()),
            Made::ByKind(cluster) => cluster.load(archive),
            Made::Node(node) => node.import(archive),
        }
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        match &self.made {
            Made::Given(kubeconfig) => kubeconfig.clone(),
            Made::ByKind(cluster) => cluster.kubeconfig(),
            Made::Node(node) => node.cluster().kubeconfig_admin(),
        }
    }

    /// What tests have to know, as variables of their environment.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("KUBECONFIG", self.kubeconfig().display().to_string())];
        if let Some(registry) = &self.registry {
            variables.push((REGISTRY_PUSH, registry.address()));
            variables.push((REGISTRY_PULL, registry.address()));
        }
        if matches!(self.made, Made::Node(_)) {
            variables.push((OWN_NODE, "1".to_owned()));
        }
        variables
    }
}

impl KindCluster {
    fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    fn kind(&self, args: &[&str]) -> Result<()> {
        let mut kind = Command::new("kind");
        kind.args(args).args(["--name", KIND_CLUSTER]).env("KIND_EXPERIMENTAL_PROVIDER", self.engine);
        output(&mut kind).map(drop)
    }

    fn start(&self) -> Result<()> {
        // What a run that was killed left behind.
        self.kind(&["delete", "cluster"])?;
        self.kind(&[
            "create",
            "cluster",
            "--wait=180s",
            "--kubeconfig",
            &self.kubeconfig().display().to_string(),
        ])
    }

    fn load(&self, archive: &Path) -> Result<()> {
        self.kind(&["load", "image-archive", &archive.display().to_string()])
    }

    /// This machine's address in the network of the nodes.
    fn gateway(&self) -> Result<String> {
        let format = "{{range .IPAM.Config}}{{.Gateway}} {{end}}";
        let told =
            output(Command::new(self.engine).args(["network", "inspect", "kind", "--format", format]))?;
        let address = told.split_whitespace().find(|address| address.parse::<std::net::Ipv4Addr>().is_ok());
        address.map(str::to_owned).with_context(|| format!("kind's network has no gateway: {told}"))
    }

    fn allow_registry(&self, host: &str) -> Result<()> {
        let script = format!(
            "mkdir -p /etc/containerd/certs.d/{host} && printf '[host.\"http://{host}\"]\\n' \
             > /etc/containerd/certs.d/{host}/hosts.toml"
        );
        let node = format!("{KIND_CLUSTER}-control-plane");
        output(Command::new(self.engine).args(["exec", &node, "sh", "-c", &script])).map(drop)
    }
}

impl Drop for KindCluster {
    fn drop(&mut self) {
        if let Err(error) = self.kind(&["delete", "cluster"]) {
            eprintln!("the cluster {KIND_CLUSTER} of kind is still there: {error:#}");
        }
    }
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
