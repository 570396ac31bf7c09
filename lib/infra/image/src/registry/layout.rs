//! An OCI image layout on disk, used as a registry: the same pull and the same copy, the same checks, no network.
//!
//! Repositories and hosts mean nothing here. Blobs appear complete or not at all, so that a copy that was interrupted
//! continues with those that are missing.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::Value;
use thiserror::Error;
use tokio::io::AsyncReadExt as _;

use super::{BlobContent, Registry, RegistryError, digest_mismatch, too_large};
use crate::{
    digest::Digest,
    layers::BlobStream,
    limits::MANIFEST_BYTES_MAX,
    manifest::{Descriptor, Document, ManifestError, OCI_INDEX, parse},
    reference::CanonicalReference,
    registries::Endpoint,
};

/// The file that makes a folder an image layout.
const MARKER: &str = "oci-layout";
/// The layout's list of images.
const INDEX: &str = "index.json";
/// Annotation that names an image of a layout.
pub(crate) const NAME: &str = "org.opencontainers.image.ref.name";
/// What says that a folder is an image layout.
pub(crate) const LAYOUT_FILE: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
/// Bytes of a blob that are handed out at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Why a folder is not a layout with the wanted image: a sentence that names the folder or file.
#[derive(Debug, Error)]
#[error("{}: {problem}", path.display())]
pub struct LayoutError {
    path: PathBuf,
    problem: String,
}

/// An OCI image layout.
#[derive(Debug, Clone)]
pub struct LayoutRegistry {
    folder: PathBuf,
    images: Vec<(Option<String>, Digest)>,
    /// Held while the list of images is written.
    writing: Arc<Mutex<()>>,
}

impl LayoutRegistry {
    /// Whether `folder` says of itself that it is a layout.
    pub fn is_layout(folder: &Path) -> bool {
        folder.join(MARKER).is_file() && folder.join(INDEX).is_file()
    }

    /// Reads the list of a layout's images.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn open(folder: &Path) -> Result<Self, LayoutError> {
        let path = folder.join(INDEX);
        let failed = |problem: String| LayoutError { path: path.clone(), problem };
        let read = |cause: std::io::Error| failed(cause.to_string());
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&path).map_err(read)?;
        file.take(MANIFEST_BYTES_MAX).read_to_end(&mut bytes).map_err(read)?;
        let Document::Index(images) = parse(&bytes).map_err(|error| failed(error.to_string()))? else {
            return Err(failed(ManifestError::kind().to_string()));
        };
        let images = images.into_iter().map(|image| (name_of(&image), image.digest)).collect();
        Ok(Self { folder: folder.to_owned(), images, writing: Arc::default() })
    }

    /// The layout in `folder`, which is made when absent.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn create(folder: &Path) -> Result<Self, LayoutError> {
        if !Self::is_layout(folder) {
            let empty = serde_json::json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []});
            let made = std::fs::create_dir_all(folder)
                .and_then(|()| write(&folder.join(INDEX), empty.to_string().as_bytes()))
                .and_then(|()| write(&folder.join(MARKER), LAYOUT_FILE));
            made.map_err(|error| LayoutError { path: folder.to_owned(), problem: error.to_string() })?;
        }
        Self::open(folder)
    }

    /// All images, with their names.
    pub fn images(&self) -> impl Iterator<Item = (Option<&str>, CanonicalReference)> {
        self.images
            .iter()
            .map(|(name, digest)| (name.as_deref(), CanonicalReference::of_layout(digest.clone())))
    }

    /// Adds an image to the list, instead of one of the same name.
    fn list(&self, name: &str, image: Descriptor) -> std::io::Result<()> {
        let _writing = self.writing.lock();
        let path = self.folder.join(INDEX);
        // What others wrote about images is kept as it is.
        let mut index: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
        let mut image = serde_json::to_value(image)?;
        image["annotations"][NAME] = name.into();
        let Some(images) = index["manifests"].as_array_mut() else {
            return Err(std::io::Error::other(format!("{INDEX} has no list of manifests")));
        };
        images.retain(|other| other["annotations"][NAME] != name);
        images.push(image);
        let text = index.to_string();
        if text.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(std::io::Error::other(format!(
                "{INDEX} would have more than {MANIFEST_BYTES_MAX} bytes"
            )));
        }
        write(&path, text.as_bytes())
    }

    /// The image called `name`, or the only one there is.
    ///
    /// # Errors
    /// There is no such image, or more than one.
    pub fn image(&self, name: Option<&str>) -> Result<CanonicalReference, LayoutError> {
        let mut found = self.images.iter().filter(|(known, _)| name.is_none() || known.as_deref() == name);
        let problem = match (found.next(), found.next(), name) {
            (Some((_, digest)), None, _) | (Some((_, digest)), Some(_), Some(_)) => {
                return Ok(CanonicalReference::of_layout(digest.clone()));
            }
            (_, _, None) => {
                format!("the layout has {} images: name one of {}", self.images.len(), self.present())
            }
            (None, _, Some(name)) => {
                format!("the layout has no image named {name:?}; its images: {}", self.present())
            }
        };
        Err(LayoutError { path: self.folder.clone(), problem })
    }

    fn present(&self) -> String {
        let names =
            self.images.iter().map(|(name, digest)| name.clone().unwrap_or_else(|| digest.to_string()));
        names.collect::<Vec<_>>().join(", ")
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join("blobs").join(digest.algorithm().as_str()).join(digest.hex())
    }
}

