//! A request to the API server, taken apart.

use http::{HeaderMap, Method, header};
use serde_json::Value;

use super::store::Key;

pub(super) struct ApiRequest {
    pub(super) method: Method,
    /// `group/version`, or `version` of the core group.
    pub(super) group_version: String,
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) sub: String,
    pub(super) body: Value,
    query: String,
    content_type: String,
    /// Whether it is sent with the token of a ServiceAccount, not as the program.
    pub(super) as_account: bool,
}

impl ApiRequest {
    pub(super) fn read(method: Method, path: &str, query: &str, headers: &HeaderMap, body: &[u8]) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let rest = if parts.first() == Some(&"api") { parts.get(2..) } else { parts.get(3..) };
        let (namespace, rest) = match rest.unwrap_or_default() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let group_version = match parts.as_slice() {
            ["api", version, ..] => (*version).to_owned(),
            ["apis", group, version, ..] => format!("{group}/{version}"),
            other => other.join("/"),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Self {
            method,
            group_version,
            resource: part(0),
            namespace: namespace.to_owned(),
            name: part(1),
            sub: part(2),
            query: query.to_owned(),
            content_type: header(header::CONTENT_TYPE).to_owned(),
            as_account: headers.contains_key(header::AUTHORIZATION),
            body: serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// What is asked for, without what differs from run to run.
    pub(super) fn subject(&self) -> String {
        let named = self.body["metadata"]["name"].as_str().unwrap_or_default();
        // Events are named by the time of the system.
        let name = if self.resource == "events" { "" } else { &self.name };
        let named = if self.resource == "events" { "" } else { named };
        let Self { method, group_version, resource, namespace, sub, .. } = self;
        let dry_run = self.is_dry_run();
        format!("{method} {group_version} {resource} {namespace} {name} {named} {sub} {dry_run}")
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.parameter("dryRun").is_some()
    }

    pub(super) fn is_watch(&self) -> bool {
        self.parameter("watch") == Some("true")
    }

    pub(super) fn is_apply(&self) -> bool {
        self.content_type.starts_with("application/apply-patch")
    }

    pub(super) fn is_json_patch(&self) -> bool {
        self.content_type == "application/json-patch+json"
    }

    /// Whether an object may be changed by it.
    pub(super) fn is_write(&self) -> bool {
        let asks = ["selfsubjectrulesreviews", "selfsubjectaccessreviews", "events"];
        self.method != Method::GET
            && !self.is_dry_run()
            && self.sub != "token"
            && !asks.contains(&self.resource.as_str())
    }

    pub(super) fn key(&self) -> Key {
        let name = match (&self.method, self.body["metadata"]["name"].as_str()) {
            (&Method::POST, Some(name)) => name.to_owned(),
            _ => self.name.clone(),
        };
        (self.resource.clone(), self.namespace.clone(), name)
    }

    /// Which objects a list or a watch is about.
    pub(super) fn selection(&self) -> Selection {
        let pairs = |name: &str| -> Vec<(String, String)> {
            let text = self.parameter(name).unwrap_or_default().replace("%3D", "=").replace("%2C", ",");
            let text = text.replace("%2F", "/");
            let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            pairs.map(|(key, value)| (key.to_owned(), value.trim_start_matches('=').to_owned())).collect()
        };
        Selection {
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            labels: pairs("labelSelector"),
            fields: pairs("fieldSelector"),
        }
    }
}

/// A resource, a namespace (all of them when empty), and equalities of labels and fields.
#[derive(Clone)]
pub(super) struct Selection {
    pub(super) resource: String,
    namespace: String,
    labels: Vec<(String, String)>,
    fields: Vec<(String, String)>,
}

impl Selection {
    pub(super) fn has(&self, (resource, namespace, name): &Key, object: &Value) -> bool {
        *resource == self.resource
            && (self.namespace.is_empty() || *namespace == self.namespace)
            && self.labels.iter().all(|(key, value)| object["metadata"]["labels"][key] == value.as_str())
            && self.fields.iter().all(|(field, value)| match field.as_str() {
                "metadata.name" => name == value,
                "metadata.namespace" => namespace == value,
                field => object[field] == value.as_str(),
            })
    }
}
