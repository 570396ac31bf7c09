//! New content is read before it is served: its packages are checked, and the memory that it will take is reckoned. Who may
//! create CatalogSources in one namespace must not take the memory of all.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use catalogd::{Generation, RegistryContent};
use olm_classic_core::{registry_model, source::texts};
use parking_lot::Mutex;

use crate::{
    contents::image_syntax_of,
    packages::PACKAGE_MEMORY_MAX,
    sources::{is_of_source, namespace_of},
};

/// A catalog as the registry API serves it.
pub(crate) type Catalog = registry_model::Catalog<RegistryContent>;

/// Memory that is reckoned for a source beside its content: the object, and its places in tables.
const SOURCE_BYTES: usize = 64 << 10;

/// The catalogs that were read. Clones are the same.
#[derive(Clone)]
pub(crate) struct Readings(Arc<Inner>);

struct Inner {
    /// Most memory of the catalogs of a namespace, in bytes.
    limit: usize,
    /// Whose catalogs are for all, and not limited.
    global_namespace: String,
    /// Whether what is read is to be kept until it is taken.
    keeps: bool,
    /// By slot.
    known: Mutex<BTreeMap<String, Reading>>,
}

struct Reading {
    /// The memory that it takes, as reckoned.
    bytes: usize,
    catalog: Weak<Catalog>,
    generation: Weak<Generation>,
    /// A sentence about packages that are left out.
    left_out: Option<String>,
    /// The catalog until it is taken.
    fresh: Option<Arc<Catalog>>,
}

impl Reading {
    /// Of a catalog, which is kept if it is to be taken later.
    fn of(catalog: &Arc<Catalog>, is_kept: bool) -> Self {
        Self {
            bytes: memory(catalog),
            catalog: Arc::downgrade(catalog),
            generation: Arc::downgrade(&catalog.content().0),
            left_out: texts::packages_left_out(catalog.faulty()),
            fresh: is_kept.then(|| Arc::clone(catalog)),
        }
    }
}

impl Readings {
    /// Nothing yet. The catalogs of `global_namespace` are an administrator's, and may take any memory. With `keeps`, what is
    /// read is kept until [`Readings::of`] takes it.
    pub(crate) fn new(limit: usize, global_namespace: String, keeps: bool) -> Self {
        Self(Arc::new(Inner { limit, global_namespace, keeps, known: Mutex::default() }))
    }

    /// Reads new content of a slot, which is not served yet. Blocks for as long as reading all its small parts takes.
    ///
    /// # Errors
    /// It cannot be read, or the catalogs of its namespace would take too much memory: a sentence.
    pub(crate) fn admit(&self, slot: &str, generation: &Arc<Generation>) -> Result<(), String> {
        if !is_of_source(slot) {
            return Ok(());
        }
        let catalog = self.read(generation)?;
        let bytes = memory(&catalog);
        let mut known = self.0.known.lock();
        let namespace = namespace_of(slot);
        if namespace != self.0.global_namespace {
            let others = known.iter().filter(|(other, _)| *other != slot && namespace_of(other) == namespace);
            let held: usize = others.map(|(_, reading)| reading.bytes).sum();
            if held.saturating_add(bytes) > self.0.limit {
                return Err(texts::memory_exceeded(namespace, held, self.0.limit, bytes));
            }
        }
        known.insert(slot.to_owned(), Reading::of(&catalog, self.0.keeps));
        Ok(())
    }

    /// The catalog of a slot's content. Blocks when it was not read before it was served, which is so when this process found
    /// it on the disk.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(&self, slot: &str, generation: &Arc<Generation>) -> Result<Arc<Catalog>, String> {
        if let Some(reading) = self.0.known.lock().get_mut(slot)
            && let Some(fresh) = reading.fresh.take_if(|fresh| Arc::ptr_eq(&fresh.content().0, generation))
        {
            return Ok(fresh);
        }
        let catalog = self.read(generation)?;
        self.0.known.lock().insert(slot.to_owned(), Reading::of(&catalog, false));
        Ok(catalog)
    }

    /// A sentence about the packages of a slot's content that are invalid and left out. Blocks as [`Readings::of`].
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn left_out(
        &self,
        slot: &str,
        generation: &Arc<Generation>,
    ) -> Result<Option<String>, String> {
        let is_known = |known: &&Reading| std::ptr::eq(known.generation.as_ptr(), Arc::as_ptr(generation));
        if let Some(known) = self.0.known.lock().get(slot).filter(is_known) {
            return Ok(known.left_out.clone());
        }
        let reading = Reading::of(&self.read(generation)?, self.0.keeps);
        let left_out = reading.left_out.clone();
        self.0.known.lock().insert(slot.to_owned(), reading);
        Ok(left_out)
    }

    /// Forgets a slot that is gone.
    pub(crate) fn forget(&self, slot: &str) {
        self.0.known.lock().remove(slot);
    }

    fn read(&self, generation: &Arc<Generation>) -> Result<Arc<Catalog>, String> {
        let (syntax, content) = (image_syntax_of(generation), RegistryContent(Arc::clone(generation)));
        // Slots with the same content have its packages in memory once.
        let same = |catalog: &Arc<Catalog>| {
            let other = &catalog.content().0;
            other.digest() == generation.digest() && image_syntax_of(other).is_some() == syntax.is_some()
        };
        let known = self.0.known.lock().values().filter_map(|one| one.catalog.upgrade()).find(same);
        let catalog = match known {
            Some(catalog) => catalog.of_same(content),
            None => Catalog::read(content, syntax).map_err(|error| error.to_string())?,
        };
        Ok(Arc::new(catalog))
    }
}

