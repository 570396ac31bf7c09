//! Why a bundle cannot be read. The texts are upstream's where it has one for the case.

use olm_yaml::YamlError;
use thiserror::Error;

use crate::load::MANIFESTS;

/// A bundle that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A file or folder that every bundle has is missing.
    #[error("{call} {0}: no such file or directory", call = call_for(.0))]
    Missing(&'static str),
    /// A folder inside `manifests`.
    #[error(
        "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found \"{0}\""
    )]
    Subdirectory(String),
    /// A file of `manifests` that can't be read as Kubernetes objects.
    #[error("error parsing objects in \"{path}\": {message}")]
    Objects {
        /// The file, relative to the bundle.
        path: String,
        /// The problem, and where it is.
        message: String,
    },
    /// No ClusterServiceVersion.
    #[error("no ClusterServiceVersion found in \"manifests\"")]
    NoClusterServiceVersion,
    /// Several ClusterServiceVersions: upstream takes the last, catalogs are made from the first.
    #[error("bundle contains more than one ClusterServiceVersion: {}", .0.join(", "))]
    SeveralClusterServiceVersions(Vec<String>),
    /// A metadata file that is not the YAML it should be.
    #[error("failed to unmarshal {path}: {message}")]
    Metadata {
        /// The file, or the annotation as upstream calls it.
        path: &'static str,
        /// The problem.
        message: String,
    },
    /// The bundle is larger than anything that could be applied.
    #[error("bundle has more than {limit} {what}")]
    TooLarge {
        /// The counted items.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Reading it takes more memory than the caller allows.
    #[error("rendering the bundle takes more than {0} MiB of memory")]
    Memory(usize),
}

/// The system call with which upstream looks for a file or folder.
fn call_for(path: &str) -> &'static str {
    if path == MANIFESTS { "stat" } else { "open" }
}

impl ReadError {
    /// A file of `manifests` that is not readable as YAML or JSON.
    pub(crate) fn undecodable(path: &str, error: &YamlError) -> Self {
        Self::Objects { path: path.to_owned(), message: format!("unable to decode \"{path}\": {error}") }
    }
}
