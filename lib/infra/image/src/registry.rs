//! The port to a registry, and what can go wrong there.
//!
//! [`OciRegistry`] is the adapter that speaks the OCI distribution protocol. Errors name the host and what was
//! done; what a registry says is repeated only in part, cleaned, and without anything that looks like the
//! credentials it was given.

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

use crate::{digest::Digest, layers::BlobStream, registries::Endpoint};

mod auth;
mod client;
mod dial;
mod http;
mod layout;
mod offline;
mod scheme;
mod tls;

#[doc(hidden)]
pub use auth::read_login;
pub use client::OciRegistry;
pub use dial::is_link_local;
pub(crate) use layout::{LAYOUT_FILE, NAME};
pub use layout::{LayoutError, LayoutRegistry};
pub use offline::NoRegistry;
pub(crate) use tls::check as check_certificates;

/// Why a registry did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistryError {
    /// No connection, or it broke.
    #[error("{action}: {cause}")]
    Connection {
        /// What was being done: `pinging container registry quay.io` while there was no connection yet.
        action: String,
        /// What the network said.
        cause: String,
    },
    /// No host has the registry's name, or that of a host that the registry leads to.
    #[error("{action}: dial tcp: lookup {host}: no such host")]
    UnknownHost {
        /// What was being done.
        action: String,
        /// The name.
        host: String,
    },
    /// The registry answered with an error.
    #[error("{action}: {message}")]
    Status {
        /// What was being done: `reading manifest v1 in quay.io/a/b`.
        action: String,
        /// The HTTP status.
        status: u16,
        /// The registry's error, or the status in words.
        message: String,
    },
    /// Credentials are wanted, or those given are wrong.
    #[error("{action}: {message}")]
    Unauthorized {
        /// What was being done.
        action: String,
        /// The registry's or token endpoint's own words.
        message: String,
    },
    /// The answer comes so slowly that waiting for it keeps others from theirs. It may be faster another time.
    #[error("{action}: {cause}")]
    TooSlow {
        /// What was being done.
        action: String,
        /// How slow it is.
        cause: String,
    },
    /// An answer that is not what the protocol says or that exceeds a limit, or something that must not be used: the
    /// same request fails again.
    #[error("{action}: {cause}")]
    Unusable {
        /// What was being done.
        action: String,
        /// What is wrong.
        cause: String,
    },
    /// Certificates on this machine cannot be used.
    #[error("loading certificates: {0}")]
    Certificates(String),
}

impl RegistryError {
    /// Whether the same request may succeed soon without anybody doing something.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            Self::Status { status, .. } => *status == 429 || *status >= 500,
            Self::UnknownHost { .. }
            | Self::Unauthorized { .. }
            | Self::TooSlow { .. }
            | Self::Unusable { .. }
            | Self::Certificates(_) => false,
        }
    }
}

/// The bytes are not those of the digest.
pub(crate) fn digest_mismatch(action: String, expected: &Digest, actual: &Digest) -> RegistryError {
    RegistryError::Unusable { action, cause: format!("digest mismatch: expected {expected}, got {actual}") }
}

/// An answer over its limit.
pub(crate) fn too_large(action: String, limit: u64) -> RegistryError {
    RegistryError::Unusable { action, cause: format!("the answer has more than {limit} bytes") }
}

/// The bytes of a blob that is uploaded.
#[derive(Debug)]
pub enum BlobContent {
    /// In memory.
    Memory(Bytes),
    /// In a file, because they are many.
    File(tempfile::TempPath),
}

/// What a puller and a packer need of a registry.
#[async_trait]
pub trait Registry: Send + Sync {
    /// The digest that a tag stands for now.
    async fn resolve(&self, at: &Endpoint, tag: &str) -> Result<Digest, RegistryError>;

    /// A manifest or index of at most [`MANIFEST_BYTES_MAX`](crate::limits::MANIFEST_BYTES_MAX) bytes, checked
    /// against its digest.
    async fn manifest(&self, at: &Endpoint, digest: &Digest) -> Result<Bytes, RegistryError>;

    /// The bytes of a blob, *not* checked: the reader computes the digest.
    async fn blob(&self, at: &Endpoint, digest: &Digest) -> Result<BlobStream, RegistryError>;

    /// Whether the repository has a blob.
    async fn has_blob(&self, at: &Endpoint, digest: &Digest) -> Result<bool, RegistryError>;

    /// Uploads a blob.
    async fn push_blob(
        &self,
        at: &Endpoint,
        digest: &Digest,
        content: &BlobContent,
    ) -> Result<(), RegistryError>;

    /// Stores a manifest under a tag or digest; in an image layout under any name.
    async fn push_manifest(
        &self,
        at: &Endpoint,
        tag_or_digest: &str,
        media_type: &str,
        bytes: Bytes,
    ) -> Result<(), RegistryError>;
}
