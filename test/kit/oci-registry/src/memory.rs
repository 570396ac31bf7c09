//! A registry behind olm-image's port, for tests without a network. It keeps what it is given, for every host alike; repositories are kept apart,
//! and nothing is ever refused.

use std::collections::BTreeMap;

use async_trait::async_trait;
use axum::body::Bytes;
use futures::{StreamExt as _, stream};
use olm_image::{BlobContent, BlobStream, Digest, Endpoint, Registry, RegistryError};
use parking_lot::Mutex;

/// Bytes of a blob that are handed out at once, as a network would.
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Default)]
struct Store {
    blobs: BTreeMap<String, Bytes>,
    /// By repository and tag or digest.
    manifests: BTreeMap<(String, String), Bytes>,
}

/// Images in memory. Images are put in by [`PackedImage::push`](olm_image::PackedImage::push) with a puller over it.
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

    async fn has_blob(&self, _at: &Endpoint, digest: &Digest) -> Result<bool, RegistryError> {
        Ok(self.store.lock().blobs.contains_key(&digest.to_string()))
    }

    async fn push_blob(
        &self,
        at: &Endpoint,
        digest: &Digest,
        content: &BlobContent,
    ) -> Result<(), RegistryError> {
        let bytes = match content {
            BlobContent::Memory(bytes) => bytes.clone(),
            BlobContent::File(path) => tokio::fs::read(path)
                .await
                .map_err(|error| RegistryError::Unusable {
                    action: format!("writing blob {digest} to {}", repository(at)),
                    cause: error.to_string(),
                })?
                .into(),
        };
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use olm_image::{Compression, ImageBuilder, LayerBuilder, Puller, PullerConfig, Reference, Select};

    use super::*;

    #[tokio::test]
    async fn images_can_be_kept_and_pulled_in_memory() {
        let config = PullerConfig::new(std::env::temp_dir());
        let puller = Puller::with_registry(config, Arc::new(MemoryRegistry::new()));
        let reference = Reference::parse("example.com/ns/a:v1").unwrap();
        let error = puller.resolve(&reference).await.unwrap_err().to_string();
        assert!(
            error.ends_with("reading manifest v1 in example.com/ns/a: manifest unknown (status 404)"),
            "{error}"
        );
        let large = "x".repeat(300_000);
        let layer = LayerBuilder::new(Compression::Gzip).file("configs/a", &large).unwrap();
        let image = ImageBuilder::new().layer(layer.build().unwrap()).build();
        image.push(&puller, &reference).await.unwrap();
        let resolved = puller.resolve(&reference).await.unwrap();
        let unpacked = puller.pull(&resolved, |_| Ok(Select::everything())).await.unwrap();
        assert_eq!(unpacked.files.read("configs/a", 1 << 20).unwrap(), large.as_bytes());
    }
}
