//! The wanted files of an image, read-only: a sorted map of paths over one spool.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read as _},
};

use thiserror::Error;

use crate::{
    spool::{Content, Extent, FileReader},
    tree::Resolved,
};

/// Why a file of an image cannot be read: a sentence that names it.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct FileError(String);

impl FileError {
    /// The spool failed.
    pub(crate) fn reading(path: &str, cause: &io::Error) -> Self {
        Self(format!("reading file {path:?}: {cause}"))
    }
}

/// The files, by path relative to the image's root (`configs/a/catalog.yaml`). Cloning shares the bytes.
#[derive(Debug, Clone)]
pub struct Files {
    extents: BTreeMap<String, Extent>,
    directories: BTreeSet<String>,
    content: Content,
}

impl Files {
    pub(crate) fn new(resolved: Resolved, content: Content) -> Self {
        Self { extents: resolved.files, directories: resolved.directories, content }
    }

    /// Paths of all regular files, sorted. Links to files are files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.extents.keys().map(String::as_str)
    }

    /// Paths of all directories, sorted, those included that exist only because something lies in them.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.directories.iter().map(String::as_str)
    }

    /// Size of a file in bytes.
    pub fn size(&self, path: &str) -> Option<u64> {
        self.extents.get(path).map(|extent| extent.length)
    }

    /// A reader over a file. It does not borrow from the image.
    ///
    /// # Errors
    /// There is no such file.
    pub fn open(&self, path: &str) -> Result<FileReader, FileError> {
        let extent =
            self.extents.get(path).ok_or_else(|| FileError(format!("file {path:?} does not exist")))?;
        Ok(FileReader::new(self.content.clone(), *extent))
    }

    /// A whole file of at most `limit` bytes.
    ///
    /// # Errors
    /// There is no such file, it is larger, or the spool cannot be read.
    pub fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        let mut reader = self.open(path)?;
        let length = reader.remaining();
        if length > limit {
            return Err(FileError(format!(
                "file {path:?} has {length} bytes, more than the {limit} allowed"
            )));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        reader.read_to_end(&mut bytes).map_err(|cause| FileError::reading(path, &cause))?;
        Ok(bytes)
    }
}
