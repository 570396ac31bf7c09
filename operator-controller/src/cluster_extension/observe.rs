//! What is known of an extension before anything is decided: its ServiceAccount, its revisions, and whether an earlier
//! program made them.

pub(crate) mod identity;
pub(crate) mod revisions;
pub(crate) mod service_account;
pub(crate) mod takeover;
