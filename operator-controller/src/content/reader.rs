//! The port through which catalog content is read, and its adapters over catalogd's two readers: in this process and
//! over HTTPS.

use std::sync::Arc;

use async_trait::async_trait;
use catalogd::{HttpReader, LocalReader};
use olm_fbc::{CatalogError, PackageContent};

/// Reads the content of catalogs, package by package.
#[async_trait]
pub trait CatalogReader: Send + Sync {
    /// The content of `package` in `catalog`; empty when the catalog does not have the package.
    async fn package(&self, catalog: &str, package: &str) -> Result<Arc<PackageContent>, CatalogError>;

    /// The packages of `catalog` with the text somewhere in what resolution reads of them, by name. It reads
    /// the whole catalog: for explanations, not for decisions.
    async fn mentioning(&self, catalog: &str, text: &str) -> Result<Vec<PackageContent>, CatalogError>;
}

#[async_trait]
impl CatalogReader for LocalReader {
    async fn package(&self, catalog: &str, package: &str) -> Result<Arc<PackageContent>, CatalogError> {
        LocalReader::package(self, catalog, package).await
    }

    async fn mentioning(&self, catalog: &str, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        LocalReader::mentioning(self, catalog, text).await
    }
}

#[async_trait]
impl CatalogReader for HttpReader {
    async fn package(&self, catalog: &str, package: &str) -> Result<Arc<PackageContent>, CatalogError> {
        HttpReader::package(self, catalog, package).await
    }

    async fn mentioning(&self, catalog: &str, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        HttpReader::mentioning(self, catalog, text).await
    }
}
