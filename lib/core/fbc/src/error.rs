//! Why a catalog's bytes were refused. The texts name positions, never content: they end in the status
//! of an object that everybody may read.

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
        /// What is wrong there.
        problem: &'static str,
    },
    /// The file ends within a document.
    #[error("unexpected EOF")]
    Truncated,
    /// Not YAML.
    #[error("error converting YAML to JSON: yaml: line {line}: {problem}")]
    Yaml {
        /// Line in the file, counted from 1.
        line: u64,
        /// What is wrong there, without the content.
        problem: String,
    },
    /// Something follows `---` on its line.
    #[error("invalid Yaml document separator at line {line}")]
    Separator {
        /// Line in the file, counted from 1.
        line: u64,
    },
    /// A document is a list or a scalar.
    #[error("document at offset {offset} is not an object")]
    NotAnObject {
        /// Byte position of the document in the file.
        offset: u64,
    },
    /// `schema`, `package` or `name` has another type.
    #[error("expected value for key {key:?} to be a string")]
    NotAString {
        /// Which of the three.
        key: &'static str,
    },
    /// `schema`, `package` or `name` is longer than the index takes.
    #[error("value for key {key:?} has more than {limit} bytes")]
    NameTooLong {
        /// Which of the three.
        key: &'static str,
        /// Most bytes accepted.
        limit: usize,
    },
    /// Two top-level keys of a document are equal under case folding.
    #[error("document at offset {offset} has duplicate keys that differ only in case")]
    DuplicateKeys {
        /// Byte position of the document in the file.
        offset: u64,
    },
    /// A document has no content where it must say what it is.
    #[error("object '' is missing root schema field")]
    EmptyDocument,
    /// A document is larger than we take.
    #[error("document at offset {offset} has more than {limit} bytes")]
    DocumentTooLarge {
        /// Byte position of the document in the file.
        offset: u64,
        /// Most bytes accepted.
        limit: usize,
    },
    /// The catalog has more documents than we take.
    #[error("catalog has more than {limit} documents")]
    TooManyDocuments {
        /// Most documents accepted.
        limit: usize,
    },
    /// The index of the catalog would be larger than we take.
    #[error(
        "catalog has too many documents, or too many different schemas, packages and names: their index takes more than {mebibytes} MiB"
    )]
    IndexTooLarge {
        /// Most memory, in mebibytes.
        mebibytes: usize,
    },
    /// The `.indexignore` files are larger than we take.
    #[error(".indexignore files have more than {limit} {what}")]
    IgnoreTooLarge {
        /// Most accepted.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
    /// A stored index is damaged or of another version; the catalog has to be ingested again.
    #[error("index is not usable: {problem}")]
    Index {
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Why catalog content could not be read. The texts are the original's.
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
