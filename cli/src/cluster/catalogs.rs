//! The catalogs of a cluster, read with the permissions of the user.

use std::sync::Arc;

use anyhow::anyhow;
use async_trait::async_trait;
use catalogd::{CatalogReader, Trust};
use kube::{Client, Config, ResourceExt};
use olm_api::{
    ConditionType,
    v1::{AvailabilityMode, ClusterCatalog},
};
use olm_fbc::{CatalogError, PackageContent};
use olm_runtime::connect;

use crate::{
    catalogs::{Access, Catalog, Content, Served, Way, behind_proxy, client, unreadable},
    cluster::list,
};

/// The catalogs that may be used, by name.
#[derive(Debug)]
pub(crate) struct ClusterCatalogs(Vec<Catalog>);

impl ClusterCatalogs {
    /// Lists the catalogs; their content is read when it is asked for.
    pub(crate) async fn of(cluster: &Config, access: &Access) -> anyhow::Result<Self> {
        let api = connect(cluster.clone())?;
        let (mut catalogs, mut direct) = (Vec::new(), None);
        for catalog in list::<ClusterCatalog>(&api).await? {
            let is_deleted = catalog.metadata.deletion_timestamp.is_some();
            if !is_deleted && catalog.spec.availability_mode != AvailabilityMode::Unavailable {
                let content = content(&api, &catalog, (access, &mut direct)).await?;
                catalogs.push(Catalog { name: catalog.name_any(), priority: catalog.spec.priority, content });
            }
        }
        Ok(Self(catalogs))
    }

    /// All of them, those that are not served too.
    pub(crate) fn all(&self) -> &[Catalog] {
        &self.0
    }

    /// All of them, those that are not served too.
    pub(crate) fn into_all(self) -> Vec<Catalog> {
        self.0
    }

    /// One of them.
    pub(crate) fn take(&mut self, name: &str) -> anyhow::Result<Catalog> {
        let found = self.0.iter().position(|catalog| catalog.name == name);
        found.map(|index| self.0.remove(index)).ok_or_else(|| missing(name, &self.0))
    }

    fn get(&self, name: &str) -> Result<&Catalog, CatalogError> {
        let found = self.0.iter().find(|catalog| catalog.name == name);
        found.ok_or_else(|| CatalogError::NotServed { catalog: name.to_owned() })
    }
}

fn missing(name: &str, all: &[Catalog]) -> anyhow::Error {
    let names: Vec<&str> = all.iter().map(|catalog| catalog.name.as_str()).collect();
    let others = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    anyhow!(
        "--catalog {name}: there is no file or folder of this name here, and no available ClusterCatalog on the cluster (available: {others})"
    )
}

/// The content of a catalog, by its status.
async fn content(
    api: &Client,
    catalog: &ClusterCatalog,
    (access, direct): (&Access, &mut Option<reqwest::Client>),
) -> anyhow::Result<Content> {
    let status = catalog.status.as_ref();
    let urls = status.and_then(|status| status.urls.as_ref());
    let image = status.and_then(|status| status.resolved_source.as_ref());
    let (Some(urls), Some(image)) = (urls, image) else {
        let serving = status.and_then(|status| status.conditions.find(ConditionType::Serving));
        let reason = serving.map_or("its status does not name content yet", |serving| &serving.message);
        return Ok(Content::NotServed(reason.to_owned()));
    };
    let way = if let Some(path) = behind_proxy(&urls.base) {
        Way::ApiServer(api.clone(), path)
    } else {
        let client = match direct {
            Some(client) => client.clone(),
            None => direct.insert(trusting(api, access).await?).clone(),
        };
        Way::Address(client, urls.base.trim_end_matches('/').to_owned())
    };
    let (name, image) = (catalog.name_any(), image.image.ref_.clone());
    Ok(Content::Served(Box::new(Served::new(name, way, image, access.registries.clone()))))
}

/// A client for the server of catalogs itself. It trusts the CA of the flag, else the one that catalogd publishes in the
/// cluster, else those of the system.
async fn trusting(api: &Client, access: &Access) -> anyhow::Result<reqwest::Client> {
    if access.catalog_ca.is_none()
        && let Ok((published, _)) = Trust::Published(access.system_namespace.clone()).load(api).await
    {
        return Ok(published);
    }
    client(access.catalog_ca.as_deref())
}

#[async_trait]
impl CatalogReader for ClusterCatalogs {
    async fn package(&self, catalog: &str, package: &str) -> Result<Arc<PackageContent>, CatalogError> {
        self.get(catalog)?.package(package).await.map(Arc::new)
    }

    async fn mentioning(&self, catalog: &str, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        self.get(catalog)?.mentioning(text).await
    }

    async fn packages(&self, catalog: &str) -> Result<Vec<String>, CatalogError> {
        self.get(catalog)?.packages().await.map_err(|error| unreadable(catalog, &error))
    }
}
