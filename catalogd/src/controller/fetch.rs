//! Fetching content: a job that resolves, pulls and ingests, and remembers images that are not catalogs. Content that another
//! catalog has is not pulled again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use olm_image::Progress;
use olm_runtime::{Clock, JobContext, Jobs, MemoryBudget};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    CatalogImage, CatalogSource, CatalogStore, CatalogdError, Pinned, Resolution, StoreError,
    limits::{INGEST_MEMORY_BYTES, PROGRESS_FIRST, PROGRESS_INTERVAL},
    store::digest_of,
};

/// The jobs of all catalogs.
pub type FetchJobs = Jobs<Fetched, Pulling, CatalogdError>;

/// The result of a job.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The resolution of the source.
    pub resolution: Resolution,
    /// Whether its content is new here.
    pub is_new: bool,
}

/// The progress of a pull.
#[derive(Debug, Clone)]
pub struct Pulling {
    /// Digest reference.
    reference: String,
    at: Progress,
}

/// An image that is not a catalog: another attempt would only fetch the same again.
struct Rejected {
    reference: String,
    pinned: Pinned,
    error: Arc<CatalogdError>,
}

/// The state that the jobs share.
pub struct Fetcher {
    store: Arc<CatalogStore>,
    clock: Arc<dyn Clock>,
    memory: MemoryBudget,
    /// By catalog.
    rejected: Mutex<BTreeMap<String, Rejected>>,
}

impl Fetcher {
    /// Installs what it fetches in `store`, within a budget of memory.
    pub fn new(store: Arc<CatalogStore>, clock: Arc<dyn Clock>, memory: MemoryBudget) -> Self {
        Self { store, clock, memory, rejected: Mutex::default() }
    }

    /// Forgets a catalog that is gone.
    pub fn forget(&self, catalog: &str) {
        self.rejected.lock().remove(catalog);
    }

    /// Fetches the content that `source` resolves to by way of `registry`, unless it is here or known not to be a catalog.
    pub async fn fetch(
        self: Arc<Self>,
        catalog: String,
        source: String,
        registry: Arc<dyn CatalogSource>,
        context: JobContext<Pulling>,
    ) -> Result<Fetched, CatalogdError> {
        let polled_at = self.clock.now();
        let reference = registry.resolve(&source).await.map_err(CatalogdError::Pull)?;
        let is_new = self.store.generation(&catalog).is_none_or(|held| held.reference() != reference);
        if is_new {
            let pinned = if source.contains('@') { Pinned::Yes } else { Pinned::No };
            if let Some(known) = self.known(&catalog, &reference, pinned) {
                return Err(known);
            }
            let unpacked = self.bring(&catalog, &reference, pinned, &*registry, context).await;
            self.forget(&catalog);
            unpacked.map_err(|error| self.remember(&catalog, &reference, pinned, error))?;
        }
        Ok(Fetched { resolution: Resolution { source, reference, polled_at }, is_new })
    }

    /// Brings content here: from another catalog, if the registry delivers it to this one too, else from the registry.
    async fn bring(
        &self,
        catalog: &str,
        reference: &str,
        pinned: Pinned,
        registry: &dyn CatalogSource,
        JobContext { cancelled, progress }: JobContext<Pulling>,
    ) -> Result<(), CatalogdError> {
        if let Some(held) = self.store.held(digest_of(reference))
            && registry.check(reference).await.is_ok()
        {
            let (store, owned) = (Arc::clone(&self.store), (catalog.to_owned(), reference.to_owned()));
            let shared = tokio::task::spawn_blocking(move || store.share(&owned.0, &owned.1, &held)).await?;
            match shared {
                Ok(_) => return Ok(()),
                // It would be rejected again.
                Err(error @ StoreError::Rejected(_)) => return Err(CatalogdError::Store(error)),
                Err(error) => tracing::debug!(catalog, %error, "content of another catalog is pulled again"),
            }
        }
        let pulled = reference.to_owned();
        let on_progress = Arc::new(move |at| {
            progress.send_replace(Some(Pulling { reference: pulled.clone(), at }));
        });
        let image = registry.pull(reference, pinned, on_progress).await.map_err(CatalogdError::Pull)?;
        self.install(catalog.to_owned(), reference.to_owned(), image, cancelled).await
    }

    async fn install(
        &self,
        catalog: String,
        reference: String,
        image: Box<dyn CatalogImage>,
        cancelled: CancellationToken,
    ) -> Result<(), CatalogdError> {
        let share = self.memory.share(INGEST_MEMORY_BYTES + image.unpacking_memory()).await;
        let (store, now) = (Arc::clone(&self.store), self.clock.now());
        let started = tokio::time::Instant::now();
        let installed = tokio::task::spawn_blocking(move || {
            // Held by the thread, which continues for a while after the job is cancelled.
            let _share = share;
            let is_cancelled = || cancelled.is_cancelled();
            let generation = store.install_image(&catalog, &reference, now, image.as_ref(), &is_cancelled);
            (catalog, generation, image)
        });
        let (catalog, generation, image) = installed.await?;
        // Large spool files take a while to be freed, after the catalog is served.
        drop(tokio::task::spawn_blocking(move || drop(image)));
        let generation = generation.map_err(|error| match error {
            StoreError::Image(error) => CatalogdError::Pull(error),
            error => CatalogdError::Store(error),
        })?;
        tracing::info!(
            catalog,
            reference = generation.reference(),
            documents = generation.documents(),
            bytes = generation.bytes(),
            milliseconds = started.elapsed().as_millis(),
            "catalog unpacked"
        );
        Ok(())
    }

    fn known(&self, catalog: &str, reference: &str, pinned: Pinned) -> Option<CatalogdError> {
        let rejected = self.rejected.lock();
        let before = rejected.get(catalog)?;
        let is_same = before.reference == reference && before.pinned == pinned;
        is_same.then(|| CatalogdError::Known(Arc::clone(&before.error)))
    }

    /// Remembers an error of the image itself; the same error.
    fn remember(
        &self,
        catalog: &str,
        reference: &str,
        pinned: Pinned,
        error: CatalogdError,
    ) -> CatalogdError {
        if !error.is_content() {
            return error;
        }
        let (reference, error) = (reference.to_owned(), Arc::new(error));
        let rejected = Rejected { reference, pinned, error: Arc::clone(&error) };
        self.rejected.lock().insert(catalog.to_owned(), rejected);
        CatalogdError::Known(error)
    }
}

/// The message about a running job, and the time until the next one.
///
/// Most jobs are over before there is anything to report. A failure of the last attempt stays reported until bytes arrive.
pub fn in_progress(
    source: &str,
    elapsed: Duration,
    progress: Option<&Pulling>,
    failed: bool,
) -> (Option<String>, Duration) {
    if let Some(left) = PROGRESS_FIRST.checked_sub(elapsed).filter(|left| !left.is_zero()) {
        return (None, left);
    }
    let message = match progress {
        Some(Pulling { reference, at }) => Some(format!("{reference}: {at}")),
        None => (!failed).then(|| format!("{source}: waiting for the registry")),
    };
    (message, PROGRESS_INTERVAL)
}
