//! Errors of the API server as texts, and the causes that are distinguished.

use kube::core::Status;
use olm_text::one_line;

/// Whether the API server refused something because its namespace does not exist.
pub fn is_namespace_missing(status: &Status) -> bool {
    status.is_not_found() && status.details.as_ref().is_some_and(|details| details.kind == "namespaces")
}

/// Whether the API server refused something because its namespace is being deleted.
pub fn is_namespace_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_forbidden() && causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// The API server's own words, without what kube puts around them.
#[must_use]
pub fn api_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => one_line(&status.message).into_owned(),
        other => one_line(&other.to_string()).into_owned(),
    }
}
