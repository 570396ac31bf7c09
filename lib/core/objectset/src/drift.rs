//! Does an object in the cluster still say what the revision says?
//!
//! Only the fields that the revision sets are compared: the rest belongs to the server's defaults, to users
//! and to other controllers. The server may write a value in another form (`1000m` becomes `1`), so equality
//! with the desired text is not enough: [`projection`] is the live object cut down to the desired fields, and
//! its digest right after an apply is what later observations are compared with.

use olm_api::names::OBJECT_FIELD_MANAGER;
use serde_json::{Map, Value};

/// The part of `live` that `desired` speaks about.
///
/// Lists of equal length are walked element by element; a list of another length is taken whole.
pub(crate) fn projection(live: &Value, desired: &Value) -> Value {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            let fields: Map<String, Value> = desired
                .iter()
                .filter_map(|(key, wanted)| {
                    live.get(key).map(|found| (key.clone(), projection(found, wanted)))
                })
                .collect();
            Value::Object(fields)
        }
        (Value::Array(live), Value::Array(desired)) if live.len() == desired.len() => {
            Value::Array(live.iter().zip(desired).map(|(found, wanted)| projection(found, wanted)).collect())
        }
        _ => live.clone(),
    }
}

/// Whether every field of `desired` has the same value in `live`.
///
/// Owner references are compared by element, because other owners may stand beside ours.
pub(crate) fn satisfied(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(key, wanted)| {
            let found = live.get(key);
            if key == "ownerReferences" {
                return owners_present(found, wanted);
            }
            match found {
                Some(found) => satisfied(found, wanted),
                // The server drops explicit nulls and empty maps and lists of optional fields.
                None => is_empty(wanted),
            }
        }),
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len()
                && live.iter().zip(desired).all(|(found, wanted)| satisfied(found, wanted))
        }
        _ => live == desired,
    }
}

