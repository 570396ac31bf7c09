//! Compresses the content of catalogs, one after another, while it is served already.
//!
//! Each catalog is compressed by a thread of the lowest priority, so that requests, pulls and reconciles come first.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    thread,
};

use tokio::sync::{broadcast::error::RecvError, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{CatalogStore, Generation, StoreError, is_catalog_name};

/// The lowest priority there is.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 19;

/// Compresses the content of all catalogs, present and future, until `shutdown`.
pub(crate) async fn run(store: Arc<CatalogStore>, shutdown: CancellationToken) {
    let mut changes = store.changes();
    let mut skipped = Skipped::default();
    loop {
        for catalog in store.catalogs().into_iter().filter(|name| is_catalog_name(name)) {
            let Some(generation) = store.generation(&catalog) else { continue };
            let is_done = generation.segments().is_some() || skipped.has(&catalog, &generation);
            let tried = Arc::downgrade(&generation);
            drop(generation);
            if is_done || shutdown.is_cancelled() {
                continue;
            }
            match compress(&store, &catalog, &shutdown).await {
                Ok(true) => tracing::debug!(catalog, "compressed content is ready"),
                // Ended early or of no use; a replacement of the content is a change of its own.
                Ok(false) => skipped.note(catalog, tried),
                Err(error) => {
                    tracing::warn!(catalog, %error, "compressing content; it is served as it is");
                    skipped.note(catalog, tried);
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            change = changes.recv() => match change {
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
        }
    }
}

/// By catalog, the content that could not be compressed. It is tried again only after it is replaced, even by the same
/// content.
#[derive(Default)]
struct Skipped(BTreeMap<String, Weak<Generation>>);

impl Skipped {
    fn has(&self, catalog: &str, content: &Arc<Generation>) -> bool {
        self.0.get(catalog).is_some_and(|skipped| skipped.as_ptr() == Arc::as_ptr(content))
    }

    fn note(&mut self, catalog: String, content: Weak<Generation>) {
        self.0.insert(catalog, content);
    }
}

/// One catalog, on a thread of its own: a priority that was lowered cannot be raised again.
async fn compress(
    store: &Arc<CatalogStore>,
    catalog: &str,
    shutdown: &CancellationToken,
) -> Result<bool, StoreError> {
    let (done, result) = oneshot::channel();
    let (store, name, stop) = (Arc::clone(store), catalog.to_owned(), shutdown.clone());
    let work = move || {
        // Elsewhere a priority is one of the whole process, which keeps its own.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(NICENESS) {
            tracing::debug!(%error, "lowering a thread's priority");
        }
        // The receiver is gone when the process ends.
        let _ = done.send(store.compress(&name, &|| stop.is_cancelled()));
    };
    if let Err(error) = thread::Builder::new().name("compress".to_owned()).spawn(work) {
        tracing::warn!(%error, "starting a thread to compress content");
        return Ok(false);
    }
    // A panic of the thread was logged.
    result.await.unwrap_or(Ok(false))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio_util::sync::CancellationToken;

    use super::{Skipped, run};
    use crate::testing::{ONE, TWO, TestStore};

    const FILES: &[(&str, &str)] = &[("c.json", r#"{"schema":"a"}{"schema":"b"}"#)];

    async fn compressed(test: &TestStore, catalog: &str) {
        let wait = async {
            while test.store.generation(catalog).is_none_or(|content| content.segments().is_none()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap();
    }

    #[test]
    fn content_that_was_replaced_while_it_was_compressed_is_tried_when_it_comes_back() {
        let test = TestStore::new();
        let mut skipped = Skipped::default();
        test.install("c", ONE, FILES);
        let first = test.store.generation("c").unwrap();
        skipped.note("c".to_owned(), Arc::downgrade(&first));
        assert!(skipped.has("c", &first) && !skipped.has("other", &first));
        drop(first);
        test.install("c", TWO, FILES);
        test.install("c", ONE, FILES);
        assert!(!skipped.has("c", &test.store.generation("c").unwrap()));
    }

    #[tokio::test]
    async fn what_is_there_and_what_comes_is_compressed_until_the_end() {
        let test = TestStore::new();
        test.install("before", ONE, FILES);
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(run(Arc::clone(&test.store), shutdown.clone()));
        compressed(&test, "before").await;
        test.install("later", ONE, FILES);
        compressed(&test, "later").await;
        test.install("before", TWO, FILES);
        compressed(&test, "before").await;
        shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(30), running).await.unwrap().unwrap();
    }
}
