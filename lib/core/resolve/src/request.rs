//! Requests, and the catalogs that they are resolved from.

use olm_fbc::{CatalogError, PackageContent};
use olm_go::Quoted;
use olm_semver::{BundleVersion, Constraint, ParseError, Release, ReleaseSupport, Version};

use crate::Cause;

/// The request of an extension.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Package name.
    pub package: String,
    /// Version range as written; `None` and the empty text ask for any version.
    pub version: Option<String>,
    /// Channels to take bundles and upgrade edges from; all when empty.
    pub channels: Vec<String>,
    /// Which upgrades are allowed.
    pub upgrade_policy: UpgradePolicy,
    /// The installed bundle.
    pub installed: Option<Installed>,
    /// How to resolve, beyond what the API says.
    pub options: Options,
    /// What an update policy allows.
    pub ceiling: Option<Ceiling>,
}

/// What an update policy allows. The installed bundle stays a candidate, also beyond it: a policy downgrades nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Name of the policy.
    pub policy: String,
    /// Catalogs that bundles may come from; all when empty.
    pub catalogs: Vec<String>,
    /// Range of the versions; all without one. A text that is no range contains none.
    pub versions: Option<String>,
}

/// `upgradeConstraintPolicy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpgradePolicy {
    /// Only along the catalog's upgrade edges.
    #[default]
    CatalogProvided,
    /// To any version, downgrades included.
    SelfCertified,
}

/// The installed bundle, as recorded in the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    /// Bundle name.
    pub name: String,
    /// Version text.
    pub version: String,
    /// Release text, when one was recorded apart from the version.
    pub release: Option<String>,
    /// The catalog it came from, when recorded. It is preferred while it lists the installed bundle.
    pub catalog: Option<String>,
}

/// How to resolve, beyond what the API says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Handling of a chosen bundle that declares dependencies.
    pub dependencies: DependencyHandling,
    /// Whether explicit releases are honoured.
    pub releases: ReleaseSupport,
    /// Whether upgrades may cross catalogs.
    pub same_catalog: SameCatalog,
    /// Whether an update may lead to another major version.
    pub major_updates: MajorUpdates,
}

/// Whether an update may lead to another major version than the installed one. It binds whatever the upgrade
/// policy is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MajorUpdates {
    /// Where range and edges allow it, as upstream.
    #[default]
    Allow,
    /// Never. An installed version that cannot be parsed has no major version, and binds nothing.
    Block,
}

/// Handling of a chosen bundle that declares dependencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DependencyHandling {
    /// They are handed back in the resolution, for the caller to check.
    #[default]
    Accept,
    /// The resolution fails, as upstream's does.
    Refuse,
}

/// Whether the installed bundle's catalog of origin binds upgrades. Without a recorded origin it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SameCatalog {
    /// The origin's answer counts, whatever other catalogs offer; they are asked when it has none.
    #[default]
    Preferred,
    /// No other catalog is asked.
    Required,
}

/// A catalog, as one resolution sees it.
#[derive(Debug, Clone)]
pub struct CatalogView<'a> {
    /// Name of the ClusterCatalog.
    pub name: &'a str,
    /// `spec.priority`; the highest wins.
    pub priority: i32,
    /// Its content of the package, or why it cannot be read.
    pub content: Result<&'a PackageContent, CatalogError>,
}

/// A request whose texts are parsed.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    pub(crate) request: &'a Request,
    pub(crate) range: Option<Constraint>,
    /// The range of the update policy, if it has one that can be read.
    policy_range: Option<Constraint>,
    /// The version from which edges lead; its error counts only where edges are asked for.
    installed: Option<(&'a Installed, Result<BundleVersion, ParseError>)>,
}

impl<'a> Query<'a> {
    pub(crate) fn new(request: &'a Request) -> Result<Self, Cause> {
        let range = match request.wanted_version() {
            Some(text) => Some(
                text.parse::<Constraint>()
                    .map_err(|source| Cause::InvalidRange { range: text.to_owned(), source })?,
            ),
            None => None,
        };
        let installed = request
            .installed
            .as_ref()
            .map(|installed| (installed, installed.bundle_version(request.options.releases)));
        let policy_range =
            request.ceiling.as_ref().and_then(|ceiling| ceiling.versions.as_ref()?.parse().ok());
        Ok(Self { request, range, policy_range, installed })
    }

