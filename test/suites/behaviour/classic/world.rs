//! A cluster, a registry and an olm-classic that all tests share.

use std::ops::Deref;

use olm_test::{
    classic::{Classic, install, packages_available},
    faults::ConnectProxy,
    prelude::*,
};
use tokio::sync::OnceCell;

/// What tests share.
pub(crate) struct World {
    pub(crate) classic: Classic,
    site: Site,
    /// Leads to Services, which nothing on this machine resolves.
    pub(crate) proxy: ConnectProxy,
}

impl Deref for World {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl World {
    async fn start(args: &[&str]) -> Result<Self> {
        let site = Site::start_on(Options { nodes: 0, ..Options::default() }).await?;
        let cluster = &site.cluster;
        install(cluster)?;
        let proxy = ConnectProxy::start()?;
        let settings = site.images.settings(args);
        let settings = settings
            // Plans that cannot be carried out fail within the time of a test.
            .arg("--install-plan-retry-timeout=5s")
            .env("GRPC_PROXY", proxy.url())
            .env("NO_PROXY", "127.0.0.1,169.254.169.254");
        let classic = Classic::start(cluster, &settings).await?;
        classic.serve_packages(cluster).await?;
        packages_available(cluster).await?;
        Ok(Self { classic, site, proxy })
    }

    pub(crate) async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<World> = OnceCell::const_new();
        SHARED.get_or_try_init(|| Self::start(&[])).await
    }

    /// A cluster of its own, for a program with these flags. It ends with the process of the tests.
    pub(crate) async fn begin(args: &[&str]) -> Result<&'static Self> {
        Ok(Box::leak(Box::new(Self::start(args).await?)))
    }

    /// A namespace that no other test uses.
    pub(crate) async fn namespace(&self, base: &str) -> Result<String> {
        let name = unique_name(base);
        self.cluster.create_namespace(&name).await?;
        Ok(name)
    }

    /// An image of a catalog with one version of a package.
    pub(crate) async fn catalog(&self, package: &str, version: &str, tag: &str) -> Result<String> {
        let mut entry = olm_test::catalog::Entry::new(package, version);
        entry.properties.push(json!({"type": "olm.csv.metadata", "value": {"displayName": package}}));
        let text = olm_test::catalog::text(&[(entry, "r/bundle:v1".to_owned())]);
        self.images.push_catalog(&text, tag).await
    }

    /// The reference by tag of an image that was pushed.
    pub(crate) fn tagged(&self, tag: &str) -> String {
        format!("{}/{tag}", self.images.host())
    }
}
