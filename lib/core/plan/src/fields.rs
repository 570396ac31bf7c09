//! Which fields of an object are our own.
//!
//! The server records by manager and field who set what (`metadata.managedFields`). What was applied under our name
//! we sent; what was *created* under our name holds the server's defaults as well, because the server fills them in
//! before it records. Of these only those count that the content of a revision names.

use std::collections::BTreeMap;

use olm_api::names::{MANAGED_BY_LABEL, OBJECT_FIELD_MANAGER, REVISION_ANNOTATION};
use olm_object::{
    encode_string_data, is_secret,
    managed_fields::{extract, union},
};
use olm_objectset::sha256;
use serde_json::{Map, Value};

/// The fields that a revision's content sets, in the form in which plans compare: without identity and
/// bookkeeping, the data of Secrets as hashes.
pub(crate) fn stated(content: &Value) -> Value {
    masked(content, bare(&as_stored(content)))
}

/// The part of `live` that our field manager owns, in the form of [`stated`]. `old` is the content that was rolled
/// out, where it is known, `desired` the one that is to be.
pub(crate) fn own(live: &Value, old: Option<&Value>, desired: Option<&Value>) -> Value {
    let (mut fields, mut created) = (Map::new(), false);
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    for entry in entries.into_iter().flatten() {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("manager") != OBJECT_FIELD_MANAGER || !text("subresource").is_empty() {
            continue;
        }
        created |= text("operation") == "Update";
        if let Some(Value::Object(of_entry)) = entry.get("fieldsV1") {
            union(&mut fields, of_entry.clone());
        }
    }
    if fields.is_empty() {
        return Value::Object(Map::new());
    }
    let owned = extract(live, &fields);
    let named: Vec<Value> = [old, desired].into_iter().flatten().map(as_stored).collect();
    let keep_unnamed = old.is_none() && !created;
    let cut = cut(owned, &named.iter().collect::<Vec<_>>(), keep_unnamed).unwrap_or_default();
    masked(live, bare(&cut))
}

/// The fields of `answer`, the object as the server would store it, that the content `desired` sets, in the form of
/// [`stated`].
pub(crate) fn would_be(answer: &Value, desired: &Value) -> Value {
    let cut = cut(answer.clone(), &[&as_stored(desired)], false).unwrap_or_default();
    masked(desired, bare(&cut))
}

/// The object in the form in which the server keeps it.
fn as_stored(object: &Value) -> Value {
    let mut object = object.clone();
    encode_string_data(&mut object);
    object
}

/// Replaces the data of a Secret by their hashes; `object` has the kind.
fn masked(object: &Value, mut fields: Value) -> Value {
    if is_secret(object) {
        for member in ["data", "stringData"] {
            match fields.get_mut(member) {
                Some(Value::Object(data)) => {
                    for value in data.values_mut() {
                        *value = sha256(value).into();
                    }
                }
                Some(other) => *other = sha256(other).into(),
                None => {}
            }
        }
    }
    fields
}

/// Without what identifies the object and what every revision writes anew.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(fields) = object.as_object_mut() else { return object };
    fields.remove("apiVersion");
    fields.remove("kind");
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|key, _| key == "labels" || key == "annotations" || key == "finalizers");
        for (member, bookkeeping) in [("labels", MANAGED_BY_LABEL), ("annotations", REVISION_ANNOTATION)] {
            if let Some(Value::Object(map)) = metadata.get_mut(member) {
                map.remove(bookkeeping);
            }
        }
        metadata.retain(|_, map| map.as_object().is_none_or(|map| !map.is_empty()));
        if metadata.is_empty() {
            fields.remove("metadata");
        }
    }
    object
}

