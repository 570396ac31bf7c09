//! Drift: differences between an object in the cluster and the content of its revision.
//!
//! Only the fields that the revision sets are compared: the rest belongs to the server's defaults, to users
//! and to other controllers. The server may write a value in another form (`1000m` becomes `1`), so equality
//! with the desired text is not enough: [`projection`] is the live object cut down to the desired fields, and
//! later observations are compared with its digest right after an apply.

use olm_object::is_empty;
use serde_json::{Map, Value};

/// The part of `live` whose fields `desired` has.
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
/// Owner references are compared by element, because other owners may be beside ours.
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
}
