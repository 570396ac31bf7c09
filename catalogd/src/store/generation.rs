//! One catalog's content of one digest: open files and the index over them.

use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use olm_fbc::{CatalogError, Index, PackageContent, Query};
use olm_image::{DiskBudget, DiskCharge};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{
    StoreError,
    files::{self, FileSum},
    io_error,
};
use crate::{
    compressed::{self, Segments},
    ingest::{INDEX_FILE, Ingested, LINES_FILE, RECORDS_FILE},
    limits::{INDEX_BYTES_MAX, PACKAGE_BYTES_MAX},
};

/// The file that makes a folder a generation; written last.
const GENERATION_FILE: &str = "generation";
/// Raised when the folder's form changes; older generations are then ingested anew.
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Description {
    version: u32,
    reference: String,
    unpacked_at: Timestamp,
    lines: FileSum,
    index: FileSum,
    packages: FileSum,
}

/// A catalog's content of one digest. Its files stay readable as long as this value lives.
#[derive(Debug)]
pub struct Generation {
    pub(super) catalog: String,
    reference: String,
    unpacked_at: Timestamp,
    /// Shared by catalogs of one digest.
    index: Arc<Index>,
    lines: File,
    lines_sum: FileSum,
    records: File,
    folder: PathBuf,
    segments: OnceLock<Segments>,
    /// Of all files, until the last reader lets go of them.
    disk: Mutex<DiskCharge>,
}

impl Generation {
    /// Digest reference of the image the content came from.
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// Digest of that image, as `sha256:<hex>`.
    pub fn digest(&self) -> &str {
        digest_of(&self.reference)
    }

    /// When the content was unpacked, in whole seconds.
    pub fn unpacked_at(&self) -> Timestamp {
        self.unpacked_at
    }

    /// A charge of no bytes in the budget of this content, for files that are made of it.
    pub fn charge(&self) -> DiskCharge {
        self.disk.lock().beside()
    }

    /// The memory that the index is reckoned to take, in bytes.
    pub fn memory(&self) -> usize {
        self.index.memory()
    }

    /// Has one index in memory with another generation of the same content.
    pub(super) fn share_index(&mut self, other: &Self) {
        if self.digest() == other.digest() && self.index == other.index {
            self.index = Arc::clone(&other.index);
        }
    }

    /// Length of all lines in bytes.
    pub fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    /// How many documents the catalog has.
    pub fn documents(&self) -> usize {
        self.index.documents()
    }

    /// Names of the packages that can be resolved.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.index.packages()
    }

    /// Byte ranges of the lines that a query finds, in file order.
    pub fn find(&self, query: &Query<'_>) -> Vec<Range<u64>> {
        self.index.find(query)
    }

    /// Fills `buffer` with the lines' bytes from `offset` on. Blocks.
    pub fn read_lines(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.lines.read_exact_at(buffer, offset)
    }

    /// The schemas of the documents, sorted.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.index.schemas()
    }

    /// Byte ranges of the lines of a schema, in file order, each line for itself.
    pub fn lines(&self, schema: &str) -> impl ExactSizeIterator<Item = Range<u64>> {
        self.index.lines(schema)
    }

    /// Byte ranges of neighbouring lines that are always asked for together, unless by name.
    pub(crate) fn runs(&self) -> Vec<Range<u64>> {
        self.index.runs()
    }

    /// Length and checksum of the lines.
    pub(crate) fn lines_sum(&self) -> FileSum {
        self.lines_sum
    }

    /// The folder of the files while this content is served.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The compressed form of the lines, once it is made.
    pub(crate) fn segments(&self) -> Option<&Segments> {
        self.segments.get()
    }

    /// Notes the compressed form and the disk it takes; what is there already stays.
    pub(super) fn set_segments(&self, segments: Segments, charge: DiskCharge) {
        if self.segments.set(segments).is_ok() {
            self.disk.lock().merge(charge);
        }
    }

    /// Fills `buffer` with the compressed lines' bytes from `offset` on. Blocks.
    pub(crate) fn read_compressed(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.segments.get().ok_or(io::ErrorKind::NotFound)?.read(buffer, offset)
    }

    /// The content of a package; empty when the catalog does not have it. Blocks.
    pub fn package(&self, package: &str) -> Result<PackageContent, CatalogError> {
        let mut content = PackageContent::default();
        self.records(package, |line| {
            content.push_json(line).map_err(|error| CatalogError::Decode {
                package: package.to_owned(),
                cause: error.to_string(),
            })
        })?;
        Ok(content)
    }

    /// The packages with `text` somewhere in their records, by name. Blocks, for as long as reading the whole
    /// catalog takes; packages that cannot be decoded are left out.
    pub fn mentioning(&self, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        let mut found = Vec::new();
        for package in self.packages() {
            let mut mentions = false;
            self.records(package, |line| {
                mentions = mentions || std::str::from_utf8(line).is_ok_and(|line| line.contains(text));
                Ok(())
            })?;
            if mentions && let Ok(content) = self.package(package) {
                found.push(content);
            }
        }
        Ok(found)
    }

    /// Calls `each` with every record of a package, in file order.
    fn records(
        &self,
        package: &str,
        mut each: impl FnMut(&[u8]) -> Result<(), CatalogError>,
    ) -> Result<(), CatalogError> {
        let ranges = self.index.records(package);
        let read = |cause: String| CatalogError::Read { catalog: self.catalog.clone(), cause };
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        if bytes > PACKAGE_BYTES_MAX {
            return Err(read(format!("package {package:?} has more than {PACKAGE_BYTES_MAX} bytes")));
        }
        let mut buffer = Vec::new();
        for range in ranges {
            buffer.resize(usize::try_from(range.end - range.start).unwrap_or(usize::MAX), 0);
            self.records.read_exact_at(&mut buffer, range.start).map_err(|error| read(error.to_string()))?;
            for line in buffer.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                each(line)?;
            }
        }
        Ok(())
    }
}

