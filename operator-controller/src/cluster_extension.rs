//! The extension loop: decides what should run, and writes it down as a revision.

pub(crate) mod act;
pub(crate) mod annotations;
pub(crate) mod decide;
pub(crate) mod observe;
pub(crate) mod plan;
pub(crate) mod proposal;
pub(crate) mod reconcile;
pub(crate) mod report;

pub(crate) use annotations::{KNOWN, UNKNOWN};
pub(crate) use decide::{Features, Steps};
pub(crate) use observe::identity::{FROM_DEFAULT, Identity};
pub(crate) use observe::revisions::{BundleRecord, Revisions};
pub(crate) use proposal::{Outcome, propose};
pub(crate) use reconcile::{Extensions, Ports};
#[cfg(test)]
pub(crate) use report::Created;
pub(crate) use report::{Progress, StepError};
