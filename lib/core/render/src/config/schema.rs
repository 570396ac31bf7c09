//! The schema of `deploymentConfig`: Kubernetes' published types, checked with the typed tables.
//!
//! Types, required fields and nothing else, as the published OpenAPI document has it; fields it does not
//! know are allowed below the top level, and dropped.

use olm_bundle::typed::{DEPLOYMENT_CONFIG, Fields, Kind};
use serde_json::{Map, Value};

/// A finding of upstream's library of schemas. It reports several about one value below a line of their own, unless
/// they are all there are.
pub(super) enum Finding {
    /// One finding, in as many lines as there is to say about it.
    Lines(Vec<String>),
    /// Several about one value.
    Group(Vec<Finding>),
    /// One that has causes.
    Above(String, Vec<Finding>),
}

impl Finding {
    pub(super) fn line(line: String) -> Self {
        Self::Lines(vec![line])
    }

    /// One finding in these lines; `None` if there are none.
    pub(super) fn lines(lines: Vec<String>) -> Option<Self> {
        (!lines.is_empty()).then_some(Self::Lines(lines))
    }

    /// The findings about one value as one.
    pub(super) fn group(mut findings: Vec<Self>) -> Option<Self> {
        if findings.len() > 1 { Some(Self::Group(findings)) } else { findings.pop() }
    }

    /// The lines of the findings about the whole configuration.
    pub(super) fn listed(findings: Vec<Self>) -> Vec<String> {
        let mut lines = Vec::new();
        let all = match Self::group(findings) {
            Some(Self::Group(findings)) => findings,
            one => one.into_iter().collect(),
        };
        for one in all {
            one.list(&mut lines);
        }
        lines
    }

    fn list(self, lines: &mut Vec<String>) {
        let (line, below) = match self {
            Self::Lines(own) => return lines.extend(own),
            Self::Group(below) => ("validation failed".to_owned(), below),
            Self::Above(line, below) => (line, below),
        };
        lines.push(line);
        for one in below {
            one.list(lines);
        }
    }
}

/// The finding about a `deploymentConfig`.
pub(super) fn deployment_config(config: &Value) -> Option<Finding> {
    let path = "deploymentConfig";
    let (Value::Object(map), Kind::Object(fields)) = (config, &DEPLOYMENT_CONFIG) else {
        return (!config.is_null()).then(|| Finding::line(wrong_type(path, config, "object")));
    };
    let known = map.iter().filter_map(|(name, value)| Some((name, fields.find(name)?.1, value)));
    let mut findings: Vec<_> =
        known.filter_map(|(name, kind, value)| member(kind, value, &format!("{path}.{name}"))).collect();
    let unknown = map.keys().filter(|key| fields.find(key).is_none());
    findings.extend(Finding::lines(unknown.map(|key| format!("unknown field \"{key}\"")).collect()));
    Finding::group(findings)
}

/// The finding about a member of a `deploymentConfig`: lists and maps are the schema's own, what is in them is of
/// Kubernetes' types.
fn member(kind: &'static Kind, value: &Value, path: &str) -> Option<Finding> {
    let within = |kind: &'static Kind, value: &Value, path: String| {
        let mut lines = Vec::new();
        check(kind, value, &path, &mut lines);
        Finding::lines(lines)
    };
    Finding::group(match (kind, value) {
        (Kind::List(item), Value::Array(items)) => {
            let each = items.iter().enumerate();
            each.filter_map(|(index, value)| within(item, value, format!("{path}.{index}"))).collect()
        }
        (Kind::Map(item), Value::Object(map)) => {
            map.iter().filter_map(|(key, value)| within(item, value, format!("{path}.{key}"))).collect()
        }
        _ => return within(kind, value, path.to_owned()),
    })
}

fn check_fields(fields: &'static Fields, map: &Map<String, Value>, path: &str, violations: &mut Vec<String>) {
    for name in fields.required {
        if !map.contains_key(*name) {
            violations.push(format!("required field \"{name}\" is missing"));
        }
    }
    for (name, value) in map {
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
    violations.push(wrong_type(path, value, wanted));
}

fn is_whole(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|value| value.fract() == 0.0)
}

/// The message for a value of a wrong type. One that is null counts as missing.
pub(super) fn wrong_type(path: &str, value: &Value, wanted: &str) -> String {
    if value.is_null() {
        return format!("required field \"{path}\" is missing");
    }
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
