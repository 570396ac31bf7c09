//! Why a bundle can't be rendered. The texts are upstream's where it has one for the case.

use olm_bundle::ReadError;
use thiserror::Error;

/// A bundle or configuration that can't be rendered.
///
/// The content of an image digest never changes, so none of these is worth a retry before the
/// ClusterExtension, its configuration or the catalog changes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The bundle can't be read.
    #[error(transparent)]
    Bundle(#[from] ReadError),
    /// A feature of bundles that is not supported, or not here.
    #[error("unsupported bundle: {0}")]
    Unsupported(&'static str),
    /// The user's configuration does not fit the bundle; each entry is one violation.
    #[error("invalid ClusterExtension configuration: invalid configuration: {}", listed(.0))]
    Configuration(Vec<String>),
    /// The `deploymentConfig` fits its schema but not Kubernetes' types, e.g. a malformed quantity.
    #[error("invalid deploymentConfig: failed to unmarshal deploymentConfig: {0}")]
    DeploymentConfig(String),
    /// The bundle breaks rules; each entry is one finding, all are reported.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
    /// The namespaces to watch do not fit the bundle's install modes.
    #[error("invalid option(s): invalid target namespaces [{}]: {message}", .targets.join(" "))]
    TargetNamespaces {
        /// The requested namespaces.
        targets: Vec<String>,
        /// Why they don't fit.
        message: String,
    },
    /// The bundle has more of something than can be rendered.
    #[error("bundle has more than {limit} {what}")]
    TooLarge {
        /// The counted items.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
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
    /// The reason in the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidConfiguration => "InvalidConfiguration",
            Self::Blocked => "Blocked",
        }
    }
}

impl RenderError {
    /// The reason that the condition `Progressing` gets.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Configuration(_) | Self::DeploymentConfig(_) => Reason::InvalidConfiguration,
            Self::Bundle(_)
            | Self::Unsupported(_)
            | Self::Invalid(_)
            | Self::TargetNamespaces { .. }
            | Self::TooLarge { .. } => Reason::Blocked,
        }
    }
}

fn listed(violations: &[String]) -> String {
    match violations {
        [one] => one.clone(),
        several => format!("multiple errors found:\n  - {}", several.join("\n  - ")),
    }
}
