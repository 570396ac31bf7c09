//! Whether the fields of a document have the types that opm's structures give them.
//!
//! opm decodes the documents of the four known schemas, and the values of known properties, with Go's
//! JSON package. A value that it refuses is refused here with the same text: the first field, in the order of the
//! canonical line, whose value has another type. Unknown fields are ignored, null is any field's zero value,
//! keys are compared regardless of case.

use std::borrow::Cow;

use olm_bundle::typed::{Fields, Kind};
use olm_fbc::FbcError;
use olm_go::{
    Quoted, base64,
    field::{Fields as Members, names},
};
use olm_text::cut;
use serde_json::{Number, Value};
use thiserror::Error;

use crate::{limits::QUOTED_DOCUMENT_CHARACTERS_MAX, structures};

/// A document is no catalog content. The texts are opm's.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// It is no object, or its names are no strings.
    #[error(transparent)]
    Document(#[from] FbcError),
    /// It has no schema. The document is quoted as a line, with its line feed; cut when it is long.
    #[error("object '{0}' is missing root schema field")]
    NoSchema(String),
    /// A field of a document, for example of a `package`, has another type.
    #[error("parse {0}: {1}")]
    Field(&'static str, String),
    /// A manifest within a bundle cannot be read: package and name of the bundle, and the problem.
    #[error("read bundle objects: package {}, bundle {}: {}", Quoted(.0), Quoted(.1), .2)]
    Object(String, String, String),
}

impl DecodeError {
    pub(crate) fn no_schema(line: &[u8]) -> Self {
        let text = String::from_utf8_lossy(line);
        let object = match cut(&text, QUOTED_DOCUMENT_CHARACTERS_MAX) {
            Cow::Borrowed(whole) => format!("{whole}\n"),
            Cow::Owned(start) => start,
        };
        Self::NoSchema(object)
    }
}

/// A field has another type than its meaning asks for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct FieldError {
    problem: String,
    /// The same as Go's JSON package has it.
    go: String,
}

impl FieldError {
    pub(crate) fn too_deep() -> Self {
        Self { problem: "field \"value\" is nested too deeply, expected less deep".into(), go: String::new() }
    }

    fn base64(at: usize) -> Self {
        let problem = format!("illegal base64 data at input byte {at}");
        Self { go: problem.clone(), problem }
    }

    fn mismatch(value: &Value, kind: &Kind, root: &Kind, path: &[Step<'_>]) -> Self {
        let (found, of_go) = match value {
            Value::Null => ("null", "null"),
            Value::Bool(_) => ("a boolean", "bool"),
            Value::Number(_) => ("a number", "number"),
            Value::String(_) => ("a string", "string"),
            Value::Array(_) => ("a list", "array"),
            Value::Object(_) => ("an object", "object"),
        };
        let expected = match kind {
            Kind::Bool => "a boolean",
            Kind::Int32 => "an integer of 32 bits",
            Kind::List(_) => "a list",
            Kind::Map(_) | Kind::Object(_) => "an object",
            _ => "a string",
        };
        let place = path.iter().enumerate().map(|(at, step)| match step {
            Step::Item(index) => format!("[{index}]"),
            Step::Field(name) | Step::Key(name) if at == 0 => (*name).to_owned(),
            Step::Field(name) | Step::Key(name) => format!(".{name}"),
        });
        let place = place.collect::<Vec<_>>().concat();
        let fields: Vec<&str> = path
            .iter()
            .filter_map(|step| if let Step::Field(name) = step { Some(*name) } else { None })
            .collect();
        let (root, kind) = (go_name(root), go_name(kind));
        let target = match (fields.as_slice(), root.rsplit('.').next()) {
            ([_, ..], Some(root)) => format!("struct field {root}.{}", fields.join(".")),
            _ => "value".into(),
        };
        Self {
            problem: format!("field {place:?} is {found}, expected {expected}"),
            go: format!("json: cannot unmarshal {of_go} into Go {target} of type {kind}"),
        }
    }
}

/// A step on the way to a value.
enum Step<'v> {
    Field(&'v str),
    Key(&'v str),
    Item(usize),
}

/// Checks `value` against its type.
pub(crate) fn check(value: &Value, kind: &Kind) -> Result<(), FieldError> {
    check_at(value, kind, kind, &mut Vec::new())
}

/// Checks the field `name` in the part `part` of a ClusterServiceVersion; the value, null included.
pub(crate) fn csv_field<'v>(
    csv: &'v Value,
    part: &str,
    name: &str,
    kind: &Kind,
) -> Result<Option<&'v Value>, FieldError> {
    static ANY: Fields = Fields::named("v1alpha1.ClusterServiceVersion", &[]);
    let root = Kind::Object(&ANY);
    check(csv, &root)?;
    let found = Members::of(csv).scalar(part).unwrap_or(&Value::Null);
    check_at(found, &root, &root, &mut vec![Step::Field(part)])?;
    let value = Members::of(found).raw(name);
    let mut path = vec![Step::Field(part), Step::Field(name)];
    value.map_or(Ok(()), |value| check_at(value, kind, &root, &mut path))?;
    Ok(value)
}

