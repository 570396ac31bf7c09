//! Why there is no answer, in upstream's words.

use std::fmt;

use olm_fbc::CatalogError;
use olm_semver::{ParseError, Quoted};
use thiserror::Error;

use crate::{BundleVersionError, PassedOver, Resolution};

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// The version range cannot be parsed.
    #[error("desired version range {} is invalid: {source}", Quoted(.range))]
    InvalidRange {
        /// The range.
        range: String,
        /// Why.
        source: Box<ParseError>,
    },
    /// The installed bundle's version cannot be parsed, so no edge can be found.
    #[error(
        "error walking catalogs: error finding upgrade edges: error parsing installed bundle version: {source}"
    )]
    InvalidInstalledVersion {
        /// Why.
        source: Box<ParseError>,
    },
    /// A catalog that the answer depends on cannot be read: wait for it.
    #[error("error walking catalogs: error getting package {} from catalog {}: {source}",
        Quoted(.package), Quoted(.catalog))]
    CatalogUnavailable {
        /// The package.
        package: String,
        /// The catalog: that of the highest priority, then the first by name.
        catalog: String,
        /// Why it cannot be read.
        source: Box<CatalogError>,
        /// All catalogs the answer depends on that cannot be read, by name.
        waiting_for: Vec<String>,
        /// The answer without them, for when waiting has taken long enough.
        answer: Option<Box<Resolution>>,
        /// Bundles that could be read, but are no answer.
        passed_over: Vec<PassedOver>,
    },
    /// No catalog has a bundle that the request allows.
    #[error("{}", NotFound(.wanted))]
    NotFound {
        /// What was asked for.
        wanted: Box<Wanted>,
        /// All bundles of the package.
        passed_over: Vec<PassedOver>,
    },
    /// Several catalogs of the same priority have different answers.
    #[error("{}", Ambiguous(.wanted, .catalogs))]
    Ambiguous {
        /// What was asked for.
        wanted: Box<Wanted>,
        /// The catalogs with a candidate, by name.
        catalogs: Vec<String>,
        /// All bundles of the package.
        passed_over: Vec<PassedOver>,
    },
    /// The best bundle has no valid version.
    #[error("error getting resolved bundle version for bundle {}: {source}", Quoted(.bundle))]
    InvalidBundleVersion {
        /// The bundle.
        bundle: String,
        /// Why.
        source: Box<BundleVersionError>,
        /// All bundles of the package.
        passed_over: Vec<PassedOver>,
    },
    /// The best bundle declares dependencies, and these are refused. No other bundle is tried.
    #[error("validating bundle {}: bundle {} has a dependency declared via property {} which is currently not supported",
        Quoted(.bundle), Quoted(.bundle), Quoted(.property))]
    UnsupportedDependency {
        /// The bundle.
        bundle: String,
        /// Type of the property.
        property: String,
        /// All bundles of the package.
        passed_over: Vec<PassedOver>,
    },
}

impl ResolveError {
    /// Each bundle that is no answer, and why; those that come closest first.
    pub fn passed_over(&self) -> &[PassedOver] {
        match self {
            Self::InvalidRange { .. } | Self::InvalidInstalledVersion { .. } => &[],
            Self::CatalogUnavailable { passed_over, .. }
            | Self::NotFound { passed_over, .. }
            | Self::Ambiguous { passed_over, .. }
            | Self::InvalidBundleVersion { passed_over, .. }
            | Self::UnsupportedDependency { passed_over, .. } => passed_over,
        }
    }

    pub(crate) fn with_passed_over(mut self, all: Vec<PassedOver>) -> Self {
        match &mut self {
            Self::InvalidRange { .. } | Self::InvalidInstalledVersion { .. } => {}
            Self::CatalogUnavailable { passed_over, .. }
            | Self::NotFound { passed_over, .. }
            | Self::Ambiguous { passed_over, .. }
            | Self::InvalidBundleVersion { passed_over, .. }
            | Self::UnsupportedDependency { passed_over, .. } => *passed_over = all,
        }
        self
    }
}

/// What was asked for, as errors tell it.
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

struct NotFound<'a>(&'a Wanted);

impl fmt::Display for NotFound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, "no bundles found")
    }
}

struct Ambiguous<'a>(&'a Wanted, &'a [String]);

impl fmt::Display for Ambiguous<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, "found bundles")?;
        write!(f, " in multiple catalogs with the same priority [{}]", self.1.join(" "))
    }
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
