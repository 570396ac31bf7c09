//! The few operations on files that the store is made of.

use std::{
    fs::{self, DirBuilder, File},
    io::{BufReader, ErrorKind, Read, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use flate2::{Crc, CrcReader};
use serde::{Deserialize, Serialize};

use super::{StoreError, io_error};
use crate::limits::GENERATION_BYTES_MAX;

/// Extension of a small file that is not yet in its place.
const ASIDE: &str = "new";

/// Length and checksum of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// Length in bytes.
    pub bytes: u64,
    /// CRC-32 of the content: it guards against torn writes, not against malice.
    pub crc32: u32,
}

impl FileSum {
    /// Whether `file` has this length and checksum; reads it from its position.
    pub(super) fn fits(self, file: &mut File) -> std::io::Result<bool> {
        Ok(file.metadata()?.len() == self.bytes && crc32_of(file)? == self.crc32)
    }
}

/// The checksum of all that can be read.
pub(crate) fn crc32_of(content: impl Read) -> std::io::Result<u32> {
    let mut content = BufReader::with_capacity(256 << 10, CrcReader::new(content));
    std::io::copy(&mut content, &mut std::io::sink())?;
    Ok(content.get_ref().crc().sum())
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
