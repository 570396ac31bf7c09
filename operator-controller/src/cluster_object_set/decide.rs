//! What is to be done for a revision whose content is known.

use kube::ResourceExt;
use olm_api::{
    names::TEARDOWN_FINALIZER,
    v1::{ClusterObjectSet, LifecycleState},
};

/// What a reconcile is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The revision gets its finalizer, before there is anything that its deletion would have to see to.
    Protect,
    /// The objects are brought to their desired state, phase by phase.
    RollOut,
    /// The objects that the revision still owns are removed.
    TearDown,
}

/// Decides what is to be done.
pub(crate) fn decide(set: &ClusterObjectSet) -> Decision {
    match set.spec.lifecycle_state {
        LifecycleState::Archived => Decision::TearDown,
        LifecycleState::Active if set.finalizers().iter().any(|f| f == TEARDOWN_FINALIZER) => {
            Decision::RollOut
        }
        LifecycleState::Active => Decision::Protect,
    }
}

#[cfg(test)]
mod tests {
    use olm_api::v1::ClusterObjectSetSpec;

    use super::*;

    #[test]
    fn nothing_is_written_before_the_finalizer_is_there() {
        let set = |lifecycle_state, finalizers: &[&str]| {
            let spec = ClusterObjectSetSpec { lifecycle_state, ..Default::default() };
            let mut set = ClusterObjectSet::new("ext-1", spec);
            set.metadata.finalizers = Some(finalizers.iter().map(ToString::to_string).collect());
            set
        };
        let (active, archived) = (LifecycleState::Active, LifecycleState::Archived);
        assert_eq!(decide(&set(active, &[])), Decision::Protect);
        assert_eq!(decide(&set(active, &["another"])), Decision::Protect);
        assert_eq!(decide(&set(active, &["another", TEARDOWN_FINALIZER])), Decision::RollOut);
        for finalizers in [&[][..], &[TEARDOWN_FINALIZER]] {
            assert_eq!(decide(&set(archived, finalizers)), Decision::TearDown);
        }
    }
}
