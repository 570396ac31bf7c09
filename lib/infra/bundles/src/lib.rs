//! Bundles: pulled once by digest, kept on disk, and read within the memory that all of them share.
//!
//! No worker of a controller waits for a registry or for memory: bundles that are not kept are pulled by jobs, and those
//! for which there is no memory now are read when there is ([`Bundles::request`]).
//! A bundle is foreign input. Its image is limited while it streams in, its files are brought into memory only when
//! there is room for what becomes of them, and one that the controller was reading when it was killed
//! is not read again before others had their turn.

mod cache;
mod interrupted;
mod memory_queue;

use std::{collections::BTreeSet, io, path::PathBuf, sync::Arc, time::Duration};

use olm_bundle::{BundleFiles, MEMORY_BYTES_MAX, usual_memory};
use olm_image::{
    CanonicalReference, FileError, Files, Limits, OnProgress, Progress, PullError, Puller, Reference, Select,
};
use olm_runtime::{
    BackoffLimits, Chance, Job, JobContext, JobEnded, Jobs, MemoryBudget, MemoryShare, Panicked,
};
use parking_lot::Mutex;
use thiserror::Error;

use cache::Cache;
#[doc(hidden)]
pub use cache::keep;
use interrupted::Interruptions;
pub use interrupted::{Interrupted, Reading};
use memory_queue::{MemoryQueue, Waited};

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

/// Pairs of a reader and a bundle that are remembered; after that, registries are asked again.
const READABLE_MAX: usize = 10_000;

/// Which readers with credentials of their own may read which bundles, as far as registries were asked. Clones are the same.
#[derive(Clone, Default)]
struct Readable(Arc<Mutex<Allowed>>);

/// A reader, and a bundle that it may read.
type Allowed = BTreeSet<(Arc<str>, String)>;

impl Readable {
    fn has(&self, reader: &Arc<str>, reference: &CanonicalReference) -> bool {
        self.0.lock().contains(&(Arc::clone(reader), reference.to_string()))
    }

    fn add(&self, reader: &Arc<str>, reference: &CanonicalReference) {
        let mut known = self.0.lock();
        if known.len() >= READABLE_MAX {
            known.clear();
        }
        known.insert((Arc::clone(reader), reference.to_string()));
    }
}

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

/// The bundles of a process. Clones are the same.
#[derive(Clone)]
pub struct Bundles {
    source: Source,
    memory: MemoryBudget,
    /// Pulls and waits outside of the workers; without it, pulls and memory are waited for.
    background: Option<Background>,
    deadlines: Deadlines,
}

/// Times of a pull.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deadlines {
    /// How long an attempt may take; without it, as long as it makes progress.
    pub attempt: Option<Duration>,
    /// How long a failed one is held back; without it, for a growing time.
    pub retry: Option<Duration>,
}

/// What extensions wait for.
#[derive(Clone)]
struct Background {
    pulls: Jobs<Pulled, Progress, BundleError>,
    queue: Arc<MemoryQueue>,
}

/// What a job works with.
#[derive(Clone)]
struct Source {
    puller: Puller,
    cache: Arc<Cache>,
    interruptions: Interruptions,
    /// Whose credentials are used, if they are not those of the process; what they may read.
    reader: Option<Arc<str>>,
    readable: Readable,
    on_progress: OnProgress,
}

/// A bundle on disk.
#[derive(Clone)]
pub struct Pulled {
    reference: CanonicalReference,
    /// What was just pulled; without them it is in the cache.
    files: Option<Files>,
}

impl Pulled {
    /// The digest of its image.
    pub fn digest(&self) -> String {
        self.reference.digest().to_string()
    }

    /// Its name in the cache.
    fn key(&self) -> String {
        self.reference.digest().to_string().replace(':', "-")
    }
}

/// A bundle in memory.
pub struct Loaded {
    /// Its files.
    pub files: BundleFiles,
    /// To be kept until nothing that was made of the files is in memory.
    pub memory: MemoryShare,
    /// To be kept until the bundle is rendered.
    pub reading: Reading,
    /// Where it was read from.
    pub pulled: Pulled,
}

