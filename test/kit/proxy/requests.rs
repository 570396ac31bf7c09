//! What a request asks for, and what a write is called.

use std::{fmt, time::Instant};

use http::{HeaderMap, Method, Uri, header};
use serde_json::Value;

/// A write by name: what it does to which object, and how many such writes there were.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteName {
    /// `create`, `update`, `patch`, `apply` or `delete`.
    pub verb: String,
    /// Resource and group, with the sub-resource: `deployments.apps/status`.
    pub resource: String,
    /// Namespace and name.
    pub object: String,
    /// The first is 1.
    pub nth: u32,
}

impl fmt::Display for WriteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} #{}", self.verb, self.resource, self.object, self.nth)
    }
}

/// A write that came.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its name.
    pub name: WriteName,
    /// When it came.
    pub at: Instant,
    /// The API server's answer, if there was one.
    pub status: Option<u16>,
}

/// A request, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) verb: String,
    pub(super) resource: String,
    pub(super) object: String,
    pub(super) dry_run: bool,
}

impl Asked {
    pub(super) fn read(method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Self {
        let query = uri.query().unwrap_or_default();
        let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
        let path: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match path.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            other => ("", other),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() && rest[0] != "status" => {
                (*namespace, rest)
            }
            other => ("", other),
        };
        let resource = rest.first().copied().unwrap_or("discovery");
        let mut name = rest.get(1).map_or_else(String::new, |name| (*name).to_owned());
        let verb = match *method {
            Method::GET if query.split('&').any(|p| p == "watch=true" || p == "watch=1") => "watch",
            Method::GET if name.is_empty() => "list",
            Method::GET => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::DELETE => "delete",
            Method::PATCH if is_apply(headers) => "apply",
            Method::PATCH => "patch",
            _ => "other",
        };
        if verb == "create" && name.is_empty() {
            let object: Value = serde_json::from_slice(body).unwrap_or_default();
            object["metadata"]["name"].as_str().unwrap_or_default().clone_into(&mut name);
        }
        let sub = rest.get(2).map(|sub| format!("/{sub}")).unwrap_or_default();
        let dot = if group.is_empty() { "" } else { "." };
        Self {
            verb: verb.to_owned(),
            resource: format!("{resource}{dot}{group}{sub}"),
            object: if namespace.is_empty() { name } else { format!("{namespace}/{name}") },
            dry_run: has("dryRun"),
        }
    }

    pub(super) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    /// Whether it changes what the cluster stores for the program: leases, Events, questions about rights, tokens
    /// and dry-runs do not.
    pub(super) fn is_write(&self) -> bool {
        let changes = ["create", "update", "patch", "apply", "delete"].contains(&self.verb.as_str());
        let resource = self.resource.as_str();
        let is_question = resource.ends_with("reviews.authorization.k8s.io")
            || resource.ends_with("reviews.authentication.k8s.io")
            || resource == "serviceaccounts/token";
        let is_other = ["events", "events.events.k8s.io", "leases.coordination.k8s.io"].contains(&resource);
        changes && !self.dry_run && !is_question && !is_other
    }

    pub(super) fn is_lease(&self) -> bool {
        self.resource.starts_with("leases.")
    }

    pub(super) fn text(&self) -> String {
        let dry_run = if self.dry_run { " (dry run)" } else { "" };
        format!("{} {} {}{dry_run}", self.verb, self.resource, self.object)
    }
}

fn is_apply(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/apply-patch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &Method, uri: &str, body: &str) -> Asked {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "application/apply-patch+yaml".parse().unwrap());
        Asked::read(method, &uri.parse().unwrap(), &headers, body.as_bytes())
    }

    #[test]
    fn requests_are_named_by_what_they_ask_for() {
        let table = [
            (Method::POST, "/api/v1/namespaces/a/secrets?fieldManager=x", "create secrets a/b", true),
            (Method::POST, "/api/v1/namespaces/a/secrets?dryRun=All", "create secrets a/b (dry run)", false),
            (
                Method::POST,
                "/api/v1/namespaces/a/serviceaccounts/c/token",
                "create serviceaccounts/token a/c",
                false,
            ),
            (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/d", "apply deployments.apps a/d", true),
            (Method::PUT, "/apis/x.io/v1/things/t/status", "update things.x.io/status t", true),
            (Method::DELETE, "/api/v1/namespaces/a", "delete namespaces a", true),
            (Method::GET, "/api/v1/namespaces", "list namespaces ", false),
            (Method::GET, "/api/v1/pods?watch=true&resourceVersion=1", "watch pods ", false),
            (Method::GET, "/apis/apps/v1", "list discovery.apps ", false),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/l",
                "update leases.coordination.k8s.io a/l",
                false,
            ),
            (
                Method::POST,
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                "create selfsubjectaccessreviews.authorization.k8s.io b",
                false,
            ),
        ];
        for (method, uri, text, is_write) in table {
            let asked = asked(&method, uri, r#"{"metadata":{"name":"b"}}"#);
            assert_eq!((asked.text().as_str(), asked.is_write()), (text, is_write));
        }
    }
}
