//! Content of registry servers: at the address that a source names, or in its Pod.
//!
//! What a server sends is read within limits, one source of a namespace at a time, so that a server which is slow or endless
//! holds up the sources of its own namespace only. Of what a server sent, the names of bundles that are left out are reported,
//! and nothing else.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    sync::Arc,
    time::{Duration, Instant},
};

use catalogd::{CatalogFiles, CatalogStore, limits::INGEST_MEMORY_BYTES};
use olm_classic_core::source::{status::Server, texts};
use olm_image::{FileReader, Places, Puller};
use olm_registry::{ClientError, Proxy, ReadError, RegistryClient};
use olm_runtime::{Clock, Jobs, MemoryBudget, Next, Panicked};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    content, now,
    reconcile::{Reconcile, Reconciler},
};
use crate::SourceKey;

/// The visits to the servers of all sources; none of them holds up a reconcile.
pub(super) type Visits = Jobs<Result<Option<String>, Unread>, (), Panicked>;

/// Servers that are read at the same time. Each holds a message of 16 MiB and what is made of it at most.
const READS_MAX: usize = 4;
/// How long content that was read counts as the server's: as long as upstream's clients keep it, or less.
const READ_INTERVAL: Duration = Duration::from_mins(10);
/// Time to the next visit of a server that answers.
pub(super) const VISIT_INTERVAL: Duration = Duration::from_mins(1);
/// Time to the next visit of one that cannot be reached, as upstream's clients.
const UNREACHABLE_INTERVAL: Duration = Duration::from_secs(10);
/// Time to the next visit of one whose content cannot be used: reading it takes long.
const UNUSABLE_INTERVAL: Duration = Duration::from_mins(5);

/// Why the content of a server is not here.
#[derive(Debug, Clone)]
pub(super) struct Unread {
    /// The sentence for people.
    pub(super) text: String,
    /// The state of the connection.
    pub(super) state: &'static str,
    /// Time to the next visit.
    pub(super) again: Duration,
}

/// Why the content of a server cannot be used.
#[derive(Debug, Error)]
enum Unusable {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the registry server has no packages")]
    Empty,
    #[error("the registry server reports that it does not serve")]
    NotServing,
    #[error("the content cannot be stored: {0}")]
    Store(String),
}

impl From<ClientError> for Unusable {
    fn from(error: ClientError) -> Self {
        Self::Read(error.into())
    }
}

impl Unusable {
    fn at(&self, address: &str) -> Unread {
        let (state, again) = match self {
            Self::Read(ReadError::Client(error)) => match error {
                ClientError::Unreachable(_) => (texts::TRANSIENT_FAILURE, UNREACHABLE_INTERVAL),
                ClientError::Broken(_) => (texts::TRANSIENT_FAILURE, VISIT_INTERVAL),
                ClientError::Address | ClientError::Timeout(_) => {
                    (texts::TRANSIENT_FAILURE, UNUSABLE_INTERVAL)
                }
                ClientError::Call { .. } => (texts::READY, VISIT_INTERVAL),
                ClientError::TooLarge(_) => (texts::READY, UNUSABLE_INTERVAL),
            },
            Self::NotServing | Self::Empty => (texts::READY, UNREACHABLE_INTERVAL),
            Self::Read(_) | Self::Store(_) => (texts::READY, UNUSABLE_INTERVAL),
        };
        Unread { text: format!("{address}: {self}"), state, again }
    }
}

/// A server, as a source knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// `host:port`.
    pub(super) address: String,
    /// The UID of the Pod behind it, if it is one: another Pod has other content.
    pub(super) pod: Option<String>,
}

/// Reads the servers of all sources.
pub(super) struct Servers {
    store: Arc<CatalogStore>,
    puller: Puller,
    proxy: Option<Proxy>,
    clock: Arc<dyn Clock>,
    memory: MemoryBudget,
    turns: Turns,
    /// By slot.
    read: Mutex<BTreeMap<String, Visited>>,
}

/// A server whose content is here.
struct Visited {
    place: Place,
    /// When it was read.
    at: Instant,
    /// A sentence about bundles that are left out.
    left_out: Option<String>,
}

impl Servers {
    /// Keeps what it reads in `store`, by way of spool files of `puller`.
    pub(super) fn new(
        store: Arc<CatalogStore>,
        puller: Puller,
        proxy: Option<Proxy>,
        clock: Arc<dyn Clock>,
        memory: MemoryBudget,
    ) -> Self {
        let (turns, read) = (Turns::new(READS_MAX), Mutex::default());
        Self { store, puller, proxy, clock, memory, turns, read }
    }

