//! A request without an answer: the cause, and the candidates that were rejected.

use std::fmt::Write as _;

use olm_fbc::CatalogError;
use olm_go::Quoted;
use olm_semver::ParseError;
use thiserror::Error;

use crate::{BundleVersionError, RejectedCandidate, Request, Resolution};

/// A request has no answer. Displays as its cause.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{cause}")]
pub struct ResolveError {
    /// The cause.
    pub cause: Cause,
    /// Each bundle of the package with the reasons against it, the closest first; empty when the request itself is wrong.
    pub rejected: Vec<RejectedCandidate>,
}

/// The cause of a missing answer. Displays in the words of operator-controller `resolve/catalog.go`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Cause {
    /// The version range cannot be parsed.
    #[error("desired version range {} is invalid: {source}", Quoted(.range))]
    InvalidRange {
        /// The range.
        range: String,
        /// The problem.
        source: ParseError,
    },
    /// The installed bundle's version, or the release that was recorded apart from it, cannot be parsed, so no edge can
    /// be found.
    #[error("error walking catalogs: error finding upgrade edges: failed to {attempt}: {source}")]
    InvalidInstalledVersion {
        /// The attempt in upstream's words: which text was parsed.
        attempt: String,
        /// The problem.
        source: ParseError,
    },
    /// A catalog that the answer depends on cannot be read: wait for it.
    #[error("error walking catalogs: error getting package {} from catalog {}: {source}",
        Quoted(.package), Quoted(.catalog))]
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
    #[error("{}", text("no bundles found", .request))]
    NotFound {
        /// The request.
        request: Box<Request>,
    },
    /// Several catalogs of the same priority have different answers.
    #[error("{} in multiple catalogs with the same priority [{}]", text("found bundles", .request), .catalogs.join(" "))]
    Ambiguous {
        /// The request.
        request: Box<Request>,
        /// The catalogs with a candidate, by name.
        catalogs: Vec<String>,
    },
    /// The best bundle has no valid version.
    #[error("error getting resolved bundle version for bundle {}: {source}", Quoted(.bundle))]
    InvalidBundleVersion {
        /// The bundle.
        bundle: String,
        /// The problem.
        source: BundleVersionError,
    },
    /// The best bundle declares dependencies, and these are refused. No other bundle is tried.
    #[error("validating bundle {bundle}: bundle {bundle} has a dependency declared via property {} which is currently not supported",
        Quoted(.property), bundle = Quoted(.bundle))]
    UnsupportedDependency {
        /// The bundle.
        bundle: String,
        /// Type of the property.
        property: String,
    },
}

impl From<Cause> for ResolveError {
    fn from(cause: Cause) -> Self {
        Self { cause, rejected: Vec::new() }
    }
}

/// The request in upstream's words, after those for what was `found`.
fn text(found: &str, request: &Request) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(installed) = &request.installed {
        let version = Quoted(&installed.version);
        let _ = write!(text, "error upgrading from currently installed version {version}: ");
    }
    let _ = write!(text, "{found} for package {}", Quoted(&request.package));
    if let Some(version) = request.wanted_version() {
        let _ = write!(text, " matching version {}", Quoted(version));
    }
    if !request.channels.is_empty() {
        let _ = write!(text, " in channels [{}]", request.channels.join(" "));
    }
    text
}
