//! Why a catalog is not as its spec says, in upstream's words.

use thiserror::Error;

use crate::{SourceError, StoreError};

/// An error of a reconcile.
#[derive(Debug, Error)]
pub enum CatalogdError {
    /// The spec names no image.
    #[error("terminal error: source of type {0:?} has no image")]
    NoImage(&'static str),
    /// Fetching failed.
    #[error("source catalog content: {}", source_text(source, *pinned))]
    Source {
        /// Why.
        source: SourceError,
        /// Whether the spec names a digest, whose content cannot change.
        pinned: bool,
    },
    /// Ingesting failed.
    #[error("error storing fbc: {0}")]
    Store(#[source] StoreError),
    /// Removing content failed.
    #[error("error deleting content: {0}")]
    Remove(#[source] StoreError),
    /// The API server refused, or did not answer.
    #[error("{action}: {source}")]
    Api {
        /// What was asked of it.
        action: &'static str,
        /// Its answer.
        source: kube::Error,
    },
    /// A thread ended unexpectedly.
    #[error("internal: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// The original marks terminal errors in the text, before the part that is terminal.
fn source_text(error: &SourceError, pinned: bool) -> String {
    match error {
        SourceError::Reference { .. } | SourceError::TagAndDigest(_) => format!("terminal error: {error}"),
        SourceError::MissingLabel(label) if pinned => format!(
            "error applying image: terminal error: catalog image is missing the required label {label:?}"
        ),
        _ => error.to_string(),
    }
}

impl CatalogdError {
    /// Whether trying again is pointless until the catalog changes.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::NoImage(_) => true,
            Self::Source { source, pinned } => match source {
                SourceError::Reference { .. } | SourceError::TagAndDigest(_) => true,
                SourceError::MissingLabel(_) => *pinned,
                SourceError::Resolve(_) | SourceError::Copy(_) | SourceError::Apply(_) => false,
            },
            Self::Store(_) | Self::Remove(_) | Self::Api { .. } | Self::Thread(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CatalogdError;
    use crate::SourceError;

    #[test]
    fn texts_and_dispositions_are_upstreams() {
        let label = "operators.operatorframework.io.index.configs.v1";
        let reference = SourceError::Reference {
            reference: "quay.io/Foo/bar:v1".into(),
            cause: "invalid reference format: repository name must be lowercase".into(),
        };
        for (source, pinned, terminal, text) in [
            (
                reference,
                false,
                true,
                "source catalog content: terminal error: error parsing image reference \"quay.io/Foo/bar:v1\": invalid reference format: repository name must be lowercase",
            ),
            (
                SourceError::TagAndDigest("x".into()),
                true,
                true,
                "source catalog content: terminal error: error creating reference: x",
            ),
            (
                SourceError::MissingLabel(label),
                false,
                false,
                "source catalog content: error applying image: catalog image is missing the required label \"operators.operatorframework.io.index.configs.v1\"",
            ),
            (
                SourceError::MissingLabel(label),
                true,
                true,
                "source catalog content: error applying image: terminal error: catalog image is missing the required label \"operators.operatorframework.io.index.configs.v1\"",
            ),
            (
                SourceError::Copy("401".into()),
                true,
                false,
                "source catalog content: error copying image: 401",
            ),
        ] {
            let error = CatalogdError::Source { source, pinned };
            assert_eq!((error.to_string().as_str(), error.is_terminal()), (text, terminal));
        }
    }
}
