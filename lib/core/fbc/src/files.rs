//! A catalog's files, in the order in which they are read: that of a walk, without those that `.indexignore`
//! leaves out. Errors name the file.

use std::io::{self, Read};

use thiserror::Error;

use crate::{
    FbcError,
    ignore::{IGNORE_FILE, IgnoreRules, walk_order},
    limits::IGNORE_FILE_BYTES_MAX,
};

/// The files of a catalog, by their paths from its root.
pub trait CatalogFiles: Send {
    /// All files, in any order.
    fn paths(&self) -> Vec<String>;

    /// Opens one of them.
    ///
    /// # Errors
    /// The content cannot be read.
    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + Send + 'a>>;
}

/// A file of a catalog is no stream of JSON or YAML objects, or too large, or cannot be read.
#[derive(Debug, Error)]
#[error("{path}: {source}")]
pub struct FileError {
    /// The file's path from the catalog's root.
    pub path: String,
    /// The problem.
    pub source: FbcError,
}

/// The paths of the files that are content, in the order in which they are read.
///
/// # Errors
/// An `.indexignore` file cannot be read, or is too large.
pub fn content_paths(files: &dyn CatalogFiles) -> Result<Vec<String>, FileError> {
    let mut paths = files.paths();
    paths.sort_by(|one, other| walk_order(one, other));
    let mut rules = IgnoreRules::default();
    for path in paths.iter().filter(|path| path.rsplit('/').next() == Some(IGNORE_FILE)) {
        let failed = |source| FileError { path: path.clone(), source };
        let mut text = Vec::new();
        let file = files.open(path).map_err(|error| failed(error.into()))?;
        let limit = IGNORE_FILE_BYTES_MAX as u64 + 1;
        file.take(limit).read_to_end(&mut text).map_err(|error| failed(error.into()))?;
        rules.push_file(path, &String::from_utf8_lossy(&text)).map_err(failed)?;
    }
    paths.retain(|path| !rules.ignores(path));
    Ok(paths)
}
