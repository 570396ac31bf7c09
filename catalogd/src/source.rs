//! The port through which catalog images are fetched, and its adapter over olm-image.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use async_trait::async_trait;
use olm_fbc::CatalogFiles;
use olm_image::{
    CanonicalReference, DiskBudget, Files, OnProgress, PullError, Puller, Reference, Refusal, Select,
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

    /// The files below the path that the image's configs label names; `on_progress` is called as bytes arrive.
    async fn pull(
        &self,
        resolved: &str,
        pinned: Pinned,
        on_progress: OnProgress,
    ) -> Result<Box<dyn CatalogFiles>, PullError>;

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
    ) -> Result<Box<dyn CatalogFiles>, PullError> {
        let reference = CanonicalReference::parse(resolved)?;
        let image = self.pull_with_progress(&reference, |labels| wanted(labels, pinned), on_progress).await?;
        Ok(Box::new(ImageFiles(image.files)))
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

/// The files of a pulled image.
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
