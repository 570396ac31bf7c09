//! What reconciles of extensions and revisions may depend on, beside their own object.

/// Something whose change brings a reconcile of everybody who was interested in it at the last one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    /// The kinds of this API group.
    Group(String),
    /// The pull for the ClusterExtension of this name has ended, or its bundle can be read.
    Job(String),
}

impl olm_runtime::Interest for Interest {
    fn is_shared(&self) -> bool {
        !matches!(self, Self::Job(_))
    }
}

/// What fires interests.
pub(crate) type Interests = olm_runtime::Interests<Interest>;
/// The interests of one reconcile.
pub(crate) type Wanted = olm_runtime::Wanted<Interest>;
