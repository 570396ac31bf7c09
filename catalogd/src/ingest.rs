//! From the files of a catalog image to what is served: JSON lines, their index, the resolver's records.
//!
//! One pass, constant memory: each document is read through a window, written as its canonical line, entered
//! into the index and cut down to its record. The order is upstream's: files in walk order, documents
//! in file order. Everything is written into a folder that is not read yet.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    ops::Range,
    path::Path,
};

use flate2::CrcWriter;
use olm_fbc::{CatalogFiles, FbcError, FileError, Index, Meta, MetaReader, content_paths, walk_order};
use olm_image::{DiskBudget, DiskCharge, FileSink, WriteBehind};
use olm_text::{cut, one_line};
use olm_yaml::RepairBudget;
use thiserror::Error;

use crate::{
    CatalogImage,
    limits::CATALOG_BYTES_MAX,
    store::{FileSum, StoreError},
};

/// File of the lines that are served.
pub(crate) const LINES_FILE: &str = "catalog.jsonl";
/// File of the index.
pub(crate) const INDEX_FILE: &str = "index";
/// File of the resolver's records.
pub(crate) const RECORDS_FILE: &str = "packages";

/// Written out at this size.
const BUFFER_BYTES: usize = 128 << 10;

/// Why an image's files did not become a catalog.
#[derive(Debug, Error)]
pub enum IngestError {
    /// The image has nothing where its label points to.
    #[error("error walking FBC root: the image has no files at the path its configs label names")]
    Empty,
    /// A file is no catalog content.
    #[error("error walking FBC root: {path}: {source}")]
    Content {
        /// The file's path in the image.
        path: String,
        /// What is wrong with it.
        source: FbcError,
    },
    /// The catalog is larger than we take.
    #[error("error walking FBC root: catalog has more than {limit} bytes")]
    TooLarge {
        /// Most bytes accepted.
        limit: u64,
    },
    /// The store could not be written.
    #[error("error writing {file}: {source}")]
    Write {
        /// Which file.
        file: String,
        /// Why.
        source: io::Error,
    },
}

impl From<FileError> for IngestError {
    fn from(FileError { path, source }: FileError) -> Self {
        Self::Content { path: shown(&path), source }
    }
}

impl IngestError {
    /// Whether the image is at fault, so that the same digest fails always.
    pub(crate) fn is_content(&self) -> bool {
        match self {
            Self::Content { source: FbcError::Read(_), .. } | Self::Write { .. } => false,
            Self::Empty | Self::Content { .. } | Self::TooLarge { .. } => true,
        }
    }
}

/// What was written.
pub(crate) struct Ingested {
    pub(crate) index: Index,
    pub(crate) lines: FileSum,
    pub(crate) index_file: FileSum,
    pub(crate) records: FileSum,
    /// Of all three files.
    pub(crate) charge: DiskCharge,
}

/// Writes lines, index and records of the files into `folder`. Blocks; meant for a blocking thread.
pub(crate) fn ingest(
    files: &dyn CatalogFiles,
    folder: &Path,
    disk: &DiskBudget,
) -> Result<Ingested, IngestError> {
    if files.paths().is_empty() {
        return Err(IngestError::Empty);
    }
    let mut ingest = Ingest::create(folder, disk)?;
    for path in &content_paths(files)? {
        let failed = |error: io::Error| IngestError::Content { path: shown(path), source: error.into() };
        ingest.file(path, files.open(path).map_err(failed)?)?;
    }
    ingest.finish(folder, disk)
}

/// The same of an image while it is unpacked, so that its files are held nowhere. `None` if they do not come in the order
/// in which a catalog is read, or if one is wrong: it may be left out, or replaced by a later one.
pub(crate) fn ingest_unpacking(
    image: &dyn CatalogImage,
    folder: &Path,
    disk: &DiskBudget,
) -> Result<Option<Ingested>, StoreError> {
    let mut sink =
        Unpacking { ingest: Ingest::create(folder, disk)?, last: String::new(), bytes: 0, stopped: None };
    let places = image.read(&mut sink);
    match sink.stopped {
        Some(Stopped::By(error @ IngestError::Write { .. })) => return Err(error.into()),
        Some(Stopped::By(_) | Stopped::OutOfOrder) => return Ok(None),
        None => {}
    }
    let places = places?;
    if places.is_empty() {
        return Err(IngestError::Empty.into());
    }
    if !are_in_order(&places, sink.bytes) {
        return Ok(None);
    }
    Ok(Some(sink.ingest.finish(folder, disk)?))
}

/// Takes in the files of an image as they come.
struct Unpacking {
    ingest: Ingest,
    last: String,
    /// Of all files so far.
    bytes: u64,
    stopped: Option<Stopped>,
}

/// Why no more files are taken.
enum Stopped {
    OutOfOrder,
    By(IngestError),
}

impl FileSink for Unpacking {
    fn file(&mut self, path: &str, place: Range<u64>, content: &mut dyn Read) -> io::Result<()> {
        let stopped = if walk_order(path, &self.last).is_le() {
            Stopped::OutOfOrder
        } else {
            path.clone_into(&mut self.last);
            self.bytes = place.end;
            match self.ingest.file(path, content) {
                Ok(()) => return Ok(()),
                Err(error) => Stopped::By(error),
            }
        };
        self.stopped = Some(stopped);
        Err(io::Error::other("no more files are taken"))
    }
}

