//! Why the store failed.

use std::{
    io,
    path::{Path, PathBuf},
};

use olm_image::PullError;
use thiserror::Error;

use crate::IngestError;

/// Why the store failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The files of an image did not become a catalog.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// The image could not be unpacked.
    #[error(transparent)]
    Image(#[from] PullError),
    /// The file system failed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The content is not admitted; the text says why.
    #[error("{0}")]
    Rejected(String),
    /// The content is not wanted any more.
    #[error("the content is not wanted any more")]
    Cancelled,
}

pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { action, path, source }
}
