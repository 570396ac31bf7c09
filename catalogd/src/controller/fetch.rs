//! Bringing content here: pull and ingest, with the memory of what cannot become a catalog and, for the
//! leader, the telling of how far a long pull is.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use olm_api::v1::ClusterCatalog;
use olm_image::Progress;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Reconciler, Refused};
use crate::{
    CatalogdError, Pinned,
    limits::{PROGRESS_FIRST, PROGRESS_INTERVAL},
    status::Outcome,
};

/// The object on which progress is told.
pub(super) struct Told<'a> {
    /// As it was last written.
    pub(super) catalog: &'a mut ClusterCatalog,
    /// The versions that were written.
    pub(super) versions: &'a mut Vec<String>,
}

impl Reconciler {
    /// Brings the content of a digest here, unless it is known not to be a catalog.
    pub(super) async fn ingest(
        &self,
        name: &str,
        reference: &str,
        pinned: Pinned,
        told: Option<Told<'_>>,
    ) -> Result<(), CatalogdError> {
        let refused = || self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = refused().get(name)
            && before.reference == reference
            && before.pinned == pinned
        {
            let Refused { text, terminal, advice, .. } = before.clone();
            return Err(CatalogdError::Known { text, terminal, advice });
        }
        let (progress, seen) = watch::channel(None);
        let done = CancellationToken::new();
        let fetching = async {
            let result = self.fetch(name, reference, pinned, progress).await;
            done.cancel();
            result
        };
        // A write in flight is waited for: the status that comes after it builds on it.
        let telling = async {
            if let Some(told) = told {
                self.tell_progress(name, reference, told, seen, &done).await;
            }
        };
        let (result, ()) = tokio::join!(fetching, telling);
        match &result {
            Err(error) if error.is_content() => {
                let (text, terminal, advice) = (error.to_string(), error.is_terminal(), error.advice());
                refused().insert(
                    name.to_owned(),
                    Refused { reference: reference.to_owned(), pinned, text, terminal, advice },
                );
            }
            _ => drop(refused().remove(name)),
        }
        result
    }

    async fn fetch(
        &self,
        name: &str,
        reference: &str,
        pinned: Pinned,
        progress: watch::Sender<Option<Progress>>,
    ) -> Result<(), CatalogdError> {
        // The semaphore is never closed; if it were, going on unbounded is right.
        let _permit = self.ingests.acquire().await.ok();
        let on_progress = Arc::new(move |at| {
            progress.send_replace(Some(at));
        });
        let files = self.source.pull(reference, pinned, on_progress).await.map_err(CatalogdError::Pull)?;
        let (store, name, reference) = (Arc::clone(&self.store), name.to_owned(), reference.to_owned());
        let now = self.clock.now();
        let started = tokio::time::Instant::now();
        let generation = tokio::task::spawn_blocking(move || {
            store.install(&name, &reference, now, files.as_ref()).map(|generation| (name, generation))
        });
        let (name, generation) = generation.await?.map_err(CatalogdError::Store)?;
        tracing::info!(
            catalog = name,
            reference = generation.reference(),
            documents = generation.documents(),
            bytes = generation.bytes(),
            milliseconds = started.elapsed().as_millis(),
            "catalog unpacked"
        );
        Ok(())
    }

    /// Says every few seconds how far a pull is, until it is `done`.
    async fn tell_progress(
        &self,
        name: &str,
        reference: &str,
        told: Told<'_>,
        seen: watch::Receiver<Option<Progress>>,
        done: &CancellationToken,
    ) {
        let mut wait = PROGRESS_FIRST;
        while !is_over(done, wait).await {
            wait = PROGRESS_INTERVAL;
            let Some(progress) = *seen.borrow() else { continue };
            let message = format!("{reference}: {}", in_words(progress));
            match self.report(name, told.catalog, Outcome::Pulling { message: &message }).await {
                Ok(Some(written)) => {
                    told.versions.extend(written.metadata.resource_version.clone());
                    *told.catalog = written;
                    self.events.pulling(told.catalog, &message).await;
                }
                Ok(None) => {}
                // The pull is what matters; its end is reported too.
                Err(error) => tracing::debug!(catalog = name, %error, "progress not told"),
            }
        }
    }
}

/// Whether `done` comes within this time.
async fn is_over(done: &CancellationToken, wait: Duration) -> bool {
    tokio::time::timeout(wait, done.cancelled()).await.is_ok()
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
