//! Versions, releases, version constraints and skip ranges.
//!
//! Two dialects of ranges meet in OLM. [`Constraint`] is the dialect of `spec.source.catalog.version`
//! (Masterminds semver v3), [`SkipRange`] that of `skipRange` and `olm.package.required` in catalogs
//! (blang semver v4). Both are reproduced with their quirks and the texts of their errors, because catalogs and
//! users rely on them. Versions themselves are parsed strictly in both cases.
//!
//! No version implements [`Ord`]: semver precedence ignores build metadata, so it is not the equality of
//! the texts. Use [`Version::cmp_precedence`] and [`BundleVersion::cmp_precedence`].

mod bundle_version;
mod constraint;
mod error;
mod limits;
mod order;
mod release;
mod skip_range;
mod version;

pub use bundle_version::{BundleVersion, ReleaseSupport};
pub use constraint::Constraint;
pub use error::ParseError;
pub use limits::{CONSTRAINT_BYTES_MAX, RELEASE_BYTES_MAX};
pub use release::Release;
pub use skip_range::SkipRange;
pub use version::{Identifier, Version};
