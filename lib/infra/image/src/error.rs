//! Why an image could not be pulled, in the words upstream's users know.

use thiserror::Error;

use crate::{
    files::FileError, layers::LayerError, manifest::ManifestError, policy::PolicyError,
    reference::ReferenceError, registries::RegistriesError, registry::RegistryError, select::Refusal,
};

/// Why an image could not be pulled.
///
/// The display has upstream's prefixes (its `util/image` package), including controller-runtime's
/// `terminal error: ` at the places where it leaks into conditions. Credentials and file content never occur.
#[derive(Debug, Error)]
pub enum PullError {
    /// The reference does not parse. Terminal.
    #[error("terminal error: {0}")]
    Reference(#[from] ReferenceError),
    /// The reference parses but cannot be pulled: tag and digest, or neither. Terminal.
    #[error("terminal error: error creating reference: {0}")]
    Unpullable(String),
    /// A tag could not be resolved.
    #[error("error creating image source: {0}")]
    Source(#[source] SourceError),
    /// The signature policy cannot be read. It is never taken for one that allows everything.
    #[error("error loading policy context: {0}")]
    Policy(#[source] PolicyError),
    /// The manifest, the config or a layer's bytes could not be had.
    #[error("error copying image: {0}")]
    Copy(#[source] SourceError),
    /// The caller does not want the image, having seen its labels.
    #[error("error applying image: {0}")]
    Refused(#[source] Refusal),
    /// A layer's content.
    #[error("error applying image: error applying layer[{index}]: {cause}")]
    Layer {
        /// Counted from the lowest.
        index: usize,
        /// What is wrong.
        #[source]
        cause: LayerError,
    },
    /// Links or limits of the image as a whole.
    #[error("error applying image: {0}")]
    Content(#[source] crate::tree::TreeError),
    /// The spool could not be read back.
    #[error("error applying image: {0}")]
    File(#[from] FileError),
    /// Took longer than the total deadline.
    #[error("error copying image: not finished after {0} seconds")]
    Deadline(u64),
}

/// Why no registry delivered.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The registries configuration.
    #[error(transparent)]
    Registries(#[from] RegistriesError),
    /// The only registry.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The registry and all its mirrors.
    #[error("(Mirrors also failed: {}): {primary}", listed(.mirrors))]
    Mirrors {
        /// Each mirror, as `<host>/<repository>`, with its error.
        mirrors: Vec<(String, RegistryError)>,
        /// The registry's own error.
        #[source]
        primary: RegistryError,
    },
    /// A manifest or config that cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A layer's bytes.
    #[error(transparent)]
    Blob(#[from] crate::blob::BlobError),
    /// The signature policy does not allow the image.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Work was cut off by the process.
    #[error("reading the configuration was interrupted")]
    Interrupted,
}

/// Mirrors with their errors, one a line.
fn listed(mirrors: &[(String, RegistryError)]) -> String {
    let all: Vec<String> = mirrors.iter().map(|(mirror, error)| format!("[{mirror}: {error}]")).collect();
    all.join("\n")
}

impl PullError {
    /// Whether upstream treats the error as final until the spec changes.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Reference(_) | Self::Unpullable(_) => true,
            Self::Refused(refusal) => refusal.is_terminal(),
            Self::Source(_)
            | Self::Policy(_)
            | Self::Copy(_)
            | Self::Layer { .. }
            | Self::Content(_)
            | Self::File(_)
            | Self::Deadline(_) => false,
        }
    }

    /// Whether the image itself is at fault: the same digest will always fail.
    pub fn is_content(&self) -> bool {
        match self {
            Self::Layer { cause: LayerError::Archive(cause), .. } => {
                !matches!(cause, crate::archive::ArchiveError::Spool(_))
            }
            Self::Layer { cause: LayerError::Blob(cause), .. } | Self::Copy(SourceError::Blob(cause)) => {
                cause.is_content()
            }
            Self::Content(_) | Self::Refused(_) | Self::Copy(SourceError::Manifest(_)) => true,
            Self::Layer { cause: LayerError::Interrupted, .. }
            | Self::Reference(_)
            | Self::Unpullable(_)
            | Self::Source(_)
            | Self::Policy(_)
            | Self::Copy(_)
            | Self::File(_)
            | Self::Deadline(_) => false,
        }
    }
}
