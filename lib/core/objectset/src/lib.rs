//! The brain of the roll-out engine, without IO.
//!
//! A *revision* (ClusterObjectSet) is a list of [`Phase`]s. For each object the engine observes the cluster,
//! asks [`action`] what to do, does it, and asks [`evaluate`] whether the answer is healthy. Everything that
//! decides is here; what talks to the API server is in operator-controller.

mod classic;
mod desired;
mod digest;
mod drift;
mod keeping;
mod lacking;
pub mod limits;
mod object;
mod ownership;
mod pack;
mod phase;
mod plan;
mod probe;
mod release;

pub use classic::classic_manager;
pub use desired::{ObjectError, Origin, for_revision, prepare};
pub use digest::{content_digest, phase_digest, sha256};
pub use drift::{has_created_fields, join_fields};
pub use keeping::{
    DeletionPolicy, converts_by_webhook, form_patch, is_crd, kept_for, readable_without_webhook,
    taking_form_patch, without_webhook, written_for,
};
pub use lacking::{Lack, UnknownKinds, defined_kinds, is_optional, lack, lack_text};
pub use object::ObjectKey;
pub use ownership::{BEFORE_REVISIONS, Owner, Sibling, Teardown, controller_of, owner_references, teardown};
pub use pack::{PackError, Packed, PackedReference, PackedSecret, content_key, pack, unpack};
pub use phase::{Phase, assign, phase_of};
pub use plan::{Action, Context, action, observation_digest};
pub use probe::{
    defaults as default_probes, evaluate, failure as probe_failure, invalid_selector, label_selector_matches,
};
pub use release::{Release, ReleaseError};
