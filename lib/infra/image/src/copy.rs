//! Copying whole images: every platform with all its blobs, unchanged, to a registry or an OCI image layout.
//!
//! [`Puller::whole`] reads manifests only, so that sizes are known before anything is copied. Every blob is checked against
//! its digest on the way; what is at its place already is skipped, so that a copy that was interrupted continues.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    sync::Arc,
};

use bytes::Bytes;
use serde::Deserialize;
use thiserror::Error;

use crate::{
    digest::{Digest, Hasher},
    error::{PullError, SourceError},
    layers::BlobStream,
    limits::{BLOBS_MAX, MANIFESTS_BYTES_MAX, MANIFESTS_MAX, UPLOAD_BYTES},
    manifest::{Descriptor, ManifestError, OCI_INDEX, OCI_MANIFEST},
    progress::{OnProgress, Progress},
    puller::Puller,
    reference::{CanonicalReference, Repository},
    registries::Endpoint,
    registry::{BlobContent, LayoutRegistry, Registry, RegistryError, digest_mismatch, too_large},
    speed::Meter,
};

/// Why an image could not be copied.
#[derive(Debug, Error)]
pub enum CopyError {
    /// Reading it, or writing it.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A file for a blob on its way.
    #[error("keeping blob {digest}: {cause}")]
    Spool {
        /// The blob.
        digest: Digest,
        /// What the system reports.
        #[source]
        cause: std::io::Error,
    },
}

/// An image with all its platforms: its manifests, and which blobs belong to it.
#[derive(Debug, Clone)]
pub struct WholeImage {
    endpoint: Endpoint,
    /// Manifests and indexes. Those that an index lists come before it, and the image's own is the last.
    manifests: Vec<Manifest>,
    blobs: BTreeMap<Digest, u64>,
}

#[derive(Debug, Clone)]
struct Manifest {
    digest: Digest,
    media_type: String,
    bytes: Bytes,
}

impl WholeImage {
    /// Configs and layers of all platforms, with their sizes.
    pub fn blobs(&self) -> impl Iterator<Item = (&Digest, u64)> {
        self.blobs.iter().map(|(digest, size)| (digest, *size))
    }

    /// The bytes of all blobs.
    pub fn bytes(&self) -> u64 {
        self.blobs.values().fold(0, |sum, size| sum.saturating_add(*size))
    }
}

/// A place for an image.
pub struct Target {
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) endpoint: Endpoint,
    /// A tag, or the name of an image in a layout. Without one it has only its digest.
    name: Option<String>,
}

impl Target {
    /// A place in an image layout.
    pub fn in_layout(layout: &LayoutRegistry, name: &str) -> Self {
        // Neither means anything to a layout.
        let endpoint = Endpoint { host: String::new(), repository: String::new(), insecure: false };
        Self { registry: Arc::new(layout.clone()), endpoint, name: Some(name.to_owned()) }
    }

    /// Whether the registry may have plain HTTP, or a certificate that is not trusted.
    pub fn is_insecure(&self) -> bool {
        self.endpoint.insecure
    }

    /// Stores the manifest or index of an image, when everything that it names is stored.
    pub(crate) async fn push_image(
        &self,
        digest: &Digest,
        media_type: &str,
        bytes: Bytes,
    ) -> Result<(), RegistryError> {
        let name = self.name.clone().unwrap_or_else(|| digest.to_string());
        self.registry.push_manifest(&self.endpoint, &name, media_type, bytes).await
    }
}

/// What a manifest or an index names. Configs of every kind are copied: artifacts belong to operators too.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Contents {
    #[serde(default)]
    schema_version: u32,
    #[serde(default)]
    media_type: String,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

impl Contents {
    fn read(bytes: &[u8]) -> Result<Self, ManifestError> {
        let contents: Self = serde_json::from_slice(bytes).map_err(|error| {
            ManifestError(format!(
                "manifest is not valid: error at line {}, column {}",
                error.line(),
                error.column()
            ))
        })?;
        if contents.schema_version == 1 || (contents.config.is_none() && contents.manifests.is_empty()) {
            return Err(ManifestError::kind());
        }
        Ok(contents)
    }

    fn media_type(&self) -> &str {
        match self.media_type.as_str() {
            "" if self.config.is_none() => OCI_INDEX,
            "" => OCI_MANIFEST,
            named => named,
        }
    }

    /// Config and layers, without those that are not to be distributed.
    fn blobs(&self) -> impl Iterator<Item = &Descriptor> {
        let is_kept = |blob: &&Descriptor| {
            !blob.media_type.contains("nondistributable") && !blob.media_type.contains(".foreign.")
        };
        self.config.iter().chain(&self.layers).filter(is_kept)
    }
}

impl Puller {
    /// A place in a registry: the registry itself, never a mirror.
    ///
    /// # Errors
    /// The registries configuration cannot be read, or blocks the registry.
    pub async fn target(&self, repository: &Repository, tag: Option<&str>) -> Result<Target, SourceError> {
        // The registry itself comes last.
        let endpoint = self.endpoints(repository, true).await?.pop().ok_or(SourceError::Interrupted)?;
        Ok(Target { registry: Arc::clone(self.registry()), endpoint, name: tag.map(str::to_owned) })
    }

    /// The manifests of an image and of all its platforms.
    ///
    /// # Errors
    /// One of them cannot be read, or the image exceeds a limit.
    pub async fn whole(&self, reference: &CanonicalReference) -> Result<WholeImage, PullError> {
        let (endpoint, _place, bytes) = self.manifest(reference).await?;
        let image = self.contents(endpoint, reference.digest(), bytes);
        image.await.map_err(PullError::Copy)
    }

