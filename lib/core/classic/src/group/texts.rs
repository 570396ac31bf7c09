//! Conditions and messages of OperatorGroups that users, consoles and scripts match on: upstream's, to the letter.

/// Condition: there are several groups in the namespace.
pub const MULTIPLE: &str = "MultipleOperatorGroup";
/// Reason of [`MULTIPLE`].
pub const MULTIPLE_FOUND: &str = "MultipleOperatorGroupsFound";
/// Message of [`MULTIPLE`].
pub const MULTIPLE_MESSAGE: &str = "Multiple OperatorGroup found in the same namespace";
/// Condition: the ServiceAccount of the group is not there.
pub const SERVICE_ACCOUNT: &str = "OperatorGroupServiceAccount";
/// Reason of [`SERVICE_ACCOUNT`].
pub const SERVICE_ACCOUNT_NOT_FOUND: &str = "ServiceAccountNotFound";

/// Error of an operator for no namespace.
pub const NO_NAMESPACES: &str =
    "operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces";
/// Error of all namespaces among others.
pub const ALL_AMONG_OTHERS: &str =
    "operatorgroup has invalid selected namespaces, NamespaceAll found when |selected namespaces| > 1";

/// Message of [`SERVICE_ACCOUNT`].
pub fn service_account_not_found(name: &str) -> String {
    format!("ServiceAccount {name} not found")
}

/// Error of a list of target namespaces that has the empty name.
pub fn targets_all(list: &[String]) -> String {
    format!("TargetNamespaces cannot contain NamespaceAll: [{}]", list.join(" "))
}

/// Error of an install mode that an operator does not support.
pub fn unsupported(mode: &str, namespaces: &str) -> String {
    format!("{mode} InstallModeType not supported, cannot configure to watch {namespaces}")
}
