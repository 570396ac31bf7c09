//! API group `extensions.olm.operatorframework.io`, version `v1alpha1`: kinds that go beyond upstream's API.
//!
//! They are cluster-scoped, and have no conversion.

// KubeSchema copies each struct, visibility included, into a function.
#![allow(unreachable_pub)]
// Printer columns share keys.
#![allow(clippy::duplicated_attributes)]

mod extension_plan;
mod update_policy;

pub use extension_plan::*;
pub use update_policy::*;