/// Whether the files of an image, read in a catalog's order, are what was taken in: all of the bytes, one after another.
fn are_in_order(places: &BTreeMap<String, Range<u64>>, bytes: u64) -> bool {
    // A file that says what is left out has to be read before the others.
    let Ok(paths) = content_paths(&Names(places)) else { return false };
    let mut end = 0;
    for place in paths.iter().filter_map(|path| places.get(path)).filter(|place| !place.is_empty()) {
        if place.start != end {
            return false;
        }
        end = place.end;
    }
    end == bytes
}

/// Files whose content is not here any more.
struct Names<'a>(&'a BTreeMap<String, Range<u64>>);

impl CatalogFiles for Names<'_> {
    fn paths(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn open<'a>(&'a self, _: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A path from an image, fit for a status: short, and without control characters.
fn shown(path: &str) -> String {
    const CHARACTERS_MAX: usize = 200;
    cut(&one_line(path), CHARACTERS_MAX).into_owned()
}

struct Ingest {
    index: Index,
    lines: Writer,
    records: Writer,
    repairs: RepairBudget,
}

impl Ingest {
    fn create(folder: &Path, disk: &DiskBudget) -> Result<Self, IngestError> {
        Ok(Self {
            index: Index::default(),
            lines: Writer::create(folder, LINES_FILE, disk)?,
            records: Writer::create(folder, RECORDS_FILE, disk)?,
            repairs: RepairBudget::default(),
        })
    }

    fn file(&mut self, path: &str, file: impl Read) -> Result<(), IngestError> {
        let content = |source| IngestError::Content { path: shown(path), source };
        let mut reader = MetaReader::new(file).repairing_within(&self.repairs);
        while let Some(meta) = reader.next_meta().map_err(content)? {
            self.document(&meta, content)?;
        }
        Ok(())
    }

    /// Takes a document in; `content` is the error of a document that cannot be taken.
    fn document(
        &mut self,
        meta: &Meta<'_>,
        content: impl Fn(FbcError) -> IngestError,
    ) -> Result<(), IngestError> {
        self.index.push_line(&meta.envelope, meta.line.len() + 1).map_err(&content)?;
        self.lines.push(meta.line)?;
        self.lines.push(b"\n")?;
        let before = self.records.buffer.len();
        if meta.write_record(&mut self.records.buffer) {
            let length = self.records.buffer.len() - before;
            self.index.push_record(meta.envelope.subject(), length).map_err(content)?;
        }
        self.records.flush(BUFFER_BYTES)?;
        if self.lines.bytes > CATALOG_BYTES_MAX {
            return Err(IngestError::TooLarge { limit: CATALOG_BYTES_MAX });
        }
        Ok(())
    }

    fn finish(self, folder: &Path, disk: &DiskBudget) -> Result<Ingested, IngestError> {
        let mut index_file = Writer::create(folder, INDEX_FILE, disk)?;
        index_file.buffer = self.index.to_bytes();
        let mut charge = disk.empty();
        Ok(Ingested {
            index: self.index,
            lines: self.lines.finish(&mut charge)?,
            index_file: index_file.finish(&mut charge)?,
            records: self.records.finish(&mut charge)?,
            charge,
        })
    }
}

struct Writer {
    name: &'static str,
    file: WriteBehind<CrcWriter<File>>,
    buffer: Vec<u8>,
    bytes: u64,
    charge: DiskCharge,
}

impl Writer {
    fn create(folder: &Path, name: &'static str, disk: &DiskBudget) -> Result<Self, IngestError> {
        let file = File::create_new(folder.join(name)).map_err(|source| failed(name, source))?;
        let (file, charge) = (WriteBehind::new(CrcWriter::new(file)), disk.empty());
        Ok(Self { name, file, buffer: Vec::new(), bytes: 0, charge })
    }

    /// Takes bytes in; long ones in parts, so that the buffer never grows with them.
    fn push(&mut self, mut bytes: &[u8]) -> Result<(), IngestError> {
        while self.buffer.len() + bytes.len() > BUFFER_BYTES {
            let (part, rest) = bytes.split_at(BUFFER_BYTES.saturating_sub(self.buffer.len()));
            self.buffer.extend_from_slice(part);
            self.flush(0)?;
            bytes = rest;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Hands the buffer over to be written if it has as many bytes as the threshold.
    fn flush(&mut self, threshold: usize) -> Result<(), IngestError> {
        if self.buffer.len() < threshold {
            return Ok(());
        }
        let room = self.take_in();
        room.and_then(|()| self.file.write(&mut self.buffer)).map_err(|source| failed(self.name, source))
    }

    /// Counts what is in the buffer as written, if there is room for it.
    fn take_in(&mut self) -> io::Result<()> {
        let bytes = self.buffer.len() as u64;
        self.bytes += bytes;
        Ok(self.charge.grow(bytes)?)
    }

    fn finish(mut self, charge: &mut DiskCharge) -> Result<FileSum, IngestError> {
        let room = self.take_in();
        let file = room.and_then(|()| self.file.finish(&self.buffer));
        let file = file.map_err(|source| failed(self.name, source))?;
        charge.merge(self.charge);
        Ok(FileSum { bytes: self.bytes, crc32: file.crc().sum() })
    }
}

fn failed(name: &str, source: io::Error) -> IngestError {
    IngestError::Write { file: name.to_owned(), source }
}

#[cfg(test)]
mod tests;
