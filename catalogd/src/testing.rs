//! What several test modules need: files in memory, and a store on a temporary folder.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    ops::Range,
    sync::Arc,
};

use jiff::Timestamp;
use olm_image::{FileSink, PullError};

use crate::{CatalogFiles, CatalogImage, CatalogStore, Generation};

pub(crate) const ONE: &str =
    "quay.io/a/b@sha256:1111111111111111111111111111111111111111111111111111111111111111";
pub(crate) const TWO: &str =
    "quay.io/a/b@sha256:2222222222222222222222222222222222222222222222222222222222222222";

/// Files in memory.
#[derive(Clone, Default)]
pub(crate) struct MemoryFiles(pub(crate) BTreeMap<String, Vec<u8>>);

impl MemoryFiles {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect())
    }
}

impl CatalogFiles for MemoryFiles {
    fn paths(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        let bytes = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(bytes.as_slice()))
    }
}

/// An image whose archives have them by path.
impl CatalogImage for MemoryFiles {
    fn read(&self, sink: &mut dyn FileSink) -> Result<BTreeMap<String, Range<u64>>, PullError> {
        let (mut places, mut end) = (BTreeMap::new(), 0);
        for (path, bytes) in &self.0 {
            let place = end..end + bytes.len() as u64;
            end = place.end;
            sink.file(path, place.clone(), &mut bytes.as_slice()).map_err(|_| PullError::Deadline(0))?;
            places.insert(path.clone(), place);
        }
        Ok(places)
    }

    fn files(&self) -> Result<Box<dyn CatalogFiles>, PullError> {
        Ok(Box::new(self.clone()))
    }
}

/// A store on a folder that goes away with the test.
pub(crate) struct TestStore {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Arc<CatalogStore>,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(CatalogStore::open(folder.path()).unwrap());
        Self { folder, store }
    }

    /// The same folder, as a process finds it that starts now.
    pub(crate) fn restarted(self) -> Self {
        let Self { folder, store } = self;
        drop(store);
        let store = Arc::new(CatalogStore::open(folder.path()).unwrap());
        Self { folder, store }
    }

    pub(crate) fn install(&self, catalog: &str, reference: &str, files: &[(&str, &str)]) -> Arc<Generation> {
        self.store.install(catalog, reference, at(1_000), &MemoryFiles::new(files)).unwrap()
    }
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}