/// What a request for a bundle comes to.
pub enum Requested {
    /// It is here.
    Loaded(Loaded),
    /// It is being pulled; the extension is reconciled again when it is there, or cannot be had.
    Pulling {
        /// For how long.
        elapsed: Duration,
        /// How far it is, if the registry has said so.
        progress: Option<Progress>,
    },
    /// It has waited that long for others to need less memory; the extension is reconciled again when they do.
    Waiting(Duration),
    /// It cannot be had.
    Failed {
        /// Why.
        error: Arc<BundleError>,
        /// When it is pulled again, if that was the reason.
        next: Option<NextPull>,
    },
}

impl From<BundleError> for Requested {
    fn from(error: BundleError) -> Self {
        Self::Failed { error: Arc::new(error), next: None }
    }
}

/// When a pull that failed is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPull {
    /// It goes on now; its end causes the next reconcile.
    Now,
    /// Not before this time.
    After {
        /// How long until then.
        wait: Duration,
        /// Whether the failure has not been reported before.
        is_new: bool,
    },
}

/// How much memory is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// What bundles of that size usually take.
    Usual,
    /// All there is: no other bundle is in memory then.
    All,
}

/// Why there is no bundle.
#[derive(Debug, Error)]
pub enum BundleError {
    /// Its image cannot be pulled.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// It has to wait.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// What was kept of it cannot be read.
    #[error("the cached bundle is damaged and is pulled again")]
    Damaged,
    /// The pull took longer than it may.
    #[error("the pull was not over after {} s", .0.as_secs())]
    DeadlineExceeded(Duration),
    /// A fault of this program.
    #[error("internal: {0}")]
    Panicked(#[from] Panicked),
}

impl BundleError {
    /// Whether trying again is of no use until the reference is another one.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Pull(error) => error.is_terminal(),
            Self::Interrupted(_) | Self::Damaged | Self::DeadlineExceeded(_) | Self::Panicked(_) => false,
        }
    }

    /// A sentence for the author of the image reference; `None` where the error may pass by itself, or says it all.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Pull(error) => error.advice(),
            Self::Interrupted(_) | Self::Damaged | Self::DeadlineExceeded(_) | Self::Panicked(_) => None,
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
    pub fn new(puller: &Puller, folder: PathBuf, memory: MemoryBudget) -> io::Result<Self> {
        let cache = Cache::open(folder, puller.disk())?;
        let source = Source {
            puller: puller.limited(limits()),
            cache,
            interruptions: Interruptions::default(),
            reader: None,
            readable: Readable::default(),
            on_progress: Arc::new(|_| {}),
        };
        Ok(Self { source, memory, background: None, deadlines: Deadlines::default() })
    }

    /// Notes in `folder` what is being read, and keeps what a process that was killed had noted there for later.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn noting(self, folder: PathBuf) -> io::Result<Self> {
        let source = Source { interruptions: Interruptions::open(folder)?, ..self.source };
        Ok(Self { source, ..self })
    }

    /// Pulls by jobs, and calls `ended` with the name of each extension whose bundle has come, failed to, or can be read.
    #[must_use]
    pub fn pulling_by_jobs(self, ended: JobEnded, chance: &Chance) -> Self {
        let queue = Arc::new(MemoryQueue::new(self.memory.clone(), ended.clone()));
        let pulls = Jobs::new(ended, BackoffLimits::default(), chance.clone());
        Self { background: Some(Background { pulls, queue }), ..self }
    }

    /// The same for a reader with credentials of its own, which `puller` has and the text identifies: what others have
    /// pulled is only read if the registry delivers it to this reader too. A digest alone opens no private content.
    #[must_use]
    pub fn of_reader(&self, puller: &Puller, reader: &str) -> Self {
        let source =
            Source { puller: puller.limited(limits()), reader: Some(reader.into()), ..self.source.clone() };
        Self { source, ..self.clone() }
    }

    /// The same with other times for pulls.
    #[must_use]
    pub fn within(self, deadlines: Deadlines) -> Self {
        Self { deadlines, ..self }
    }

    /// The process is asked to end: what is being read from now on is not interrupted by an accident.
    pub fn stop(&self) {
        self.source.interruptions.stop();
    }

    /// An extension needs no bundle any more; a pull that no other extension needs is ended.
    pub fn release(&self, extension: &str) {
        if let Some(Background { pulls, queue }) = &self.background {
            pulls.release(extension);
            queue.release(extension);
        }
    }

    /// The files of the bundle that `reference` names, for an extension. Waits for no registry and no memory, unless
    /// nothing goes on outside of the workers.
    pub async fn request(&self, extension: &str, reference: &str) -> Requested {
        let Some(Background { pulls, queue }) = &self.background else {
            return self.load(reference, Need::Usual).await.map_or_else(Requested::from, Requested::Loaded);
        };
        let parsed = match Reference::parse(reference) {
            Ok(parsed) => parsed,
            Err(error) => return BundleError::from(PullError::from(error)).into(),
        };
        let kept = match queue.take(extension, reference) {
            Waited::Waits(elapsed) => return Requested::Waiting(elapsed),
            Waited::Yes(pulled, memory) => self.bring(pulled, memory).await.map(Requested::Loaded),
            Waited::No => match self.source.kept(&parsed) {
                Some(kept) => self.admit((extension, reference), kept, Need::Usual).await,
                None => Err(BundleError::Damaged),
            },
        };
        match kept {
            Ok(requested) => return requested,
            Err(BundleError::Damaged) => {}
            Err(error) => return error.into(),
        }
        let reader = self.source.reader.as_ref().map_or_else(String::new, |reader| format!("{reader} "));
        let Deadlines { attempt, retry } = self.deadlines;
        // Who may wait for longer does so apart, and other times begin a new attempt.
        let times = if self.deadlines == Deadlines::default() {
            String::new()
        } else {
            format!(" {attempt:?} {retry:?}")
        };
        let job = format!("{reader}{reference}{times}");
        let fetch = |JobContext { progress, .. }| {
            let on_progress: OnProgress = Arc::new(move |at| _ = progress.send_replace(Some(at)));
            Source { on_progress, ..self.source.clone() }.fetch_within(parsed, attempt)
        };
        match pulls.request_waiting(extension, (&job, retry), fetch) {
            Job::Done(pulled) => {
                let admitted = self.admit((extension, reference), pulled, Need::Usual).await;
                admitted.unwrap_or_else(Requested::from)
            }
            Job::Running { failed: None, elapsed, progress } => Requested::Pulling { elapsed, progress },
            Job::Running { failed: Some(error), .. } => {
                Requested::Failed { error, next: Some(NextPull::Now) }
            }
            Job::Failed { error, wait, is_new } => {
                Requested::Failed { error, next: Some(NextPull::After { wait, is_new }) }
            }
        }
    }

    /// The same for a bundle that turned out not to be like others of its size: it may take all memory, once no other
    /// bundle takes any.
    pub async fn request_alone(&self, extension: &str, reference: &str, pulled: Pulled) -> Requested {
        let admitted = self.admit((extension, reference), pulled, Need::All).await;
        admitted.unwrap_or_else(Requested::from)
    }

    /// Reads a bundle from disk for an extension, or lets the extension wait for memory.
    async fn admit(
        &self,
        (extension, reference): (&str, &str),
        pulled: Pulled,
        need: Need,
    ) -> Result<Requested, BundleError> {
        let Some(Background { queue, .. }) = &self.background else {
            return self.read(pulled, need).await.map(Requested::Loaded);
        };
        let bytes = self.memory_for(&pulled, need)?;
        let Some(memory) = self.memory.try_share(bytes) else {
            queue.wait(extension, reference, pulled, bytes);
            return Ok(Requested::Waiting(Duration::ZERO));
        };
        self.bring(pulled, memory).await.map(Requested::Loaded)
    }

    /// The files of the bundle that `reference` names. Waits until they are pulled and there is memory for them.
    ///
    /// # Errors
    /// The image cannot be pulled, or the bundle was being read when the controller was killed.
    async fn load(&self, reference: &str, need: Need) -> Result<Loaded, BundleError> {
        let parsed = Reference::parse(reference).map_err(PullError::from)?;
        let pulled = self.source.clone().fetch(parsed).await?;
        let reference = pulled.reference.clone();
        match self.read(pulled, need).await {
            Err(BundleError::Damaged) => self.read(self.source.pull(reference).await?, need).await,
            read => read,
        }
    }

    /// Reads a bundle from disk. Waits until there is memory for it.
    ///
    /// # Errors
    /// It is not there any more or damaged, or was being read when the controller was killed.
    async fn read(&self, pulled: Pulled, need: Need) -> Result<Loaded, BundleError> {
        let memory = self.memory.share(self.memory_for(&pulled, need)?).await;
        self.bring(pulled, memory).await
    }

    /// How much memory a bundle is given, in bytes.
    fn memory_for(&self, pulled: &Pulled, need: Need) -> Result<usize, BundleError> {
        let key = pulled.key();
        if self.source.interruptions.check(&key)? || need == Need::All {
            return Ok(MEMORY_BYTES_MAX);
        }
        let bytes = match &pulled.files {
            Some(files) => files.paths().filter_map(|path| files.size(path)).sum(),
            None => self.source.cache.find(&key).ok_or(BundleError::Damaged)?.bytes(),
        };
        Ok(usual_memory(usize::try_from(bytes).unwrap_or(usize::MAX)))
    }

    /// Brings a bundle into its memory.
    async fn bring(&self, pulled: Pulled, memory: MemoryShare) -> Result<Loaded, BundleError> {
        let key = pulled.key();
        let Some(files) = pulled.files.clone() else {
            let cached = self.source.cache.find(&key).ok_or(BundleError::Damaged)?;
            let reading = self.source.interruptions.begin(&key);
            let files = self.source.cache.read(cached).await.ok_or(BundleError::Damaged)?;
            return Ok(Loaded { files, memory, reading, pulled });
        };
        let reading = self.source.interruptions.begin(&key);
        let mut bundle = BundleFiles::new();
        for path in files.paths() {
            bundle.insert(path, files.read(path, FILE_BYTES_MAX)?);
        }
        Ok(Loaded { files: bundle, memory, reading, pulled })
    }
}

