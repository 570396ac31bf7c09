//! The schema as the typing of data in the expression language.

use std::{borrow::Cow, sync::LazyLock};

use olm_cel::{Stop, Typing, Value, duration, is_keyword};
use serde_json::Value as Json;

use crate::schema::{Additional, Format, ListKind, Node, NodeKind as Kind};

/// The metadata of an object that rules see.
static METADATA: LazyLock<Node> = LazyLock::new(|| {
    let text = || Node { kinds: vec![Kind::String], ..Node::default() };
    Node {
        kinds: vec![Kind::Object],
        properties: [("name".to_owned(), text()), ("generateName".to_owned(), text())].into(),
        ..Node::default()
    }
});

/// The schema of `apiVersion` and `kind` in rules.
static TEXT: LazyLock<Node> = LazyLock::new(|| Node { kinds: vec![Kind::String], ..Node::default() });

impl Typing for Node {
    fn value<'a>(&'a self, data: &'a Json) -> Result<Value<'a>, Stop> {
        if data.is_null() {
            return if self.nullable {
                Ok(Value::Null)
            } else {
                Err(Stop::Failed("null where null is not allowed"))
            };
        }
        if self.int_or_string {
            return match data {
                Json::String(text) => Ok(Value::text(text.as_str())),
                Json::Number(number) => number
                    .as_i64()
                    .map(Value::Int)
                    .ok_or(Stop::Failed("a number where an integer or a string is expected")),
                _ => Err(Stop::Failed("neither an integer nor a string")),
            };
        }
        let misfit = Stop::Failed("data of another type than the schema's");
        match (self.kinds.as_slice(), data) {
            ([Kind::Object], Json::Object(fields)) => Ok(Value::Fields(fields, self)),
            ([Kind::Array], Json::Array(items)) => Ok(Value::Items(items, self)),
            ([Kind::String], Json::String(text)) => of_text(text, self),
            ([Kind::Number], Json::Number(number)) => number.as_f64().map(Value::Double).ok_or(misfit),
            ([Kind::Integer], Json::Number(number)) => number.as_i64().map(Value::Int).ok_or(misfit),
            ([Kind::Boolean], Json::Bool(flag)) => Ok(Value::Bool(*flag)),
            ([], _) if self.preserve_unknown => Ok(Value::Opaque(data)),
            ([], _) => Err(Stop::undecided("data without a type")),
            _ => Err(misfit),
        }
    }

    fn field(&self, name: &str) -> Option<&dyn Typing> {
        field(self, name).map(|node| node as &dyn Typing)
    }

    fn items(&self) -> Option<&dyn Typing> {
        self.items.as_deref().map(|node| node as &dyn Typing)
    }

    fn name<'n>(&self, written: &'n str) -> Cow<'n, str> {
        unescaped(written)
    }

    fn is_unordered(&self) -> bool {
        self.list != ListKind::Atomic
    }

    fn is_map(&self) -> bool {
        self.properties.is_empty()
    }
}

fn of_text<'a>(text: &'a str, node: &Node) -> Result<Value<'a>, Stop> {
    match node.format {
        Some(Format::Duration) => {
            duration(text).map(Value::Duration).ok_or_else(|| Stop::undecided("a duration of this form"))
        }
        Some(Format::Date | Format::DateTime) => Err(Stop::undecided("dates and times")),
        Some(Format::Byte) => Err(Stop::undecided("bytes")),
        _ => Ok(Value::text(text)),
    }
}

/// The schema of a field, by its name in data; `None` where rules cannot see it.
fn field<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
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

/// The name of a field in data, from its escaped form in a rule.
fn unescaped(name: &str) -> Cow<'_, str> {
    const SIGNS: [(&str, &str); 4] =
        [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
    if !name.contains("__") {
        return name.into();
    }
    let keyword = name.strip_prefix("__").and_then(|n| n.strip_suffix("__")).filter(|n| is_keyword(n));
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
