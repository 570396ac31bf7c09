//! A control plane, a registry, and our program: what tests of behaviour start with.

use tokio::sync::OnceCell;

use crate::{operator, prelude::*, proxy::Proxy};

/// For anything that should happen by itself. Generous: two cores run a whole control plane.
pub const DEADLINE: Duration = Duration::from_secs(90);
/// For what the cluster's garbage collector does: it learns of new kinds every 30 s only, and goes slower after
/// a miss.
pub const COLLECTED: Duration = Duration::from_mins(6);

/// A control plane, a registry, and our program. It belongs to no async runtime; clients do, so each test makes its
/// own. The fields are dropped in this order.
pub struct World {
    /// The program.
    pub operator: Operator,
    /// What the program reaches the API server through, if it is not the API server itself.
    pub proxy: Option<Proxy>,
    /// Images in the registry.
    pub images: Images,
    /// The cluster.
    pub cluster: Cluster,
    /// The registry.
    pub registry: Registry,
}

impl World {
    /// The world that tests share which do not disturb each other.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<World> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// A world as usual.
    pub async fn start() -> Result<Self> {
        Self::start_as(Options::default(), false, &[]).await
    }

    /// With further flags of the program.
    pub async fn start_with(flags: &[&str]) -> Result<Self> {
        Self::start_as(Options::default(), false, flags).await
    }

    /// On a cluster with options.
    pub async fn start_on(options: Options) -> Result<Self> {
        Self::start_as(options, false, &[]).await
    }

    /// With a proxy between the program, which gets these flags, and the API server.
    pub async fn start_behind_proxy(flags: &[&str]) -> Result<Self> {
        Self::start_as(Options::default(), true, flags).await
    }

    async fn start_as(options: Options, with_proxy: bool, flags: &[&str]) -> Result<Self> {
        let (cluster, registry) = (Cluster::start(options).await?, Registry::start()?);
        let images = Images::new(&registry)?;
        let mut kubeconfig = operator::kubeconfig(&cluster)?;
        let proxy = if with_proxy { Some(Proxy::start(&kubeconfig).await?) } else { None };
        if let Some(proxy) = &proxy {
            proxy.kubeconfig().clone_into(&mut kubeconfig);
        }
        let operator = Operator::start_as(&cluster, &kubeconfig, &images, flags).await?;
        Ok(Self { operator, proxy, images, cluster, registry })
    }

    /// The proxy of [`Self::start_behind_proxy`].
    ///
    /// # Panics
    /// There is none.
    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("a world behind a proxy")
    }
}
