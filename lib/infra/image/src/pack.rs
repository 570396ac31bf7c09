//! Packing: images from folders or from layers made by hand, to a registry or an OCI image layout.
//!
//! Deterministic: entries are sorted, times, owners and modes fixed, so the same input gives the same digest.
//! What lies in a folder is untrusted: links that lead out of it and special files are refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use thiserror::Error;

use crate::{
    copy::Target,
    digest::Digest,
    error::SourceError,
    manifest::{Descriptor, OCI_CONFIG, OCI_MANIFEST},
    puller::Puller,
    reference::{CanonicalReference, Reference},
    registry::{BlobContent, LAYOUT_FILE, NAME, RegistryError},
};

mod layer;
mod single_file;

pub use layer::{Compression, LayerBuilder, PackedLayer};

/// Why an image could not be packed or stored.
#[derive(Debug, Error)]
pub enum PackError {
    /// A file or folder cannot be read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A link out of the folder, or one to nothing.
    #[error("{}: the link leads out of the folder or to nothing: replace it by what it means", .0.display())]
    Link(PathBuf),
    /// Neither file nor folder.
    #[error("{}: only files, folders and links to files can be packed", .0.display())]
    Kind(PathBuf),
    /// A name that is not text.
    #[error("{}: the name is not valid UTF-8", .0.display())]
    Name(PathBuf),
    /// Writing the archive.
    #[error("writing the layer: {0}")]
    Archive(#[source] io::Error),
    /// The reference is not one to push to.
    #[error("cannot push to {0}: name a tag, without a digest")]
    Reference(Reference),
    /// Where to push to is not known.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The registry.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// Puts an image together.
#[derive(Debug, Clone, Default)]
pub struct ImageBuilder {
    labels: BTreeMap<String, String>,
    layers: Vec<PackedLayer>,
    platform: Option<(String, String)>,
    process: Option<ImageProcess>,
}

/// What runs when the image is run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageProcess {
    /// The program's path in the image, and arguments that come before all others.
    pub entrypoint: Vec<String>,
    /// User and group, as `<uid>:<gid>`: names would have to be looked up before the user is known not to be root.
    pub user: String,
    /// Environment, as `NAME=value`.
    pub environment: Vec<String>,
}

impl ImageBuilder {
    /// An image without labels and layers, for linux/amd64 wherever it is packed: what holds only data runs
    /// nowhere, and its digest should not depend on the machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds a layer on top.
    #[must_use]
    pub fn layer(mut self, layer: PackedLayer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Says which platform the image is for, in the words of image indexes.
    #[must_use]
    pub fn platform(mut self, os: impl Into<String>, architecture: impl Into<String>) -> Self {
        self.platform = Some((os.into(), architecture.into()));
        self
    }

    /// Says what runs.
    #[must_use]
    pub fn process(mut self, process: ImageProcess) -> Self {
        self.process = Some(process);
        self
    }

    /// The image: config and manifest around the layers.
    pub fn build(self) -> PackedImage {
        let (os, architecture) = self.platform.unwrap_or_else(|| ("linux".to_owned(), "amd64".to_owned()));
        let diff_ids: Vec<String> = self.layers.iter().map(|layer| layer.diff_id.to_string()).collect();
        let mut config = serde_json::json!({
            "architecture": architecture,
            "os": os,
            "config": { "Labels": self.labels },
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        if let Some(process) = self.process {
            config["config"]["Entrypoint"] = process.entrypoint.into();
            config["config"]["User"] = process.user.into();
            config["config"]["Env"] = process.environment.into();
            config["config"]["WorkingDir"] = "/".into();
        }
        let config = Bytes::from(config.to_string());
        let layers: Vec<Descriptor> = self
            .layers
            .iter()
            .map(|layer| descriptor(layer.media_type, &layer.digest, &layer.bytes))
            .collect();
        let config_digest = Digest::of(&config);
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": descriptor(OCI_CONFIG, &config_digest, &config),
            "layers": layers,
        });
        let manifest = Bytes::from(manifest.to_string());
        let in_order = self.layers.iter().map(|layer| layer.digest.clone()).collect();
        let mut blobs: BTreeMap<Digest, Bytes> = BTreeMap::from([(config_digest.clone(), config)]);
        blobs.extend(self.layers.into_iter().map(|layer| (layer.digest, layer.bytes)));
        PackedImage {
            digest: Digest::of(&manifest),
            manifest,
            config: config_digest,
            layers: in_order,
            blobs,
        }
    }
}

fn descriptor(media_type: &str, digest: &Digest, bytes: &Bytes) -> Descriptor {
    Descriptor {
        media_type: media_type.to_owned(),
        digest: digest.clone(),
        size: bytes.len() as u64,
        platform: None,
        annotations: BTreeMap::new(),
    }
}

/// An image that is ready to be stored.
#[derive(Debug, Clone)]
pub struct PackedImage {
    digest: Digest,
    manifest: Bytes,
    config: Digest,
    /// From the lowest to the uppermost.
    layers: Vec<Digest>,
    blobs: BTreeMap<Digest, Bytes>,
}

impl PackedImage {
    /// The manifest's digest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The manifest's bytes.
    pub fn manifest(&self) -> &Bytes {
        &self.manifest
    }

