//! Compact JSON as `encoding/json` writes it: no white space, keys of maps sorted, whole floats without a point,
//! U+2028 and U+2029 escaped.

mod canonical;

use std::io::Write as _;

use serde_json::{Number, Value, value::RawValue};

use crate::float;

pub use canonical::{Canonicalizer, JsonError, Member, decode};

/// Deepest nesting of a document. `serde_json` refuses more than 128 when a line is read back.
pub const DEPTH_MAX: usize = 120;

/// Whether `<`, `>` and `&` are escaped, as `Marshal` does and an `Encoder` with `SetEscapeHTML(false)` does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Html {
    /// They are escaped.
    Escaped,
    /// They are written as they are.
    Kept,
}

/// Writes a value, keys sorted.
pub fn write_value(out: &mut Vec<u8>, value: &Value, html: Html) {
    write(out, value, html, write_number);
}

fn write(out: &mut Vec<u8>, value: &Value, html: Html, write_number: fn(&mut Vec<u8>, &Number)) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_text(out, text, html),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(out, item, html, write_number);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            let mut object = Object::new(out, html);
            for (key, item) in entries {
                write(object.key(key), item, html, write_number);
            }
            object.end();
        }
    }
}

/// Writes a quoted string.
pub fn write_text(out: &mut Vec<u8>, text: &str, html: Html) {
    // Most bytes stay as they are. U+2028 and U+2029 begin with 0xe2.
    let may_change = |byte: u8| match byte {
        b'"' | b'\\' | 0xe2 => true,
        b'<' | b'>' | b'&' => html == Html::Escaped,
        _ => byte < b' ',
    };
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(may_change) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let mut characters = rest[at..].chars();
        characters.next().into_iter().for_each(|character| write_char(out, character, html));
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

/// Writes a character of a string.
fn write_char(out: &mut Vec<u8>, character: char, html: Html) {
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

fn escape(out: &mut Vec<u8>, character: char) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "\\u{:04x}", u32::from(character));
}

/// Writes a number. Integers beyond 64 bits with a sign are floats in Go's decoded documents.
fn write_number(out: &mut Vec<u8>, number: &Number) {
    let text = match number.as_f64() {
        Some(value) if number.as_i64().is_none() => float::json(value),
        _ => number.to_string(),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Writes a number with all digits of an integer.
fn write_exact_number(out: &mut Vec<u8>, number: &Number) {
    if number.is_u64() {
        out.extend_from_slice(number.to_string().as_bytes());
    } else {
        write_number(out, number);
    }
}

/// The tokens of JSON text: texts, numbers and words whole, and its punctuation. White space between them is left out.
pub fn tokens(json: &str) -> impl Iterator<Item = &str> {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"{}[],:\"".contains(byte);
    let mut rest = json;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let bytes = rest.as_bytes();
        let length = match bytes.first()? {
            b'"' => {
                let mut at = 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                (at + 1).min(bytes.len())
            }
            first if ends(first) => 1,
            _ => bytes.iter().position(ends).unwrap_or(bytes.len()),
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        Some(token)
    })
}

/// Values and keys of JSON text, or a few more, counted by their punctuation: small values take many times the memory of
/// their text, so they are counted before anything is made of them.
pub fn nodes(json: &str) -> usize {
    tokens(json).filter(|token| matches!(*token, "{" | "[" | "," | ":")).count()
}

/// Escapes the characters that `Marshal` escapes in JSON text beyond the necessary: they occur in strings only.
pub fn escape_html(json: &str) -> String {
    let mut out = Vec::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escape(&mut out, character),
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    into_text(out)
}

/// An object whose members are written in the order they are given.
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    html: Html,
    first: bool,
}

impl<'a> Object<'a> {
    /// Begins an object.
    pub fn new(out: &'a mut Vec<u8>, html: Html) -> Self {
        out.push(b'{');
        Self { out, html, first: true }
    }

    /// Writes the key of a member; the caller writes its value to the returned text.
    pub fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        write_text(self.out, key, self.html);
        self.out.push(b':');
        self.out
    }

    /// Writes a member that is a text.
    pub fn text(&mut self, key: &str, content: &str) {
        let html = self.html;
        write_text(self.key(key), content, html);
    }

    /// Writes a member.
    pub fn value(&mut self, key: &str, content: &Value) {
        let html = self.html;
        write_value(self.key(key), content, html);
    }

    /// Ends the object.
    pub fn end(self) {
        self.out.push(b'}');
    }
}

/// The text of a value as `Marshal` writes it.
pub fn marshal(value: &Value) -> String {
    to_text(value, Html::Escaped)
}

/// The text of a value.
pub fn to_text(value: &Value, html: Html) -> String {
    let mut out = Vec::new();
    write_value(&mut out, value, html);
    into_text(out)
}

/// The text of a value that was converted from YAML, and not decoded since: integers keep their digits.
pub fn from_yaml(value: &Value) -> String {
    let mut out = Vec::new();
    write(&mut out, value, Html::Kept, write_exact_number);
    into_text(out)
}

/// The text of a value, as a raw value.
pub fn to_raw(value: &Value, html: Html) -> Box<RawValue> {
    let mut out = Vec::new();
    write_value(&mut out, value, html);
    into_raw(out)
}

/// Written JSON as a raw value.
pub fn into_raw(out: Vec<u8>) -> Box<RawValue> {
    // Only JSON is written, so this cannot fail; null replaces the impossible.
    RawValue::from_string(into_text(out)).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn into_text(out: Vec<u8>) -> String {
    // Only UTF-8 is written, so this cannot fail.
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Html, escape_html, nodes, to_text, tokens};

    #[test]
    fn numbers_and_strings_are_written_as_go_does() {
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
            (json!([1, -2, 1.0, 0.5, 1.5e-7, 0.0]), "[1,-2,1,0.5,1.5e-7,0]", "[1,-2,1,0.5,1.5e-7,0]"),
            (json!(u64::MAX), "18446744073709552000", "18446744073709552000"),
            (json!(9_007_199_254_740_993_i64), "9007199254740993", "9007199254740993"),
            (json!({"b": [1, {}], "a": null}), r#"{"a":null,"b":[1,{}]}"#, r#"{"a":null,"b":[1,{}]}"#),
            (Value::Bool(true), "true", "true"),
        ] {
            assert_eq!(to_text(&input, Html::Kept), kept);
            assert_eq!(to_text(&input, Html::Escaped), escaped);
            assert_eq!(escape_html(kept), escaped);
        }
    }

    #[test]
    fn tokens_are_whole_and_without_white_space() {
        for (json, wanted) in [
            (
                r#" {"a b" :1.5e3, "c\"{\\": [true ,null]}"#,
                &["{", r#""a b""#, ":", "1.5e3", ",", r#""c\"{\\""#, ":", "[", "true", ",", "null", "]", "}"]
                    [..],
            ),
            ("1", &["1"]),
            (r#""ä","#, &[r#""ä""#, ","]),
            ("", &[]),
            // No JSON, and yet no panic.
            (r#""\"#, &[r#""\"#]),
            (r#""\ä"#, &[r#""\ä"#]),
        ] {
            assert_eq!(tokens(json).collect::<Vec<_>>(), wanted, "{json}");
        }
    }

    #[test]
    fn punctuation_in_texts_does_not_count() {
        for (json, count) in
            [("1", 0), (r#"{"a":1}"#, 2), ("[1,[2],{}]", 5), (r#"["\"[,\\",1]"#, 2), (r#"["[,{:"#, 1)]
        {
            assert_eq!(nodes(json), count, "{json}");
        }
    }
}
