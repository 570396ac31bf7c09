//! A cluster with real nodes for `make e2e`: the one of `KUBECONFIG`, else one that kind creates in a container engine.
//! Machines without an engine ask for a node without one ([`crate::tools::node`]) with `OLM_E2E_NODE=own`.
//!
//! Beside it stands a registry that this machine pushes to and that nodes and pods pull from.

use crate::tools::node::{Node, packages};
use crate::{cluster::given, prelude::*};

/// The registry as this machine reaches it, and as nodes and pods do. No TLS.
pub const REGISTRY_PUSH: &str = "OLM_E2E_REGISTRY_PUSH";
/// See [`REGISTRY_PUSH`].
pub const REGISTRY_PULL: &str = "OLM_E2E_REGISTRY_PULL";
/// Asks for a node without a container engine, with the value `own`.
pub const NODE: &str = "OLM_E2E_NODE";
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

/// The cluster that the suites run on.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    /// That of `KUBECONFIG`.
    Given(PathBuf),
    /// One that kind creates in this engine.
    Kind(&'static str),
    /// A node without a container engine.
    OwnNode,
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Given(list) => write!(f, "the cluster of KUBECONFIG={}", list.display()),
            Self::Kind(engine) => write!(f, "a kind cluster in {engine}"),
            Self::OwnNode => f.write_str("a node that is set up on this machine"),
        }
    }
}

impl Choice {
    /// Chooses by the environment. For a node without an engine, installs the missing packages if `install` is set.
    /// The error explains in one sentence why no cluster can be had.
    pub fn make(install: bool) -> Result<Self, String> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        match Self::wanted(variable("KUBECONFIG"), variable(NODE).as_deref(), engine)? {
            Self::OwnNode => packages::provide(install).map(|()| Self::OwnNode),
            other => Ok(other),
        }
    }

    /// The same cluster, whose `KUBECONFIG` may be a list, by one file: what the tests run takes no list.
    pub fn with_one_file(self) -> Result<Self> {
        match self {
            Self::Given(list) => Ok(Self::Given(given::copy(&given::read(list.as_os_str())?)?)),
            other => Ok(other),
        }
    }

    fn wanted(
        kubeconfig: Option<String>,
        node: Option<&str>,
        engine: impl FnOnce() -> Option<&'static str>,
    ) -> Result<Self, String> {
        match (kubeconfig, node) {
            (Some(path), _) => Ok(Self::Given(PathBuf::from(path))),
            (None, Some("own")) => Ok(Self::OwnNode),
            (None, Some(other)) => Err(format!("{NODE} is {other:?}, and only \"own\" is known")),
            (None, None) => engine().map(Self::Kind).ok_or_else(|| {
                "KUBECONFIG is not set, and no container engine answers or kind is not installed".to_owned()
            }),
        }
    }
}

/// The container engine that answers, if kind is installed.
fn engine() -> Option<&'static str> {
    let answers = |engine: &&'static str| {
        let mut info = Command::new("timeout");
        info.args([ENGINE_SECONDS, engine, "info"]).output().is_ok_and(|output| output.status.success())
    };
    packages::find("kind")?;
    ENGINES.into_iter().filter(|engine| packages::find(engine).is_some()).find(answers)
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
            Choice::OwnNode => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_cluster_comes_before_kind_and_a_node_without_an_engine_only_on_request() {
        let given = || Some("cluster".to_owned());
        let docker = || Some("docker");
        for (kubeconfig, node, expected) in [
            (given(), None, Ok(Choice::Given("cluster".into()))),
            (given(), Some("own"), Ok(Choice::Given("cluster".into()))),
            (None, None, Ok(Choice::Kind("docker"))),
            (None, Some("own"), Ok(Choice::OwnNode)),
            (None, Some("mine"), Err("OLM_E2E_NODE is \"mine\", and only \"own\" is known".to_owned())),
        ] {
            assert_eq!(Choice::wanted(kubeconfig, node, docker), expected, "{node:?}");
        }
        assert!(Choice::wanted(None, None, || None).unwrap_err().contains("no container engine answers"));
    }
    #[test]
    fn a_list_of_kubeconfigs_becomes_one_file_and_none_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (absent, present) = (folder.path().join("absent"), folder.path().join("present"));
        std::fs::write(&present, "current-context: mine\n").unwrap();
        let list = std::env::join_paths([&absent, &present]).unwrap();
        let Choice::Given(file) = Choice::Given(list.into()).with_one_file().unwrap() else { panic!() };
        assert!(std::fs::read_to_string(file).unwrap().contains(r#""current-context":"mine""#));
        let error = Choice::Given(absent).with_one_file().unwrap_err().to_string();
        assert!(error.starts_with("KUBECONFIG names no file that exists: /"), "{error}");
    }
}
