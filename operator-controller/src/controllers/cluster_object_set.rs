//! The object-set loop: makes the content of a revision true, and keeps it true.
//!
//! It never waits for catalogs, registries or resolution: everything it needs is in the ClusterObjectSet and
//! its Secrets.

mod account;
mod binding;
pub(crate) mod content;
mod execute;
mod family;
pub(crate) mod keeping;
mod kinds;
mod memory;
mod pace;
mod reconcile;
#[cfg(test)]
mod simulation;
mod status;
mod watched;

pub(crate) use content::{LoadedPhase, api_text, load};
pub(crate) use reconcile::{ObjectSets, Ports};
