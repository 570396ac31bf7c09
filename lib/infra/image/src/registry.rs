//! The port to a registry, and what can go wrong there.
//!
//! [`OciRegistry`] is the adapter that speaks the OCI distribution protocol. Errors name the host and what was
//! done; what a registry says is repeated only in part, cleaned, and without anything that looks like the
//! credentials it was given.

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use thiserror::Error;

use crate::{digest::Digest, layers::BlobStream, registries::Endpoint};

mod auth;
mod client;
mod dial;
mod http;
mod layout;
mod memory;
mod scheme;
mod tls;

#[doc(hidden)]
pub use auth::read_login;
pub use client::OciRegistry;
pub use layout::{LayoutError, LayoutRegistry};
pub use memory::MemoryRegistry;
pub(crate) use tls::check as check_certificates;

/// A boxed future, so that [`Registry`] can be a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

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
    /// An answer that is not what the protocol says.
    #[error("{action}: {cause}")]
    Protocol {
        /// What was being done.
        action: String,
        /// What is wrong with the answer.
        cause: String,
    },
    /// An answer over its limit.
    #[error("{action}: the answer has more than {limit} bytes")]
    TooLarge {
        /// What was being done.
        action: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The bytes hardly flow.
    #[error("{action}: the registry sent less than {bytes_per_second} bytes a second for {seconds} seconds")]
    Slow {
        /// What was being done.
        action: String,
        /// The least speed.
        bytes_per_second: u64,
        /// For how long it was slower.
        seconds: u64,
    },
    /// The bytes hardly flow, and other images waited for the room that it took.
    #[error("{action}: the registry sent next to nothing for a while, and other images were waiting")]
    Displaced {
        /// What was being done.
        action: String,
    },
    /// The bytes are not those of the digest.
    #[error("{action}: digest mismatch: expected {expected}, got {actual}")]
    Digest {
        /// What was being done.
        action: String,
        /// What was asked for.
        expected: Digest,
        /// What came.
        actual: Digest,
    },
    /// A redirect, token endpoint or address that must not be used.
    #[error("{action}: refusing to go to {target}: {reason}")]
    Refused {
        /// What was being done.
        action: String,
        /// Scheme and host, or the host alone.
        target: String,
        /// Why.
        reason: String,
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
            Self::Unauthorized { .. }
            | Self::Protocol { .. }
            | Self::TooLarge { .. }
            | Self::Slow { .. }
            | Self::Displaced { .. }
            | Self::Digest { .. }
            | Self::Refused { .. }
            | Self::Certificates(_) => false,
        }
    }
}

/// What a puller and a packer need of a registry.
pub trait Registry: Send + Sync {
    /// The digest that a tag stands for now.
    fn resolve<'a>(&'a self, at: &'a Endpoint, tag: &'a str) -> BoxFuture<'a, Result<Digest, RegistryError>>;

    /// A manifest or index of at most [`MANIFEST_BYTES_MAX`](crate::limits::MANIFEST_BYTES_MAX) bytes, checked
    /// against its digest.
    fn manifest<'a>(
        &'a self,
        at: &'a Endpoint,
        digest: &'a Digest,
    ) -> BoxFuture<'a, Result<Bytes, RegistryError>>;

    /// The bytes of a blob, *not* checked: the reader computes the digest.
    fn blob<'a>(
        &'a self,
        at: &'a Endpoint,
        digest: &'a Digest,
    ) -> BoxFuture<'a, Result<BlobStream, RegistryError>>;

    /// Uploads a blob unless the repository has it.
    fn push_blob<'a>(
        &'a self,
        at: &'a Endpoint,
        digest: &'a Digest,
        bytes: Bytes,
    ) -> BoxFuture<'a, Result<(), RegistryError>>;

    /// Stores a manifest under a tag or digest.
    fn push_manifest<'a>(
        &'a self,
        at: &'a Endpoint,
        tag_or_digest: &'a str,
        media_type: &'a str,
        bytes: Bytes,
    ) -> BoxFuture<'a, Result<(), RegistryError>>;
}
