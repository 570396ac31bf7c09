//! The properties of a bundle: known types are checked, others only need a value.

use olm_go::{
    Quoted,
    field::{self, text},
};
use serde_json::{Map, Value};

use crate::decode;

/// A property whose value has the form that its type asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'v> {
    pub(crate) kind: &'v str,
    pub(crate) value: &'v Value,
}

impl<'v> Known<'v> {
    /// A text field of the value.
    pub(crate) fn text(&self, name: &str) -> &'v str {
        self.value.as_object().map_or("", |object| text(object, name))
    }
}

/// Checks each property; the first that does not fit its type ends it, with the original's text.
pub(crate) fn parse(properties: &[Value]) -> Result<Vec<Known<'_>>, String> {
    properties.iter().enumerate().map(|(index, property)| parse_one(index, property)).collect()
}

fn parse_one(index: usize, property: &Value) -> Result<Known<'_>, String> {
    let kind = property.as_object().map_or("", |object| text(object, "type"));
    let failed = |problem: String| format!("parse property[{index}] of type {}: {problem}", Quoted(kind));
    let Some(value) = property.as_object().and_then(raw_value) else {
        return Err(failed("unexpected end of JSON input".into()));
    };
    decode::check(value, decode::property(kind)).map_err(failed)?;
    Ok(Known { kind, value })
}

/// The value, null included: only an absent one is an error.
pub(crate) fn raw_value(property: &Map<String, Value>) -> Option<&Value> {
    field::raw(property, "value")
}
