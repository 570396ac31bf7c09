//! Where the bytes of an image's layers go, and those of its wanted files: memory first, then one file.
//!
//! The file has no name (it is unlinked or never linked), so nothing is left behind by a crash and no path of an
//! archive ever reaches the operating system. Readers share it by position.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt as _,
    path::PathBuf,
    sync::Arc,
};

use crate::{
    disk::{DiskBudget, DiskCharge},
    limits::SPOOL_MEMORY_BYTES_MAX,
    puller::Puller,
    write_behind::WriteBehind,
};

/// Bytes gathered before they are written to the file.
const WRITE_BUFFER_BYTES: usize = 128 << 10;

/// Where a file's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Takes bytes in; ends as [`Content`].
pub struct Spool {
    folder: PathBuf,
    memory_max: usize,
    /// Everything, or what was not written to the file yet.
    pending: Vec<u8>,
    file: Option<WriteBehind<File>>,
    written: u64,
    /// Of what is in the file.
    charge: DiskCharge,
}

impl Spool {
    pub(crate) fn new(folder: PathBuf, disk: &DiskBudget) -> Self {
        let (pending, charge) = (Vec::new(), disk.empty());
        Self { folder, memory_max: SPOOL_MEMORY_BYTES_MAX, pending, file: None, written: 0, charge }
    }

    pub(crate) fn len(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// The disk failed, or there is no room left in its budget.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        let pending_max = if self.file.is_some() { WRITE_BUFFER_BYTES } else { self.memory_max };
        if self.pending.len() > pending_max { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.charge.grow(self.pending.len() as u64)?;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => WriteBehind::new(tempfile::tempfile_in(&self.folder)?),
        };
        self.written += self.pending.len() as u64;
        file.write(&mut self.pending)?;
        // The first piece had what stayed in memory until then.
        self.pending.shrink_to(2 * WRITE_BUFFER_BYTES);
        self.file = Some(file);
        Ok(())
    }

    /// Forgets what came after `length` bytes, so that a layer can be tried again.
    pub(crate) fn truncate(&mut self, length: u64) -> io::Result<()> {
        if length >= self.written {
            let kept = usize::try_from(length - self.written).unwrap_or(usize::MAX);
            self.pending.truncate(kept);
            return Ok(());
        }
        self.pending.clear();
        if let Some(file) = self.file.take() {
            let mut file = file.finish(&[])?;
            file.set_len(length)?;
            io::Seek::seek(&mut file, io::SeekFrom::Start(length))?;
            self.file = Some(WriteBehind::new(file));
        }
        self.written = length;
        self.charge.shrink_to(length);
        Ok(())
    }

    /// A reader of everything.
    ///
    /// # Errors
    /// As of [`Spool::append`].
    pub fn into_reader(self) -> io::Result<FileReader> {
        let length = self.len();
        Ok(FileReader::new(self.finish()?, Extent { offset: 0, length }))
    }

    pub(crate) fn finish(mut self) -> io::Result<Content> {
        let Some(file) = self.file else { return Ok(Content::Memory(self.pending.into())) };
        self.charge.grow(self.pending.len() as u64)?;
        let file = file.finish(&self.pending)?;
        Ok(Content::File(Arc::new(SpoolFile { file, _charge: self.charge })))
    }
}

impl Puller {
    /// A spool file of this puller's, for content that is no image.
    pub fn spool(&self) -> Spool {
        Spool::new(self.config().spool_dir.clone(), self.disk())
    }

    /// The disk that spool files and the caller's caches share.
    pub fn disk(&self) -> &DiskBudget {
        &self.config().disk
    }
}

/// A file without a name, which is gone with the last reader.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    file: File,
    _charge: DiskCharge,
}

/// The bytes of all wanted files.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Memory(Arc<[u8]>),
    File(Arc<SpoolFile>),
}

impl Content {
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
                let mut rest = &bytes[start..];
                rest.read(buffer)
            }
            Self::File(spool) => spool.file.read_at(buffer, offset),
        }
    }
}

/// Reads one file of an image. Holds the spool, not the image.
#[derive(Debug, Clone)]
pub struct FileReader {
    content: Content,
    position: u64,
    end: u64,
}

impl FileReader {
    pub(crate) fn new(content: Content, extent: Extent) -> Self {
        Self { content, position: extent.offset, end: extent.offset + extent.length }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> u64 {
        self.end - self.position
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.remaining()).map_or(buffer.len(), |rest| rest.min(buffer.len()));
        if wanted == 0 {
            return Ok(0);
        }
        let read = self.content.read_at(&mut buffer[..wanted], self.position)?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the spool file was cut short"));
        }
        self.position += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(memory_max: usize) -> Spool {
        Spool { memory_max, ..Spool::new(std::env::temp_dir(), &DiskBudget::default()) }
    }

    fn read(content: &Content, offset: u64, length: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        FileReader::new(content.clone(), Extent { offset, length }).read_to_end(&mut bytes).expect("reads");
        bytes
    }

    #[test]
    fn small_content_stays_in_memory_and_large_content_goes_to_a_file() {
        for (memory_max, in_memory) in [(100, true), (4, false)] {
            let mut spool = spool(memory_max);
            spool.append(b"hello ").expect("appends");
            spool.append(b"world").expect("appends");
            assert_eq!(spool.len(), 11);
            let content = spool.finish().expect("finishes");
            assert_eq!(matches!(content, Content::Memory(_)), in_memory);
            assert_eq!(read(&content, 6, 5), b"world");
            assert_eq!(read(&content, 0, 5), b"hello");
        }
    }

    #[test]
    fn everything_is_read_by_as_many_readers_as_there_are() {
        let mut spool = spool(4);
        spool.append(b"hello ").expect("appends");
        spool.append(b"world").expect("appends");
        let reader = spool.into_reader().expect("finishes");
        for mut reader in [reader.clone(), reader] {
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("reads");
            assert_eq!(text, "hello world");
        }
    }

    #[test]
    fn what_was_appended_can_be_taken_back() {
        for memory_max in [100, 0] {
            let mut spool = spool(memory_max);
            spool.append(b"keep").expect("appends");
            spool.append(&vec![b'x'; 600_000]).expect("appends");
            spool.append(b"drop").expect("appends");
            spool.truncate(4).expect("truncates");
            spool.append(b" this").expect("appends");
            let content = spool.finish().expect("finishes");
            assert_eq!(read(&content, 0, 9), b"keep this");
        }
    }
}