fn name_of(image: &Descriptor) -> Option<String> {
    image.annotations.get(NAME).cloned()
}

/// Writes a file completely or not at all.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = unfinished(path)?;
    file.write_all(bytes)?;
    finish(file, path)
}

/// A file beside `path`.
fn unfinished(path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    tempfile::NamedTempFile::new_in(folder)
}

/// Puts a file in the place of `path`, readable like others: it was its owner's alone.
fn finish(file: tempfile::NamedTempFile, path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    file.persist(path)?;
    Ok(())
}

#[async_trait]
impl Registry for LayoutRegistry {
    async fn resolve(&self, _at: &Endpoint, tag: &str) -> Result<Digest, RegistryError> {
        let found = self.image(Some(tag)).map(|image| image.digest().clone());
        found.map_err(|error| RegistryError::Unusable {
            action: format!("reading manifest {tag}"),
            cause: error.to_string(),
        })
    }

    async fn manifest(&self, _at: &Endpoint, digest: &Digest) -> Result<Bytes, RegistryError> {
        let action = || format!("reading manifest {digest} of {}", self.folder.display());
        let failed =
            |cause: std::io::Error| RegistryError::Unusable { action: action(), cause: cause.to_string() };
        let file = tokio::fs::File::open(self.path(digest)).await.map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut bytes).await.map_err(failed)?;
        if bytes.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(too_large(action(), MANIFEST_BYTES_MAX));
        }
        let actual = digest.recompute(&bytes);
        if actual != *digest {
            return Err(digest_mismatch(action(), digest, &actual));
        }
        Ok(bytes.into())
    }

    async fn blob(&self, _at: &Endpoint, digest: &Digest) -> Result<BlobStream, RegistryError> {
        let action = format!("reading blob {digest} of {}", self.folder.display());
        let failed = move |cause: std::io::Error| RegistryError::Unusable {
            action: action.clone(),
            cause: cause.to_string(),
        };
        let file = tokio::fs::File::open(self.path(digest)).await.map_err(&failed)?;
        let pieces = stream::try_unfold(file, move |mut file| {
            let failed = failed.clone();
            async move {
                let mut piece = vec![0; CHUNK_BYTES];
                let count = file.read(&mut piece).await.map_err(failed)?;
                piece.truncate(count);
                Ok((count > 0).then(|| (Bytes::from(piece), file)))
            }
        });
        Ok(pieces.boxed())
    }

    async fn has_blob(&self, _at: &Endpoint, digest: &Digest) -> Result<bool, RegistryError> {
        Ok(self.path(digest).is_file())
    }

    async fn push_blob(
        &self,
        _at: &Endpoint,
        digest: &Digest,
        content: &BlobContent,
    ) -> Result<(), RegistryError> {
        let path = self.path(digest);
        let written = match content {
            BlobContent::Memory(bytes) => write(&path, bytes),
            BlobContent::File(source) => match unfinished(&path) {
                Ok(file) => match tokio::fs::copy(source, file.path()).await {
                    Ok(_) => finish(file, &path),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            },
        };
        written.map_err(|cause| RegistryError::Unusable {
            action: format!("writing {}", path.display()),
            cause: cause.to_string(),
        })
    }

    /// Under a digest it only becomes a blob, under any other name an image of the list too.
    async fn push_manifest(
        &self,
        _at: &Endpoint,
        name: &str,
        media_type: &str,
        bytes: Bytes,
    ) -> Result<(), RegistryError> {
        let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
        let path = self.path(&digest);
        let mut written = write(&path, &bytes);
        if name.parse::<Digest>().is_err() {
            let (media_type, annotations) = (media_type.to_owned(), BTreeMap::default());
            let image = Descriptor { media_type, digest, size, platform: None, annotations };
            written = written.and_then(|()| self.list(name, image));
        }
        written.map_err(|cause| RegistryError::Unusable {
            action: format!("writing {}", self.folder.display()),
            cause: cause.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use super::LayoutRegistry;
    use crate::{Compression, ImageBuilder, LayerBuilder, Puller, PullerConfig, Select};

    fn layout(name: Option<&str>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let layer = LayerBuilder::new(Compression::Gzip).file("configs/a.yaml", "schema: x").expect("fits");
        let image = ImageBuilder::new().label("k", "v").layer(layer.build().expect("built")).build();
        image.write_layout(folder.path(), name).expect("written");
        folder
    }

    #[tokio::test]
    async fn an_image_of_a_layout_is_pulled_like_any_other() {
        let folder = layout(Some("v1"));
        assert!(LayoutRegistry::is_layout(folder.path()));
        let layout = LayoutRegistry::open(folder.path()).expect("a layout");
        let image = layout.image(None).expect("the only one");
        assert_eq!(image, layout.image(Some("v1")).expect("named"));
        let puller = Puller::with_registry(PullerConfig::new(std::env::temp_dir()), Arc::new(layout));
        let image = puller.pull(&image, |_| Ok(Select::everything())).await.expect("pulled");
        assert_eq!(image.labels["k"], "v");
        assert_eq!(image.files.read("configs/a.yaml", 100).expect("read"), b"schema: x");
    }

    #[tokio::test]
    async fn a_changed_blob_is_not_accepted() {
        let folder = layout(None);
        for entry in fs::read_dir(folder.path().join("blobs/sha256")).expect("listed") {
            let path = entry.expect("an entry").path();
            let mut bytes = fs::read(&path).expect("read");
            *bytes.last_mut().expect("not empty") ^= 1;
            fs::write(&path, bytes).expect("written");
        }
        let layout = LayoutRegistry::open(folder.path()).expect("a layout");
        let image = layout.image(None).expect("the only one");
        let puller = Puller::with_registry(PullerConfig::new(std::env::temp_dir()), Arc::new(layout));
        let error = puller.pull(&image, |_| Ok(Select::everything())).await.expect_err("refused");
        assert!(error.to_string().contains("digest mismatch"), "{error}");
    }

    #[test]
    fn what_is_no_layout_or_has_no_such_image_is_told() {
        let folder = layout(Some("v1"));
        let layout = LayoutRegistry::open(folder.path()).expect("a layout");
        let error = layout.image(Some("v2")).expect_err("not there").to_string();
        assert!(error.contains("no image named \"v2\"; its images: v1"), "{error}");
        fs::write(folder.path().join("index.json"), "{}").expect("written");
        let error = LayoutRegistry::open(folder.path()).expect_err("no index").to_string();
        assert!(error.contains("neither an image manifest nor an image index"), "{error}");
        fs::remove_file(folder.path().join("oci-layout")).expect("removed");
        assert!(!LayoutRegistry::is_layout(folder.path()));
    }
}
