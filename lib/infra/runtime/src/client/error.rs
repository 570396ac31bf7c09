//! Why there is no client.

use thiserror::Error;

/// Why a client could not be made.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No kubeconfig and not in a pod.
    #[error("no cluster: pass --kubeconfig, set KUBECONFIG, or run in a Pod: {0}")]
    NoCluster(String),
    /// The kubeconfig cannot be used, which the text names.
    #[error("{0}")]
    Config(String),
    /// What names a proxy does not hold an address.
    #[error("{0} is not the address of a proxy, want http://<host>:<port>")]
    Proxy(&'static str),
    /// The configuration names certificates or keys that cannot be used.
    #[error("client for the cluster: {0}")]
    Build(#[source] kube::Error),
    /// The ServiceAccount does not exist.
    #[error(
        "service account {name:?} not found in namespace {namespace:?}: unable to authenticate with the Kubernetes cluster."
    )]
    AccountNotFound {
        /// Namespace of the ServiceAccount.
        namespace: String,
        /// Name of the ServiceAccount.
        name: String,
        /// Whether the namespace does not exist either.
        namespace_missing: bool,
    },
    /// The ServiceAccount's namespace is being deleted, and the ServiceAccount with it.
    #[error("service account {name:?} cannot be used: namespace {namespace:?} is being deleted")]
    NamespaceTerminating {
        /// Namespace of the ServiceAccount.
        namespace: String,
        /// Name of the ServiceAccount.
        name: String,
    },
    /// No ServiceAccount can have this name, which would lead the request elsewhere.
    #[error("{what}")]
    InvalidAccount {
        /// What is wrong with it.
        what: String,
    },
    /// The controller may not act as this account.
    #[error(
        "the controller may not create tokens for service account {name:?} in namespace {namespace:?}: {message}"
    )]
    TokenForbidden {
        /// Namespace of the ServiceAccount.
        namespace: String,
        /// Name of the ServiceAccount.
        name: String,
        /// The API server's answer, which names the controller's account.
        message: String,
    },
    /// Another ServiceAccount has the name now.
    #[error(
        "service account {name:?} in namespace {namespace:?} was deleted and created again (its UID was {expected} and is {found}), and the new one is not used"
    )]
    AccountReplaced {
        /// Namespace of the ServiceAccount.
        namespace: String,
        /// Name of the ServiceAccount.
        name: String,
        /// UID of the one that was meant.
        expected: String,
        /// UID of the one that exists.
        found: String,
    },
    /// The token does not name the UID of its ServiceAccount.
    #[error("the token for service account {name:?} in namespace {namespace:?} does not name its UID")]
    Unidentified {
        /// Namespace of the ServiceAccount.
        namespace: String,
        /// Name of the ServiceAccount.
        name: String,
    },
    /// The token request failed otherwise.
    #[error("requesting a token for service account {name:?} in namespace {namespace:?}: {source}")]
    Token {
        /// Namespace of the ServiceAccount.
        namespace: String,
        /// Name of the ServiceAccount.
        name: String,
        /// The API server's answer.
        source: kube::Error,
    },
}
