//! A control plane, a registry, and our program: what tests of behaviour start with.

use std::ops::Deref;

use tokio::sync::OnceCell;

use crate::{operator, prelude::*, proxy::Proxy};

/// For anything that should happen by itself. Generous: two cores run a whole control plane.
pub const DEADLINE: Duration = Duration::from_secs(90);
/// For what the cluster's garbage collector does: it learns of new kinds every 30 s only, and goes slower after
/// a miss.
pub const COLLECTED: Duration = Duration::from_mins(6);

/// A control plane and a registry, which the program comes to. It belongs to no async runtime; clients do, so each test
/// makes its own. The fields are dropped in this order.
pub struct Site {
    /// Images in the registry.
    pub images: Images,
    /// The cluster.
    pub cluster: Cluster,
    /// The registry.
    pub registry: Registry,
}

impl Site {
    /// A site as usual.
    pub async fn start() -> Result<Self> {
        Self::start_on(Options::default()).await
    }

    /// On a cluster with options.
    pub async fn start_on(options: Options) -> Result<Self> {
        Self::around(Cluster::start(options).await?)
    }

    /// A registry beside a cluster.
    pub fn around(cluster: Cluster) -> Result<Self> {
        let registry = Registry::start()?;
        Ok(Self { images: Images::new(&registry)?, cluster, registry })
    }
}

/// A site with our program. The fields are dropped in this order.
pub struct World {
    /// The program.
    pub operator: Operator,
    /// What the program reaches the API server through, if it is not the API server itself.
    pub proxy: Option<Proxy>,
    /// Where it runs.
    pub site: Site,
}

impl Deref for World {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl World {
    /// The world that tests share which do not disturb each other.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<World> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// A world as usual.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// With further flags of the program.
    pub async fn start_with(flags: &[&str]) -> Result<Self> {
        let site = Site::start().await?;
        Ok(Self { operator: Operator::start(&site, flags).await?, proxy: None, site })
    }

    /// On a cluster with options.
    pub async fn start_on(options: Options) -> Result<Self> {
        let site = Site::start_on(options).await?;
        Ok(Self { operator: Operator::start(&site, &[]).await?, proxy: None, site })
    }

    /// With a proxy between the program, which gets these flags, and the API server.
    pub async fn start_behind_proxy(flags: &[&str]) -> Result<Self> {
        let site = Site::start().await?;
        let proxy = Proxy::start(&operator::kubeconfig(&site.cluster)?).await?;
        let operator = Operator::start_as(&site, proxy.kubeconfig(), flags).await?;
        Ok(Self { operator, proxy: Some(proxy), site })
    }

    /// The proxy of [`Self::start_behind_proxy`].
    ///
    /// # Panics
    /// There is none.
    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("a world behind a proxy")
    }
}