    /// The update policy, unless it leaves the bundle alone because it is the installed one.
    fn ceiling(&self, bundle: &str) -> Option<&'a Ceiling> {
        let is_installed = self.request.installed.as_ref().is_some_and(|installed| installed.name == bundle);
        self.request.ceiling.as_ref().filter(|_| !is_installed)
    }

    /// The policy that does not allow the catalog, if one does not.
    pub(crate) fn outside_policy(&self, catalog: &str) -> Option<&'a Ceiling> {
        let is_allowed = |ceiling: &&Ceiling| {
            ceiling.catalogs.is_empty() || ceiling.catalogs.iter().any(|name| name == catalog)
        };
        self.request.ceiling.as_ref().filter(|ceiling| !is_allowed(ceiling))
    }

    /// The policy that does not allow this bundle of the catalog, if one does not.
    pub(crate) fn forbidden_catalog(&self, bundle: &str, catalog: &str) -> Option<&'a Ceiling> {
        self.ceiling(bundle).and_then(|_| self.outside_policy(catalog))
    }

    /// Whether a version is lower than the installed one.
    pub(crate) fn is_downgrade(&self, to: &BundleVersion) -> bool {
        matches!(&self.installed, Some((_, Ok(installed))) if to.cmp_precedence(installed).is_lt())
    }

    /// The policy that does not allow the version, if one does not.
    pub(crate) fn forbidden_version(&self, bundle: &str, version: Option<&Version>) -> Option<&'a Ceiling> {
        let is_allowed = |ceiling: &&Ceiling| {
            let range = self.policy_range.as_ref();
            ceiling.versions.is_none()
                || range.zip(version).is_some_and(|(range, version)| range.matches(version))
        };
        self.ceiling(bundle).filter(|ceiling| !is_allowed(ceiling))
    }

    /// The major version that may not be left.
    pub(crate) fn bound_to_major(&self) -> Option<u64> {
        match (self.request.options.major_updates, &self.installed) {
            (MajorUpdates::Block, Some((_, Ok(version)))) => Some(version.version.major()),
            _ => None,
        }
    }

    /// The bundle whose successors are asked for; `None` when any bundle is allowed.
    pub(crate) fn upgrade_from(&self) -> Result<Option<(&'a Installed, &BundleVersion)>, Cause> {
        match (self.request.upgrade_policy, &self.installed) {
            (UpgradePolicy::SelfCertified, _) | (UpgradePolicy::CatalogProvided, None) => Ok(None),
            (UpgradePolicy::CatalogProvided, Some((installed, Ok(version)))) => {
                Ok(Some((installed, version)))
            }
            (UpgradePolicy::CatalogProvided, Some((installed, Err(error)))) => {
                Err(installed.invalid(error, self.request.options.releases))
            }
        }
    }
}

impl Request {
    /// The version range, unless any version will do.
    pub(crate) fn wanted_version(&self) -> Option<&str> {
        self.version.as_deref().filter(|version| !version.is_empty())
    }
}

impl Installed {
    pub(crate) fn bundle_version(&self, releases: ReleaseSupport) -> Result<BundleVersion, ParseError> {
        BundleVersion::from_fields(&self.version, self.release.as_deref(), releases)
    }

    /// The cause for which no edges are found.
    fn invalid(&self, error: &ParseError, releases: ReleaseSupport) -> Cause {
        let cause = |attempt, source| Cause::InvalidInstalledVersion { attempt, source };
        let Some(release) = self.release.as_ref().filter(|_| releases == ReleaseSupport::On) else {
            return cause("get version and release of installed bundle".to_owned(), error.clone());
        };
        let version = self.version.parse::<Version>().err();
        let version = version.map(|error| (format!("version {}", Quoted(&self.version)), error));
        let release =
            || release.parse::<Release>().err().map(|error| (format!("release {}", Quoted(release)), error));
        let (part, error) = version.or_else(release).unwrap_or_else(|| ("version".to_owned(), error.clone()));
        cause(format!("parse installed bundle {part}"), error)
    }
}
