//! The served content of all catalogs: one generation each, on disk, kept by digest across restarts.
//!
//! Layout: `<cache-dir>/catalogs/<name>/<digest>/{catalog.jsonl,index,packages,generation,segments}`. A generation is
//! written in a staging folder and renamed when complete; only its small `generation` file is synced, the
//! others are checked by length and checksum when a process starts. The compressed form, `segments`, comes later
//! and may be missing. Readers hold an `Arc` to the generation
//! they started with, so a swap interrupts no answer; files are removed with their last reader.

mod error;
mod files;
mod generation;
mod registry;

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use olm_fbc::CatalogFiles;
use olm_image::DiskBudget;
use parking_lot::{Mutex, RwLock};
use tokio::{sync::broadcast, time::Instant};

pub use error::StoreError;
pub(crate) use error::io_error;
pub use files::FileSum;
pub(crate) use files::crc32_of;
pub use generation::Generation;
pub(crate) use generation::digest_of;
pub use registry::RegistryContent;

use crate::{
    CatalogImage, compressed,
    ingest::{Ingested, ingest, ingest_unpacking},
    limits::READY_WAIT,
};

/// Folder of the catalogs in the cache directory.
const CATALOGS: &str = "catalogs";
/// Folder of generations that are being written.
const STAGING: &str = ".staging";
/// The file of a catalog's last resolution.
const RESOLUTION_FILE: &str = "resolution";
/// The compressed form has this part of the lines' length, or less: room for that much is kept while it is made. In real
/// catalogs it has a seventh.
const COMPRESSED_PART: u64 = 4;
/// Changes that a slow listener may be behind before it misses some.
const CHANGES_BUFFERED: usize = 256;

/// The content of a catalog became another, or went away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogChanged {
    /// Name of the catalog.
    pub catalog: String,
    /// Digest reference of what is served now; `None` when nothing is.
    pub reference: Option<String>,
}

/// The content that a catalog's status names, as this replica last saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// Digest reference in `status.resolvedSource`.
    pub reference: String,
    /// `status.lastUnpacked`.
    pub last_unpacked: Option<Timestamp>,
    /// When this replica learned of it.
    pub since: Instant,
}

/// The state of one catalog.
#[derive(Debug, Clone, Default)]
pub struct Slot {
    /// The content that is here.
    pub generation: Option<Arc<Generation>>,
    /// The content that the status names.
    pub announced: Option<Announced>,
    /// Whether fetching content was tried.
    pub tried: bool,
}

/// The resolution of a catalog's source at its last check; survives restarts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// `spec.source.image.ref`.
    pub source: String,
    /// Digest reference it resolved to.
    pub reference: String,
    /// Time of the check.
    pub polled_at: Timestamp,
}

/// The budget that the content of a catalog counts in.
pub type BudgetOf = Box<dyn Fn(&str) -> DiskBudget + Send + Sync>;

/// Whether content is taken for a catalog; the text says why not.
pub type Admit = Box<dyn Fn(&str, &Arc<Generation>) -> Result<(), String> + Send + Sync>;

/// The catalogs on one disk.
pub struct CatalogStore {
    root: PathBuf,
    slots: RwLock<BTreeMap<String, Slot>>,
    changes: broadcast::Sender<CatalogChanged>,
    staged: AtomicU64,
    synced: AtomicBool,
    budget_of: BudgetOf,
    admit: Admit,
    /// Held from a generation's rename until those before it are gone, so that a clean-up meanwhile does not
    /// take the new one for a leftover.
    swap: Mutex<()>,
}

impl fmt::Debug for CatalogStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogStore").field("root", &self.root).finish_non_exhaustive()
    }
}

impl CatalogStore {
    /// Opens the store below `cache_dir`, takes over what an earlier process completed and removes what it
    /// left unfinished. Reads all content once, to check it; blocks.
    pub fn open(cache_dir: &Path) -> Result<Self, StoreError> {
        Self::open_within(cache_dir, DiskBudget::default())
    }

    /// As [`CatalogStore::open`], within a budget that others may share. Content of an earlier process counts, whether
    /// it fits or not; what is served is never given up.
    pub fn open_within(cache_dir: &Path, disk: DiskBudget) -> Result<Self, StoreError> {
        Self::open_divided(cache_dir, Box::new(move |_| disk.clone()))
    }

