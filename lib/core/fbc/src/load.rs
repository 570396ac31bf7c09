//! A catalog's files, read one document after another in the original's order.
//!
//! Files come in the order of a walk, without those that `.indexignore` leaves out; every other file has to be
//! content. The errors name the file, which the original's do not.

use std::io::{self, Read};

use thiserror::Error;

use crate::{
    DecodeError, FbcError, IGNORE_FILE, IgnoreRules, ImageSyntax, Meta, MetaReader, Outline,
    limits::{DOCUMENTS_MAX, IGNORE_FILE_BYTES_MAX},
    walk_order,
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
    /// What is wrong with it.
    pub source: FbcError,
}

/// Why a catalog could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A file is no content.
    #[error(transparent)]
    File(#[from] FileError),
    /// A document is not what its schema says.
    #[error("{path}: {source}")]
    Document {
        /// The path of its file from the catalog's root.
        path: String,
        /// What is wrong with it.
        source: DecodeError,
    },
}

/// The paths of the files that are content, in the order in which they are read.
///
/// # Errors
/// An `.indexignore` file cannot be read, or is too large.
pub fn content_paths(files: &dyn CatalogFiles) -> Result<Vec<String>, FileError> {
    let mut paths = files.paths();
    walk_order(&mut paths);
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

/// Reads all documents of a catalog; `visit` gets each with the path of its file.
///
/// # Errors
/// A file is no content, a document is empty, or `visit` fails: the first error ends the reading.
pub fn each_document<E: From<LoadError>>(
    files: &dyn CatalogFiles,
    visit: &mut dyn FnMut(&str, &Meta<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut count = 0;
    for path in content_paths(files).map_err(LoadError::from)? {
        let failed = |source| FileError { path: path.clone(), source };
        let file = files.open(&path).map_err(|error| LoadError::from(failed(error.into())))?;
        let mut reader = MetaReader::new(file).refusing_empty_documents();
        while let Some(meta) = reader.next_meta().map_err(|error| LoadError::from(failed(error)))? {
            count += 1;
            if count > DOCUMENTS_MAX {
                let source = FbcError::TooManyDocuments { limit: DOCUMENTS_MAX };
                return Err(LoadError::from(failed(source)).into());
            }
            visit(&path, &meta)?;
        }
    }
    Ok(())
}

/// The outline of a catalog, as validation needs it. Memory is that of the outline and of one document.
///
/// # Errors
/// A file or a document is no content.
pub fn outline(files: &dyn CatalogFiles, image_syntax: ImageSyntax) -> Result<Outline, LoadError> {
    let mut outline = Outline::new(image_syntax);
    each_document(files, &mut |path, meta| {
        outline.push(meta).map_err(|source| LoadError::Document { path: path.to_owned(), source })
    })?;
    Ok(outline)
}

#[cfg(test)]
mod tests;
