//! The port through which catalog content is read, and its adapters over catalogd's two readers: in this process and
//! over HTTPS.

use std::sync::Arc;

use catalogd::{HttpReader, LocalReader};
use futures::future::BoxFuture;
use olm_fbc::{CatalogError, PackageContent};

/// What is read of a catalog.
pub type Read<'a, T> = BoxFuture<'a, Result<T, CatalogError>>;

/// Reads the content of catalogs, package by package.
pub trait CatalogReader: Send + Sync {
    /// The content of `package` in `catalog`; empty when the catalog does not have the package.
    fn package<'a>(&'a self, catalog: &'a str, package: &'a str) -> Read<'a, Arc<PackageContent>>;

    /// The packages of `catalog` with the text somewhere in what resolution reads of them, by name. It reads
    /// the whole catalog: for explanations, not for decisions.
    fn mentioning<'a>(&'a self, catalog: &'a str, text: &'a str) -> Read<'a, Vec<PackageContent>>;
}

impl CatalogReader for LocalReader {
    fn package<'a>(&'a self, catalog: &'a str, package: &'a str) -> Read<'a, Arc<PackageContent>> {
        Box::pin(LocalReader::package(self, catalog, package))
    }

    fn mentioning<'a>(&'a self, catalog: &'a str, text: &'a str) -> Read<'a, Vec<PackageContent>> {
        Box::pin(LocalReader::mentioning(self, catalog, text))
    }
}

impl CatalogReader for HttpReader {
    fn package<'a>(&'a self, catalog: &'a str, package: &'a str) -> Read<'a, Arc<PackageContent>> {
        Box::pin(HttpReader::package(self, catalog, package))
    }

    fn mentioning<'a>(&'a self, catalog: &'a str, text: &'a str) -> Read<'a, Vec<PackageContent>> {
        Box::pin(HttpReader::mentioning(self, catalog, text))
    }
}
