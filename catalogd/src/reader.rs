//! The two readers of catalogs: in the same process (no HTTP, no copy), and over HTTP.

mod remote;

use std::sync::Arc;

use async_trait::async_trait;
use olm_fbc::{CatalogError, PackageContent};

pub use remote::{CatalogDirectory, HttpReader, RemoteCatalog, Trust, TrustError};

use crate::{CatalogStore, Generation};

/// Reads the content of catalogs, package by package.
#[async_trait]
pub trait CatalogReader: Send + Sync {
    /// The content of `package` in `catalog`; empty when the catalog does not have the package.
    async fn package(&self, catalog: &str, package: &str) -> Result<Arc<PackageContent>, CatalogError>;

    /// The packages of `catalog` with the text somewhere in what resolution reads of them, by name. It reads the whole
    /// catalog: for explanations, not for decisions.
    async fn mentioning(&self, catalog: &str, text: &str) -> Result<Vec<PackageContent>, CatalogError>;

    /// The names of the packages of `catalog`.
    async fn packages(&self, catalog: &str) -> Result<Vec<String>, CatalogError>;
}

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

#[async_trait]
impl CatalogReader for LocalReader {
    async fn package(&self, catalog: &str, package: &str) -> Result<Arc<PackageContent>, CatalogError> {
        let package = package.to_owned();
        self.read(catalog, move |generation| generation.package(&package).map(Arc::new)).await
    }

    async fn mentioning(&self, catalog: &str, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        let text = text.to_owned();
        self.read(catalog, move |generation| generation.mentioning(&text)).await
    }

    async fn packages(&self, catalog: &str) -> Result<Vec<String>, CatalogError> {
        self.read(catalog, |generation| Ok(generation.packages().map(str::to_owned).collect())).await
    }
}
