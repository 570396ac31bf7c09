//! The two readers of catalogs: in the same process (no HTTP, no copy), and over HTTP.

mod remote;

use std::sync::Arc;

use olm_fbc::{BoxFuture, CatalogError, CatalogReader, PackageSnapshot};

pub use remote::{CatalogDirectory, HttpReader, RemoteCatalog};

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
