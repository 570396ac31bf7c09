//! Chooses the bundle to install: one pure function from a request and the contents of catalogs to an answer.
//!
//! 1. [`Request`]: its version range is parsed once; a wrong one is the cause of an error ([`Cause`]).
//! 2. Scope: the catalog of the installed bundle alone where it is required, or preferred and it has an answer;
//!    otherwise all catalogs that the caller selected.
//! 3. Filter, per catalog: a bundle is in the wanted channels, in the range, reachable from the installed bundle by one
//!    upgrade edge (or of its version and release), and of its major version where updates to others are blocked.
//! 4. Best of a catalog: not deprecated before deprecated, then the highest version and release.
//! 5. Choice: not deprecated before deprecated, then the highest priority; several of the same priority are ambiguous
//!    unless they offer one bundle by one digest.
//! 6. A catalog that cannot be read and could change the choice is waited for; the error carries the answer without it.
//! 7. [`Resolution`]: bundle, image, properties, and its declared dependencies, which the caller checks.
//! 8. Without an answer, [`ResolveError`] has the cause and all rejected candidates; [`advice`] has the remedy.
//!
//! Channel order and default channels do not count, and neither does the order of catalogs, nor that of bundles with
//! different versions.

mod advice;
mod bundle;
mod candidates;
mod deprecation;
mod error;
mod explain;
mod fallback;
mod limits;
mod order;
mod path;
mod request;
mod resolution;
mod resolve;
mod successors;
#[cfg(test)]
mod tests;
mod update;
mod versions;

pub use advice::{Audience, advice};
pub use bundle::{BundleVersionError, bundle_version};
pub use deprecation::{
    DeprecationCondition, DeprecationData, DeprecationReason, DeprecationStatus, deprecation_data,
    deprecation_status,
};
pub use error::{Cause, ResolveError};
pub use explain::{Reason, RejectedCandidate, explain, summary};
pub use fallback::keep_installed;
pub use limits::SUMMARY_BUNDLES_MAX;
pub use path::{Hop, PathError, upgrade_path};
pub use request::{
    CatalogView, Ceiling, DependencyHandling, Installed, MajorUpdates, Options, Request, SameCatalog,
    UpgradePolicy,
};
pub use resolution::{CatalogNote, OtherCatalog, Resolution};
pub use resolve::resolve;
pub use update::{AvailableUpdate, available_update};
pub use versions::{ChannelVersions, ListedVersion, PackageVersions};
