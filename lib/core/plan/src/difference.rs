//! Which fields differ between two states of an object.

use std::collections::BTreeSet;

use olm_object::is_empty;
use serde::Serialize;
use serde_json::Value;

use crate::fields::are_named;

/// A field that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// Where it is, such as `spec.template.spec.containers[manager].image`.
    pub path: String,
    /// The value now; none if the field is not ours now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value afterwards; none if the field is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// The fields that differ, by path. Empty maps and lists count as absent, as the server drops them.
///
/// Items of lists are compared by name where all have one, else by place where their number stays the same; other
/// lists are compared as a whole.
pub(crate) fn differences(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    compare("", Some(before), Some(after), &mut changes);
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    changes
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<FieldChange>) {
    let (before, after) = (before.filter(|v| !is_empty(v)), after.filter(|v| !is_empty(v)));
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
                compare(&member(path, key), old.get(key), new.get(key), changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if are_named(old) && are_named(new) => {
            let names = old.iter().chain(new).filter_map(|item| item["name"].as_str());
            for name in names.collect::<BTreeSet<_>>() {
                let at = |items: &'_ [Value]| items.iter().position(|item| item["name"] == name);
                let (old, new) = (at(old).map(|at| &old[at]), at(new).map(|at| &new[at]));
                compare(&format!("{path}[{name}]"), old, new, changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{at}]"), Some(old), Some(new), changes);
            }
        }
        (before, after) if before != after => changes.push(FieldChange {
            path: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        }),
        _ => {}
    }
}

fn member(path: &str, key: &str) -> String {
    let is_plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '$');
    match (path, is_plain) {
        (_, false) => format!("{path}[{key:?}]"),
        ("", true) => key.to_owned(),
        (_, true) => format!("{path}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(before: &Value, after: &Value) -> Vec<String> {
        differences(before, after).into_iter().map(|change| change.path).collect()
    }

    #[test]
    fn fields_are_named_where_they_are() {
        let before = json!({
            "metadata": {"annotations": {"a/b": "1"}},
            "spec": {"containers": [{"name": "x", "image": "1"}, {"name": "gone"}], "args": ["a", "b"], "hosts": ["h"]},
        });
        let after = json!({
            "metadata": {"annotations": {"a/b": "2"}},
            "spec": {"containers": [{"name": "x", "image": "2"}], "args": ["a", "c"], "hosts": ["h", "i"], "new": {"x": 1}},
        });
        assert_eq!(
            paths(&before, &after),
            [
                "metadata.annotations[\"a/b\"]",
                "spec.args[1]",
                "spec.containers[gone]",
                "spec.containers[x].image",
                "spec.hosts",
                "spec.new",
            ]
        );
        let new = &differences(&before, &after)[5];
        assert_eq!((new.before.as_ref(), new.after.as_ref()), (None, Some(&json!({"x": 1}))));
    }

    #[test]
    fn what_the_server_drops_is_no_difference() {
        assert!(paths(&json!({"a": {}, "c": 1}), &json!({"b": [], "c": 1, "d": null})).is_empty());
    }
}
