//! Fetching content: a job that resolves, pulls and ingests, and remembers images that are not catalogs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use olm_image::Progress;
use olm_runtime::{Clock, JobContext, Jobs, MemoryBudget};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    CatalogFiles, CatalogSource, CatalogStore, CatalogdError, Pinned, Resolution,
    limits::{INGEST_MEMORY_BYTES, PROGRESS_FIRST, PROGRESS_INTERVAL},
};

/// The jobs of all catalogs.
pub(crate) type FetchJobs = Jobs<Fetched, Pulling, CatalogdError>;

/// The result of a job.
#[derive(Debug, Clone)]
pub(crate) struct Fetched {
    /// The resolution of the source.
    pub(super) resolution: Resolution,
    /// Whether its content is new here.
    pub(super) is_new: bool,
}

/// The progress of a pull.
#[derive(Debug, Clone)]
pub(crate) struct Pulling {
    /// Digest reference.
    reference: String,
    at: Progress,
}

/// An image that is not a catalog: another attempt would only fetch the same again.
struct Rejected {
    reference: String,
    pinned: Pinned,
    text: String,
    terminal: bool,
    advice: Option<&'static str>,
}

/// The state that the jobs share.
pub(super) struct Fetcher {
    store: Arc<CatalogStore>,
    source: Arc<dyn CatalogSource>,
    clock: Arc<dyn Clock>,
    memory: MemoryBudget,
    /// By catalog.
    rejected: Mutex<BTreeMap<String, Rejected>>,
}

impl Fetcher {
    pub(super) fn new(
        store: Arc<CatalogStore>,
        source: Arc<dyn CatalogSource>,
        clock: Arc<dyn Clock>,
        memory: MemoryBudget,
    ) -> Self {
        Self { store, source, clock, memory, rejected: Mutex::default() }
    }

    /// Forgets a catalog that is gone.
    pub(super) fn forget(&self, catalog: &str) {
        self.rejected.lock().remove(catalog);
    }

    /// Fetches the content that `source` resolves to, unless it is here or known not to be a catalog.
    pub(super) async fn fetch(
        self: Arc<Self>,
        catalog: String,
        source: String,
        context: JobContext<Pulling>,
    ) -> Result<Fetched, CatalogdError> {
        let polled_at = self.clock.now();
        let reference = self.source.resolve(&source).await.map_err(CatalogdError::Pull)?;
        let is_new = self.store.generation(&catalog).is_none_or(|held| held.reference() != reference);
        if is_new {
            let pinned = if source.contains('@') { Pinned::Yes } else { Pinned::No };
            if let Some(known) = self.known(&catalog, &reference, pinned) {
                return Err(known);
            }
            let unpacked = self.unpack(&catalog, &reference, pinned, context).await;
            self.remember(&catalog, &reference, pinned, unpacked.as_ref().err());
            unpacked?;
        }
        Ok(Fetched { resolution: Resolution { source, reference, polled_at }, is_new })
    }

    async fn unpack(
        &self,
        catalog: &str,
        reference: &str,
        pinned: Pinned,
        context: JobContext<Pulling>,
    ) -> Result<(), CatalogdError> {
        let JobContext { cancelled, progress } = context;
        let pulled = reference.to_owned();
        let on_progress = Arc::new(move |at| {
            progress.send_replace(Some(Pulling { reference: pulled.clone(), at }));
        });
        let files = self.source.pull(reference, pinned, on_progress).await.map_err(CatalogdError::Pull)?;
        self.install(catalog.to_owned(), reference.to_owned(), files, cancelled).await
    }

    async fn install(
        &self,
        catalog: String,
        reference: String,
        files: Box<dyn CatalogFiles>,
        cancelled: CancellationToken,
    ) -> Result<(), CatalogdError> {
        let share = self.memory.share(INGEST_MEMORY_BYTES).await;
        let (store, now) = (Arc::clone(&self.store), self.clock.now());
        let started = tokio::time::Instant::now();
        let installed = tokio::task::spawn_blocking(move || {
            // Held by the thread, which continues for a while after the job is cancelled.
            let _share = share;
            let is_cancelled = || cancelled.is_cancelled();
            let generation = store.install_unless(&catalog, &reference, now, files.as_ref(), &is_cancelled);
            generation.map(|generation| (catalog, generation))
        });
        let (catalog, generation) = installed.await?.map_err(CatalogdError::Store)?;
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
        is_same.then(|| CatalogdError::Known {
            text: before.text.clone(),
            terminal: before.terminal,
            advice: before.advice,
        })
    }

    fn remember(&self, catalog: &str, reference: &str, pinned: Pinned, error: Option<&CatalogdError>) {
        match error.filter(|error| error.is_content()) {
            Some(error) => {
                let (text, terminal, advice) = (error.to_string(), error.is_terminal(), error.advice());
                let rejected = Rejected { reference: reference.to_owned(), pinned, text, terminal, advice };
                self.rejected.lock().insert(catalog.to_owned(), rejected);
            }
            None => self.forget(catalog),
        }
    }
}

/// The message about a running job, and the time until the next one.
///
/// Most jobs are over before there is anything to report. A failure of the last attempt stays reported until bytes arrive.
pub(super) fn in_progress(
    source: &str,
    elapsed: Duration,
    progress: Option<&Pulling>,
    failed: bool,
) -> (Option<String>, Duration) {
    if let Some(left) = PROGRESS_FIRST.checked_sub(elapsed).filter(|left| !left.is_zero()) {
        return (None, left);
    }
    let message = match progress {
        Some(Pulling { reference, at }) => Some(format!("{reference}: {}", in_words(*at))),
        None => (!failed).then(|| format!("{source}: waiting for the registry")),
    };
    (message, PROGRESS_INTERVAL)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn in_words(progress: Progress) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    format!(
        "{:.1} of {:.1} MB, {} of {} layers",
        megabytes(progress.bytes),
        megabytes(progress.bytes_total),
        progress.layers,
        progress.layers_total
    )
}
