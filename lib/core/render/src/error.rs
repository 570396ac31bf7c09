//! Why a bundle can't be rendered. The texts are upstream's where it has one for the case.

use olm_yaml::YamlError;
use thiserror::Error;

/// A bundle or configuration that can't be rendered.
///
/// The content of an image digest never changes, so none of these is worth a retry before the
/// ClusterExtension, its configuration or the catalog changes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RenderError {
    /// A file or folder that every bundle has is missing.
    #[error("open {path}: no such file or directory")]
    Missing {
        /// What is missing, relative to the bundle.
        path: &'static str,
    },
    /// A folder inside `manifests`.
    #[error(
        "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found \"{path}\""
    )]
    Subdirectory {
        /// The folder, relative to the bundle.
        path: String,
    },
    /// A file of `manifests` that can't be read as Kubernetes objects.
    #[error("error parsing objects in \"{path}\": {message}")]
    Objects {
        /// The file, relative to the bundle.
        path: String,
        /// What is wrong with it, and where.
        message: String,
    },
    /// No ClusterServiceVersion.
    #[error("no ClusterServiceVersion found in \"manifests\"")]
    NoClusterServiceVersion,
    /// Several ClusterServiceVersions: upstream takes the last, catalogs are made from the first.
    #[error("bundle contains more than one ClusterServiceVersion: {}", .names.join(", "))]
    SeveralClusterServiceVersions {
        /// Their names, in reading order.
        names: Vec<String>,
    },
    /// A metadata file that is not the YAML it should be.
    #[error("failed to unmarshal {path}: {message}")]
    Metadata {
        /// The file, or the annotation as upstream calls it.
        path: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// A feature of bundles that is not supported, or not here.
    #[error("unsupported bundle: {0}")]
    Unsupported(&'static str),
    /// The user's configuration does not fit the bundle; each entry is one violation.
    #[error("invalid ClusterExtension configuration: invalid configuration: {}", listed(.0))]
    Configuration(Vec<String>),
    /// The `deploymentConfig` fits its schema but not Kubernetes' types, e.g. a malformed quantity.
    #[error(
        "invalid ClusterExtension configuration: invalid deploymentConfig: failed to unmarshal deploymentConfig: {0}"
    )]
    DeploymentConfig(String),
    /// The bundle breaks rules; each entry is one finding, all are reported.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
    /// The namespaces to watch do not fit the bundle's install modes.
    #[error("invalid option(s): invalid target namespaces [{}]: {message}", .targets.join(" "))]
    TargetNamespaces {
        /// The namespaces asked for.
        targets: Vec<String>,
        /// Why they don't fit.
        message: String,
    },
    /// The bundle is larger than anything that could be applied.
    #[error("bundle has more than {limit} {what}")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Rendering takes more memory than [`crate::Options::memory`] allows.
    #[error("rendering the bundle takes more than {mebibytes} MiB of memory")]
    Memory {
        /// What was allowed.
        mebibytes: usize,
    },
    /// No format of the table takes the files.
    #[error("bundle is of no known format")]
    UnknownFormat,
}

/// The reason of the condition `Progressing` that an error leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The user's configuration is at fault.
    InvalidConfiguration,
    /// The bundle is at fault.
    Blocked,
}

impl Reason {
    /// The reason as it stands in the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidConfiguration => "InvalidConfiguration",
            Self::Blocked => "Blocked",
        }
    }
}

impl RenderError {
    /// Whether a retry is pointless until the extension's spec or the catalog changes: always so here.
    pub fn is_terminal(&self) -> bool {
        true
    }

    /// The reason that the condition `Progressing` gets.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Configuration(_) | Self::DeploymentConfig(_) => Reason::InvalidConfiguration,
            Self::Missing { .. }
            | Self::Subdirectory { .. }
            | Self::Objects { .. }
            | Self::NoClusterServiceVersion
            | Self::SeveralClusterServiceVersions { .. }
            | Self::Metadata { .. }
            | Self::Unsupported(_)
            | Self::Invalid(_)
            | Self::TargetNamespaces { .. }
            | Self::TooLarge { .. }
            | Self::Memory { .. }
            | Self::UnknownFormat => Reason::Blocked,
        }
    }

    /// A file of `manifests` that is not readable as YAML or JSON.
    pub(crate) fn undecodable(path: &str, error: &YamlError) -> Self {
        Self::Objects { path: path.to_owned(), message: format!("unable to decode \"{path}\": {error}") }
    }
}

fn listed(violations: &[String]) -> String {
    match violations {
        [one] => one.clone(),
        several => format!("multiple errors found:\n  - {}", several.join("\n  - ")),
    }
}
