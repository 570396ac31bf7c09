//! The two readers of catalogs: in the same process (no HTTP, no copy), and over HTTP.

mod remote;

use std::sync::Arc;

use olm_fbc::{CatalogError, PackageContent};

pub use remote::{CatalogDirectory, HttpReader, RemoteCatalog, Trust, TrustError};

use crate::CatalogStore;

/// The content of a package at one moment.
#[derive(Debug, Clone)]
pub struct PackageSnapshot {
    /// Digest reference of the catalog image the content came from.
    pub resolved_reference: String,
    /// The content; empty when the catalog does not have the package.
    pub content: Arc<PackageContent>,
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

    /// The content of `package` in `catalog`.
    ///
    /// # Errors
    /// The catalog has no content here, or it cannot be read.
    pub async fn package(&self, catalog: &str, package: &str) -> Result<PackageSnapshot, CatalogError> {
        read(&self.store, catalog, package).await
    }

    /// The packages of `catalog` with the text somewhere in what resolution reads of them, by name. It reads the
    /// whole catalog.
    ///
    /// # Errors
    /// The catalog has no content here, or it cannot be read.
    pub async fn mentioning(&self, catalog: &str, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        mentioning(&self.store, catalog, text).await
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
