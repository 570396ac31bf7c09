//! The port through which catalog images are fetched, and its adapter over olm-image.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    ops::Range,
};

use async_trait::async_trait;
use olm_fbc::CatalogFiles;
use olm_image::{
    CanonicalReference, DiskBudget, DownloadedImage, FileSink, Files, OnProgress, PullError, Puller,
    Reference, Refusal, Select,
};

/// Label of an image with the path of the catalog's content in it.
pub const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// Whether the spec names a digest, whose content cannot change, or a tag, whose content may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// A digest: what is wrong with the image stays wrong.
    Yes,
    /// A tag: a new push may put things right.
    No,
}

/// Fetches catalog images. Implemented by [`Puller`]; tests have their own.
#[async_trait]
pub trait CatalogSource: Send + Sync {
    /// The resolution of a reference, as `<repository>@<digest>`. A digest is its own resolution, without a
    /// request.
    async fn resolve(&self, reference: &str) -> Result<String, PullError>;

    /// The image of a catalog; `on_progress` is called as bytes arrive.
    async fn pull(
        &self,
        resolved: &str,
        pinned: Pinned,
        on_progress: OnProgress,
    ) -> Result<Box<dyn CatalogImage>, PullError>;

    /// Whether the content is delivered to these credentials, without pulling it.
    async fn check(&self, resolved: &str) -> Result<(), PullError>;

    /// The disk that what is pulled shares with what becomes of it; without a limit unless the source has one.
    fn disk(&self) -> DiskBudget {
        DiskBudget::default()
    }
}

#[async_trait]
impl CatalogSource for Puller {
    async fn resolve(&self, reference: &str) -> Result<String, PullError> {
        Ok(Puller::resolve(self, &Reference::parse(reference)?).await?.to_string())
    }

    async fn pull(
        &self,
        resolved: &str,
        pinned: Pinned,
        on_progress: OnProgress,
    ) -> Result<Box<dyn CatalogImage>, PullError> {
        let reference = CanonicalReference::parse(resolved)?;
        Ok(Box::new(self.download(&reference, |labels| wanted(labels, pinned), on_progress).await?))
    }

    async fn check(&self, resolved: &str) -> Result<(), PullError> {
        Puller::check(self, &CanonicalReference::parse(resolved)?).await
    }

    fn disk(&self) -> DiskBudget {
        Puller::disk(self).clone()
    }
}

fn wanted(labels: &BTreeMap<String, String>, pinned: Pinned) -> Result<Select, Refusal> {
    let Some(path) = labels.get(CONFIGS_LABEL) else {
        let text = format!("catalog image is missing the required label {CONFIGS_LABEL:?}");
        return Err(match pinned {
            Pinned::Yes => Refusal::terminal(text),
            Pinned::No => Refusal::retry(text),
        });
    };
    Select::paths([path])
}

/// The image of a catalog, which is on this machine. Its files are those below the path that its configs label names.
pub trait CatalogImage: Send {
    /// Gives the files to a sink in the order of the image's archives. Returns the place of each file that the image has
    /// in the end among the bytes that the sink was given. Blocks.
    ///
    /// # Errors
    /// The image cannot be unpacked, or the sink takes no more.
    fn read(&self, sink: &mut dyn FileSink) -> Result<BTreeMap<String, Range<u64>>, PullError>;

    /// Memory that unpacking takes, beside that for a catalog's documents, in bytes.
    fn unpacking_memory(&self) -> usize {
        0
    }

    /// The files, to be read in any order. Blocks.
    ///
    /// # Errors
    /// The image cannot be unpacked.
    fn files(&self) -> Result<Box<dyn CatalogFiles>, PullError>;
}

impl CatalogImage for DownloadedImage {
    fn read(&self, sink: &mut dyn FileSink) -> Result<BTreeMap<String, Range<u64>>, PullError> {
        Self::read(self, sink)
    }

    fn unpacking_memory(&self) -> usize {
        self.window_bytes()
    }

    fn files(&self) -> Result<Box<dyn CatalogFiles>, PullError> {
        Ok(Box::new(ImageFiles(Self::files(self)?)))
    }
}

/// The files of an unpacked image.
struct ImageFiles(Files);

impl CatalogFiles for ImageFiles {
    fn paths(&self) -> Vec<String> {
        self.0.paths().map(str::to_owned).collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        let reader = self.0.open(path).map_err(io::Error::other)?;
        Ok(Box::new(reader))
    }
}