/// Checks a document of a catalog, if its schema is known.
pub(crate) fn check_document(schema: &str, value: &Value) -> Result<(), DecodeError> {
    let Some((word, kind)) = structures::document(schema) else { return Ok(()) };
    check(value, &kind).map_err(|error| DecodeError::Field(word, error.go))
}

/// The fault of a property's value in Go's words; without a value there is none to decode.
pub(crate) fn check_property(kind: &str, value: Option<&Value>) -> Result<(), String> {
    let value = value.ok_or("unexpected end of JSON input")?;
    check(value, &structures::property(kind)).map_err(|error| error.go)
}

fn check_at<'v>(
    value: &'v Value,
    kind: &Kind,
    root: &Kind,
    path: &mut Vec<Step<'v>>,
) -> Result<(), FieldError> {
    let mut below = |step, value, kind: &Kind| {
        path.push(step);
        check_at(value, kind, root, path)?;
        path.pop();
        Ok(())
    };
    match (kind, value) {
        (_, Value::Null) | (Kind::Raw, _) | (Kind::Text, Value::String(_)) | (Kind::Bool, Value::Bool(_)) => {
            Ok(())
        }
        (Kind::Bytes, Value::String(text)) => {
            base64::decode(text.as_bytes()).map(drop).map_err(FieldError::base64)
        }
        (Kind::Bytes, Value::Array(items)) if items.iter().all(is_byte) => Ok(()),
        (Kind::Int32, Value::Number(number)) if is_int32(number) => Ok(()),
        (Kind::List(of), Value::Array(items)) => {
            items.iter().enumerate().try_for_each(|(index, item)| below(Step::Item(index), item, of))
        }
        (Kind::Map(of), Value::Object(members)) => {
            members.iter().try_for_each(|(key, member)| below(Step::Key(key), member, of))
        }
        (Kind::Object(fields), Value::Object(members)) => members.iter().try_for_each(|(key, member)| {
            match fields.rows.iter().find(|(name, ..)| names(key, name)) {
                Some((name, _, kind)) => below(Step::Field(name), member, kind),
                None => Ok(()),
            }
        }),
        (
            Kind::Text
            | Kind::Bool
            | Kind::Int32
            | Kind::Bytes
            | Kind::List(_)
            | Kind::Map(_)
            | Kind::Object(_),
            _,
        ) => Err(FieldError::mismatch(value, kind, root, path)),
        // Types of Kubernetes that decode themselves; opm reads nothing of them.
        _ => Ok(()),
    }
}

fn is_int32(number: &Number) -> bool {
    let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
    number.as_f64().is_some_and(|number| number.fract() == 0.0 && range.contains(&number))
}

fn go_name(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "bool".into(),
        Kind::Int32 => "int32".into(),
        Kind::Bytes => "[]uint8".into(),
        Kind::List(of) => format!("[]{}", go_name(of)),
        Kind::Map(of) => format!("map[string]{}", go_name(of)),
        Kind::Object(fields) => fields.name.into(),
        _ => "string".into(),
    }
}

fn is_byte(value: &Value) -> bool {
    value.as_u64().is_some_and(|number| u8::try_from(number).is_ok())
}

/// The first field below `path` that its type does not have, with the names that are known there.
pub(crate) fn unknown_field(value: &Value, kind: &Kind, path: &str) -> Option<(String, String)> {
    match (kind, value) {
        (Kind::List(of), Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| unknown_field(item, of, &format!("{path}[{index}]")))
        }
        (Kind::Object(fields), Value::Object(members)) => members.iter().find_map(|(key, member)| {
            let dot = if path.is_empty() { "" } else { "." };
            let Some((name, _, kind)) = fields.rows.iter().find(|(name, ..)| names(key, name)) else {
                let known: Vec<&str> = fields.rows.iter().map(|(name, ..)| *name).collect();
                return Some((format!("{path}{dot}{key}"), known.join(", ")));
            };
            unknown_field(member, kind, &format!("{path}{dot}{name}"))
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
