//! API group `olm.operatorframework.io`, version `v1`, the only one served and stored.
//!
//! The three kinds are cluster-scoped, have a `status` subresource and no conversion.

// KubeSchema copies each struct, visibility included, into a function.
#![allow(unreachable_pub)]
// Printer columns share keys.
#![allow(clippy::duplicated_attributes)]

mod cluster_catalog;
mod cluster_extension;
mod cluster_object_set;
pub(crate) mod common;

pub use cluster_catalog::*;
pub use cluster_extension::*;
pub use cluster_object_set::*;
pub use common::*;
