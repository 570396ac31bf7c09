//! Lists that are sets or maps (`x-kubernetes-list-type`), whose elements or keys are unique.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::validation::{Path, Validation};
use crate::schema::{ListKind, Node};

/// Finds elements that a set or a map has twice.
pub(crate) fn check(value: &Value, node: &Node, path: &mut Path, found: &mut Validation) {
    let Value::Array(items) = value else { return };
    match node.list {
        ListKind::Atomic => {}
        ListKind::Set => unique(items.iter().cloned(), path, found),
        ListKind::Map if items.iter().all(|item| item.is_null() || item.is_object()) => {
            unique(items.iter().map(|item| keys(item, node)), path, found);
        }
        ListKind::Map => found.violate(path.as_str(), "must have objects only"),
    }
}

/// The key of an element, without the parts that are absent.
fn keys(item: &Value, node: &Node) -> Value {
    let fields = item.as_object();
    let found = node.list_keys.iter().filter_map(|key| Some((key.clone(), fields?.get(key)?.clone())));
    Value::Object(found.collect::<Map<_, _>>())
}

fn unique(elements: impl Iterator<Item = Value>, path: &mut Path, found: &mut Validation) {
    let mut seen = BTreeSet::new();
    for (index, element) in elements.enumerate() {
        if !seen.insert(sorted(&element)) {
            path.element(index, |path| found.violate(path.as_str(), "is there twice"));
        }
    }
}

/// A text that is the same for equal values, whatever the order of their members.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            let fields = fields.into_iter().map(|(name, value)| format!("{name:?}:{}", sorted(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        scalar => scalar.to_string(),
    }
}
