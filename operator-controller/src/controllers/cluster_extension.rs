//! The extension loop: decides what should run, and writes it down as a revision.

mod annotations;
mod apply;
mod crd_changes;
mod keeping;
mod progress;
mod reconcile;
mod requirements;
mod resolution;
mod revisions;
mod status;
mod steps;
mod validate;

pub(crate) use progress::Progress;
pub(crate) use reconcile::{Extensions, Ports};
pub(crate) use steps::Features;
