//! The sentences that tell a person how a ServiceAccount becomes usable.

use olm_runtime::ClientError;

/// The step that makes a client possible, in one sentence; `None` where the error may pass by itself.
pub(crate) fn advice(error: &ClientError) -> Option<String> {
    match error {
        ClientError::AccountNotFound { namespace, name, namespace_missing: true } => Some(format!(
            "Namespace {namespace:?} does not exist: create it, and in it ServiceAccount {name:?} (\"olm bundle rbac <bundle> -n {namespace} --service-account {name}\" prints the ServiceAccount with the permissions that the bundle needs)."
        )),
        ClientError::AccountNotFound { namespace, name, namespace_missing: false } => Some(format!(
            "ServiceAccount {name:?} does not exist in namespace {namespace:?}: create it (\"olm bundle rbac <bundle> -n {namespace} --service-account {name}\" prints it with the permissions that the bundle needs)."
        )),
        ClientError::NamespaceTerminating { namespace, name } => Some(format!(
            "Namespace {namespace:?} is being deleted: create it again once it is gone, with ServiceAccount {name:?}, or delete the extension."
        )),
        ClientError::TokenForbidden { namespace, .. } => Some(format!(
            "Allow the controller to create tokens for ServiceAccounts in namespace {namespace:?}: \"olm bundle rbac --token-for\" prints the Role and RoleBinding."
        )),
        // The remedy for a replaced ServiceAccount depends on the extension.
        ClientError::AccountReplaced { .. }
        | ClientError::Unidentified { .. }
        | ClientError::NoCluster(_)
        | ClientError::Config(_)
        | ClientError::Proxy(_)
        | ClientError::Build(_)
        | ClientError::Token { .. }
        | ClientError::InvalidAccount { .. } => None,
    }
}