    async fn contents(
        &self,
        endpoint: Endpoint,
        digest: &Digest,
        bytes: Bytes,
    ) -> Result<WholeImage, SourceError> {
        let limit = |what: &str, max: u64| ManifestError(format!("the image has more than {max} {what}"));
        let mut image = WholeImage { endpoint, manifests: Vec::new(), blobs: BTreeMap::new() };
        let mut seen = BTreeSet::from([digest.clone()]);
        let mut waiting = vec![(digest.clone(), bytes)];
        let mut total = 0;
        while let Some((digest, bytes)) = waiting.pop() {
            let contents = Contents::read(&bytes)?;
            total += bytes.len() as u64;
            if total > MANIFESTS_BYTES_MAX {
                return Err(limit("bytes of manifests", MANIFESTS_BYTES_MAX).into());
            }
            for blob in contents.blobs() {
                let max = self.config().limits.layer_bytes_max;
                if blob.size > max {
                    let text =
                        format!("blob {} has {} bytes, more than the {max} allowed", blob.digest, blob.size);
                    return Err(ManifestError(text).into());
                }
                image.blobs.insert(blob.digest.clone(), blob.size);
            }
            if image.blobs.len() > BLOBS_MAX {
                return Err(limit("blobs", BLOBS_MAX as u64).into());
            }
            let media_type = contents.media_type().to_owned();
            image.manifests.push(Manifest { digest, media_type, bytes });
            for child in contents.manifests {
                if !seen.insert(child.digest.clone()) {
                    continue;
                }
                if seen.len() > MANIFESTS_MAX {
                    return Err(limit("manifests", MANIFESTS_MAX as u64).into());
                }
                let bytes = self.registry().manifest(&image.endpoint, &child.digest).await?;
                waiting.push((child.digest, bytes));
            }
        }
        image.manifests.reverse();
        Ok(image)
    }

    /// Copies an image that this puller has read, and answers how many bytes were not there yet.
    ///
    /// # Errors
    /// A blob cannot be read or written, or is another than its digest says.
    pub async fn copy(
        &self,
        image: &WholeImage,
        to: &Target,
        on_progress: OnProgress,
    ) -> Result<u64, CopyError> {
        let (bytes_total, layers_total) = (image.bytes(), image.blobs.len());
        let mut progress = Progress { bytes: 0, bytes_total, layers: 0, layers_total };
        let mut copied: u64 = 0;
        for (digest, size) in image.blobs() {
            on_progress(progress);
            if !to.registry.has_blob(&to.endpoint, digest).await? {
                let content = self.fetched(&image.endpoint, digest, size).await?;
                to.registry.push_blob(&to.endpoint, digest, &content).await?;
                copied = copied.saturating_add(size);
            }
            progress.bytes = progress.bytes.saturating_add(size);
            progress.layers += 1;
        }
        on_progress(progress);
        if let Some((own, others)) = image.manifests.split_last() {
            for Manifest { digest, media_type, bytes } in others {
                let name = digest.to_string();
                to.registry.push_manifest(&to.endpoint, &name, media_type, bytes.clone()).await?;
            }
            to.push_image(&own.digest, &own.media_type, own.bytes.clone()).await?;
        }
        Ok(copied)
    }

    /// A blob, checked. A transfer that broke is repeated, up to the limit of retries.
    async fn fetched(&self, at: &Endpoint, digest: &Digest, size: u64) -> Result<BlobContent, CopyError> {
        let mut attempt = 0;
        loop {
            let mut meter = Meter::new(self.config().timeouts.least_speed);
            meter.read(format!("reading blob {digest} in {}/{}", at.host, at.repository));
            let blob = meter.request(self.registry().blob(at, digest)).await?;
            match self.received(blob, &mut meter, (at, digest, size)).await {
                Err(CopyError::Registry(error))
                    if error.is_retryable() && attempt < self.config().timeouts.retries =>
                {
                    tracing::debug!(%digest, attempt, %error, "transfer of a blob broke, trying again");
                    attempt += 1;
                }
                received => return received,
            }
        }
    }

    async fn received(
        &self,
        mut blob: BlobStream,
        meter: &mut Meter,
        (at, digest, size): (&Endpoint, &Digest, u64),
    ) -> Result<BlobContent, CopyError> {
        let action = || format!("reading blob {digest} in {}/{}", at.host, at.repository);
        let spool = |cause| CopyError::Spool { digest: digest.clone(), cause };
        let (mut hasher, mut length, mut memory) = (Hasher::new(digest.algorithm()), 0, Vec::new());
        let mut file = None;
        if size > UPLOAD_BYTES {
            file = Some(tempfile::NamedTempFile::new_in(&self.config().spool_dir).map_err(spool)?);
        }
        while let Some(chunk) = meter.next(&mut blob).await {
            let chunk = chunk?;
            length += chunk.len() as u64;
            if length > size {
                return Err(too_large(action(), size).into());
            }
            hasher.update(&chunk);
            match &mut file {
                Some(file) => file.write_all(&chunk).map_err(spool)?,
                None => memory.extend_from_slice(&chunk),
            }
        }
        let actual = hasher.finish();
        if actual != *digest {
            return Err(digest_mismatch(action(), digest, &actual).into());
        }
        Ok(match file {
            Some(file) => BlobContent::File(file.into_temp_path()),
            None => BlobContent::Memory(memory.into()),
        })
    }
}

#[cfg(test)]
mod tests;
