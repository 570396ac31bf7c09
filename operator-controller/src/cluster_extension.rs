//! The extension loop: decides what should run, and writes it down as a revision.

pub(crate) mod act;
pub(crate) mod annotations;
mod context;
pub(crate) mod decide;
mod deletion;
pub(crate) mod observe;
pub(crate) mod plan;
mod proposal;
mod reconcile;
pub(crate) mod report;

pub(crate) use annotations::{KNOWN, UNKNOWN, is_guarded, short as short_annotation};
pub(crate) use context::{Context, Features};
pub(crate) use decide::resolve::answer as catalog_answer;
pub(crate) use observe::revisions::{BundleRecord, Revisions};
pub(crate) use proposal::propose;
pub(crate) use reconcile::Extensions;
pub(crate) use report::Report;
