//! Images of catalogs, ingested while they are unpacked.

use std::cell::Cell;

use olm_image::PullError;
use proptest::prelude::*;

use super::*;
use crate::{
    StoreError,
    testing::{MemoryFiles, ONE, TestStore, at},
};

/// An image: what its archives hold, and which of it are its files in the end, by their paths. A path that is not where the
/// content came is a link; content without a path was replaced or hidden.
#[derive(Debug, Clone, Default)]
struct Image {
    archives: Vec<(String, String)>,
    files: BTreeMap<String, usize>,
    /// How often its files were unpacked.
    unpacked: Cell<usize>,
}

impl Image {
    /// An image in which nothing is replaced.
    fn of(archives: &[(&str, &str)]) -> Self {
        let archives: Vec<(String, String)> =
            archives.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let files = archives.iter().enumerate().map(|(index, (path, _))| (path.clone(), index)).collect();
        Self { archives, files, unpacked: Cell::default() }
    }

    fn memory_files(&self) -> MemoryFiles {
        let content = |index: usize| self.archives[index].1.clone().into_bytes();
        MemoryFiles(self.files.iter().map(|(path, index)| (path.clone(), content(*index))).collect())
    }
}

impl CatalogImage for Image {
    fn read(&self, sink: &mut dyn FileSink) -> Result<BTreeMap<String, Range<u64>>, PullError> {
        let (mut places, mut end) = (Vec::new(), 0);
        for (path, text) in &self.archives {
            let place = end..end + text.len() as u64;
            end = place.end;
            sink.file(path, place.clone(), &mut text.as_bytes()).map_err(|_| PullError::Deadline(0))?;
            places.push(place);
        }
        Ok(self.files.iter().map(|(path, index)| (path.clone(), places[*index].clone())).collect())
    }

    fn files(&self) -> Result<Box<dyn CatalogFiles>, PullError> {
        self.unpacked.set(self.unpacked.get() + 1);
        Ok(Box::new(self.memory_files()))
    }
}

/// What is served, with the index, and the records; or why nothing is.
fn outcome(
    test: &TestStore,
    installed: Result<std::sync::Arc<crate::Generation>, StoreError>,
) -> Result<[Vec<u8>; 3], String> {
    let staging = test.folder.path().join("catalogs/.staging");
    assert_eq!(std::fs::read_dir(staging).unwrap().count(), 0, "nothing is left");
    let folder = installed.map_err(|error| error.to_string())?.folder().to_owned();
    Ok([LINES_FILE, INDEX_FILE, RECORDS_FILE].map(|file| std::fs::read(folder.join(file)).unwrap()))
}

fn ingested(image: &Image) -> Result<[Vec<u8>; 3], String> {
    let test = TestStore::new();
    let installed = test.store.install_image("c", ONE, at(1), image, &|| false);
    outcome(&test, installed)
}

fn ingested_from_files(image: &Image) -> Result<[Vec<u8>; 3], String> {
    let test = TestStore::new();
    let installed = test.store.install("c", ONE, at(1), &image.memory_files());
    outcome(&test, installed)
}

const A: (&str, &str) = ("configs/a/catalog.json", r#"{"schema":"olm.package","name":"a"}"#);
const B: (&str, &str) = ("configs/b.yaml", "schema: olm.package\nname: b\n");

#[test]
fn files_in_the_order_of_a_catalog_are_unpacked_once() {
    let image = Image::of(&[A, ("configs/a/empty", ""), B]);
    assert_eq!(ingested(&image), ingested_from_files(&image));
    assert_eq!(image.unpacked.get(), 0);
    assert!(ingested(&Image::default()).unwrap_err().contains("the image has no files"));
}

#[test]
fn other_files_are_unpacked_before_they_are_read() {
    let wrong = ("configs/c.json", "no catalog");
    let hidden = |mut image: Image, path: &str| {
        image.files.remove(path);
        image
    };
    let mut linked = Image::of(&[A, B]);
    linked.files.insert("configs/c.json".to_owned(), 0);
    for (image, is_catalog) in [
        (Image::of(&[B, A]), true),
        (Image::of(&[A, A]), true),
        (Image::of(&[("configs/.indexignore", "c.json"), A, B, wrong]), true),
        (hidden(Image::of(&[A, B, wrong]), wrong.0), true),
        (hidden(Image::of(&[A, B]), A.0), true),
        (hidden(Image::of(&[A, B]), B.0), true),
        (linked, true),
        (Image::of(&[A, B, wrong]), false),
    ] {
        let ingested = ingested(&image);
        assert_eq!(ingested, ingested_from_files(&image), "{image:?}");
        assert_eq!(ingested.is_ok(), is_catalog, "{ingested:?}");
        assert_eq!(image.unpacked.get(), 1, "{image:?}");
    }
}

#[test]
fn an_image_whose_content_does_not_fit_on_the_disk_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::CatalogStore::open_within(folder.path(), DiskBudget::new(10)).unwrap();
    let image = Image::of(&[A, B]);
    let error = store.install_image("c", ONE, at(1), &image, &|| false).unwrap_err().to_string();
    assert!(error.starts_with("error writing catalog.jsonl: the caches hold"), "{error}");
    assert_eq!(image.unpacked.get(), 0);
    assert_eq!(std::fs::read_dir(folder.path().join("catalogs/.staging")).unwrap().count(), 0);
}

/// An image of a few files, some of which are replaced, hidden, linked, no catalogs, or say what is left out.
fn image() -> impl Strategy<Value = Image> {
    let path = prop::sample::select(vec!["a", "a/b", "a/c", "b", "a.json", ".indexignore", "b/.indexignore"]);
    let text =
        prop::sample::select(vec!["", "{\"schema\":\"x\"}", "schema: y\n---\nschema: z\n", "b", "a/*", "{"]);
    let archives =
        prop::collection::vec((path.clone().prop_map(str::to_owned), text.prop_map(str::to_owned)), 1..6);
    let changes = prop::collection::vec((path, any::<Option<prop::sample::Index>>()), 0..3);
    (archives, changes).prop_map(|(archives, changes)| {
        let mut files: BTreeMap<String, usize> =
            archives.iter().enumerate().map(|(index, (path, _))| (path.clone(), index)).collect();
        for (path, linked) in changes {
            match linked {
                Some(index) => files.insert(path.to_owned(), index.index(archives.len())),
                None => files.remove(path),
            };
        }
        Image { archives, files, unpacked: Cell::default() }
    })
}

proptest! {
    #[test]
    fn an_image_is_ingested_as_its_files_are(image in image()) {
        prop_assert_eq!(ingested(&image), ingested_from_files(&image));
    }
}
