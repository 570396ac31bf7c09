//! Where the scenarios run: what differs between a control plane of our own and a given cluster.

mod given;
mod local;

use std::ops::Deref;

use async_trait::async_trait;
use olm_test::{prelude::*, tools::e2e::REGISTRY_PUSH};
use tokio::sync::OnceCell;

use given::Given;
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

/// The programs of a place.
#[async_trait(?Send)]
pub(crate) trait Programs: Send + Sync {
    /// A reference as the programs must be given it.
    fn pulled(&self, reference: &str) -> String;
    /// The metrics of a program.
    async fn metrics(&self, component: Component) -> Result<Reach>;
    /// The catalogs' server.
    async fn catalogs(&self) -> Result<Reach>;
    /// Runs a program with further arguments and variables; ready when this returns. Scenarios that do this are
    /// `@serial`.
    async fn reconfigure(
        &self,
        component: Component,
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<()>;
    /// Runs the programs as before.
    async fn restore(&self) -> Result<()>;
    /// Sees to two replicas that serve catalogs.
    async fn two_replicas(&self) -> Result<()>;
    /// Ends the replica that leads, whose identity this is, without giving it time.
    async fn kill_leader(&self, identity: &str) -> Result<()>;
    /// An error if a program of ours has ended.
    fn check_running(&self) -> Result<()>;
}

/// The place.
pub(crate) struct Place {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) client: Client,
    pub(crate) images: Images,
    facts: Facts,
    programs: Box<dyn Programs>,
}

impl Deref for Place {
    type Target = dyn Programs;

    fn deref(&self) -> &(dyn Programs + 'static) {
        &*self.programs
    }
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
        let cluster = Arc::new(Cluster::start(Options::default()).await?);
        let client = cluster.client().await?;
        let (programs, facts, images): (Box<dyn Programs>, _, _) = if is_set("KUBECONFIG") {
            let (given, facts, images) = Given::find(cluster.clone(), client.clone()).await?;
            (Box::new(given), facts, images)
        } else {
            let (local, facts, images) = Local::start(cluster.clone()).await?;
            (Box::new(local), facts, images)
        };
        Ok(Self { cluster, client, images, facts, programs })
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }
}
