//! The catalogs of a cluster, read from their images: at the digest that each one's status names, when it is asked.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use kube::{Config, ResourceExt};
use olm_api::v1::ClusterCatalog;
use olm_fbc::{CatalogError, PackageContent};
use olm_runtime::connect;
use operator_controller::CatalogReader;
use tokio::sync::Mutex;

use crate::{
    cluster::list,
    output::causes,
    resolve::catalogs::{Catalog, Named, open},
    sources::Registries,
};

/// Reads packages of the cluster's catalogs.
pub(super) struct ClusterCatalogs {
    /// The image that each catalog serves, by name.
    images: BTreeMap<String, String>,
    registries: Registries,
    opened: Mutex<BTreeMap<String, Arc<Catalog>>>,
}

impl ClusterCatalogs {
    /// Asks the cluster which images its catalogs serve.
    pub(super) async fn of(cluster: &Config, registries: Registries) -> anyhow::Result<Self> {
        let listed: Vec<ClusterCatalog> = list(&connect(cluster.clone())?).await?;
        let image = |catalog: &ClusterCatalog| {
            let resolved = catalog.status.as_ref()?.resolved_source.as_ref()?;
            Some((catalog.name_any(), resolved.image.ref_.clone()))
        };
        let images = listed.iter().filter_map(image).collect();
        Ok(Self { images, registries, opened: Mutex::default() })
    }

    async fn catalog(&self, name: &str) -> Result<Arc<Catalog>, CatalogError> {
        let image =
            self.images.get(name).ok_or_else(|| CatalogError::NotServed { catalog: name.to_owned() })?;
        let mut opened = self.opened.lock().await;
        if let Some(catalog) = opened.get(name) {
            return Ok(catalog.clone());
        }
        let named = [Named { source: image.clone(), priority: 0 }];
        let failed = |cause: String| CatalogError::Read { catalog: name.to_owned(), cause };
        let read = open(&named, &self.registries, None).await.map_err(|e| failed(causes(&e)))?;
        let catalog = read.into_iter().next().ok_or_else(|| failed("there is nothing in it".to_owned()))?;
        let catalog = Arc::new(catalog);
        opened.insert(name.to_owned(), catalog.clone());
        Ok(catalog)
    }
}

#[async_trait]
impl CatalogReader for ClusterCatalogs {
    async fn package(&self, catalog: &str, package: &str) -> Result<Arc<PackageContent>, CatalogError> {
        let failed = |e| CatalogError::Decode { package: package.to_owned(), cause: causes(&e) };
        self.catalog(catalog).await?.package(package).map(Arc::new).map_err(failed)
    }

    async fn mentioning(&self, catalog: &str, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        let read = self.catalog(catalog).await?;
        let failed =
            |e: anyhow::Error| CatalogError::Read { catalog: catalog.to_owned(), cause: format!("{e:#}") };
        read.mentioning(text).map_err(failed)
    }
}
