//! The schema of `deploymentConfig`: Kubernetes' published types, checked with the typed tables.
//!
//! Types, required fields and nothing else, as the published OpenAPI document has it; fields it does not
//! know are allowed below the top level, and dropped.

use olm_bundle::typed::{DEPLOYMENT_CONFIG, Fields, Kind};
use serde_json::{Map, Value};

/// Adds the violations of a `deploymentConfig`.
pub(super) fn check_deployment_config(config: &Value, violations: &mut Vec<String>) {
    let path = "deploymentConfig";
    let (Value::Object(map), Kind::Object(fields)) = (config, &DEPLOYMENT_CONFIG) else {
        if !config.is_null() {
            violations.push(wrong_type(path, config, "object"));
        }
        return;
    };
    for key in map.keys().filter(|key| fields.find(key).is_none()) {
        violations.push(format!("unknown field \"{key}\""));
    }
    check_fields(fields, map, path, violations);
}

fn check_fields(fields: &'static Fields, map: &Map<String, Value>, path: &str, violations: &mut Vec<String>) {
    for name in fields.required {
        if map.get(*name).is_none_or(Value::is_null) {
            violations.push(format!("required field \"{name}\" is missing"));
        }
    }
    for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        if let Some((_, kind)) = fields.find(name) {
            check(kind, value, &format!("{path}.{name}"), violations);
        }
    }
}

fn check(kind: &'static Kind, value: &Value, path: &str, violations: &mut Vec<String>) {
    let wanted = match (kind, value) {
        (Kind::Object(fields), Value::Object(map)) => return check_fields(fields, map, path, violations),
        (Kind::List(item), Value::Array(items)) => {
            for (index, value) in items.iter().enumerate() {
                check(item, value, &format!("{path}.{index}"), violations);
            }
            return;
        }
        (Kind::Map(item), Value::Object(map)) => {
            for (key, value) in map {
                check(item, value, &format!("{path}.{key}"), violations);
            }
            return;
        }
        (Kind::Text | Kind::Time | Kind::Bytes, Value::String(_))
        | (Kind::Quantity | Kind::IntOrString, Value::String(_) | Value::Number(_))
        | (Kind::Bool, Value::Bool(_))
        | (Kind::Float, Value::Number(_))
        | (Kind::Raw, _) => return,
        (Kind::Int32 | Kind::Int64, Value::Number(number)) if is_whole(number) => return,
        (Kind::Text | Kind::Time | Kind::Bytes, _) => "string",
        (Kind::Quantity | Kind::IntOrString, _) => "string or number",
        (Kind::Bool, _) => "boolean",
        (Kind::Float, _) => "number",
        (Kind::Int32 | Kind::Int64, _) => "integer",
        (Kind::List(_), _) => "array",
        (
            Kind::Object(_)
            | Kind::Map(_)
            | Kind::ObjectOrBool(_)
            | Kind::ObjectOrList(_)
            | Kind::ObjectOrTexts(_),
            _,
        ) => "object",
    };
    violations.push(if value.is_null() {
        format!("required field \"{path}\" is missing")
    } else {
        wrong_type(path, value, wanted)
    });
}

fn is_whole(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|value| value.fract() == 0.0)
}

/// The message for a value of a wrong type.
pub(super) fn wrong_type(path: &str, value: &Value, wanted: &str) -> String {
    format!("invalid type for field \"{path}\": got {}, want {wanted}", json_type(value))
}

/// JSON Schema's name of a value's type.
pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