/// The digest in a reference to content, which also names its folder.
pub(crate) fn digest_of(reference: &str) -> &str {
    reference.rsplit_once('@').map_or(reference, |(_, digest)| digest)
}

/// The generation in a staging folder, which is to be put in its place at `target`.
pub(super) fn staged(
    catalog: &str,
    reference: &str,
    unpacked_at: Timestamp,
    ingested: Ingested,
    (staging, target): (&Path, &Path),
) -> Result<Generation, StoreError> {
    let unpacked_at = Timestamp::from_second(unpacked_at.as_second()).unwrap_or(unpacked_at);
    let description = Description {
        version: VERSION,
        reference: reference.to_owned(),
        unpacked_at,
        lines: ingested.lines,
        index: ingested.index_file,
        packages: ingested.records,
    };
    let index = Arc::new(ingested.index);
    described(catalog, description, index, (staging, target), ingested.charge)
}

/// The content of `held`, which has the digest of `reference`, in a staging folder: both have the same files on disk, and the
/// same index in memory.
pub(super) fn linked(
    catalog: &str,
    reference: &str,
    held: &Generation,
    (staging, target): (&Path, &Path),
    disk: &DiskBudget,
) -> Result<Generation, StoreError> {
    let link = |name: &str| {
        let path = staging.join(name);
        fs::hard_link(held.folder.join(name), &path).map_err(io_error("linking", &path))
    };
    for name in [LINES_FILE, RECORDS_FILE, INDEX_FILE] {
        link(name)?;
    }
    if held.segments().is_some() {
        // Without it, it is made again.
        let _ = link(compressed::SEGMENTS_FILE);
    }
    let path = held.folder.join(GENERATION_FILE);
    let damaged = |cause: &str| io_error("reading", &path)(io::Error::other(cause.to_owned()));
    let sealed = files::read_small(&path)?;
    let bytes = files::unsealed(&sealed).ok_or_else(|| damaged("the checksum differs"))?;
    let description: Description =
        serde_json::from_slice(bytes).map_err(|error| damaged(&error.to_string()))?;
    let description = Description { reference: reference.to_owned(), ..description };
    let charge = disk.charge_existing(length(staging));
    described(catalog, description, Arc::clone(&held.index), (staging, target), charge)
}

/// Completes a staging folder with its description.
fn described(
    catalog: &str,
    description: Description,
    index: Arc<Index>,
    (staging, target): (&Path, &Path),
    charge: DiskCharge,
) -> Result<Generation, StoreError> {
    let bytes =
        serde_json::to_vec(&description).map_err(|error| io_error("encoding", target)(error.into()))?;
    files::write_synced(&staging.join(GENERATION_FILE), &files::sealed(bytes))?;
    let open = |name: &str| {
        let path = staging.join(name);
        File::open(&path).map_err(io_error("opening", &path))
    };
    Ok(Generation {
        catalog: catalog.to_owned(),
        reference: description.reference,
        unpacked_at: description.unpacked_at,
        index,
        lines: open(LINES_FILE)?,
        lines_sum: description.lines,
        records: open(RECORDS_FILE)?,
        folder: target.to_owned(),
        segments: segments(catalog, staging, description.lines),
        disk: Mutex::new(charge),
    })
}

