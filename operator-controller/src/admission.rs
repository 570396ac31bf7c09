//! The admission policies without which whoever may write an extension could borrow any ServiceAccount.
//!
//! They are part of the default manifests, generated from here, and the controller compares the cluster's with
//! these ([`policies`](crate::facts::policies)). A policy asks for a right, never for a name: who may `impersonate` an account, or make its
//! tokens, may have extensions act as it. That holds for the controller itself as for everybody.
//!
//! Objects that are being deleted pass, and so do changes that leave the guarded part as it was: patches of
//! finalizers, labels and status never meet a policy.

mod deletion;
mod policies;
mod sets;

pub(crate) use deletion::DELETION_POLICY;
pub use policies::objects;
pub(crate) use policies::{
    DEFAULT_ACCOUNT_KEY, EXTENSION_ANNOTATIONS, EXTENSION_RECORDS, NAMES, SETTINGS_CONFIG_MAP,
};
pub(crate) use sets::OBJECT_SET_OWNER;
