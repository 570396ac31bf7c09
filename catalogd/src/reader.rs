//! The two readers of catalogs: in the same process (no HTTP, no copy), and over HTTP.

mod remote;

use std::sync::Arc;

use olm_fbc::{CatalogError, PackageContent};

pub use remote::{CatalogDirectory, HttpReader, RemoteCatalog, Trust, TrustError};

use crate::{CatalogStore, Generation};

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

    /// The content of `package` in `catalog`; empty when the catalog does not have the package.
    pub async fn package(&self, catalog: &str, package: &str) -> Result<Arc<PackageContent>, CatalogError> {
        let package = package.to_owned();
        self.read(catalog, move |generation| generation.package(&package).map(Arc::new)).await
    }

    /// The packages of `catalog` with the text somewhere in their resolver records, by name. It reads the whole catalog.
    pub async fn mentioning(&self, catalog: &str, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        let text = text.to_owned();
        self.read(catalog, move |generation| generation.mentioning(&text)).await
    }

    /// Reads the content of a catalog on a blocking thread.
    async fn read<T: Send + 'static>(
        &self,
        catalog: &str,
        read: impl FnOnce(&Generation) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let not_served = || CatalogError::NotServed { catalog: catalog.to_owned() };
        let generation = self.store.generation(catalog).ok_or_else(not_served)?;
        let read = tokio::task::spawn_blocking(move || read(&generation)).await;
        read.unwrap_or_else(|error| {
            Err(CatalogError::Read { catalog: catalog.to_owned(), cause: error.to_string() })
        })
    }
}
