//! A registry within the process: for commands that work on local images, and for tests without a network.
//!
//! It keeps what it is given, for every host alike; repositories are kept apart, and nothing is ever refused.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use parking_lot::Mutex;

use super::{Registry, RegistryError};
use crate::{digest::Digest, layers::BlobStream, registries::Endpoint};

/// Bytes of a blob that are handed out at once, as a network would.
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Default)]
struct Store {
    blobs: BTreeMap<String, Bytes>,
    /// By repository and tag or digest.
    manifests: BTreeMap<(String, String), Bytes>,
}

/// Images in memory. Images are put in by [`PackedImage::push`](crate::PackedImage::push) with a puller over it.
#[derive(Default)]
pub struct MemoryRegistry {
    store: Mutex<Store>,
}

impl MemoryRegistry {
    /// A registry without images.
    pub fn new() -> Self {
        Self::default()
    }

    fn find(&self, at: &Endpoint, name: &str) -> Result<Bytes, RegistryError> {
        let repository = repository(at);
        let found = self.store.lock().manifests.get(&(repository.clone(), name.to_owned())).cloned();
        found.ok_or_else(|| unknown(format!("reading manifest {name} in {repository}"), "manifest unknown"))
    }
}

fn repository(at: &Endpoint) -> String {
    format!("{}/{}", at.host, at.repository)
}

fn unknown(action: String, message: &str) -> RegistryError {
    RegistryError::Status { action, status: 404, message: format!("{message} (status 404)") }
}

#[async_trait]
impl Registry for MemoryRegistry {
    async fn resolve(&self, at: &Endpoint, tag: &str) -> Result<Digest, RegistryError> {
        self.find(at, tag).map(|bytes| Digest::of(&bytes))
    }

    async fn manifest(&self, at: &Endpoint, digest: &Digest) -> Result<Bytes, RegistryError> {
        self.find(at, &digest.to_string())
    }

    async fn blob(&self, at: &Endpoint, digest: &Digest) -> Result<BlobStream, RegistryError> {
        let found = self.store.lock().blobs.get(&digest.to_string()).cloned();
        let action = || format!("reading blob {digest} in {}", repository(at));
        let bytes = found.ok_or_else(|| unknown(action(), "blob unknown"))?;
        let starts = (0..bytes.len()).step_by(CHUNK_BYTES);
        let chunks: Vec<_> =
            starts.map(|start| Ok(bytes.slice(start..(start + CHUNK_BYTES).min(bytes.len())))).collect();
        Ok(stream::iter(chunks).boxed())
    }

    async fn push_blob(&self, _at: &Endpoint, digest: &Digest, bytes: Bytes) -> Result<(), RegistryError> {
        self.store.lock().blobs.insert(digest.to_string(), bytes);
        Ok(())
    }

    async fn push_manifest(
        &self,
        at: &Endpoint,
        tag_or_digest: &str,
        _media_type: &str,
        bytes: Bytes,
    ) -> Result<(), RegistryError> {
        let mut store = self.store.lock();
        store.manifests.insert((repository(at), Digest::of(&bytes).to_string()), bytes.clone());
        store.manifests.insert((repository(at), tag_or_digest.to_owned()), bytes);
        Ok(())
    }
}
