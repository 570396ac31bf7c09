//! Kubernetes objects inside of others (`x-kubernetes-embedded-resource`): apiVersion, kind and metadata.

use std::sync::LazyLock;

use olm_object::names::{is_kind, is_label, is_subdomain};
use regex::Regex;
use serde_json::Value;

use super::validation::{Path, Validation};
use crate::schema::Node;

/// Metadata that are checked here. With any others set, the object is undecided.
const UNDERSTOOD: [&str; 6] =
    ["annotations", "creationTimestamp", "generateName", "labels", "name", "namespace"];

static LABEL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$").ok());
fn is_label_value(text: &str) -> bool {
    LABEL.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// Checks a value that is a whole object.
pub(crate) fn check(value: &Value, node: &Node, path: &mut Path, found: &mut Validation) {
    if node.embedded && value.is_object() {
        resource(value, path, found);
    }
}

fn resource(value: &Value, path: &mut Path, found: &mut Validation) {
    path.field("apiVersion", |path| match value.get("apiVersion").map(Value::as_str) {
        None => found.violate(path.as_str(), "is required"),
        Some(Some(version)) if !version.is_empty() && version.matches('/').count() <= 1 => {}
        Some(_) => found.violate(path.as_str(), "must be the version of an API"),
    });
    path.field("kind", |path| match value.get("kind").map(Value::as_str) {
        None => found.violate(path.as_str(), "is required"),
        Some(Some(kind)) if is_kind(kind) => {}
        Some(_) => found.violate(path.as_str(), "must be the name of a kind"),
    });
    if let Some(metadata) = value.get("metadata") {
        path.field("metadata", |path| self::metadata(metadata, path, found));
    }
}

fn metadata(metadata: &Value, path: &mut Path, found: &mut Validation) {
    let Value::Object(fields) = metadata else {
        // Null is decoded as empty metadata.
        if !metadata.is_null() {
            found.violate(path.as_str(), "must be an object");
        }
        return;
    };
    for (name, value) in fields {
        path.field(name, |path| match (name.as_str(), value) {
            (_, Value::Null) => {}
            ("name" | "generateName", Value::String(text)) => {
                if text.contains(['/', '%']) || (name == "name" && (text == "." || text == "..")) {
                    found.violate(path.as_str(), "must be a name");
                }
            }
            ("namespace", Value::String(text)) => {
                if !text.is_empty() && !is_label(text) {
                    found.violate(path.as_str(), "must be the name of a namespace");
                }
            }
            ("labels" | "annotations", Value::Object(entries)) => {
                let good = entries.iter().all(|(key, value)| {
                    is_qualified(key)
                        && value.as_str().is_some_and(|v| name == "annotations" || is_label_value(v))
                });
                if !good {
                    found.violate(path.as_str(), "has a key or a value of another form");
                }
            }
            (name, _) if UNDERSTOOD.contains(&name) => {
                found.doubt(path.as_str(), "metadata of this form are not understood");
            }
            _ => found.doubt(path.as_str(), "this part of metadata is not understood"),
        });
    }
}

/// Whether a text is a key of labels: a name, perhaps with a prefix.
fn is_qualified(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix = prefix.is_none_or(|prefix| is_subdomain(&prefix.to_lowercase()));
    prefix && !name.is_empty() && is_label_value(name)
}
