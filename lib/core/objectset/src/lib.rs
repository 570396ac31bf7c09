//! The roll-out engine's decisions, without IO.
//!
//! A *revision* (ClusterObjectSet) is a list of [`Phase`]s. For each object the engine observes the cluster,
//! asks [`action`] for the next step, does it, and asks [`evaluate`] whether the answer is healthy. All decisions
//! are here; the requests to the API server are in operator-controller.

mod action;
mod adoption;
mod deletion_policy;
mod digest;
mod drift;
pub mod limits;
mod olm_classic;
mod ownership;
mod pack;
mod phase;
mod prepare;
mod probe;
mod release;
mod unserved_kinds;
mod workload;

pub use action::{Action, action, observation_digest};
pub use adoption::has_created_fields;
pub use deletion_policy::{
    DeletionPolicy, converts_by_webhook, form_patch, readable_without_webhook, retained_for,
    taking_form_patch, without_webhook, written_for,
};
pub use digest::{content_digest, phase_digest, sha256};
pub use olm_classic::classic_manager;
pub use ownership::{
    BEFORE_REVISIONS, Owner, OwnershipContext, Sibling, Teardown, controller_of, owner_references, teardown,
};
pub use pack::{PackError, Packed, PackedReference, PackedSecret, content_key, pack, unpack};
pub use phase::{Phase, assign, phase_of};
pub use prepare::{ObjectError, Origin, for_revision, prepare};
pub use probe::{
    defaults as default_probes, evaluate, failure as probe_failure, invalid_selector, label_selector_matches,
};
pub use release::{Release, ReleaseError};
pub use unserved_kinds::{UnknownKinds, UnservedKind, unserved_kind, unserved_kind_report};
pub use workload::{Finding, FindingKind, PodReport, Webhook, Workload};
