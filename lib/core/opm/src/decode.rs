//! Whether the fields of a document have the types that the original's structures give them.
//!
//! The original decodes the documents of the four known schemas, and the values of known properties, with Go's
//! JSON package. What that refuses is refused here with the same text: the first field, in the order of the
//! canonical line, whose value has another type. Unknown fields are ignored, null is any field's zero value,
//! keys are compared regardless of case.

mod shapes;

use std::borrow::Cow;

use olm_go::{base64, field::names};
use olm_text::cut;
use serde_json::Value;
use thiserror::Error;

pub(crate) use shapes::{BUNDLE, BUNDLE_OBJECT, CHANNEL, DEPRECATION, PACKAGE, property};

use crate::limits::QUOTED_DOCUMENT_CHARACTERS_MAX;

/// A document is no catalog content, although it is an object. The texts are the original's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// It does not say what it is.
    #[error("object '{object}' is missing root schema field")]
    NoSchema {
        /// The document as a line, with its line feed; cut when it is long, empty when the document is.
        object: String,
    },
    /// A field has another type.
    #[error("parse {kind}: {problem}")]
    Field {
        /// Which schema, for example `package`.
        kind: &'static str,
        /// Field and types.
        problem: String,
    },
    /// A manifest within a bundle cannot be read.
    #[error("read bundle objects: package {}, bundle {}: {problem}",
        olm_go::Quoted(.package), olm_go::Quoted(.bundle))]
    Object {
        /// Package of the bundle.
        package: String,
        /// Name of the bundle.
        bundle: String,
        /// Which property, and why.
        problem: String,
    },
}

impl DecodeError {
    pub(crate) fn no_schema(line: &[u8]) -> Self {
        let text = String::from_utf8_lossy(line);
        let object = match cut(&text, QUOTED_DOCUMENT_CHARACTERS_MAX) {
            Cow::Borrowed(whole) => format!("{whole}\n"),
            Cow::Owned(start) => start,
        };
        Self::NoSchema { object }
    }
}

/// The type of a value, as the original's structures have it.
#[derive(Debug)]
pub(crate) enum Shape {
    Text,
    Flag,
    /// A whole number of 32 bits.
    Number,
    /// Base64 in a string.
    Bytes,
    /// Anything.
    Raw,
    List(&'static Shape),
    /// Any keys.
    Map(&'static Shape),
    /// A structure: its name with its Go package, and its fields.
    Structure(&'static str, &'static [(&'static str, Shape)]),
}

impl Shape {
    fn go_name(&self) -> String {
        match self {
            Self::Text => "string".into(),
            Self::Flag => "bool".into(),
            Self::Number => "int32".into(),
            Self::Bytes => "[]uint8".into(),
            Self::Raw => "json.RawMessage".into(),
            Self::List(of) => format!("[]{}", of.go_name()),
            Self::Map(of) => format!("map[string]{}", of.go_name()),
            Self::Structure(name, _) => (*name).into(),
        }
    }

    /// The name of the structure without its package, which errors begin with.
    fn root(&self) -> &'static str {
        match self {
            Self::Structure(name, _) => name.rsplit('.').next().unwrap_or(name),
            _ => "",
        }
    }
}

/// Checks `value` against `shape`; the text is what Go's JSON package says.
pub(crate) fn check(value: &Value, shape: &Shape) -> Result<(), String> {
    check_at(value, shape, shape.root(), &mut Vec::new())
}

fn check_at(value: &Value, shape: &Shape, root: &str, path: &mut Vec<&'static str>) -> Result<(), String> {
    match (shape, value) {
        (_, Value::Null)
        | (Shape::Raw, _)
        | (Shape::Text, Value::String(_))
        | (Shape::Flag, Value::Bool(_)) => Ok(()),
        (Shape::Bytes, Value::String(text)) => base64::decode(text.as_bytes())
            .map(drop)
            .map_err(|at| format!("illegal base64 data at input byte {at}")),
        (Shape::Bytes, Value::Array(items)) if items.iter().all(is_byte) => Ok(()),
        (Shape::Number, Value::Number(number))
            if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) =>
        {
            Ok(())
        }
        (Shape::List(of), Value::Array(items)) => {
            items.iter().try_for_each(|item| check_at(item, of, root, path))
        }
        (Shape::Map(of), Value::Object(members)) => {
            members.values().try_for_each(|member| check_at(member, of, root, path))
        }
        (Shape::Structure(_, fields), Value::Object(members)) => {
            members.iter().try_for_each(|(key, member)| {
                let Some((name, shape)) = fields.iter().find(|(name, _)| names(key, name)) else {
                    return Ok(());
                };
                path.push(name);
                let checked = check_at(member, shape, root, path);
                path.pop();
                checked
            })
        }
        _ => Err(mismatch(value, shape, root, path)),
    }
}

fn mismatch(value: &Value, shape: &Shape, root: &str, path: &[&'static str]) -> String {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let go_name = shape.go_name();
    if path.is_empty() {
        return format!("json: cannot unmarshal {kind} into Go value of type {go_name}");
    }
    let field = path.join(".");
    format!("json: cannot unmarshal {kind} into Go struct field {root}.{field} of type {go_name}")
}

fn is_byte(value: &Value) -> bool {
    value.as_u64().is_some_and(|number| u8::try_from(number).is_ok())
}

#[cfg(test)]
mod tests;
