//! The ServiceAccount in whose name a plan is carried out: that of the namespace's OperatorGroup, if it names one.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use olm_api_classic::OperatorGroup;
use thiserror::Error;

use super::texts;

/// Why the ServiceAccount is not known. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccountError {
    /// The namespace has no OperatorGroup.
    #[error("{}", texts::NO_GROUP)]
    NoGroup,
    /// It has several.
    #[error("{}", texts::several_groups(*.0))]
    SeveralGroups(usize),
    /// The ServiceAccount that the OperatorGroup names was not found.
    #[error("{}", texts::no_account(.account, .namespace, .group))]
    NoAccount {
        /// The ServiceAccount.
        account: String,
        /// Its namespace.
        namespace: String,
        /// The OperatorGroup.
        group: String,
    },
}

impl AccountError {
    /// What a person can do.
    pub fn remedy(&self) -> String {
        match self {
            Self::NoGroup => "Create an OperatorGroup in this namespace.".to_owned(),
            Self::SeveralGroups(_) => {
                "Leave one OperatorGroup in this namespace and delete the others.".to_owned()
            }
            Self::NoAccount { account, namespace, group } => format!(
                "Create ServiceAccount {namespace}/{account}, or change spec.serviceAccountName of OperatorGroup {namespace}/{group}."
            ),
        }
    }
}

/// The ServiceAccount of plans in a namespace with these OperatorGroups; none if the program's own permissions are used.
///
/// # Errors
/// There is not exactly one OperatorGroup, or its ServiceAccount was not found.
pub fn account(groups: &[OperatorGroup]) -> Result<Option<ObjectReference>, AccountError> {
    let [group] = groups else {
        return Err(if groups.is_empty() {
            AccountError::NoGroup
        } else {
            AccountError::SeveralGroups(groups.len())
        });
    };
    let Some(named) = group.spec.service_account_name.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let namespace = group.namespace().unwrap_or_default();
    let recorded = group.status.as_ref().and_then(|status| status.service_account_ref.as_ref());
    // The status may name the ServiceAccount of an earlier spec, or one that a user wrote there.
    let found = recorded.filter(|found| {
        found.name.as_deref() == Some(named) && found.namespace.as_deref() == Some(&*namespace)
    });
    match found {
        Some(found) => Ok(Some(found.clone())),
        None => {
            Err(AccountError::NoAccount { account: named.to_owned(), namespace, group: group.name_any() })
        }
    }
}