    /// Config and layers, by digest.
    pub fn blobs(&self) -> impl Iterator<Item = (&Digest, &Bytes)> {
        self.blobs.iter()
    }

    /// Pushes to the tag of `reference`, with the puller's settings and credentials. Mirrors are not used. What
    /// the registry has already is not sent again.
    ///
    /// # Errors
    /// The registry does not take the image.
    pub async fn push(
        &self,
        puller: &Puller,
        reference: &Reference,
    ) -> Result<CanonicalReference, PackError> {
        let (Some(tag), None) = (reference.tag(), reference.digest()) else {
            return Err(PackError::Reference(reference.clone()));
        };
        self.store(&puller.target(reference.repository(), Some(tag)).await?).await?;
        Ok(reference.at(self.digest.clone()))
    }

    /// Stores the image at a place, and answers how many bytes of blobs were not there yet.
    ///
    /// # Errors
    /// The place does not take the image.
    pub async fn store(&self, to: &Target) -> Result<u64, RegistryError> {
        let mut sent: u64 = 0;
        for (digest, bytes) in &self.blobs {
            if !to.registry.has_blob(&to.endpoint, digest).await? {
                let content = BlobContent::Memory(bytes.clone());
                to.registry.push_blob(&to.endpoint, digest, &content).await?;
                sent = sent.saturating_add(bytes.len() as u64);
            }
        }
        to.push_image(&self.digest, OCI_MANIFEST, self.manifest.clone()).await?;
        Ok(sent)
    }

    /// Writes an OCI image layout into `folder`, which is made when absent. The image is named `name` in its
    /// index, which replaces an earlier one.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write_layout(&self, folder: &Path, name: Option<&str>) -> Result<(), PackError> {
        let annotation = |name: &str| (NAME.to_owned(), name.to_owned());
        let index = self.index(name.map(annotation).into_iter().collect());
        let blobs = self.blobs.iter().chain([(&self.digest, &self.manifest)]);
        for (digest, bytes) in blobs {
            write(&folder.join("blobs").join(digest.algorithm().as_str()), digest.hex(), bytes)?;
        }
        write(folder, "oci-layout", LAYOUT_FILE)?;
        write(folder, "index.json", index.to_string().as_bytes())
    }

    /// The index of a layout with this image, described with these annotations.
    fn index(&self, annotations: BTreeMap<String, String>) -> serde_json::Value {
        let mut manifest = descriptor(OCI_MANIFEST, &self.digest, &self.manifest);
        manifest.annotations = annotations;
        serde_json::json!({
            "schemaVersion": 2,
            "mediaType": crate::manifest::OCI_INDEX,
            "manifests": [manifest],
        })
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), PackError> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, bytes))
        .map_err(|cause| PackError::Io { path, cause })
}

