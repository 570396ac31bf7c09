//! The port through which catalog images are fetched, and what can go wrong there.
//!
//! The texts are upstream's where upstream has one; they end in the status of the catalog.

use olm_fbc::BoxFuture;
use thiserror::Error;

use crate::ingest::CatalogFiles;

/// Fetches catalog images. Implemented over olm-image; tests have their own.
pub trait CatalogSource: Send + Sync {
    /// What a reference stands for now, as `<repository>@<digest>`. A digest stands for itself, without a
    /// request.
    fn resolve<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<String, SourceError>>;

    /// The files below the path that the image's configs label names.
    fn pull<'a>(&'a self, resolved: &'a str) -> BoxFuture<'a, Result<Box<dyn CatalogFiles>, SourceError>>;
}

/// Why an image could not be fetched. The variants say whether trying again can help.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// The reference cannot be parsed.
    #[error("error parsing image reference {reference:?}: {cause}")]
    Reference {
        /// The reference as given.
        reference: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The reference has both a tag and a digest.
    #[error("error creating reference: {0}")]
    TagAndDigest(String),
    /// The registry did not tell what a tag stands for.
    #[error("error getting manifest: {0}")]
    Resolve(String),
    /// The image did not come over.
    #[error("error copying image: {0}")]
    Copy(String),
    /// The image's layers could not be read.
    #[error("error applying image: {0}")]
    Apply(String),
    /// The image does not say where its content is.
    #[error("error applying image: catalog image is missing the required label {0:?}")]
    MissingLabel(&'static str),
}