fn owners_present(live: Option<&Value>, wanted: &Value) -> bool {
    let live = live.and_then(Value::as_array);
    wanted.as_array().into_iter().flatten().all(|wanted| {
        live.into_iter()
            .flatten()
            .any(|found| found.get("uid") == wanted.get("uid") && satisfied(found, wanted))
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The object's `managedFields` with what our field manager wrote by `create`, and what `others` wrote, counted
/// as applied by us.
///
/// `create` records the manager's fields under the operation `Update`; a later server-side apply under the
/// same name would be a second manager, and fields that a new version drops would stay behind for ever.
/// `None` when there is nothing to move.
pub(crate) fn adopt_fields(live: &Value, others: &[&str]) -> Option<Vec<Value>> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let names = |entry: &Value, operation: &str, manager: &str| {
        entry.get("manager").and_then(Value::as_str) == Some(manager)
            && entry.get("operation").and_then(Value::as_str) == Some(operation)
            && entry.get("subresource").and_then(Value::as_str).unwrap_or_default().is_empty()
    };
    let is_adopted = |entry: &Value| {
        names(entry, "Update", OBJECT_FIELD_MANAGER) || others.iter().any(|m| names(entry, "Update", m))
    };
    let (adopted, mut kept): (Vec<Value>, Vec<Value>) = entries.iter().cloned().partition(is_adopted);
    let mut adopted = adopted.into_iter();
    let mut first = adopted.next()?;
    let fields_of =
        |entry: &Value| entry.get("fieldsV1").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut fields = fields_of(&first);
    for other in adopted {
        join_fields(&mut fields, fields_of(&other));
    }
    if let Some(applied) = kept.iter_mut().find(|entry| names(entry, "Apply", OBJECT_FIELD_MANAGER)) {
        let mut joined = fields_of(applied);
        join_fields(&mut joined, fields);
        applied["fieldsV1"] = joined.into();
    } else {
        first["manager"] = OBJECT_FIELD_MANAGER.into();
        first["operation"] = "Apply".into();
        first["fieldsV1"] = fields.into();
        kept.push(first);
    }
    Some(kept)
}

/// Whether our field manager's fields were created and not applied since: the next apply moves them first, so that
/// what a new version drops goes away.
pub fn has_created_fields(live: &Value) -> bool {
    adopt_fields(live, &[]).is_some()
}

/// Joins two sets of fields in their `fieldsV1` form, as structured-merge-diff does.
///
/// Each is a tree of keys. A key without anything below it is itself a member of the set; one with keys below is a
/// member only if `.` is among them.
pub fn join_fields(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(existing)), Value::Object(more)) => {
                let one_is_a_leaf = existing.is_empty() != more.is_empty();
                join_fields(existing, more);
                if one_is_a_leaf {
                    existing.insert(".".to_owned(), Value::Object(Map::new()));
                }
            }
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_others_do_not_count_as_drift() {
        let desired =
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"replicas": 1, "list": [{"name": "x"}]}});
        let live = json!({
            "metadata": {"labels": {"a": "1", "users": "own"}, "uid": "u"},
            "spec": {"replicas": 1, "defaulted": true, "list": [{"name": "x", "port": 80}]},
            "status": {},
        });
        assert!(satisfied(&live, &desired));
        assert_eq!(projection(&live, &desired), desired);
    }

    #[test]
    fn a_changed_a_missing_and_an_added_item_are_drift() {
        let desired = json!({"spec": {"a": 1, "list": ["x"]}});
        for live in [
            json!({"spec": {"a": 2, "list": ["x"]}}),
            json!({"spec": {"list": ["x"]}}),
            json!({"spec": {"a": 1, "list": ["x", "y"]}}),
        ] {
            assert!(!satisfied(&live, &desired), "{live}");
        }
    }

    #[test]
    fn empty_values_that_the_server_drops_are_no_drift() {
        assert!(satisfied(&json!({"spec": {}}), &json!({"spec": {"x": {}, "y": null, "z": []}})));
    }

    #[test]
    fn owner_references_may_have_company() {
        let desired = json!({"ownerReferences": [{"uid": "us", "controller": true}]});
        let shared = json!({"ownerReferences": [{"uid": "them"}, {"uid": "us", "controller": true}]});
        assert!(satisfied(&shared, &desired));
        assert!(!satisfied(&json!({"ownerReferences": [{"uid": "them"}]}), &desired));
        assert!(!satisfied(&json!({"ownerReferences": [{"uid": "us", "controller": false}]}), &desired));
    }

    #[test]
    fn a_normalised_value_keeps_its_projection() {
        let desired = json!({"spec": {"cpu": "1000m"}});
        let applied = json!({"spec": {"cpu": "1"}, "status": {"ready": 0}});
        let later = json!({"spec": {"cpu": "1"}, "status": {"ready": 1}});
        assert!(!satisfied(&applied, &desired));
        assert_eq!(projection(&applied, &desired), projection(&later, &desired));
        let edited = json!({"spec": {"cpu": "2"}});
        assert_ne!(projection(&applied, &desired), projection(&edited, &desired));
    }

    #[test]
    fn fields_written_by_create_become_applied_fields() {
        let entry = |operation: &str, fields: Value| json!({"manager": OBJECT_FIELD_MANAGER, "operation": operation, "apiVersion": "v1", "fieldsV1": fields});
        let other = json!({"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:x": {}}});
        let live = |entries: Value| json!({"metadata": {"managedFields": entries}});

        let only_created = live(json!([other, entry("Update", json!({"f:a": {}}))]));
        assert_eq!(
            adopt_fields(&only_created, &[]).unwrap(),
            [other.clone(), entry("Apply", json!({"f:a": {}}))]
        );

        let both = live(json!([
            entry("Apply", json!({"f:a": {"f:b": {}}})),
            entry("Update", json!({"f:a": {"f:c": {}}}))
        ]));
        assert_eq!(
            adopt_fields(&both, &[]).unwrap(),
            [entry("Apply", json!({"f:a": {"f:b": {}, "f:c": {}}}))]
        );

        assert_eq!(adopt_fields(&live(json!([other])), &[]), None);
    }

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
            join_fields(&mut into, b.as_object().unwrap().clone());
            assert_eq!(Value::Object(into), joined, "{a} and {b}");
        }
    }
}