/// A file of a folder that is to be packed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FolderEntry {
    /// Relative to the folder, with `/`.
    name: String,
    path: PathBuf,
    is_folder: bool,
}

/// A layer with the content of `folder` beneath `target` in the image (`configs` or `/configs`).
///
/// Files beneath `folder` keep their names; a link to a file within the folder becomes a copy of that file.
///
/// # Errors
/// The folder cannot be read, or a link in it leads nowhere or out of it.
pub fn folder_layer(folder: &Path, target: &str, compression: Compression) -> Result<PackedLayer, PackError> {
    folders_layer(&[(folder, target)], compression)
}

/// One layer with the content of several folders, each beneath its target in the image.
///
/// # Errors
/// As [`folder_layer`].
pub fn folders_layer(folders: &[(&Path, &str)], compression: Compression) -> Result<PackedLayer, PackError> {
    let mut entries = BTreeMap::new();
    for (folder, target) in folders {
        let target = target.trim_matches('/');
        for (index, _) in target.match_indices('/') {
            entries.entry(target[..index].to_owned()).or_insert(None);
        }
        if !target.is_empty() {
            entries.insert(target.to_owned(), None);
        }
        for entry in read_folder(folder)? {
            let path = crate::tree::join(target, &entry.name);
            entries.insert(path, (!entry.is_folder).then_some(entry.path));
        }
    }
    let mut layer = LayerBuilder::new(compression);
    for (name, source) in entries {
        layer = match source {
            None => layer.directory(&name).map_err(PackError::Archive)?,
            Some(path) => {
                let file = fs::File::open(&path);
                let length = file.as_ref().map_or(Ok(0), |file| file.metadata().map(|data| data.len()));
                let (file, length) = match (file, length) {
                    (Ok(file), Ok(length)) => (file, length),
                    (Err(cause), _) | (_, Err(cause)) => return Err(PackError::Io { path, cause }),
                };
                layer.stream(&name, length, file).map_err(|cause| PackError::Io { path, cause })?
            }
        };
    }
    layer.build().map_err(PackError::Archive)
}

/// The files beneath a folder: their names relative to it, sorted, and where they are. A link to a file within the
/// folder is that file.
///
/// # Errors
/// The folder cannot be read, or a link leads out of it.
pub fn folder_files(folder: &Path) -> Result<BTreeMap<String, PathBuf>, PackError> {
    let files = read_folder(folder)?.into_iter().filter(|entry| !entry.is_folder);
    Ok(files.map(|entry| (entry.name, entry.path)).collect())
}

/// Everything beneath a folder, sorted by name.
fn read_folder(folder: &Path) -> Result<Vec<FolderEntry>, PackError> {
    let io_error = |path: &Path, cause| PackError::Io { path: path.to_owned(), cause };
    let root = folder.canonicalize().map_err(|cause| io_error(folder, cause))?;
    let mut found = Vec::new();
    let mut waiting = vec![(root.clone(), String::new())];
    while let Some((current, prefix)) = waiting.pop() {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&current).map_err(|cause| io_error(&current, cause))? {
            names.insert(entry.map_err(|cause| io_error(&current, cause))?.file_name());
        }
        for name in names {
            let path = current.join(&name);
            let text = name.to_str().ok_or_else(|| PackError::Name(path.clone()))?;
            let name = crate::tree::join(&prefix, text);
            let kind = fs::symlink_metadata(&path).map_err(|cause| io_error(&path, cause))?.file_type();
            if kind.is_dir() {
                waiting.push((path.clone(), name.clone()));
                found.push(FolderEntry { name, path, is_folder: true });
            } else if kind.is_file() {
                found.push(FolderEntry { name, path, is_folder: false });
            } else if kind.is_symlink() {
                let target = path.canonicalize().ok().filter(|target| target.starts_with(&root));
                let target = target.ok_or_else(|| PackError::Link(path.clone()))?;
                if !target.is_file() {
                    return Err(PackError::Kind(path));
                }
                found.push(FolderEntry { name, path: target, is_folder: false });
            } else {
                return Err(PackError::Kind(path));
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}
