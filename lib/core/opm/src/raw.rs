//! Values as the compact JSON text that the original's encoder writes, kept as text.
//!
//! Properties carry their value as text, because the order of its keys is visible in what is printed: values
//! that the original builds itself have the order of its structures, values it read have theirs. The texts
//! have no white space, numbers as 64-bit floats print, and U+2028 and U+2029 escaped.

use std::io::Write as _;

use olm_fbc::print_float;
use serde_json::{Number, Value, value::RawValue};

/// Whether `<`, `>` and `&` are escaped, as the original does in what it puts through its default encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Html {
    Escaped,
    Kept,
}

/// Writes a value, keys sorted.
pub(crate) fn value(out: &mut Vec<u8>, value: &Value, html: Html) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(found) => number(out, found),
        Value::String(found) => text(out, found, html),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                self::value(out, item, html);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            let mut object = Object::new(out, html);
            for (key, item) in entries {
                object.value(key, item);
            }
            object.end();
        }
    }
}

/// Writes a quoted string.
pub(crate) fn text(out: &mut Vec<u8>, text: &str, html: Html) {
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => escape(out, character),
            '<' | '>' | '&' if html == Html::Escaped => escape(out, character),
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, character: char) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "\\u{:04x}", u32::from(character));
}

fn number(out: &mut Vec<u8>, number: &Number) {
    match number.as_f64() {
        Some(float) if number.is_f64() => print_float(float, out),
        _ => out.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// An object whose members are written in the order they are given.
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    html: Html,
    first: bool,
}

impl<'a> Object<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, html: Html) -> Self {
        out.push(b'{');
        Self { out, html, first: true }
    }

    /// Begins a member; its value is what is written to the answer next.
    pub(crate) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        text(self.out, key, self.html);
        self.out.push(b':');
        self.out
    }

    pub(crate) fn text(&mut self, key: &str, content: &str) {
        let html = self.html;
        text(self.key(key), content, html);
    }

    pub(crate) fn value(&mut self, key: &str, content: &Value) {
        let html = self.html;
        value(self.key(key), content, html);
    }

    pub(crate) fn end(self) {
        self.out.push(b'}');
    }
}

/// The text of an object whose members all are strings.
pub(crate) fn object_of_texts(members: &[(&str, &str)]) -> Box<RawValue> {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out, Html::Kept);
    for (key, content) in members {
        object.text(key, content);
    }
    object.end();
    finish(out)
}

/// The text of a value, keys sorted.
pub(crate) fn of_value(content: &Value, html: Html) -> Box<RawValue> {
    let mut out = Vec::new();
    value(&mut out, content, html);
    finish(out)
}

/// What was written as a raw value.
pub(crate) fn finish(out: Vec<u8>) -> Box<RawValue> {
    // Everything above writes JSON in UTF-8, so neither step can fail; null stands for the impossible.
    let text = String::from_utf8(out).unwrap_or_default();
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Html, of_value};

    #[test]
    fn numbers_and_strings_are_written_as_the_original_does() {
        for (input, kept, escaped) in [
            (json!("a<b>&c"), r#""a<b>&c""#, r#""a\u003cb\u003e\u0026c""#),
            (
                json!("\u{1}\u{8}\u{c}\n\"\\\u{7f}\u{2028}ä"),
                "\"\\u0001\\b\\f\\n\\\"\\\\\u{7f}\\u2028ä\"",
                "\"\\u0001\\b\\f\\n\\\"\\\\\u{7f}\\u2028ä\"",
            ),
            (json!(1e-7), "1e-7", "1e-7"),
            (json!(0.000_01), "0.00001", "0.00001"),
            (json!(1e21), "1e+21", "1e+21"),
            (json!(9_007_199_254_740_993_i64), "9007199254740993", "9007199254740993"),
            (json!({"b": [1, {}], "a": null}), r#"{"a":null,"b":[1,{}]}"#, r#"{"a":null,"b":[1,{}]}"#),
            (Value::Bool(true), "true", "true"),
        ] {
            assert_eq!(of_value(&input, Html::Kept).get(), kept);
            assert_eq!(of_value(&input, Html::Escaped).get(), escaped);
        }
    }
}
