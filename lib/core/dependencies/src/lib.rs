//! Requirements that a bundle declares (`olm.package.required`, `olm.gvk.required`, `olm.constraint`), and whether a
//! cluster has it: pure functions over what is installed.
//!
//! Nothing is ever chosen or installed here. A requirement is met by a bundle that is installed, or, where it
//! asks for nothing but kinds, by the cluster serving them. Every constraint, however nested, is a statement
//! about one bundle, as in OLM's first generation; only `not` at the top is one about all of them: it says what
//! must not be there. Bundles that need each other can be installed together ([`can_proceed`]), so cycles do no harm.
//!
//! Content of catalogs is not trusted: nesting, counts and the work of an expression have limits.

mod cel;
mod classic;
mod cycle;
mod error;
mod evaluate;
mod limits;
mod recorded;
mod remedy;
mod requirement;
#[cfg(test)]
mod tests;
mod work;

pub use classic::Common;
pub use cycle::{PendingBundle, can_proceed};
pub use error::RequirementError;
pub use evaluate::{InstalledBundle, is_met, unmet};
pub use limits::CONSTRAINT_BYTES_MAX;
pub use recorded::recorded_properties;
pub use remedy::{Provider, cluster_extension, providers};
pub use requirement::{REQUIREMENTS, Requirement, requirements};
pub use work::Work;