    /// As [`CatalogStore::open_within`]; each catalog has the budget of its name.
    pub fn open_divided(cache_dir: &Path, budget_of: BudgetOf) -> Result<Self, StoreError> {
        let root = cache_dir.join(CATALOGS);
        let staging = root.join(STAGING);
        if staging.exists() {
            fs::remove_dir_all(&staging).map_err(io_error("removing", &staging))?;
        }
        files::create_private(&staging)?;
        let mut slots = BTreeMap::<String, Slot>::new();
        for (name, folder) in files::subfolders(&root)? {
            if name.starts_with('.') {
                continue;
            }
            files::remove_unfinished(&folder)?;
            if let Some(mut generation) = generation::newest(&name, &folder, &budget_of(&name))? {
                for other in slots.values().filter_map(|slot| slot.generation.as_deref()) {
                    generation.share_index(other);
                }
                slots.insert(name, Slot { generation: Some(Arc::new(generation)), ..Slot::default() });
            }
        }
        let (changes, _) = broadcast::channel(CHANGES_BUFFERED);
        Ok(Self {
            root,
            slots: RwLock::new(slots),
            changes,
            staged: AtomicU64::new(0),
            synced: AtomicBool::new(false),
            budget_of,
            admit: Box::new(|_, _| Ok(())),
            swap: Mutex::new(()),
        })
    }

    /// Takes no new content that `admit` rejects: what was served then stays. Content of an earlier process is not asked for.
    #[must_use]
    pub fn admitting(self, admit: Admit) -> Self {
        Self { admit, ..self }
    }

    /// The budget that the content of a catalog counts in.
    pub fn disk_of(&self, catalog: &str) -> DiskBudget {
        (self.budget_of)(catalog)
    }

    /// The state of a catalog.
    pub fn slot(&self, catalog: &str) -> Slot {
        self.slots.read().get(catalog).cloned().unwrap_or_default()
    }

    /// The generation of a catalog that is held here.
    pub fn generation(&self, catalog: &str) -> Option<Arc<Generation>> {
        self.slot(catalog).generation
    }