/// The memory that a catalog takes, as reckoned: its index, its packages, and what is shown of them.
fn memory(catalog: &Catalog) -> usize {
    let shown = catalog.packages().len().saturating_mul(PACKAGE_MEMORY_MAX);
    [SOURCE_BYTES, catalog.content().0.memory(), catalog.memory()]
        .into_iter()
        .fold(shown, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use catalogd::CatalogStore;
    use jiff::Timestamp;

    use super::*;
    use crate::sources::OneFile;

    fn package(name: &str) -> String {
        format!(
            r#"{{"schema":"olm.package","name":"{name}","defaultChannel":"c"}}{{"schema":"olm.channel","package":"{name}","name":"c","entries":[{{"name":"a"}}]}}{{"schema":"olm.bundle","package":"{name}","name":"a","properties":[{{"type":"olm.package","value":{{"packageName":"{name}","version":"1.0.0"}}}}]}}"#
        )
    }

    fn reference(digit: char) -> String {
        format!("configmap@sha256:{}", digit.to_string().repeat(64))
    }

    #[test]
    fn a_namespace_takes_its_share_of_memory_and_keeps_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let one = SOURCE_BYTES + PACKAGE_MEMORY_MAX + 2_000;
        let readings = Readings::new(2 * one, "olm".to_owned(), true);
        let admits = readings.clone();
        let store = CatalogStore::open(folder.path())
            .unwrap()
            .admitting(Box::new(move |slot, generation| admits.admit(slot, generation)));
        let install = |slot: &str, digit: char| {
            let files = OneFile(package("lamp").into_bytes());
            store.install(slot, &reference(digit), Timestamp::UNIX_EPOCH, &files)
        };
        let first = install("a_one", '1').unwrap();
        install("a_two", '2').unwrap();
        let full = install("a_three", '3').unwrap_err().to_string();
        assert!(full.starts_with("the catalogs of namespace a hold 0."), "{full}");
        assert!(full.ends_with("or raise --namespace-memory-limit"), "{full}");
        assert!(store.generation("a_three").is_none());
        let larger = OneFile([package("lamp"), package("socket")].concat().into_bytes());
        let grown = store.install("a_one", &reference('4'), Timestamp::UNIX_EPOCH, &larger);
        assert!(grown.is_err(), "it grows beyond what there is");
        assert!(Arc::ptr_eq(&store.generation("a_one").unwrap(), &first), "what was served stays");
        install("a_one", '5').unwrap();
        // Others have shares of their own, or all.
        install("b_one", '3').unwrap();
        for slot in ["olm_one", "olm_two", "olm_three", "a", "catalog", "other"] {
            install(slot, '3').unwrap();
        }
        store.remove("a_two").unwrap();
        readings.forget("a_two");
        install("a_three", '3').unwrap();
    }

    #[test]
    fn content_is_read_once_however_many_sources_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = CatalogStore::open(folder.path()).unwrap();
        let readings = Readings::new(usize::MAX, "olm".to_owned(), true);
        let files = OneFile(package("lamp").into_bytes());
        let first = store.install("a_one", &reference('1'), Timestamp::UNIX_EPOCH, &files).unwrap();
        let second = store.share("b_one", &reference('1'), &first).unwrap();
        let other = store.install("c_one", &reference('2'), Timestamp::UNIX_EPOCH, &files).unwrap();
        readings.admit("a_one", &first).unwrap();
        let [one, two, three] = [("a_one", &first), ("b_one", &second), ("c_one", &other)]
            .map(|(slot, generation)| readings.of(slot, generation).unwrap());
        assert!(std::ptr::eq(one.packages(), two.packages()));
        assert!(!std::ptr::eq(one.packages(), three.packages()));
        assert!(Arc::ptr_eq(&two.content().0, &second), "each holds the files of its own source");
    }
}
