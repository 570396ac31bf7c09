//! Values of expressions, and how data become one under their schema.

use std::{borrow::Cow, rc::Rc, sync::LazyLock};

use serde_json::{Map, Value as Json};

use super::eval::Stop;
use crate::{
    format::{self, Format},
    node::{Additional, Kind, Node},
};

/// A value. Data of an object stay where they are and become values as they are looked at.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    /// Nanoseconds.
    Duration(i128),
    List(Rc<Vec<Value<'a>>>),
    Map(Rc<Vec<(Value<'a>, Value<'a>)>>),
    /// A list in the object, with its own schema.
    Items(&'a [Json], &'a Node),
    /// An object or map in the object, with its own schema.
    Fields(&'a Map<String, Json>, &'a Node),
    /// Data whose schema says nothing: only good for being compared.
    Opaque(&'a Json),
    /// The name of a type.
    Kind(&'static str),
}

/// What rules see of the metadata of an object.
static METADATA: LazyLock<Node> = LazyLock::new(|| {
    let text = || Node { kinds: vec![Kind::String], ..Node::default() };
    Node {
        kinds: vec![Kind::Object],
        properties: [("name".to_owned(), text()), ("generateName".to_owned(), text())].into(),
        ..Node::default()
    }
});

/// What rules see of `apiVersion` and `kind`.
static TEXT: LazyLock<Node> = LazyLock::new(|| Node { kinds: vec![Kind::String], ..Node::default() });

impl<'a> Value<'a> {
    /// The value that data are under their schema.
    pub(crate) fn of(data: &'a Json, node: &'a Node) -> Result<Self, Stop> {
        if data.is_null() {
            return if node.nullable {
                Ok(Self::Null)
            } else {
                Err(Stop::Failed("null where null is not allowed"))
            };
        }
        if node.int_or_string {
            return match data {
                Json::String(text) => Ok(Self::Text(text.into())),
                Json::Number(number) => number
                    .as_i64()
                    .map(Self::Int)
                    .ok_or(Stop::Failed("a number where an integer or a string is expected")),
                _ => Err(Stop::Failed("neither an integer nor a string")),
            };
        }
        let misfit = Stop::Failed("data of another type than the schema's");
        match (node.kinds.as_slice(), data) {
            ([Kind::Object], Json::Object(fields)) => Ok(Self::Fields(fields, node)),
            ([Kind::Array], Json::Array(items)) => Ok(Self::Items(items, node)),
            ([Kind::String], Json::String(text)) => Self::of_text(text, node),
            ([Kind::Number], Json::Number(number)) => number.as_f64().map(Self::Double).ok_or(misfit),
            ([Kind::Integer], Json::Number(number)) => number.as_i64().map(Self::Int).ok_or(misfit),
            ([Kind::Boolean], Json::Bool(flag)) => Ok(Self::Bool(*flag)),
            ([], _) if node.preserve_unknown => Ok(Self::Opaque(data)),
            ([], _) => Err(Stop::undecided("data without a type")),
            _ => Err(misfit),
        }
    }

    fn of_text(text: &'a str, node: &Node) -> Result<Self, Stop> {
        match node.format {
            Some(Format::Duration) => format::duration(text)
                .map(Self::Duration)
                .ok_or_else(|| Stop::undecided("a duration of this form")),
            Some(Format::Date | Format::DateTime) => Err(Stop::undecided("dates and times")),
            Some(Format::Byte) => Err(Stop::undecided("bytes")),
            _ => Ok(Self::Text(text.into())),
        }
    }

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
            Self::Fields(_, node) if node.properties.is_empty() => "map",
            Self::Fields(..) | Self::Opaque(_) => return None,
        })
    }

    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }
}

/// The schema of a field, by its name in data; nothing where rules cannot see it.
pub(crate) fn field_schema<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    if let Some(property) = node.properties.get(name)
        && (!node.is_resource || name != "metadata" || property.properties.contains_key("name"))
    {
        return Some(property);
    }
    if node.is_resource {
        match name {
            "apiVersion" | "kind" => return Some(&TEXT),
            "metadata" => return Some(&METADATA),
            _ => {}
        }
    }
    match &node.additional {
        Additional::Schema(schema) => Some(schema),
        Additional::Anything | Additional::Nothing => None,
    }
}

/// The name of a field in data, from how a rule has to write it.
pub(crate) fn unescaped(name: &str) -> Cow<'_, str> {
    const SIGNS: [(&str, &str); 4] =
        [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
    const KEYWORDS: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if !name.contains("__") {
        return name.into();
    }
    let keyword = name.strip_prefix("__").and_then(|n| n.strip_suffix("__")).filter(|n| KEYWORDS.contains(n));
    if let Some(keyword) = keyword {
        return keyword.into();
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some((escape, sign)) = SIGNS.iter().find(|(escape, _)| rest.starts_with(escape)) {
            out.push_str(sign);
            rest = &rest[escape.len()..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn names_are_unescaped() {
        for (written, name) in [
            ("plain", "plain"),
            ("a__dot__b__dash__c__slash__d", "a.b-c/d"),
            ("__namespace__", "namespace"),
            ("__underscores__x", "__x"),
            ("__other__", "__other__"),
        ] {
            assert_eq!(unescaped(written), name);
        }
    }
}
