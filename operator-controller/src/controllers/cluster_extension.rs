//! The extension loop: decides what should run, and writes it down as a revision.

mod acting;
mod annotations;
mod apply;
mod content;
mod crd_changes;
mod identity;
mod keeping;
mod kinds;
mod marking;
mod pause;
mod planning;
mod progress;
mod proposal;
mod reconcile;
mod requirements;
mod resolution;
mod revisions;
mod rollback;
mod secrets;
mod status;
mod steps;
mod takeover;
mod validate;

pub(crate) use annotations::{KNOWN, UNKNOWN};
pub(crate) use identity::{FROM_DEFAULT, Identity};
#[cfg(test)]
pub(crate) use progress::Created;
pub(crate) use progress::{Progress, StepError};
pub(crate) use proposal::{Outcome, propose};
pub(crate) use reconcile::{Extensions, Ports};
pub(crate) use revisions::{BundleRecord, Revisions};
pub(crate) use steps::{Features, Steps};
