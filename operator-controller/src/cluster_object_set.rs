//! The object-set loop: makes the content of a revision true, and keeps it true.
//!
//! It never waits for catalogs, registries or resolution: everything it needs is in the ClusterObjectSet and
//! its Secrets.

mod account;
mod binding;
pub(crate) mod content;
pub(crate) mod execute;
mod kinds;
mod memory;
mod reconcile;
mod requeue;
mod siblings;
#[cfg(test)]
mod simulation;
pub(crate) mod status;
mod watched;

pub(crate) use content::{LoadedPhase, load};
pub(crate) use reconcile::{ObjectSets, Ports};