    /// Has the next visit to the server of a source read its content.
    pub(super) fn forget(&self, slot: &str) {
        self.read.lock().remove(slot);
    }

    /// Whether a server still answers, and its content if that was not read lately. Answers with a sentence about bundles that
    /// are left out.
    pub(super) async fn visit(
        self: Arc<Self>,
        key: SourceKey,
        place: Place,
        cancelled: CancellationToken,
    ) -> Result<Option<String>, Unread> {
        let slot = content::slot(&key);
        let visited = self.visited(&key, &slot, &place, cancelled).await;
        visited.map_err(|error| {
            self.forget(&slot);
            error.at(&place.address)
        })
    }

    async fn visited(
        &self,
        key: &SourceKey,
        slot: &str,
        place: &Place,
        cancelled: CancellationToken,
    ) -> Result<Option<String>, Unusable> {
        let client = RegistryClient::by_way_of(self.proxy.as_ref(), &place.address)?;
        let is_fresh = |known: &&Visited| known.place == *place && known.at.elapsed() < READ_INTERVAL;
        let known = self.read.lock().get(slot).filter(is_fresh).map(|known| known.left_out.clone());
        if let Some(left_out) = known {
            return if client.is_serving().await? { Ok(left_out) } else { Err(Unusable::NotServing) };
        }
        let _turn = self.turns.take(&key.namespace).await;
        let left_out = self.take(slot, &client, cancelled).await?;
        let visited = Visited { place: place.clone(), at: Instant::now(), left_out: left_out.clone() };
        self.read.lock().insert(slot.to_owned(), visited);
        Ok(left_out)
    }

    /// Reads the content of a server and serves it, unless it is served already.
    async fn take(
        &self,
        slot: &str,
        client: &RegistryClient,
        cancelled: CancellationToken,
    ) -> Result<Option<String>, Unusable> {
        let mut spool = self.puller.with_disk(self.store.disk_of(slot)).spool();
        let documents = client.documents(|line| spool.append(line)).await?;
        if documents.packages() == 0 {
            return Err(Unusable::Empty);
        }
        let left_out = texts::bundles_left_out(documents.left_out_names(), documents.left_out());
        if let Some(left_out) = &left_out {
            tracing::warn!(slot, left_out, "content of a registry server");
        }
        let reference = format!("{}@sha256:{}", content::REGISTRY, documents.digest());
        if self.store.generation(slot).is_some_and(|held| held.reference() == reference) {
            return Ok(left_out);
        }
        let failed = |error: &dyn std::fmt::Display| Unusable::Store(error.to_string());
        let files = Spooled(spool.into_reader().map_err(|error| failed(&error))?);
        let share = self.memory.share(INGEST_MEMORY_BYTES).await;
        let (store, slot, now) = (Arc::clone(&self.store), slot.to_owned(), now(&self.clock));
        let installed = tokio::task::spawn_blocking(move || {
            // Held by the thread, which continues for a while after the job is cancelled.
            let _share = share;
            store.install_unless(&slot, &reference, now, &files, &|| cancelled.is_cancelled())
        });
        installed.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        Ok(left_out)
    }
}

impl Reconciler {
    /// Reads the server at the address of a source.
    pub(super) fn address(&self, reconcile: &mut Reconcile<'_>, address: &str) -> Next {
        let place = Place { address: address.to_owned(), pod: None };
        let advice = "Check spec.address, and that a registry server without TLS listens there.";
        let server = |reconcile: &mut Reconcile<'_>, state| {
            reconcile.report.server =
                Some(Server { service: None, address: address.to_owned(), state, is_new: false });
        };
        self.visit(reconcile, place, advice, server)
    }
}

/// A catalog of one file of JSON lines, in a spool.
struct Spooled(FileReader);

impl CatalogFiles for Spooled {
    fn paths(&self) -> Vec<String> {
        vec!["catalog.json".to_owned()]
    }

    fn open<'a>(&'a self, _: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(Box::new(self.0.clone()))
    }
}

/// So many are read at the same time, and of a namespace one.
struct Turns {
    all: Arc<Semaphore>,
    namespaces: Places,
}

impl Turns {
    fn new(count: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(count)), namespaces: Places::new(1) }
    }

    /// Waits for a turn, which ends when the value is dropped.
    async fn take(&self, namespace: &str) -> (olm_image::Place, Option<OwnedSemaphorePermit>) {
        let own = self.namespaces.take(namespace).await;
        // The semaphore is never closed.
        (own, Arc::clone(&self.all).acquire_owned().await.ok())
    }
}

#[cfg(test)]
mod tests;
