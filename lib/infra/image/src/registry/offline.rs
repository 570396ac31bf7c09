//! No registry at all.

use bytes::Bytes;

use super::{BoxFuture, Registry, RegistryError};
use crate::{digest::Digest, layers::BlobStream, registries::Endpoint};

/// A registry of which nothing can be had: for callers that must not use the network.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRegistry;

fn refused<'a, T>(at: &Endpoint) -> BoxFuture<'a, Result<T, RegistryError>> {
    let action = format!("reading {}/{}", at.host, at.repository);
    Box::pin(async { Err(RegistryError::Unusable { action, cause: "no registry may be used".to_owned() }) })
}

impl Registry for NoRegistry {
    fn resolve<'a>(&'a self, at: &'a Endpoint, _: &'a str) -> BoxFuture<'a, Result<Digest, RegistryError>> {
        refused(at)
    }

    fn manifest<'a>(
        &'a self,
        at: &'a Endpoint,
        _: &'a Digest,
    ) -> BoxFuture<'a, Result<Bytes, RegistryError>> {
        refused(at)
    }

    fn blob<'a>(
        &'a self,
        at: &'a Endpoint,
        _: &'a Digest,
    ) -> BoxFuture<'a, Result<BlobStream, RegistryError>> {
        refused(at)
    }

    fn push_blob<'a>(
        &'a self,
        at: &'a Endpoint,
        _: &'a Digest,
        _: Bytes,
    ) -> BoxFuture<'a, Result<(), RegistryError>> {
        refused(at)
    }

    fn push_manifest<'a>(
        &'a self,
        at: &'a Endpoint,
        _: &'a str,
        _: &'a str,
        _: Bytes,
    ) -> BoxFuture<'a, Result<(), RegistryError>> {
        refused(at)
    }
}