impl Source {
    /// What is kept under a reference that is a digest.
    fn kept(&self, reference: &Reference) -> Option<Pulled> {
        let digest = reference.digest().filter(|_| reference.tag().is_none())?;
        let pulled = Pulled { reference: reference.at(digest.clone()), files: None };
        if self.reader.as_ref().is_some_and(|reader| !self.readable.has(reader, &pulled.reference)) {
            return None;
        }
        self.cache.find(&pulled.key()).map(|_| pulled)
    }

    async fn fetch_within(
        self,
        reference: Reference,
        attempt: Option<Duration>,
    ) -> Result<Pulled, BundleError> {
        let Some(attempt) = attempt else { return self.fetch(reference).await };
        let fetched = tokio::time::timeout(attempt, self.fetch(reference)).await;
        fetched.unwrap_or(Err(BundleError::DeadlineExceeded(attempt)))
    }

    /// Pulls what a reference stands for now, unless that is kept.
    async fn fetch(self, reference: Reference) -> Result<Pulled, BundleError> {
        let reference = self.puller.resolve(&reference).await?;
        let pulled = Pulled { reference, files: None };
        self.interruptions.check(&pulled.key())?;
        let pulled = match self.cache.find(&pulled.key()) {
            Some(_) => {
                if self.reader.is_some() {
                    self.puller.check(&pulled.reference).await?;
                }
                pulled
            }
            None => self.pull(pulled.reference).await?,
        };
        if let Some(reader) = &self.reader {
            self.readable.add(reader, &pulled.reference);
        }
        Ok(pulled)
    }

    /// Pulls a bundle and keeps it on disk. Nothing of it is in memory then but what the spool holds.
    async fn pull(&self, reference: CanonicalReference) -> Result<Pulled, BundleError> {
        let pull = self.puller.pull_with_progress(
            &reference,
            |_| Select::paths(WANTED),
            Arc::clone(&self.on_progress),
        );
        let files = pull.await?.files;
        let pulled = Pulled { reference, files: Some(files.clone()) };
        if let Err(error) = self.cache.store(&pulled.key(), &files).await {
            // The bundle is at hand; only the next process has to pull it again.
            tracing::warn!(%error, bundle = %pulled.reference, "bundle could not be kept on disk");
        }
        Ok(pulled)
    }
}

#[cfg(test)]
mod tests;