    /// Names of the catalogs that have content here.
    pub fn catalogs(&self) -> Vec<String> {
        let slots = self.slots.read();
        slots.iter().filter(|(_, slot)| slot.generation.is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// Notes that every catalog of the cluster is known.
    pub(crate) fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    /// Whether every catalog of the cluster is known.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Notes that fetching a catalog's content was tried.
    pub(crate) fn set_tried(&self, catalog: &str) {
        self.update(catalog, |slot| slot.tried = true);
    }

    /// A catalog that is to have content and has none here, and for which it is worth waiting.
    pub(crate) fn awaited(&self) -> Option<String> {
        let slots = self.slots.read();
        let waits = |slot: &Slot| {
            let announced = slot.announced.as_ref();
            !slot.tried
                && slot.generation.is_none()
                && announced.is_some_and(|announced| announced.since.elapsed() < READY_WAIT)
        };
        slots.iter().find(|(_, slot)| waits(slot)).map(|(name, _)| name.clone())
    }

    /// Reports every change from now on.
    pub fn changes(&self) -> broadcast::Receiver<CatalogChanged> {
        self.changes.subscribe()
    }

    /// Notes the content that a catalog's status names, if any.
    pub fn announce(&self, catalog: &str, content: Option<(String, Option<Timestamp>)>) {
        self.update(catalog, |slot| {
            slot.announced = content.map(|(reference, last_unpacked)| {
                let since = slot
                    .announced
                    .as_ref()
                    .filter(|before| before.reference == reference)
                    .map_or_else(Instant::now, |before| before.since);
                Announced { reference, last_unpacked, since }
            });
        });
    }

    /// Ingests the files of `reference` and serves them from now on. Blocks.
    ///
    /// # Errors
    /// The files are no catalog, or the disk failed; what was served stays.
    pub fn install(
        &self,
        catalog: &str,
        reference: &str,
        unpacked_at: Timestamp,
        files: &dyn CatalogFiles,
    ) -> Result<Arc<Generation>, StoreError> {
        self.install_unless(catalog, reference, unpacked_at, files, &|| false)
    }

    /// Like [`CatalogStore::install`], unless the content is not wanted any more once it is ingested.
    pub fn install_unless(
        &self,
        catalog: &str,
        reference: &str,
        unpacked_at: Timestamp,
        files: &dyn CatalogFiles,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Arc<Generation>, StoreError> {
        let places = self.places(catalog, reference)?;
        let ingested = ingest(files, &places.0, &self.disk_of(catalog)).map_err(StoreError::from);
        self.serve_ingested((catalog, reference), unpacked_at, places, ingested, is_cancelled)
    }

    /// The same of the files of an image that is not unpacked yet.
    pub fn install_image(
        &self,
        catalog: &str,
        reference: &str,
        unpacked_at: Timestamp,
        image: &dyn CatalogImage,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Arc<Generation>, StoreError> {
        let places = self.places(catalog, reference)?;
        let ingested = ingest_unpacking(image, &places.0, &self.disk_of(catalog)).transpose();
        let Some(ingested) = ingested else {
            files::remove_tree(&places.0)?;
            let files = image.files()?;
            return self.install_unless(catalog, reference, unpacked_at, &*files, is_cancelled);
        };
        self.serve_ingested((catalog, reference), unpacked_at, places, ingested, is_cancelled)
    }

    fn serve_ingested(
        &self,
        (catalog, reference): (&str, &str),
        unpacked_at: Timestamp,
        places: (PathBuf, PathBuf),
        ingested: Result<Ingested, StoreError>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Arc<Generation>, StoreError> {
        let staged = ingested.and_then(|ingested| {
            generation::staged(catalog, reference, unpacked_at, ingested, (&places.0, &places.1))
        });
        self.serve(catalog, places, staged, is_cancelled)
    }

    /// Serves content of the same digest that another catalog of this disk has, from now on. Blocks.
    ///
    /// # Errors
    /// The other catalog has let go of it, or the disk failed; what was served stays.
    pub fn share(
        &self,
        catalog: &str,
        reference: &str,
        held: &Generation,
    ) -> Result<Arc<Generation>, StoreError> {
        let (places, disk) = (self.places(catalog, reference)?, self.disk_of(catalog));
        let linked = generation::linked(catalog, reference, held, (&places.0, &places.1), &disk);
        self.serve(catalog, places, linked, &|| false)
    }

    /// The content of a digest, of whichever catalog.
    pub fn held(&self, digest: &str) -> Option<Arc<Generation>> {
        let slots = self.slots.read();
        slots
            .values()
            .filter_map(|slot| slot.generation.as_ref())
            .find(|held| held.digest() == digest)
            .cloned()
    }

    /// A folder for a generation that is being written, and its place when it is complete.
    fn places(&self, catalog: &str, reference: &str) -> Result<(PathBuf, PathBuf), StoreError> {
        let number = self.staged.fetch_add(1, Ordering::Relaxed);
        let staging = self.root.join(STAGING).join(format!("{catalog}-{number}"));
        files::create_private(&staging)?;
        Ok((staging, self.root.join(catalog).join(digest_of(reference))))
    }

    /// Puts a generation in its place and serves it, if it is admitted and still wanted.
    fn serve(
        &self,
        catalog: &str,
        (staging, target): (PathBuf, PathBuf),
        staged: Result<Generation, StoreError>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Arc<Generation>, StoreError> {
        let admitted = staged.map(Arc::new).and_then(|generation| {
            (self.admit)(catalog, &generation).map_err(StoreError::Rejected)?;
            Ok(generation)
        });
        let _swap = self.swap.lock();
        let placed = admitted.and_then(|generation| {
            if is_cancelled() {
                return Err(StoreError::Cancelled);
            }
            generation::place(&staging, &target).map(|()| generation)
        });
        let generation = match placed {
            Ok(generation) => generation,
            Err(error) => {
                // The first error is the reason; leftovers are removed at the next start.
                let _ = fs::remove_dir_all(&staging);
                return Err(error);
            }
        };
        let reference = generation.reference();
        self.update(catalog, |slot| {
            slot.generation = Some(Arc::clone(&generation));
            // The new content is to be served; the status will name it in a moment.
            if slot.announced.as_ref().is_some_and(|announced| announced.reference != reference) {
                slot.announced = None;
            }
        });
        self.notify(catalog, Some(reference));
        if let Err(error) = self.drop_others(catalog, &generation) {
            // The new content is served; the old one is collected later.
            tracing::warn!(catalog, %error, "content of an earlier digest stays on disk for now");
        }
        Ok(generation)
    }

    /// Removes a catalog's content, also from disk. Blocks.
    ///
    /// # Errors
    /// The disk failed; nothing is served any more all the same.
    pub fn remove(&self, catalog: &str) -> Result<(), StoreError> {
        // An installation is either over or finds itself cancelled.
        let _swap = self.swap.lock();
        let mut slots = self.slots.write();
        let removed = slots.remove(catalog).is_some_and(|slot| slot.generation.is_some());
        drop(slots);
        if removed {
            self.notify(catalog, None);
        }
        files::remove_tree(&self.root.join(catalog))
    }

    /// Makes the compressed form of a catalog's content, if it has none; returns whether it has one then.
    /// Ends early when `stop` returns true or the content is replaced. Blocks for as long as the processor needs:
    /// about a second for 150 MB.
    pub fn compress(&self, catalog: &str, stop: &dyn Fn() -> bool) -> Result<bool, StoreError> {
        let Some(generation) = self.generation(catalog) else { return Ok(false) };
        if generation.segments().is_some() {
            return Ok(true);
        }
        let mut charge = self.disk_of(catalog).empty();
        if let Err(full) = charge.grow(generation.bytes() / COMPRESSED_PART) {
            tracing::info!(catalog, %full, "content is served without a compressed form");
            return Ok(false);
        }
        let number = self.staged.fetch_add(1, Ordering::Relaxed);
        let aside = self.root.join(STAGING).join(format!("{catalog}-{number}.segments"));
        let is_current = || self.generation(catalog).is_some_and(|held| Arc::ptr_eq(&held, &generation));
        let made = compressed::write(&generation, &aside, &|| stop() || !is_current()).and_then(|made| {
            let Some(segments) = made else { return Ok(false) };
            let bytes = fs::metadata(&aside).map_err(io_error("reading", &aside))?.len();
            if charge.grow(bytes.saturating_sub(charge.bytes())).is_err() {
                return Ok(false);
            }
            charge.shrink_to(bytes);
            let _swap = self.swap.lock();
            if !is_current() {
                return Ok(false);
            }
            let target = generation.folder().join(compressed::SEGMENTS_FILE);
            fs::rename(&aside, &target).map_err(io_error("renaming to", &target))?;
            generation.set_segments(segments, charge);
            Ok(true)
        });
        if !matches!(made, Ok(true)) {
            // It may not even exist; leftovers are removed at the next start.
            let _ = fs::remove_file(&aside);
        }
        made
    }

    /// Removes the content of every catalog that does not exist, and folders that belong to none. Blocks.
    /// `exists` is called just before a removal, so that a catalog that comes meanwhile keeps its content.
    pub fn retain(&self, exists: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        let known = self.slots.read().keys().cloned().collect::<Vec<_>>();
        let on_disk = files::subfolders(&self.root)?.into_iter().map(|(name, _)| name);
        for name in known.into_iter().chain(on_disk).filter(|name| name != STAGING && !exists(name)) {
            tracing::info!(catalog = name, "removing content that belongs to no catalog");
            self.remove(&name)?;
        }
        // What a swap could not remove.
        let _swap = self.swap.lock();
        for name in self.catalogs() {
            if let Some(current) = self.generation(&name) {
                self.drop_others(&name, &current)?;
            }
        }
        Ok(())
    }

    /// The last resolution of the catalog's source, if it is known.
    pub fn resolution(&self, catalog: &str) -> Option<Resolution> {
        let text = files::read_small(&self.root.join(catalog).join(RESOLUTION_FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Notes the resolution of the catalog's source. Blocks.
    pub fn set_resolution(&self, catalog: &str, resolution: &Resolution) -> Result<(), StoreError> {
        let path = self.root.join(catalog).join(RESOLUTION_FILE);
        let bytes =
            serde_json::to_vec(resolution).map_err(|error| io_error("encoding", &path)(error.into()))?;
        files::replace(&path, &bytes)
    }

    fn update(&self, catalog: &str, change: impl FnOnce(&mut Slot)) {
        let mut slots = self.slots.write();
        change(slots.entry(catalog.to_owned()).or_default());
    }

    fn notify(&self, catalog: &str, reference: Option<&str>) {
        // Without listeners there is no error.
        let _ = self
            .changes
            .send(CatalogChanged { catalog: catalog.to_owned(), reference: reference.map(str::to_owned) });
    }

    fn drop_others(&self, catalog: &str, current: &Generation) -> Result<(), StoreError> {
        let current = digest_of(current.reference());
        for (name, folder) in files::subfolders(&self.root.join(catalog))? {
            if name != current {
                files::remove_tree(&folder)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
