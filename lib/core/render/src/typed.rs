//! Kubernetes' typed structs as tables, and what passing through them does to a value.
//!
//! CSV parts and CRDs go through typed structs upstream, so unknown fields vanish, zero values of optional
//! fields go, some fields are always written and quantities get their canonical spelling. The tables name
//! fields, types and presence; [`convert`] is the only code. Types are Kubernetes 1.36.
//!
//! Source: k8s.io/apimachinery `pkg/runtime/converter.go` for what converts to what, and its error texts.

mod crd;
mod csv;
mod meta;
mod required;
mod scheduling;
mod volume;
mod workload;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

pub(crate) use required::required;

use std::fmt;

use olm_yaml::json_number;
use serde_json::{Map, Value};

use crate::{quantity, time};

/// A ClusterServiceVersion, without its status.
pub(crate) static CLUSTER_SERVICE_VERSION: Kind = Kind::Object(&csv::CLUSTER_SERVICE_VERSION);
/// A CustomResourceDefinition.
pub(crate) static CUSTOM_RESOURCE_DEFINITION: Kind = Kind::Object(&crd::CUSTOM_RESOURCE_DEFINITION);
/// The members of the user's `deploymentConfig`.
pub(crate) static DEPLOYMENT_CONFIG: Kind = Kind::Object(&csv::DEPLOYMENT_CONFIG);

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Text,
    Bool,
    Int32,
    Int64,
    Float,
    Quantity,
    IntOrString,
    Time,
    /// Bytes, as base64 text.
    Bytes,
    /// Any JSON, kept as it is.
    Raw,
    List(&'static Kind),
    Map(&'static Kind),
    Object(&'static Fields),
    ObjectOrBool(&'static Fields),
    ObjectOrList(&'static Fields),
    ObjectOrTexts(&'static Fields),
}

/// When a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Always; the type's zero value when absent.
    Always,
    /// Always; null when absent.
    Nullable,
    /// Unless it is the type's zero value.
    Optional,
    /// Unless absent or null: the zero value stays.
    Pointer,
}

/// The fields of a struct, sorted by name.
#[derive(Debug)]
pub(crate) struct Fields {
    fields: &'static [(&'static str, Presence, Kind)],
    writes_absent: bool,
}

impl Fields {
    const fn new(fields: &'static [(&'static str, Presence, Kind)]) -> Self {
        let mut writes_absent = false;
        let mut index = 0;
        while index < fields.len() {
            if matches!(fields[index].1, Presence::Always | Presence::Nullable) {
                writes_absent = true;
            }
            index += 1;
        }
        Self { fields, writes_absent }
    }

    pub(crate) fn find(&self, name: &str) -> Option<(Presence, &'static Kind)> {
        let index = self.fields.binary_search_by(|field| field.0.cmp(name)).ok()?;
        self.fields.get(index).map(|field| (field.1, &field.2))
    }

    fn write_absent(&self, map: &mut Map<String, Value>) {
        if !self.writes_absent {
            return;
        }
        for (name, presence, kind) in self.fields {
            let absent = match presence {
                Presence::Always => zero(kind),
                Presence::Nullable => Value::Null,
                Presence::Optional | Presence::Pointer => continue,
            };
            map.entry(*name).or_insert(absent);
        }
    }
}

/// A value that does not fit its field. The place is built from the inside out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeError {
    message: String,
    place: Vec<String>,
}

impl TypeError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), place: Vec::new() }
    }

    fn inside(mut self, step: impl Into<String>) -> Self {
        self.place.push(step.into());
        self
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.place.is_empty() {
            f.write_str(" at ")?;
        }
        for (index, step) in self.place.iter().rev().enumerate() {
            if index > 0 && !step.starts_with('[') {
                f.write_str(".")?;
            }
            f.write_str(step)?;
        }
        Ok(())
    }
}

impl std::error::Error for TypeError {}

/// Makes of `value` what comes out when it is read into a field of this type and written again.
pub(crate) fn convert(kind: &Kind, value: &mut Value) -> Result<(), TypeError> {
    if value.is_null() {
        *value = zero(kind);
        return Ok(());
    }
    match (kind, &mut *value) {
        (Kind::Text | Kind::IntOrString, Value::String(_))
        | (Kind::Bool | Kind::ObjectOrBool(_), Value::Bool(_)) => Ok(()),
        (Kind::Raw, value) => {
            numbers_of_64_bits(value);
            Ok(())
        }
        (Kind::Int32 | Kind::Int64 | Kind::Float | Kind::IntOrString, Value::Number(_)) => {
            number(kind, value)
        }
        (Kind::Quantity, _) => as_quantity(value),
        (Kind::Time, Value::String(text)) => {
            *value = time::canonical(text).map_err(TypeError::new)?.map_or(Value::Null, Value::String);
            Ok(())
        }
        (Kind::Bytes, Value::String(text)) => as_bytes(text),
        (Kind::List(item), Value::Array(items)) => list(item, items),
        (Kind::Map(item), Value::Object(map)) => {
            for (key, value) in map.iter_mut() {
                convert(item, value).map_err(|error| error.inside(format!("[{key:?}]")))?;
            }
            Ok(())
        }
        (
            Kind::Object(fields)
            | Kind::ObjectOrBool(fields)
            | Kind::ObjectOrList(fields)
            | Kind::ObjectOrTexts(fields),
            Value::Object(map),
        ) => object(fields, map),
        (Kind::ObjectOrBool(_), _) => Err(TypeError::new("boolean or JSON schema expected")),
        (Kind::ObjectOrList(fields), Value::Array(items)) if !items.is_empty() => {
            list(&Kind::Object(fields), items)
        }
        (Kind::ObjectOrTexts(_), Value::Array(items)) if !items.is_empty() => list(&Kind::Text, items),
        // Both types read everything else, and empty lists, as nothing.
        (Kind::ObjectOrList(_) | Kind::ObjectOrTexts(_), value) => {
            *value = Value::Null;
            Ok(())
        }
        (kind, value) => Err(mismatch(kind, value)),
    }
}

