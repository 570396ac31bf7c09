//! The errors of reconciling a catalog, in upstream's words.

use std::sync::Arc;

use olm_image::PullError;
use olm_runtime::Panicked;
use thiserror::Error;

use crate::StoreError;

/// An error of a reconcile.
#[derive(Debug, Error)]
pub enum CatalogdError {
    /// The spec names no image.
    #[error("terminal error: source of type {0:?} has no image")]
    NoImage(&'static str),
    /// Fetching failed.
    #[error("source catalog content: {0}")]
    Pull(#[source] PullError),
    /// Ingesting failed.
    #[error("error storing fbc: {0}")]
    Store(#[source] StoreError),
    /// The digest was tried before, and its content is at fault: nothing is fetched again.
    #[error("{0}")]
    Known(Arc<Self>),
    /// Removing content failed.
    #[error("error deleting content: {0}")]
    Remove(#[source] StoreError),
    /// The API server rejected a request, or did not answer.
    #[error("{0}")]
    Api(String),
    /// A thread ended unexpectedly.
    #[error("internal: {0}")]
    Thread(#[from] tokio::task::JoinError),
    /// A job panicked.
    #[error("internal: {0}")]
    Panicked(#[from] Panicked),
}

impl CatalogdError {
    /// Whether trying again is pointless until the catalog changes.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::NoImage(_) => true,
            Self::Pull(error) => error.is_terminal(),
            Self::Known(error) => error.is_terminal(),
            Self::Store(_) | Self::Remove(_) | Self::Api(_) | Self::Thread(_) | Self::Panicked(_) => false,
        }
    }

    /// The remedy, for a person; `None` where the error may pass by itself, or names it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::NoImage(_) => Some("Set spec.source.image.ref to an image."),
            Self::Pull(PullError::Refused(_)) => Some(
                "The image is not a catalog: use the image of a catalog, not of a bundle or an operator.",
            ),
            Self::Pull(error) => error.advice(),
            Self::Store(StoreError::Ingest(error)) if error.is_content() => Some(
                "The content of the image is not a readable catalog: \"olm catalog validate <image>\" lists what is wrong with it, for its author.",
            ),
            Self::Known(error) => error.advice(),
            Self::Store(_) | Self::Remove(_) | Self::Api(_) | Self::Thread(_) | Self::Panicked(_) => None,
        }
    }

    /// Whether the image has no file-based catalog at all.
    pub fn is_no_catalog(&self) -> bool {
        match self {
            Self::Pull(error) => matches!(error, PullError::Refused(_)),
            Self::Known(error) => error.is_no_catalog(),
            _ => false,
        }
    }

    /// Whether the image is at fault, so that the same digest fails always.
    pub(crate) fn is_content(&self) -> bool {
        match self {
            Self::Pull(error) => error.is_content(),
            Self::Store(StoreError::Ingest(error)) => error.is_content(),
            Self::NoImage(_)
            | Self::Known(_)
            | Self::Store(
                StoreError::Image(_)
                | StoreError::Io { .. }
                | StoreError::Rejected(_)
                | StoreError::Cancelled,
            )
            | Self::Remove(_)
            | Self::Api(_)
            | Self::Thread(_)
            | Self::Panicked(_) => false,
        }
    }
}
