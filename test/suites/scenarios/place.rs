//! Where the scenarios run: what differs between a control plane of our own and a given cluster.

mod given;
mod local;

use olm_test::{prelude::*, tools::e2e::REGISTRY_PUSH};
use tokio::sync::OnceCell;

pub(crate) use given::Given;
use local::Local;

/// The lease of who writes catalogs' statuses.
pub(crate) const CATALOGD_LEASE: &str = "catalogd-operator-lock";

/// One of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    OperatorController,
    Catalogd,
}

impl Component {
    pub(crate) fn parse(name: &str) -> Result<Self> {
        match name {
            "operator-controller" => Ok(Self::OperatorController),
            "catalogd" => Ok(Self::Catalogd),
            _ => anyhow::bail!("there is no program {name:?}"),
        }
    }
}

/// What scenarios may expect.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and a tag's meaning")]
pub(crate) struct Facts {
    /// How the counts call the place.
    pub(crate) name: &'static str,
    /// Whether Pods run, or are played.
    pub(crate) pods: bool,
    /// Whether catalogd is a program on its own.
    pub(crate) split: bool,
    /// Whether several replicas can serve catalogs.
    pub(crate) replicas: bool,
    /// The host that the registries configuration redirects to the registry.
    pub(crate) mirror: Option<String>,
    /// Whether the programs can reach a proxy of this process.
    pub(crate) proxy: bool,
    /// An image that runs without arguments until it is told to end.
    pub(crate) operator_image: String,
    /// The image of the sample operator.
    pub(crate) webhook_image: String,
    /// Feature gates that are off.
    pub(crate) gates_off: Vec<String>,
    /// Where the programs are at home.
    pub(crate) system_namespace: String,
}

/// An address of this machine behind which something is, as long as this lives.
pub(crate) struct Reach {
    /// Host and port.
    pub(crate) address: String,
    pub(crate) _forward: Option<Process>,
}

/// The place.
pub(crate) struct Place {
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) images: Images,
    facts: Facts,
    programs: Programs,
}

enum Programs {
    Local(Box<Local>),
    Given(Given),
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

impl Place {
    /// The place of this run.
    pub(crate) async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Place> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// Whether there is a place: a cluster that is given is none before the manifests are applied.
    pub(crate) fn is_ready() -> bool {
        !is_set("KUBECONFIG") || is_set(REGISTRY_PUSH)
    }

    async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options::default()).await?;
        let client = cluster.client().await?;
        if is_set("KUBECONFIG") {
            let (given, facts, images) = Given::find(&client).await?;
            return Ok(Self { cluster, client, images, facts, programs: Programs::Given(given) });
        }
        let (local, facts, images) = Local::start(&cluster).await?;
        Ok(Self { cluster, client, images, facts, programs: Programs::Local(Box::new(local)) })
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// A reference as the programs must be given it.
    pub(crate) fn pulled(&self, reference: &str) -> String {
        match &self.programs {
            Programs::Local(_) => reference.to_owned(),
            Programs::Given(given) => reference.replacen(self.images.host(), given.pull_host(), 1),
        }
    }

    /// The image for an operator's Pods.
    pub(crate) fn operator_image(&self) -> &str {
        &self.facts.operator_image
    }

    /// The metrics of a program.
    pub(crate) async fn metrics(&self, component: Component) -> Result<Reach> {
        match &self.programs {
            Programs::Local(local) => local.metrics(component).await,
            Programs::Given(given) => given.metrics(&self.cluster, component).await,
        }
    }

    /// The catalogs' server.
    pub(crate) async fn catalogs(&self) -> Result<Reach> {
        match &self.programs {
            Programs::Local(local) => local.catalogs().await,
            Programs::Given(given) => given.catalogs(&self.cluster).await,
        }
    }

    /// Runs a program with further arguments and variables; ready when this returns. Scenarios that do this are
    /// `@serial`.
    pub(crate) async fn reconfigure(
        &self,
        component: Component,
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<()> {
        match &self.programs {
            Programs::Local(local) => local.reconfigure(&self.cluster, component, args, env).await,
            Programs::Given(given) => given.reconfigure(&self.client, component, args, env).await,
        }
    }

    /// Runs the programs as before.
    pub(crate) async fn restore(&self) -> Result<()> {
        match &self.programs {
            Programs::Local(local) => local.restore(&self.cluster).await,
            Programs::Given(given) => given.restore(&self.client).await,
        }
    }

    /// Sees to two replicas that serve catalogs.
    pub(crate) async fn two_replicas(&self) -> Result<()> {
        match &self.programs {
            Programs::Local(local) => local.two_replicas(&self.cluster).await,
            // They are there, or the scenario is left out.
            Programs::Given(_) => Ok(()),
        }
    }

    /// Ends the replica that leads, whose identity this is, without giving it time.
    pub(crate) async fn kill_leader(&self, identity: &str) -> Result<()> {
        match &self.programs {
            Programs::Local(local) => {
                local.kill_leader().await;
                Ok(())
            }
            Programs::Given(given) => given.kill(&self.client, identity).await,
        }
    }

    /// An error if a program of ours has ended.
    pub(crate) fn check_running(&self) -> Result<()> {
        match &self.programs {
            Programs::Local(local) => local.check_running(),
            Programs::Given(_) => Ok(()),
        }
    }
}
