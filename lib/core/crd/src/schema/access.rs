//! Members of JSON objects with the types that the API prescribes. Null counts as absent, as in the API.

use serde_json::Value;

use super::{Members, Misfit};

type Access<T> = Result<T, Misfit>;

/// A string; empty if absent.
pub(crate) fn text<'a>(value: Option<&'a Value>, member: &str) -> Access<&'a str> {
    match value {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Misfit::new(member, "a string")),
    }
}

/// A boolean; false if absent.
pub(crate) fn flag(value: Option<&Value>, member: &str) -> Access<bool> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Misfit::new(member, "a boolean")),
    }
}

/// A number.
pub(crate) fn number(value: Option<&Value>, member: &str) -> Access<Option<f64>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| Misfit::new(member, "a number")),
    }
}

/// A list; empty if absent.
pub(crate) fn list<'a>(value: Option<&'a Value>, member: &str) -> Access<&'a [Value]> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(Misfit::new(member, "a list")),
    }
}

/// A list of strings; empty if absent.
pub(crate) fn texts<'a>(value: Option<&'a Value>, member: &str) -> Access<Vec<&'a str>> {
    let texts = list(value, member)?.iter().map(Value::as_str);
    texts.collect::<Option<_>>().ok_or_else(|| Misfit::new(member, "a list of strings"))
}

/// An object.
pub(crate) fn object<'a>(value: Option<&'a Value>, member: &str) -> Access<Option<&'a Members>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(Misfit::new(member, "an object")),
    }
}

/// An object that must not be absent.
pub(crate) fn required_object<'a>(value: Option<&'a Value>, member: &str) -> Access<&'a Members> {
    object(value, member)?.ok_or_else(|| Misfit::new(member, "an object"))
}