/// Puts a staging folder in its place.
pub(super) fn place(staging: &Path, target: &Path) -> Result<(), StoreError> {
    if let Some(parent) = target.parent() {
        files::create_private(parent)?;
    }
    // The same digest may be there already, damaged.
    files::remove_tree(target)?;
    fs::rename(staging, target).map_err(io_error("renaming to", target))
}

/// The compressed form in a folder, if there is one that can be used.
fn segments(catalog: &str, folder: &Path, lines: FileSum) -> OnceLock<Segments> {
    match compressed::load(folder, lines) {
        Ok(segments) => segments.map_or_else(OnceLock::new, OnceLock::from),
        Err(problem) => {
            // They are made again; only then is the file replaced.
            tracing::warn!(catalog, folder = %folder.display(), problem, "compressed content is not usable");
            OnceLock::new()
        }
    }
}

/// Bytes of the files in a folder.
fn length(folder: &Path) -> u64 {
    let files = [LINES_FILE, RECORDS_FILE, INDEX_FILE, compressed::SEGMENTS_FILE];
    files.iter().filter_map(|name| fs::metadata(folder.join(name)).ok()).map(|file| file.len()).sum()
}

/// The newest complete generation in a catalog's folder; everything else in there is removed.
pub(super) fn newest(
    catalog: &str,
    folder: &Path,
    disk: &DiskBudget,
) -> Result<Option<Generation>, StoreError> {
    let mut newest: Option<(Generation, std::path::PathBuf)> = None;
    for (name, path) in files::subfolders(folder)? {
        let loaded = match load(catalog, &name, &path, disk) {
            Ok(generation) => generation,
            Err(problem) => {
                tracing::warn!(catalog, digest = name, problem, "cached content is not usable and removed");
                files::remove_tree(&path)?;
                continue;
            }
        };
        let stale = match &newest {
            Some((other, _)) if other.unpacked_at >= loaded.unpacked_at => path,
            _ => match newest.replace((loaded, path)) {
                Some((_, older)) => older,
                None => continue,
            },
        };
        files::remove_tree(&stale)?;
    }
    Ok(newest.map(|(generation, _)| generation))
}

fn load(catalog: &str, name: &str, folder: &Path, disk: &DiskBudget) -> Result<Generation, String> {
    let bytes = files::read_small(&folder.join(GENERATION_FILE)).map_err(|error| error.to_string())?;
    let bytes = files::unsealed(&bytes).ok_or("generation: checksum differs")?;
    let description: Description = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if description.version != VERSION || digest_of(&description.reference) != name {
        return Err("written by another version".into());
    }
    let open = |name: &str, sum: FileSum| -> Result<File, String> {
        let file = File::open(folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        match sum.fits(&file) {
            Ok(true) => Ok(file),
            Ok(false) => Err(format!("{name}: length or checksum differs")),
            Err(error) => Err(format!("{name}: {error}")),
        }
    };
    let lines = open(LINES_FILE, description.lines)?;
    let records = open(RECORDS_FILE, description.packages)?;
    let mut index = open(INDEX_FILE, description.index)?;
    if description.index.bytes > INDEX_BYTES_MAX {
        return Err("index is too large".into());
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut index, &mut bytes).map_err(|error| error.to_string())?;
    let index = Index::from_bytes(&bytes).map_err(|error| error.to_string())?;
    if index.bytes() != description.lines.bytes || index.record_bytes() != description.packages.bytes {
        return Err("index does not belong to the lines".into());
    }
    let segments = segments(catalog, folder, description.lines);
    Ok(Generation {
        catalog: catalog.to_owned(),
        reference: description.reference,
        unpacked_at: description.unpacked_at,
        index: Arc::new(index),
        lines,
        lines_sum: description.lines,
        records,
        folder: folder.to_owned(),
        segments,
        disk: Mutex::new(disk.charge_existing(length(folder))),
    })
}
