//! A request without an answer: the cause, and the candidates that were rejected.

use std::{error::Error, fmt};

use olm_fbc::CatalogError;
use olm_go::Quoted;
use olm_semver::ParseError;

use crate::{BundleVersionError, RejectedCandidate, Resolution};

/// A request has no answer. Displays as its cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveError {
    /// The cause.
    pub cause: Cause,
    /// Each bundle of the package with the reasons against it, the closest first; empty when the request itself is wrong.
    pub rejected: Vec<RejectedCandidate>,
}

/// The cause of a missing answer. Displays in the words of operator-controller `resolve/catalog.go`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The version range cannot be parsed.
    InvalidRange {
        /// The range.
        range: String,
        /// The problem.
        source: Box<ParseError>,
    },
    /// The installed bundle's version cannot be parsed, so no edge can be found.
    InvalidInstalledVersion {
        /// The problem.
        source: Box<ParseError>,
    },
    /// A catalog that the answer depends on cannot be read: wait for it.
    CatalogUnavailable {
        /// The package.
        package: String,
        /// The catalog: that of the highest priority, then the first by name.
        catalog: String,
        /// The problem of that catalog.
        source: Box<CatalogError>,
        /// All catalogs the answer depends on that cannot be read, by name.
        waiting_for: Vec<String>,
        /// The answer without them, for when waiting has taken long enough.
        answer: Option<Box<Resolution>>,
    },
    /// No catalog has a bundle that the request allows.
    NotFound {
        /// The request.
        wanted: Box<Wanted>,
    },
    /// Several catalogs of the same priority have different answers.
    Ambiguous {
        /// The request.
        wanted: Box<Wanted>,
        /// The catalogs with a candidate, by name.
        catalogs: Vec<String>,
    },
    /// The best bundle has no valid version.
    InvalidBundleVersion {
        /// The bundle.
        bundle: String,
        /// The problem.
        source: Box<BundleVersionError>,
    },
    /// The best bundle declares dependencies, and these are refused. No other bundle is tried.
    UnsupportedDependency {
        /// The bundle.
        bundle: String,
        /// Type of the property.
        property: String,
    },
}

impl Cause {
    /// Whether the request itself is wrong, whatever the catalogs have.
    pub(crate) fn is_invalid_request(&self) -> bool {
        matches!(self, Self::InvalidRange { .. } | Self::InvalidInstalledVersion { .. })
    }
}

impl From<Cause> for ResolveError {
    fn from(cause: Cause) -> Self {
        Self { cause, rejected: Vec::new() }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidRange { range, source } => {
                write!(f, "desired version range {} is invalid: {source}", Quoted(range))
            }
            Self::InvalidInstalledVersion { source } => write!(
                f,
                "error walking catalogs: error finding upgrade edges: error parsing installed bundle version: {source}"
            ),
            Self::CatalogUnavailable { package, catalog, source, .. } => {
                let (package, catalog) = (Quoted(package), Quoted(catalog));
                write!(
                    f,
                    "error walking catalogs: error getting package {package} from catalog {catalog}: {source}"
                )
            }
            Self::NotFound { wanted } => wanted.write(f, "no bundles found"),
            Self::Ambiguous { wanted, catalogs } => {
                wanted.write(f, "found bundles")?;
                write!(f, " in multiple catalogs with the same priority [{}]", catalogs.join(" "))
            }
            Self::InvalidBundleVersion { bundle, source } => {
                write!(f, "error getting resolved bundle version for bundle {}: {source}", Quoted(bundle))
            }
            Self::UnsupportedDependency { bundle, property } => {
                let (bundle, property) = (Quoted(bundle), Quoted(property));
                write!(
                    f,
                    "validating bundle {bundle}: bundle {bundle} has a dependency declared via property {property} which is currently not supported"
                )
            }
        }
    }
}

impl Error for ResolveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::InvalidRange { source, .. } | Cause::InvalidInstalledVersion { source } => Some(source),
            Cause::CatalogUnavailable { source, .. } => Some(source),
            Cause::InvalidBundleVersion { source, .. } => Some(source),
            Cause::NotFound { .. } | Cause::Ambiguous { .. } | Cause::UnsupportedDependency { .. } => None,
        }
    }
}

/// The request, as errors name it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Package name.
    pub package: String,
    /// Version range as written.
    pub version: Option<String>,
    /// Channels.
    pub channels: Vec<String>,
    /// Version text of the installed bundle.
    pub installed_version: Option<String>,
}

impl Wanted {
    fn write(&self, f: &mut fmt::Formatter<'_>, found: &str) -> fmt::Result {
        if let Some(version) = &self.installed_version {
            write!(f, "error upgrading from currently installed version {}: ", Quoted(version))?;
        }
        write!(f, "{found} for package {}", Quoted(&self.package))?;
        if let Some(version) = &self.version {
            write!(f, " matching version {}", Quoted(version))?;
        }
        if !self.channels.is_empty() {
            write!(f, " in channels [{}]", self.channels.join(" "))?;
        }
        Ok(())
    }
}
