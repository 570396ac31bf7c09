//! Sets of fields in the form of `metadata.managedFields[].fieldsV1`, with the semantics of structured-merge-diff.
//!
//! A set is a tree of path elements: `f:name` is a field of a map, `k:{…}` an item of a list by some of its fields,
//! `v:…` an item by its value. An element with nothing below it is itself a member of the set; one with elements below
//! is a member only if `.` is among them.
//!
//! Source: sigs.k8s.io/structured-merge-diff `fieldpath/set.go`, `fieldpath/serialize.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Adds the members of `from` to `into`.
pub fn union(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(existing)), Value::Object(more)) => {
                let one_is_a_leaf = existing.is_empty() != more.is_empty();
                union(existing, more);
                if one_is_a_leaf {
                    existing.insert(".".to_owned(), Value::Object(Map::new()));
                }
            }
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

/// The part of `live` that is in the set `fields`; a member without elements below it is taken whole.
pub fn extract(live: &Value, fields: &Map<String, Value>) -> Value {
    let children = || fields.iter().filter(|(key, _)| *key != ".");
    let below = |value: &Value, child: &Value| match child.as_object() {
        Some(inner) if !inner.is_empty() => extract(value, inner),
        _ => value.clone(),
    };
    match live {
        Value::Object(members) => {
            let owned = children().filter_map(|(key, child)| {
                let name = key.strip_prefix("f:")?;
                Some((name.to_owned(), below(members.get(name)?, child)))
            });
            Value::Object(owned.collect())
        }
        Value::Array(items) => {
            let elements = ItemElements::of(children());
            let owned = items.iter().filter_map(|item| elements.child(item).map(|child| below(item, child)));
            Value::Array(owned.collect())
        }
        other => other.clone(),
    }
}

/// The elements of a set that name items of a list.
#[derive(Default)]
struct ItemElements<'f> {
    /// By the names of the fields, then by the fields as text.
    by_fields: BTreeMap<Vec<String>, BTreeMap<String, &'f Value>>,
    by_value: BTreeMap<String, &'f Value>,
}

impl<'f> ItemElements<'f> {
    fn of(children: impl Iterator<Item = (&'f String, &'f Value)>) -> Self {
        let mut elements = Self::default();
        for (key, child) in children {
            let parsed = |prefix| key.strip_prefix(prefix).and_then(|text| serde_json::from_str(text).ok());
            if let Some(Value::Object(fields)) = parsed("k:") {
                let names = fields.keys().cloned().collect();
                elements.by_fields.entry(names).or_default().insert(Value::Object(fields).to_string(), child);
            } else if let Some(value) = parsed("v:") {
                elements.by_value.insert(value.to_string(), child);
            }
        }
        elements
    }

    fn child(&self, item: &Value) -> Option<&'f Value> {
        let by_fields = self.by_fields.iter().find_map(|(names, children)| {
            let fields = names.iter().map(|name| Some((name.clone(), item.get(name)?.clone())));
            let fields: Map<String, Value> = fields.collect::<Option<_>>()?;
            children.get(&Value::Object(fields).to_string()).copied()
        });
        by_fields.or_else(|| {
            (!self.by_value.is_empty()).then(|| self.by_value.get(&item.to_string()).copied()).flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_stays_a_member_when_fields_below_it_are_joined() {
        for (a, b, joined) in [
            (json!({"f:a": {}}), json!({"f:a": {"f:b": {}}}), json!({"f:a": {".": {}, "f:b": {}}})),
            (json!({"f:a": {"f:b": {}}}), json!({"f:a": {}}), json!({"f:a": {".": {}, "f:b": {}}})),
            (json!({"f:a": {}}), json!({"f:a": {}}), json!({"f:a": {}})),
            (
                json!({"f:a": {"f:b": {}}}),
                json!({"f:a": {"f:c": {}}}),
                json!({"f:a": {"f:b": {}, "f:c": {}}}),
            ),
            (json!({"f:a": {".": {}}}), json!({"f:a": {"f:c": {}}}), json!({"f:a": {".": {}, "f:c": {}}})),
            (json!({}), json!({"f:a": {"f:b": {}}}), json!({"f:a": {"f:b": {}}})),
        ] {
            let mut into = a.as_object().unwrap().clone();
            union(&mut into, b.as_object().unwrap().clone());
            assert_eq!(Value::Object(into), joined, "{a} and {b}");
        }
    }

    #[test]
    fn items_of_lists_are_found_by_key_and_by_value() {
        let live = json!({"list": ["a", "b"], "ports": [{"port": 80, "protocol": "TCP"}], "other": 1});
        let fields = json!({
            "f:list": {"v:\"b\"": {}},
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
            "f:gone": {},
        });
        let owned = extract(&live, fields.as_object().unwrap());
        assert_eq!(owned, json!({"list": ["b"], "ports": [{"port": 80}]}));
    }
}
