//! CustomResourceDefinitions, as JSON in the form of `apiextensions.k8s.io/v1`.
//!
//! - [`compare`]: is it safe to replace one definition by another?
//! - [`Schema::validate`]: would the API server accept an object under a definition?
//! - [`Upgrade`]: the impact that replacing a definition has on the objects that are stored.
//! - [`by_objects`]: can the stored objects decide whether a definition may be replaced?
//!
//! The crate reads and writes nothing outside of its arguments.

mod by_objects;
mod change;
mod definition;
mod error;
mod impact;
mod limits;
mod reading;
mod schema;
mod validate;

pub use by_objects::{NotByObjects, by_objects};
pub use change::{
    Allowance, AllowanceError, Allowances, Check, Danger, Finding, Policy, Reason, Report, Scope, Verdict,
    compare,
};
pub use error::CrdError;
pub use impact::{ObjectImpact, Upgrade, UpgradeError, UpgradeImpact};
pub use limits::OBJECT_STEPS_MAX;
pub use validate::{Note, Schema, Tristate, Validation};
