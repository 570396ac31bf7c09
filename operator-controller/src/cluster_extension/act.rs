//! The writes of a reconcile: revisions, the Secrets with their objects, and what is made of a Helm release.

pub(crate) mod helm_release;
pub(crate) mod revision;
pub(crate) mod secrets;
