//! Writing YAML that people can read and every parser, of YAML 1.1 or 1.2, reads back the same.
//!
//! Block style, keys sorted, texts without quotes only where no dialect could take them for anything else.

use std::fmt::Write as _;

use olm_text::is_visible;
use serde_json::Value;

use crate::scalar::{Scalar, plain};

/// Longest text written as an implicit key: parsers look ahead 1,024 characters.
const IMPLICIT_KEY_CHARS_MAX: usize = 1000;

/// `value` as YAML with a final newline. The same value gives the same bytes.
#[must_use]
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    node(&mut out, value, 0);
    out
}

/// A value at the end of a line that is indented so far.
fn node(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    pad(out, indent);
                }
                entry(out, &one_line(key), value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    pad(out, indent);
                }
                out.push_str("- ");
                node(out, item, indent + 2);
            }
        }
        // Other parsers want texts indented at the top, too.
        scalar => {
            inline(out, scalar, indent.max(2));
            out.push('\n');
        }
    }
}

fn entry(out: &mut String, key: &str, value: &Value, indent: usize) {
    if key.chars().count() > IMPLICIT_KEY_CHARS_MAX {
        out.push_str("? ");
        out.push_str(key);
        out.push('\n');
        pad(out, indent);
    } else {
        out.push_str(key);
    }
    out.push(':');
    let (is_block, below) = match value {
        Value::Object(map) => (!map.is_empty(), indent + 2),
        Value::Array(items) if !items.is_empty() => (true, indent),
        _ => (false, indent + 2),
    };
    if is_block {
        out.push('\n');
        pad(out, below);
    } else {
        out.push(' ');
    }
    node(out, value, below);
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A scalar or an empty container; without the newline that ends it.
fn inline(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) if is_literal(text) => literal(out, text, indent),
        Value::String(text) => out.push_str(&one_line(text)),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// Whether a block scalar shows the text as it is, without indentation indicators.
fn is_literal(text: &str) -> bool {
    text.trim_end_matches('\n').contains('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && text.chars().all(|c| c == '\n' || c == '\t' || is_visible(c))
        && !text.split('\n').any(|line| !line.is_empty() && line.trim().is_empty())
}

fn literal(out: &mut String, text: &str, indent: usize) {
    let body = text.trim_end_matches('\n');
    out.push_str(match text.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    // The last newline is the caller's.
    let shown = text.strip_suffix('\n').unwrap_or(text);
    for line in shown.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
    }
}

fn one_line(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Whether the text needs no quotes in any dialect; when in doubt it gets them.
fn is_plain(text: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() && is_visible(c) || "_-./ ,()*@+<>=;%$".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_')
        && text.ends_with(|c: char| inner(c) && c != ' ')
        && text.chars().all(|c| inner(c) || c == ':')
        && !text.contains(": ")
        && !text.ends_with(':')
        && matches!(plain(text.into()), Scalar::Text(_))
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_visible(c) => out.push(c),
            c => {
                // Writing to a String can't fail.
                let _ = match u32::from(c) {
                    code @ ..=0xffff => write!(out, "\\u{code:04x}"),
                    code => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}
