//! Why a catalog's bytes were rejected. The texts name positions, never content: they end in the status
//! of an object that many users may read.

use std::io;

use thiserror::Error;

/// A file or an index of a catalog could not be read.
#[derive(Debug, Error)]
pub enum FbcError {
    /// The underlying reader failed.
    #[error("reading failed: {0}")]
    Read(#[from] io::Error),
    /// Not JSON.
    #[error("json: offset {offset}: {problem}")]
    Json {
        /// Byte position in the file.
        offset: u64,
        /// The problem there.
        problem: &'static str,
    },
    /// The file ends within the document that begins at this line, counted from 1.
    #[error("unexpected EOF: the document that begins at line {0} is not complete")]
    Truncated(u64),
    /// Not YAML.
    #[error("error converting YAML to JSON: yaml: line {line}: {problem}")]
    Yaml {
        /// Line in the file, counted from 1.
        line: u64,
        /// The problem there, without the content.
        problem: String,
    },
    /// Something follows `---` on this line of the file, counted from 1.
    #[error("invalid Yaml document separator at line {0}")]
    Separator(u64),
    /// The document at this byte of the file is a list or a scalar.
    #[error("document at offset {0} is not an object")]
    NotAnObject(u64),
    /// `schema`, `package` or `name` has another type.
    #[error("expected value for key {0:?} to be a string")]
    NotAString(&'static str),
    /// `schema`, `package` or `name` is longer than the index accepts, in bytes.
    #[error("value for key {0:?} has more than {1} bytes")]
    NameTooLong(&'static str, usize),
    /// Two top-level keys of the document at this byte of the file are equal under case folding.
    #[error("document at offset {0} has duplicate keys that differ only in case")]
    DuplicateKeys(u64),
    /// A document has no content where it must say what it is.
    #[error("object '' is missing root schema field")]
    EmptyDocument,
    /// The document at this byte of the file is larger than is accepted, in bytes.
    #[error("document at offset {0} has more than {1} bytes")]
    DocumentTooLarge(u64, usize),
    /// The catalog has more documents than are accepted.
    #[error("catalog has more than {0} documents")]
    TooManyDocuments(usize),
    /// The index of the catalog would take more memory than this, in mebibytes.
    #[error(
        "catalog has too many documents, or too many different schemas, packages and names: their index takes more than {0} MiB"
    )]
    IndexTooLarge(usize),
    /// The `.indexignore` files have more bytes or patterns than are accepted.
    #[error(".indexignore files have more than {0} {1}")]
    IgnoreTooLarge(usize, &'static str),
    /// A stored index is damaged or of another version; the catalog has to be ingested again.
    #[error("index is not usable: {0}")]
    Index(&'static str),
}

/// Why catalog content could not be read. The texts are operator-registry's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// The catalog has no content that could be served (yet).
    #[error("catalog {catalog:?} is not being served")]
    NotServed {
        /// Name of the ClusterCatalog.
        catalog: String,
    },
    /// Reading failed.
    #[error("error retrieving cache for catalog {catalog:?}: {cause}")]
    Read {
        /// Name of the ClusterCatalog.
        catalog: String,
        /// What went wrong.
        cause: String,
    },
    /// The package's blobs could not be decoded.
    #[error("error loading package {package:?}: {cause}")]
    Decode {
        /// Name of the package.
        package: String,
        /// What went wrong.
        cause: String,
    },
}
