//! Values of expressions, and how data become one.

use std::{borrow::Cow, fmt, ops::Deref, rc::Rc};

use serde_json::{Map, Value as Json};

use crate::budget::Stop;

/// The types of data in the language, and the fields that expressions see.
pub trait Typing: fmt::Debug {
    /// The value that data are.
    ///
    /// # Errors
    /// The data have another type than the typing's, or one that is not implemented.
    fn value<'a>(&'a self, data: &'a Json) -> Result<Value<'a>, Stop>;

    /// The typing of a field, by its name in the data; nothing where expressions cannot see it.
    fn field(&self, name: &str) -> Option<&dyn Typing>;

    /// The typing of the elements of a list.
    fn items(&self) -> Option<&dyn Typing>;

    /// The name of a field in the data, from how an expression writes it.
    fn name<'n>(&self, written: &'n str) -> Cow<'n, str> {
        written.into()
    }

    /// Whether a list is equal to another in any order, and no sum.
    fn is_unordered(&self) -> bool {
        false
    }

    /// Whether an object is a map, whose fields all have the same typing.
    fn is_map(&self) -> bool {
        true
    }
}

/// Data without a schema, as JSON decoders see them: every number is floating point.
#[derive(Debug)]
pub struct Untyped;

impl Typing for Untyped {
    fn value<'a>(&'a self, data: &'a Json) -> Result<Value<'a>, Stop> {
        Ok(match data {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => Value::text(text.as_str()),
            Json::Array(items) => Value::Items(items, self),
            Json::Object(fields) => Value::Fields(fields, self),
        })
    }

    fn field(&self, _: &str) -> Option<&dyn Typing> {
        Some(self)
    }

    fn items(&self) -> Option<&dyn Typing> {
        Some(self)
    }
}

/// A value. Data stay where they are and become values as they are looked at; copies are cheap.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A string.
    Text(Text<'a>),
    /// A duration in nanoseconds.
    Duration(i128),
    /// A list that was computed.
    List(Rc<Vec<Value<'a>>>),
    /// A map that was computed.
    Map(Rc<Vec<(Value<'a>, Value<'a>)>>),
    /// A list in the data, with its own typing.
    Items(&'a [Json], &'a dyn Typing),
    /// An object or map in the data, with its own typing.
    Fields(&'a Map<String, Json>, &'a dyn Typing),
    /// Data of which nothing is known: only good for being compared.
    Opaque(&'a Json),
    /// The name of a type.
    Kind(&'static str),
}

/// A string, of the data or computed.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    /// A part of the data or of the expression.
    Borrowed(&'a str),
    /// One that was computed.
    Computed(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Computed(text) => text,
        }
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Computed(text.into())
    }
}

impl<'a> Value<'a> {
    /// The name of its type.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        Some(match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) | Self::Items(..) => "list",
            Self::Map(_) => "map",
            Self::Kind(_) => "type",
            Self::Fields(_, typing) if typing.is_map() => "map",
            Self::Fields(..) | Self::Opaque(_) => return None,
        })
    }

    /// The number of elements of a list or entries of a map.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Self::List(list) => Some(list.len()),
            Self::Items(items, _) => Some(items.len()),
            Self::Map(entries) => Some(entries.len()),
            Self::Fields(fields, _) => Some(fields.len()),
            _ => None,
        }
    }

    /// A string.
    pub fn text(text: impl Into<Text<'a>>) -> Self {
        Self::Text(text.into())
    }
}
