//! From the files of a catalog image to what is served: JSON lines, their index, the resolver's records.
//!
//! One pass, constant memory: each document is read through a window, written as its canonical line, entered
//! into the index and cut down to its record. The order is upstream's: files in walk order, documents
//! in file order. Everything is written into a folder that is not read yet.

use std::{fs::File, io, path::Path};

use flate2::CrcWriter;
use olm_fbc::{CatalogFiles, FbcError, FileError, Index, Meta, MetaReader, content_paths};
use olm_image::{DiskBudget, DiskCharge, WriteBehind};
use olm_text::{cut, one_line};
use olm_yaml::RepairBudget;
use thiserror::Error;

use crate::{limits::CATALOG_BYTES_MAX, store::FileSum};

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
    let mut sink = Sink {
        index: Index::default(),
        lines: Writer::create(folder, LINES_FILE, disk)?,
        records: Writer::create(folder, RECORDS_FILE, disk)?,
    };
    let repairs = RepairBudget::default();
    for path in &content_paths(files)? {
        let content = |source| IngestError::Content { path: shown(path), source };
        let file = files.open(path).map_err(|error| content(error.into()))?;
        let mut reader = MetaReader::new(file).repairing_within(&repairs);
        while let Some(meta) = reader.next_meta().map_err(content)? {
            sink.document(&meta, content)?;
        }
    }
    let mut index_file = Writer::create(folder, INDEX_FILE, disk)?;
    index_file.buffer = sink.index.to_bytes();
    let mut charge = disk.empty();
    Ok(Ingested {
        index: sink.index,
        lines: sink.lines.finish(&mut charge)?,
        index_file: index_file.finish(&mut charge)?,
        records: sink.records.finish(&mut charge)?,
        charge,
    })
}

/// A path from an image, fit for a status: short, and without control characters.
fn shown(path: &str) -> String {
    const CHARACTERS_MAX: usize = 200;
    cut(&one_line(path), CHARACTERS_MAX).into_owned()
}

struct Sink {
    index: Index,
    lines: Writer,
    records: Writer,
}

impl Sink {
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
