//! The catalogs as resolution reads them: each is read once for each content, outside of the workers.
//!
//! Who may create CatalogSources in a namespace must not fill the memory of all: the catalogs of a namespace may take a
//! part, and of those of all namespaces the least used are dropped, and read again when they are needed.

use std::{collections::BTreeMap, sync::Arc};

use catalogd::{Generation, RegistryContent};
use olm_classic_core::{graph::Snapshot, registry_model::Catalog};
use olm_image::Places;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{Content, SourceKey};

/// Catalogs that are read at the same time.
const READS_MAX: usize = 2;
/// Memory that catalogs may take. Global ones may take more: an administrator made them.
const LIMITS: Limits = Limits { namespace: 64 << 20, all: 256 << 20 };

/// Memory in bytes, as reckoned.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Of the catalogs of a namespace.
    namespace: usize,
    /// Of those of all namespaces but the global one.
    all: usize,
}

/// A catalog that was read.
pub(super) struct Read {
    pub(super) snapshot: Snapshot,
    pub(super) catalog: Catalog<RegistryContent>,
}

/// How far the reading of a catalog is.
#[derive(Clone)]
pub(super) enum State {
    Reading,
    Ready(Arc<Read>),
    Failed(String),
}

struct Entry {
    generation: Arc<Generation>,
    state: State,
    /// The number of its last use.
    used: u64,
}

impl Entry {
    fn bytes(&self) -> usize {
        match &self.state {
            State::Ready(read) => read.snapshot.memory(),
            State::Reading | State::Failed(_) => 0,
        }
    }
}

#[derive(Default)]
struct Known {
    entries: BTreeMap<SourceKey, Entry>,
    uses: u64,
}

/// The catalogs of all namespaces. Clones are the same.
#[derive(Clone)]
pub(super) struct Snapshots(Arc<Inner>);

struct Inner {
    global_namespace: String,
    limits: Limits,
    known: Mutex<Known>,
    reads: Semaphore,
    namespaces: Places,
    /// Called with each catalog that was read.
    ended: Box<dyn Fn(&SourceKey) + Send + Sync>,
}

impl Snapshots {
    pub(super) fn new(global_namespace: String, ended: impl Fn(&SourceKey) + Send + Sync + 'static) -> Self {
        Self::within(LIMITS, global_namespace, ended)
    }

    fn within(
        limits: Limits,
        global_namespace: String,
        ended: impl Fn(&SourceKey) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            global_namespace,
            limits,
            known: Mutex::default(),
            reads: Semaphore::new(READS_MAX),
            namespaces: Places::new(1),
            ended: Box::new(ended),
        }))
    }

    /// The catalog with this content; it is read if that is new.
    pub(super) fn get(&self, key: &SourceKey, content: &Content) -> State {
        let mut known = self.0.known.lock();
        known.uses += 1;
        let used = known.uses;
        if let Some(entry) = known.entries.get_mut(key)
            && Arc::ptr_eq(&entry.generation, &content.generation)
        {
            entry.used = used;
            return entry.state.clone();
        }
        let generation = Arc::clone(&content.generation);
        known.entries.insert(key.clone(), Entry { generation, state: State::Reading, used });
        let (this, key, content) = (self.clone(), key.clone(), content.clone());
        tokio::spawn(async move {
            let read = this.read(&key, &content).await;
            this.keep(&key, &content.generation, read);
            (this.0.ended)(&key);
        });
        State::Reading
    }

    /// The CatalogSources whose content is here, or being read.
    pub(super) fn keys(&self) -> Vec<SourceKey> {
        self.0.known.lock().entries.keys().cloned().collect()
    }

    /// Forgets a CatalogSource that has no content.
    pub(super) fn forget(&self, key: &SourceKey) {
        self.0.known.lock().entries.remove(key);
    }

    async fn read(&self, key: &SourceKey, content: &Content) -> Result<Read, String> {
        let _own = self.0.namespaces.take(&key.namespace).await;
        // The semaphore is never closed.
        let _turn = self.0.reads.acquire().await;
        let (generation, syntax) = (Arc::clone(&content.generation), content.image_syntax());
        let read = tokio::task::spawn_blocking(move || {
            let catalog =
                Catalog::read(RegistryContent(generation), syntax).map_err(|error| error.to_string())?;
            let snapshot = catalog.snapshot().map_err(|error| error.to_string())?;
            Ok(Read { snapshot, catalog })
        });
        read.await.map_err(|error| error.to_string())?
    }

    fn keep(&self, key: &SourceKey, generation: &Arc<Generation>, read: Result<Read, String>) {
        let mut known = self.0.known.lock();
        let limit = self.0.limits.namespace;
        let is_global = key.namespace == self.0.global_namespace;
        let own: usize = known
            .entries
            .iter()
            .filter(|(other, _)| other.namespace == key.namespace && *other != key)
            .map(|(_, entry)| entry.bytes())
            .sum();
        let Some(entry) = known.entries.get_mut(key) else { return };
        if !Arc::ptr_eq(&entry.generation, generation) {
            return;
        }
        entry.state = match read {
            Ok(read) if !is_global && own.saturating_add(read.snapshot.memory()) > limit => {
                State::Failed(format!(
                    "the catalogs of namespace {} take more than {} MiB of memory: remove some",
                    key.namespace,
                    limit >> 20
                ))
            }
            Ok(read) => State::Ready(Arc::new(read)),
            Err(error) => State::Failed(error),
        };
        self.drop_least_used(&mut known, key);
    }

    /// Drops catalogs until those of all namespaces are within their memory.
    fn drop_least_used(&self, known: &mut Known, but: &SourceKey) {
        let global = &self.0.global_namespace;
        loop {
            let counted = || known.entries.iter().filter(|(key, _)| key.namespace != *global);
            let total: usize = counted().map(|(_, entry)| entry.bytes()).sum();
            let droppable = counted().filter(|(key, entry)| *key != but && entry.bytes() > 0);
            let oldest = droppable.min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            match oldest.filter(|_| total > self.0.limits.all) {
                Some(oldest) => drop(known.entries.remove(&oldest)),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