fn list(item: &Kind, items: &mut [Value]) -> Result<(), TypeError> {
    for (index, value) in items.iter_mut().enumerate() {
        convert(item, value).map_err(|error| error.inside(format!("[{index}]")))?;
    }
    Ok(())
}

fn object(fields: &Fields, map: &mut Map<String, Value>) -> Result<(), TypeError> {
    let mut failure = None;
    map.retain(|name, value| {
        if failure.is_some() {
            return true;
        }
        let Some((presence, kind)) = fields.find(name) else { return false };
        if value.is_null() && presence != Presence::Always {
            return presence == Presence::Nullable;
        }
        if let Err(error) = convert(kind, value) {
            failure = Some(error.inside(name));
        }
        presence != Presence::Optional || !is_zero(value)
    });
    if let Some(error) = failure {
        return Err(error);
    }
    fields.write_absent(map);
    Ok(())
}

/// Numbers of Go's JSON: integers of 64 bits with sign, all others floats.
pub(crate) fn numbers_of_64_bits(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_i64() => {
            if let Some(plain) = number.as_f64().and_then(json_number) {
                *number = plain;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(numbers_of_64_bits),
        Value::Object(map) => map.values_mut().for_each(numbers_of_64_bits),
        _ => {}
    }
}

fn number(kind: &Kind, value: &mut Value) -> Result<(), TypeError> {
    if matches!(kind, Kind::Float) {
        numbers_of_64_bits(value);
        if let Some(plain) = value.as_f64().and_then(json_number) {
            *value = Value::Number(plain);
        }
        return Ok(());
    }
    let whole = match (value.as_i64(), value.as_f64()) {
        (Some(whole), _) => whole,
        // What no 64 bits hold becomes the smallest integer, as the hardware has it.
        (None, Some(float)) if float.fract() == 0.0 => i64::MIN,
        _ => return Err(TypeError::new(format!("cannot convert {} to {}", name_of(value), name(kind)))),
    };
    let number = match kind {
        // Upstream converts by reflection, which cuts off the upper half.
        #[expect(clippy::cast_possible_truncation, reason = "what is cut off is cut off upstream, too")]
        Kind::Int32 => i64::from(whole as i32),
        Kind::IntOrString if i32::try_from(whole).is_err() => {
            return Err(TypeError::new(format!("cannot convert {} to {}", name_of(value), name(kind))));
        }
        _ => whole,
    };
    *value = Value::Number(number.into());
    Ok(())
}

/// Base64 as Go decodes it (line ends skipped, padded, spare bits ignored), encoded again.
fn as_bytes(text: &mut String) -> Result<(), TypeError> {
    const LENIENT: GeneralPurpose =
        GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
    text.retain(|c| !matches!(c, '\r' | '\n'));
    let bytes = LENIENT
        .decode(text.as_bytes())
        .map_err(|_| TypeError::new("error decoding from json: illegal base64 data"))?;
    *text = LENIENT.encode(bytes);
    Ok(())
}

fn as_quantity(value: &mut Value) -> Result<(), TypeError> {
    let text = match value {
        Value::String(text) => quantity::canonical(text),
        Value::Number(number) => quantity::canonical(&number.to_string()),
        other => return Err(mismatch(&Kind::Quantity, other)),
    };
    *value = Value::String(text.map_err(TypeError::new)?);
    Ok(())
}

/// What an absent or null value of this type is written as.
fn zero(kind: &Kind) -> Value {
    match kind {
        Kind::Text => Value::String(String::new()),
        Kind::Bool => Value::Bool(false),
        Kind::Int32 | Kind::Int64 | Kind::Float | Kind::IntOrString => Value::Number(0.into()),
        Kind::Quantity => Value::String("0".to_owned()),
        Kind::Time
        | Kind::Bytes
        | Kind::Raw
        | Kind::List(_)
        | Kind::Map(_)
        | Kind::ObjectOrBool(_)
        | Kind::ObjectOrList(_)
        | Kind::ObjectOrTexts(_) => Value::Null,
        Kind::Object(fields) => {
            let mut map = Map::new();
            fields.write_absent(&mut map);
            Value::Object(map)
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn mismatch(kind: &Kind, value: &Value) -> TypeError {
    let found = name_of(value);
    TypeError::new(match kind {
        Kind::Text if value.is_i64() => format!("cannot convert {found} to string"),
        Kind::List(_) | Kind::Bytes => format!("cannot restore slice from {found}"),
        Kind::Map(_) => format!("cannot restore map from {found}"),
        Kind::Object(_) => format!("cannot restore struct from: {found}"),
        kind => format!("unrecognized type: {}", name(kind)),
    })
}

/// Go's name of the type, as upstream's messages have it.
fn name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Text => "string",
        Kind::Bool => "bool",
        Kind::Int32 => "int32",
        Kind::Int64 => "int64",
        Kind::Float => "float64",
        Kind::Quantity => "resource.Quantity",
        Kind::IntOrString => "intstr.IntOrString",
        Kind::Time => "v1.Time",
        Kind::Raw => "v1.JSON",
        Kind::List(_) | Kind::Bytes => "slice",
        Kind::Map(_) => "map",
        Kind::Object(_) | Kind::ObjectOrBool(_) | Kind::ObjectOrList(_) | Kind::ObjectOrTexts(_) => "struct",
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
