//! Loads a catalog document by document. Every file that `.indexignore` does not name has to be content; the
//! errors name the file, which opm's do not.

use olm_fbc::{CatalogFiles, FbcError, FileError, Meta, MetaReader, content_paths, limits::DOCUMENTS_MAX};
use olm_yaml::RepairBudget;
use thiserror::Error;

use crate::{DecodeError, ImageSyntax, Outline};

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
        /// The problem.
        source: DecodeError,
    },
}

/// Reads all documents of a catalog; `visit` gets each with the path of its file.
///
/// # Errors
/// A file is no content, a document is empty, or `visit` fails: the first error ends the reading.
pub fn each_document<E: From<LoadError>>(
    files: &dyn CatalogFiles,
    visit: &mut dyn FnMut(&str, &Meta<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let (mut count, repairs) = (0, RepairBudget::default());
    for path in content_paths(files).map_err(LoadError::from)? {
        let failed = |source| FileError { path: path.clone(), source };
        let file = files.open(&path).map_err(|error| LoadError::from(failed(error.into())))?;
        let mut reader = MetaReader::new(file).refusing_empty_documents().repairing_within(&repairs);
        while let Some(meta) = reader.next_meta().map_err(|error| LoadError::from(failed(error)))? {
            count += 1;
            if count > DOCUMENTS_MAX {
                return Err(LoadError::from(failed(FbcError::TooManyDocuments(DOCUMENTS_MAX))).into());
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
