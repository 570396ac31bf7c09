//! Bundles: pulled once by digest, kept on disk, and read within the memory that all of them share.
//!
//! A bundle is foreign input. Its image is limited while it streams in, its files are brought into memory only when
//! there is room for what becomes of them ([`Admission`]), and one that the controller was reading when it was killed
//! is not read again before others had their turn.

mod cache;
mod interrupted;

use std::{io, path::PathBuf, sync::Arc};

use olm_image::{CanonicalReference, FileError, Files, Limits, PullError, Puller, Reference, Select};
use olm_render::{BundleFiles, MEMORY_BYTES_MAX, usual_memory};
use olm_runtime::{MemoryBudget, MemoryShare};
use thiserror::Error;

use cache::Cache;
use interrupted::{Interrupted, Interruptions, Reading};

/// Largest file of a bundle, in bytes. The largest known one, a CRD, has 4 MB.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most bytes of all files of a bundle; the largest known bundle has less than 10 MB.
const BUNDLE_BYTES_MAX: u64 = 64 << 20;
/// Most files and folders of a bundle; the largest known one has 120.
const ENTRIES_MAX: usize = 4_000;
/// Most bytes of their paths.
const PATH_BYTES_MAX: usize = 1 << 20;
/// Most bytes that may come out of a bundle's layers, wanted or not.
const UNCOMPRESSED_BYTES_MAX: u64 = 1 << 30;
/// The folders of a registry+v1 bundle.
const WANTED: [&str; 2] = ["manifests", "metadata"];

/// What the image of a bundle may hold.
fn limits() -> Limits {
    Limits {
        uncompressed_bytes_max: UNCOMPRESSED_BYTES_MAX,
        kept_entries_max: ENTRIES_MAX,
        kept_path_bytes_max: PATH_BYTES_MAX,
        file_bytes_max: FILE_BYTES_MAX,
        total_bytes_max: BUNDLE_BYTES_MAX,
        ..Limits::default()
    }
}

/// Fetches bundles.
#[derive(Clone)]
pub(crate) struct Bundles {
    puller: Puller,
    cache: Arc<Cache>,
    memory: MemoryBudget,
    interruptions: Interruptions,
}

/// A bundle in memory.
pub(crate) struct Loaded {
    pub(crate) files: BundleFiles,
    pub(crate) admission: Admission,
}

/// The permission to have a bundle in memory, to be kept until nothing of it is left there.
#[derive(Debug)]
pub(crate) struct Admission {
    memory: MemoryShare,
    _reading: Reading,
}

impl Admission {
    /// Bytes that the bundle and what becomes of it may take.
    pub(crate) fn memory(&self) -> usize {
        self.memory.bytes()
    }
}

/// How much memory is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// What bundles of that size usually take.
    Usual,
    /// All there is: no other bundle is in memory then.
    All,
}

/// Why there is no bundle.
#[derive(Debug, Error)]
pub(crate) enum BundleError {
    /// The image cannot be pulled.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// It has to wait.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl BundleError {
    /// Whether trying again is of no use until the reference is another one.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Pull(error) => error.is_terminal(),
            Self::Interrupted(_) => false,
        }
    }
}

impl From<FileError> for BundleError {
    fn from(error: FileError) -> Self {
        Self::Pull(error.into())
    }
}

impl Bundles {
    /// `folder` holds what was pulled; it may be emptied at any time. Its content counts on the disk budget of
    /// `puller`, and what is read from it on `memory`.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub(crate) fn new(puller: &Puller, folder: PathBuf, memory: MemoryBudget) -> io::Result<Self> {
        let cache = Cache::open(folder, puller.disk())?;
        let interruptions = Interruptions::default();
        Ok(Self { puller: puller.limited(limits()), cache, memory, interruptions })
    }

    /// Notes in `folder` what is being read, and keeps what a process that was killed had noted there for later.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub(crate) fn noting(self, folder: PathBuf) -> io::Result<Self> {
        Ok(Self { interruptions: Interruptions::open(folder)?, ..self })
    }

    /// The process is asked to end: what is being read from now on is not interrupted by an accident.
    pub(crate) fn stop(&self) {
        self.interruptions.stop();
    }

    /// The files of the bundle that `reference` names. Waits until there is memory for them.
    ///
    /// # Errors
    /// The image cannot be pulled, or the bundle was being read when the controller was killed.
    pub(crate) async fn load(&self, reference: &str, need: Need) -> Result<Loaded, BundleError> {
        let parsed = Reference::parse(reference).map_err(PullError::from)?;
        let canonical = self.puller.resolve(&parsed).await?;
        let key = canonical.digest().to_string().replace(':', "-");
        let need = if self.interruptions.check(&key)? { Need::All } else { need };
        if let Some(cached) = self.cache.find(&key) {
            let admission = self.admit(&key, cached.bytes(), need).await;
            if let Some(files) = self.cache.read(cached).await {
                return Ok(Loaded { files, admission });
            }
        }
        let files = self.pull(&canonical, &key).await?;
        let bytes = files.paths().filter_map(|path| files.size(path)).sum();
        let admission = self.admit(&key, bytes, need).await;
        let mut bundle = BundleFiles::new();
        for path in files.paths() {
            bundle.insert(path, files.read(path, FILE_BYTES_MAX)?);
        }
        Ok(Loaded { files: bundle, admission })
    }

    /// Pulls a bundle and keeps it on disk. Nothing of it is in memory then but what the spool holds.
    async fn pull(&self, canonical: &CanonicalReference, key: &str) -> Result<Files, BundleError> {
        let files = self.puller.pull(canonical, |_| Select::paths(WANTED)).await?.files;
        if let Err(error) = self.cache.store(key, &files).await {
            // The bundle is at hand; only the next process has to pull it again.
            tracing::warn!(%error, bundle = %canonical, "bundle could not be kept on disk");
        }
        Ok(files)
    }

    async fn admit(&self, key: &str, bytes: u64, need: Need) -> Admission {
        let wanted = match need {
            Need::Usual => usual_memory(usize::try_from(bytes).unwrap_or(usize::MAX)),
            Need::All => MEMORY_BYTES_MAX,
        };
        let memory = self.memory.share(wanted).await;
        Admission { memory, _reading: self.interruptions.begin(key) }
    }
}

/// Puts a bundle where pulled ones are kept, so that it is not pulled.
#[cfg(test)]
pub(crate) fn keep(folder: &std::path::Path, digest: &str, files: &BundleFiles) {
    let mut out = std::fs::File::create(folder.join(format!("{}.bundle", digest.replace(':', "-")))).unwrap();
    cache::encode(&mut out, files.iter().map(|(path, bytes)| Ok((path, bytes.len() as u64, bytes)))).unwrap();
}

#[cfg(test)]
mod tests;
