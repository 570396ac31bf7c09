//! The two readers of catalogs: in the same process (no HTTP, no copy), and over HTTP.

mod remote;

use std::sync::Arc;

use olm_fbc::{BoxFuture, CatalogError, CatalogReader, PackageContent, PackageSnapshot};

pub use remote::{CatalogDirectory, HttpReader, RemoteCatalog, Trust, TrustError};

use crate::CatalogStore;

/// The reader over the store of this process.
#[derive(Debug, Clone)]
pub struct LocalReader {
    store: Arc<CatalogStore>,
}

impl LocalReader {
    /// Reads from `store`.
    pub fn new(store: Arc<CatalogStore>) -> Self {
        Self { store }
    }
}

impl CatalogReader for LocalReader {
    fn package<'a>(
        &'a self,
        catalog: &'a str,
        package: &'a str,
    ) -> BoxFuture<'a, Result<PackageSnapshot, CatalogError>> {
        Box::pin(async move { read(&self.store, catalog, package).await })
    }

    fn mentioning<'a>(
        &'a self,
        catalog: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<Vec<PackageContent>, CatalogError>> {
        Box::pin(async move { mentioning(&self.store, catalog, text).await })
    }
}

/// Reads a package's records on a blocking thread.
pub(crate) async fn read(
    store: &CatalogStore,
    catalog: &str,
    package: &str,
) -> Result<PackageSnapshot, CatalogError> {
    let generation =
        store.generation(catalog).ok_or_else(|| CatalogError::NotServed { catalog: catalog.to_owned() })?;
    let (catalog, package) = (catalog.to_owned(), package.to_owned());
    let resolved_reference = generation.reference().to_owned();
    let content = tokio::task::spawn_blocking(move || generation.package(&package))
        .await
        .map_err(|error| CatalogError::Read { catalog, cause: error.to_string() })??;
    Ok(PackageSnapshot { resolved_reference, content: Arc::new(content) })
}

/// Searches all records on a blocking thread.
pub(crate) async fn mentioning(
    store: &CatalogStore,
    catalog: &str,
    text: &str,
) -> Result<Vec<PackageContent>, CatalogError> {
    let generation =
        store.generation(catalog).ok_or_else(|| CatalogError::NotServed { catalog: catalog.to_owned() })?;
    let (catalog, text) = (catalog.to_owned(), text.to_owned());
    tokio::task::spawn_blocking(move || generation.mentioning(&text))
        .await
        .map_err(|error| CatalogError::Read { catalog, cause: error.to_string() })?
}
