//! What is checked before a revision is written, so that nothing is half applied: the permissions of the ServiceAccount,
//! the safety of CRD changes, and the API server's own opinion of every object.

mod kube_version;

pub(crate) use kube_version::check as check_kube_version;
pub(crate) use olm_preflight::{Verbs, missing_permissions, stored_objects};
