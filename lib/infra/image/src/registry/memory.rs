//! A registry within the process: for commands that work on local images, and for tests without a network.
//!
//! It keeps what it is given, for every host alike; repositories are told apart, and nothing is ever refused.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future, stream};
use parking_lot::Mutex;

use super::{BoxFuture, Registry, RegistryError};
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

impl Registry for MemoryRegistry {
    fn resolve<'a>(&'a self, at: &'a Endpoint, tag: &'a str) -> BoxFuture<'a, Result<Digest, RegistryError>> {
        future::ready(self.find(at, tag).map(|bytes| Digest::of(&bytes))).boxed()
    }

    fn manifest<'a>(
        &'a self,
        at: &'a Endpoint,
        digest: &'a Digest,
    ) -> BoxFuture<'a, Result<Bytes, RegistryError>> {
        future::ready(self.find(at, &digest.to_string())).boxed()
    }

    fn blob<'a>(
        &'a self,
        at: &'a Endpoint,
        digest: &'a Digest,
    ) -> BoxFuture<'a, Result<BlobStream, RegistryError>> {
        let found = self.store.lock().blobs.get(&digest.to_string()).cloned();
        let blob = found.map(|bytes| {
            let starts = (0..bytes.len()).step_by(CHUNK_BYTES);
            let chunks: Vec<_> =
                starts.map(|start| Ok(bytes.slice(start..(start + CHUNK_BYTES).min(bytes.len())))).collect();
            stream::iter(chunks).boxed()
        });
        let action = || format!("reading blob {digest} in {}", repository(at));
        future::ready(blob.ok_or_else(|| unknown(action(), "blob unknown"))).boxed()
    }

    fn push_blob<'a>(
        &'a self,
        _at: &'a Endpoint,
        digest: &'a Digest,
        bytes: Bytes,
    ) -> BoxFuture<'a, Result<(), RegistryError>> {
        self.store.lock().blobs.insert(digest.to_string(), bytes);
        future::ready(Ok(())).boxed()
    }

    fn push_manifest<'a>(
        &'a self,
        at: &'a Endpoint,
        tag_or_digest: &'a str,
        _media_type: &'a str,
        bytes: Bytes,
    ) -> BoxFuture<'a, Result<(), RegistryError>> {
        let mut store = self.store.lock();
        store.manifests.insert((repository(at), Digest::of(&bytes).to_string()), bytes.clone());
        store.manifests.insert((repository(at), tag_or_digest.to_owned()), bytes);
        future::ready(Ok(())).boxed()
    }
}
