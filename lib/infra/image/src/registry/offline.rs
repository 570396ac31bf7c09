//! No registry at all.

use async_trait::async_trait;
use bytes::Bytes;

use super::{BlobContent, Registry, RegistryError};
use crate::{digest::Digest, layers::BlobStream, registries::Endpoint};

/// A registry of which nothing can be had: for callers that must not use the network.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRegistry;

fn refused<T>(at: &Endpoint) -> Result<T, RegistryError> {
    let action = format!("reading {}/{}", at.host, at.repository);
    Err(RegistryError::Unusable { action, cause: "no registry may be used".to_owned() })
}

#[async_trait]
impl Registry for NoRegistry {
    async fn resolve(&self, at: &Endpoint, _: &str) -> Result<Digest, RegistryError> {
        refused(at)
    }

    async fn manifest(&self, at: &Endpoint, _: &Digest) -> Result<Bytes, RegistryError> {
        refused(at)
    }

    async fn blob(&self, at: &Endpoint, _: &Digest) -> Result<BlobStream, RegistryError> {
        refused(at)
    }

    async fn has_blob(&self, at: &Endpoint, _: &Digest) -> Result<bool, RegistryError> {
        refused(at)
    }

    async fn push_blob(&self, at: &Endpoint, _: &Digest, _: &BlobContent) -> Result<(), RegistryError> {
        refused(at)
    }

    async fn push_manifest(&self, at: &Endpoint, _: &str, _: &str, _: Bytes) -> Result<(), RegistryError> {
        refused(at)
    }
}
