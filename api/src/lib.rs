//! The custom resources of OLM v1: types, conditions, names, CRDs.
//!
//! The types are the source: `config/crd/*.yaml` is generated from them, rules and limits included, and
//! every component reads and writes the cluster through them. This crate has no client and does no I/O.

pub mod conditions;
pub mod crds;
pub mod names;
pub mod ownership;
pub mod v1;
pub mod v1alpha1;

pub use conditions::{
    Activity, ConditionStatus, ConditionType, ConditionUpdate, ConditionWriter, Conditions, Reason,
    with_remedy,
};
