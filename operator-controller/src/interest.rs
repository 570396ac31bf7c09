//! What reconciles of extensions and revisions may depend on, beside their own object.

use olm_runtime::{AccountRef, OwnerChanged};

/// Something whose change brings a reconcile of everybody who was interested in it at the last one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    /// Roles, bindings and ServiceAccounts, any of them.
    Rbac,
    /// Whether this ServiceAccount exists, and is the same one.
    ServiceAccount(AccountRef),
    /// Whether this namespace exists, and is the same one.
    Namespace(String),
    /// The kinds of this API group.
    Group(String),
    /// The content of the catalog of this name.
    Catalog(String),
    /// Which catalogs there are, and with which labels and priorities.
    Catalogs,
    /// What is installed, for those that miss something.
    Installed,
    /// The same, for those that have what they need.
    Removed,
    /// The settings of the administrator.
    Settings,
    /// Whether the admission policies are in force.
    Policies,
    /// The update policies, and whether they can be read.
    UpdatePolicies,
    /// The ClusterExtensions that policies may select.
    Extensions,
    /// The version of the platform.
    Platform,
    /// The revisions that concern the ClusterExtension of this name or UID.
    Revisions(String),
    /// The objects of this owner.
    Owned(OwnerChanged),
    /// The pull for the ClusterExtension of this name has ended, or its bundle can be read.
    Job(String),
    /// The numbers of custom resources of the ClusterExtension of this name.
    CustomResources(String),
}

impl olm_runtime::Interest for Interest {
    fn is_shared(&self) -> bool {
        !matches!(
            self,
            Self::Revisions(_)
                | Self::Owned(_)
                | Self::Job(_)
                | Self::CustomResources(_)
                | Self::ServiceAccount(_)
                | Self::Namespace(_)
        )
    }
}

/// What fires interests.
pub(crate) type Interests = olm_runtime::Interests<Interest>;
/// The interests of one reconcile.
pub(crate) type Wanted = olm_runtime::Wanted<Interest>;
