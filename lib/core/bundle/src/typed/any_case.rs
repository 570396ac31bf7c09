//! Field names in any case, as Go's JSON decoder takes them. The converter of apimachinery, which reads bundles of OLM v1,
//! takes exact names only.

use olm_go::field::names;
use serde_json::{Map, Value};

use super::{Fields, Kind, Presence};

/// Gives the fields of a value, and of what is in it, the names that the type has. Of several names of one field the last
/// counts.
pub fn in_exact_case(kind: &Kind, value: &mut Value) {
    match (kind, value) {
        (Kind::List(item), Value::Array(items)) => {
            for value in items {
                in_exact_case(item, value);
            }
        }
        (Kind::Map(item), Value::Object(map)) => {
            for value in map.values_mut() {
                in_exact_case(item, value);
            }
        }
        (
            Kind::Object(fields)
            | Kind::ObjectOrBool(fields)
            | Kind::ObjectOrList(fields)
            | Kind::ObjectOrTexts(fields),
            Value::Object(map),
        ) => object(fields, map),
        (Kind::ObjectOrList(fields), Value::Array(items)) => {
            for value in items {
                in_exact_case(&Kind::Object(fields), value);
            }
        }
        _ => {}
    }
}

fn object(fields: &Fields, map: &mut Map<String, Value>) {
    if map.keys().any(|key| fields.find(key).is_none()) {
        for (name, presence, kind) in fields.rows {
            rename(map, name, *presence == Presence::Pointer || is_emptied_by_null(kind));
        }
    }
    for (name, value) in map.iter_mut() {
        if let Some((_, kind)) = fields.find(name) {
            in_exact_case(kind, value);
        }
    }
}

/// Moves what is there under other spellings of a name to the name.
fn rename(map: &mut Map<String, Value>, name: &str, is_emptied: bool) {
    let keys: Vec<String> = map.keys().filter(|key| names(key, name)).cloned().collect();
    if keys.iter().all(|key| key == name) {
        return;
    }
    let mut last = Value::Null;
    for key in keys {
        let value = map.remove(&key).unwrap_or_default();
        if is_emptied || !value.is_null() {
            last = value;
        }
    }
    map.insert(name.to_owned(), last);
}

/// Whether null sets a field to nothing; other fields stay as they are.
fn is_emptied_by_null(kind: &Kind) -> bool {
    !matches!(
        kind,
        Kind::Text
            | Kind::Bool
            | Kind::Int32
            | Kind::Int64
            | Kind::Float
            | Kind::Quantity
            | Kind::IntOrString
            | Kind::Time
            | Kind::Object(_)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::CLUSTER_SERVICE_VERSION, *};

    #[test]
    fn names_in_any_case_are_those_of_the_type_and_the_last_counts() {
        let mut csv = json!({
            "METADATA": {"name": "a", "annotations": {"Name": "kept"}},
            "spec": {
                "MinKubeVersion": "1.20.0", "minkubeversion": "1.21.0", "Maturity": "beta", "maturity": null,
                "Keywords": ["a"], "keywords": null, "another": 1,
                "customresourcedefinitions": {"owned": [{"Name": "n", "resources": [{"Kind": "Pod"}]}]},
            },
        });
        in_exact_case(&CLUSTER_SERVICE_VERSION, &mut csv);
        let wanted = json!({
            "metadata": {"name": "a", "annotations": {"Name": "kept"}},
            "spec": {
                "minKubeVersion": "1.21.0", "maturity": "beta", "keywords": null, "another": 1,
                "customresourcedefinitions": {"owned": [{"name": "n", "resources": [{"kind": "Pod"}]}]},
            },
        });
        assert_eq!(csv, wanted);
    }
}
