//! Which bundle to install: one pure function from a request and what the catalogs say to an answer.
//!
//! Only the highest version that the request and the catalogs' upgrade edges allow is an answer; edges are
//! walked one at a time, there is no solver. Channel order and default channels play no part. The answer does
//! not depend on the order of catalogs, nor on that of bundles with different versions.
//!
//! Catalogs are chosen by the caller (selector, availability), and waited for by the caller too: an error says
//! for which catalog, and what the answer would be without it. What declared dependencies ask for is handed
//! back, not checked.

mod advice;
mod bundle;
mod candidates;
mod deprecation;
mod error;
mod explain;
mod fallback;
mod limits;
mod order;
mod request;
mod resolution;
mod resolve;
mod successors;
#[cfg(test)]
mod tests;

pub use advice::{Audience, advice};
pub use bundle::{BundleVersionError, bundle_version};
pub use deprecation::{
    DeprecationCondition, DeprecationData, DeprecationReason, DeprecationStatus, Truth, deprecation_data,
    deprecation_status,
};
pub use error::{ResolveError, Wanted};
pub use explain::{PassedOver, Reason, explain, summary};
pub use fallback::keep_installed;
pub use limits::SUMMARY_BUNDLES_MAX;
pub use request::{
    CatalogView, DependencyHandling, Installed, MajorUpdates, Options, Request, SameCatalog, UpgradePolicy,
};
pub use resolution::{CatalogNote, OtherCatalog, Resolution};
pub use resolve::resolve;