/// `value` without the fields that none of `named` has; with `keep_unnamed` only what lies below fields that are
/// named is cut.
fn cut(value: Value, named: &[&Value], keep_unnamed: bool) -> Option<Value> {
    if named.is_empty() {
        return keep_unnamed.then_some(value);
    }
    Some(match value {
        Value::Object(fields) if named.iter().any(|n| n.is_object()) => {
            let kept = fields.into_iter().filter_map(|(key, value)| {
                let inner: Vec<&Value> = named.iter().filter_map(|n| n.get(&key)).collect();
                cut(value, &inner, keep_unnamed).map(|value| (key, value))
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(cut_items(items, named, keep_unnamed)),
        other => other,
    })
}

fn cut_items(items: Vec<Value>, named: &[&Value], keep_unnamed: bool) -> Vec<Value> {
    let lists: Vec<&Vec<Value>> = named.iter().filter_map(|n| n.as_array()).collect();
    if are_named(&items) && lists.iter().all(|list| are_named(list)) {
        let named = lists.iter().map(|list| list.iter().map(|item| (item["name"].as_str(), item)).collect());
        let by_name: Vec<BTreeMap<Option<&str>, &Value>> = named.collect();
        let cut_one = |item: Value| {
            let inner: Vec<&Value> =
                by_name.iter().filter_map(|list| list.get(&item["name"].as_str()).copied()).collect();
            cut(item, &inner, keep_unnamed)
        };
        return items.into_iter().filter_map(cut_one).collect();
    }
    let alike: Vec<&&Vec<Value>> = lists.iter().filter(|list| list.len() == items.len()).collect();
    if alike.is_empty() {
        return items;
    }
    let cut_one = |(at, item): (usize, Value)| {
        let inner: Vec<&Value> = alike.iter().filter_map(|list| list.get(at)).collect();
        cut(item, &inner, keep_unnamed)
    };
    items.into_iter().enumerate().filter_map(cut_one).collect()
}

/// Whether every item has a name of its own.
pub(crate) fn are_named(items: &[Value]) -> bool {
    let names: std::collections::BTreeSet<&str> =
        items.iter().filter_map(|item| item.get("name").and_then(Value::as_str)).collect();
    !items.is_empty() && names.len() == items.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live(operation: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "d", "uid": "u", "resourceVersion": "7", "labels": {"a": "1", "users": "own"},
                "annotations": {"olm.operatorframework.io/revision": "1"},
                "managedFields": [
                    {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:users": {}}}}},
                    {"manager": "olm.operatorframework.io", "operation": operation, "fieldsV1": {
                        "f:metadata": {
                            "f:labels": {".": {}, "f:a": {}},
                            "f:annotations": {"f:olm.operatorframework.io/revision": {}},
                        },
                        "f:spec": {"f:replicas": {}, "f:minReadySeconds": {}, "f:template": {"f:spec": {"f:containers": {
                            "k:{\"name\":\"manager\"}": {".": {}, "f:name": {}, "f:image": {}, "f:imagePullPolicy": {}},
                        }}}},
                    }},
                    {"manager": "olm.operatorframework.io", "operation": "Update", "subresource": "status",
                     "fieldsV1": {"f:status": {}}},
                ],
            },
            "spec": {"replicas": 1, "minReadySeconds": 0, "other": true, "template": {"spec": {"containers": [
                {"name": "sidecar", "image": "s"},
                {"name": "manager", "image": "i:1", "imagePullPolicy": "Always", "tty": false},
            ]}}},
            "status": {"x": 1},
        })
    }

    fn content(image: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"a": "1"}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "manager", "image": image}]}}},
        })
    }

    #[test]
    fn what_the_server_filled_in_and_what_others_set_is_not_ours() {
        let named = json!({
            "metadata": {"labels": {"a": "1"}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "manager", "image": "i:1"}]}}},
        });
        for operation in ["Update", "Apply"] {
            let found = own(&live(operation), Some(&content("i:1")), Some(&content("i:2")));
            assert_eq!(found, named, "{operation}");
        }
        assert_eq!(own(&live("Update"), None, Some(&content("i:2"))), named);
        // Applied fields were all sent, even if no content at hand names them.
        let applied = own(&live("Apply"), None, Some(&content("i:2")));
        assert_eq!(applied["spec"]["minReadySeconds"], 0);
        assert_eq!(applied["metadata"], named["metadata"], "bookkeeping");
        assert_eq!(stated(&content("i:1")), named);
    }

    #[test]
    fn an_object_that_we_never_wrote_has_no_field_of_ours() {
        let foreign = json!({"kind": "ConfigMap", "data": {"a": "b"}, "metadata": {"managedFields": [
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {}}},
        ]}});
        assert_eq!(own(&foreign, None, Some(&foreign)), json!({}));
    }

    #[test]
    fn secret_data_are_hashes_in_both_of_their_forms() {
        let plain = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
        let encoded = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "aHVudGVyMg=="}});
        assert_eq!(stated(&plain), stated(&encoded));
        let text = stated(&plain).to_string();
        assert!(
            text.contains("sha256:") && !text.contains("hunter2") && !text.contains("aHVudGVyMg"),
            "{text}"
        );
        let mut live = encoded.clone();
        live["metadata"]["managedFields"] = json!([
            {"manager": "olm.operatorframework.io", "operation": "Update", "fieldsV1": {"f:data": {".": {}, "f:password": {}}}},
        ]);
        assert_eq!(own(&live, None, Some(&plain))["data"], stated(&plain)["data"]);
    }

    #[test]
    fn lists_are_found_by_key_and_by_value() {
        let live = json!({"kind": "X", "list": ["a", "b"], "ports": [{"port": 80, "protocol": "TCP"}], "metadata": {"managedFields": [
            {"manager": "olm.operatorframework.io", "operation": "Apply", "fieldsV1": {
                "f:list": {"v:\"b\"": {}},
                "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
            }},
        ]}});
        assert_eq!(own(&live, None, None), json!({"list": ["b"], "ports": [{"port": 80}]}));
    }
}
