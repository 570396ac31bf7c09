//! The port through which catalog content is read; catalogd implements it (in process and over HTTPS).

use std::{future::Future, pin::Pin, sync::Arc};

use thiserror::Error;

use crate::PackageContent;

/// A boxed future, so that [`CatalogReader`] can be a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a catalog said about a package at one moment.
#[derive(Debug, Clone)]
pub struct PackageSnapshot {
    /// Digest reference of the catalog image the content came from.
    pub resolved_reference: String,
    /// The content; empty when the catalog does not have the package.
    pub content: Arc<PackageContent>,
}

/// Why catalog content could not be read. The texts are the original's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// The catalog has no content that could be served (yet).
    #[error("catalog {catalog:?} is not being served")]
    NotServed {
        /// Name of the ClusterCatalog.
        catalog: String,
    },
    /// Reading failed.
    #[error("error retrieving cache for catalog {catalog:?}: {cause}")]
    Read {
        /// Name of the ClusterCatalog.
        catalog: String,
        /// What went wrong.
        cause: String,
    },
    /// The package's blobs could not be decoded.
    #[error("error loading package {package:?}: {cause}")]
    Decode {
        /// Name of the package.
        package: String,
        /// What went wrong.
        cause: String,
    },
}

/// Reads the content of catalogs, package by package.
pub trait CatalogReader: Send + Sync {
    /// What `catalog` says about `package`. A package the catalog does not have is empty content.
    fn package<'a>(
        &'a self,
        catalog: &'a str,
        package: &'a str,
    ) -> BoxFuture<'a, Result<PackageSnapshot, CatalogError>>;

    /// The packages of `catalog` with the text somewhere in what resolution reads of them, by name. It reads
    /// the whole catalog: for explanations, not for decisions.
    fn mentioning<'a>(
        &'a self,
        catalog: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<Vec<PackageContent>, CatalogError>>;
}
