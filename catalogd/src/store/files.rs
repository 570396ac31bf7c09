//! The few operations on files that the store is made of.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, FileExt},
    path::{Path, PathBuf},
    thread,
};

use flate2::Crc;
use serde::{Deserialize, Serialize};

use super::{StoreError, io_error};
use crate::limits::GENERATION_BYTES_MAX;

/// Extension of a small file that is not yet in its place.
const ASIDE: &str = "new";
/// Threads that read a file to check it, at most.
const THREADS_MAX: usize = 4;
/// Bytes that are worth a thread.
const PIECE_BYTES_MIN: u64 = 4 << 20;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Length and checksum of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// Length in bytes.
    pub bytes: u64,
    /// CRC-32 of the content: it guards against torn writes, not against malice.
    pub crc32: u32,
}

impl FileSum {
    /// Whether `file` has this length and checksum.
    pub(super) fn fits(self, file: &File) -> io::Result<bool> {
        Ok(file.metadata()?.len() == self.bytes && crc32_of(file, self.bytes)? == self.crc32)
    }
}

/// The checksum of the first `bytes` of a file. A process that starts waits for it: several threads read pieces of the file.
pub(crate) fn crc32_of(file: &File, bytes: u64) -> io::Result<u32> {
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX));
    let piece = bytes.div_ceil(threads as u64).max(PIECE_BYTES_MIN);
    thread::scope(|scope| {
        let starts = (0..threads as u64).map(|number| number * piece).take_while(|start| *start < bytes);
        let read = |start: u64| scope.spawn(move || crc_of_piece(file, start, piece.min(bytes - start)));
        let pieces: Vec<_> = starts.map(read).collect();
        let mut crc = Crc::new();
        for piece in pieces {
            crc.combine(&piece.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))?);
        }
        Ok(crc.sum())
    })
}

/// The checksum of `bytes` of a file from `start` on.
fn crc_of_piece(file: &File, mut start: u64, mut bytes: u64) -> io::Result<Crc> {
    let mut crc = Crc::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    while bytes > 0 {
        let wanted = usize::try_from(bytes).map_or(BUFFER_BYTES, |bytes| bytes.min(BUFFER_BYTES));
        file.read_exact_at(&mut buffer[..wanted], start)?;
        crc.update(&buffer[..wanted]);
        (start, bytes) = (start + wanted as u64, bytes - wanted as u64);
    }
    Ok(crc)
}

/// Makes a folder (and those above it) that only this user may enter.
pub(super) fn create_private(folder: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io_error("creating", folder))
}

/// The folders in a folder, sorted; what has no UTF-8 name is none of ours.
pub(super) fn subfolders(folder: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_error("reading", folder))? {
        let entry = entry.map_err(io_error("reading", folder))?;
        let is_folder = entry.file_type().map_err(io_error("reading", &entry.path()))?.is_dir();
        if let (true, Ok(name)) = (is_folder, entry.file_name().into_string()) {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Removes a folder with all it holds; that it is not there is fine.
pub(super) fn remove_tree(folder: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error("removing", folder)(error)),
        _ => Ok(()),
    }
}

/// Reads a file that is known to be small.
pub(super) fn read_small(path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io_error("opening", path))?;
    file.take(GENERATION_BYTES_MAX).read_to_end(&mut bytes).map_err(io_error("reading", path))?;
    Ok(bytes)
}

/// Removes what [`replace`] left aside in a folder when its process was killed.
pub(super) fn remove_unfinished(folder: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(folder).map_err(io_error("reading", folder))? {
        let path = entry.map_err(io_error("reading", folder))?.path();
        if path.extension().is_some_and(|extension| extension == ASIDE) {
            fs::remove_file(&path).map_err(io_error("removing", &path))?;
        }
    }
    Ok(())
}

/// Writes a small file aside and moves it to its place, so that half of it is never read.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let aside = path.with_extension(ASIDE);
    fs::write(&aside, bytes).map_err(io_error("writing", &aside))?;
    fs::rename(&aside, path).map_err(io_error("renaming to", path))
}

/// Writes a small file and waits until the disk has it.
pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = File::create_new(path).map_err(io_error("creating", path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io_error("writing", path))
}

/// Appends a line with the checksum of `bytes`.
pub(super) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let seal = seal(&bytes);
    bytes.extend_from_slice(seal.as_bytes());
    bytes
}

/// Undoes [`sealed`]; `None` when the checksum is another.
pub(super) fn unsealed(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().rposition(|&byte| byte == b'\n')?;
    let (content, found) = bytes.split_at(end);
    (found == seal(content).as_bytes()).then_some(content)
}

fn seal(bytes: &[u8]) -> String {
    let mut crc = Crc::new();
    crc.update(bytes);
    format!("\n{:08x}", crc.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_file_have_its_checksum_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut bytes: Vec<u8> = (0..2 * PIECE_BYTES_MIN + 7).map(|i| (i % 251) as u8).collect();
        let mut crc = Crc::new();
        crc.update(&bytes);
        let sum = FileSum { bytes: bytes.len() as u64, crc32: crc.sum() };
        let fits = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            sum.fits(&File::open(&path).unwrap()).unwrap()
        };
        assert!(fits(&bytes));
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            bytes[at] ^= 1;
            assert!(!fits(&bytes), "byte {at}");
            bytes[at] ^= 1;
        }
        assert!(!fits(&bytes[1..]));
    }
}
