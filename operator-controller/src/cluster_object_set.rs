//! The object-set loop: makes the content of a revision true, and keeps it true.
//!
//! It never waits for catalogs, registries or resolution: everything it needs is in the ClusterObjectSet and
//! its Secrets.

pub(crate) mod act;
mod checks;
mod context;
mod decide;
pub(crate) mod observe;
mod reconcile;
pub(crate) mod report;
mod requeue;
#[cfg(test)]
mod simulation;
mod workloads;

pub(crate) use checks::Checks;
pub(crate) use context::Context;
pub(crate) use observe::content;
pub(crate) use reconcile::ObjectSets;
