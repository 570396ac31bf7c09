//! YAML as the reference's serialiser (sigs.k8s.io/yaml over go-yaml v2) writes it: the form of its fixtures.
//!
//! Block style with lists at the indentation of their key, keys in go-yaml's natural order, lines folded at the
//! first blank behind column 80. Only what JSON values need is here; it is for comparing bytes.

use std::cmp::Ordering;

use serde_json::{Map, Value};

const WIDTH: usize = 80;
const INDENT: usize = 2;

/// The document, ending in a newline.
pub(super) fn document(value: &Value) -> String {
    let mut out = Writer::default();
    match value {
        Value::Object(map) if !map.is_empty() => out.mapping(map, 0),
        Value::Array(items) if !items.is_empty() => out.list(items, 0),
        scalar => out.scalar(scalar, INDENT, Place::Value),
    }
    out.end_line();
    out.text
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Key,
    Value,
}

#[derive(Default)]
struct Writer {
    text: String,
    column: usize,
}

impl Writer {
    fn put(&mut self, c: char) {
        self.text.push(c);
        self.column = if c == '\n' { 0 } else { self.column + 1 };
    }

    fn write(&mut self, text: &str) {
        text.chars().for_each(|c| self.put(c));
    }

    fn end_line(&mut self) {
        if self.column > 0 {
            self.put('\n');
        }
    }

    fn indent(&mut self, indent: usize) {
        self.put('\n');
        self.pad(indent);
    }

    fn pad(&mut self, indent: usize) {
        while self.column < indent {
            self.put(' ');
        }
    }

    /// Begins where the first key belongs, or on a line of its own.
    fn mapping(&mut self, map: &Map<String, Value>, indent: usize) {
        let mut keys: Vec<&String> = map.keys().collect();
        keys.sort_by(|a, b| natural(a, b));
        for key in keys {
            self.end_line_of_sibling(indent);
            self.scalar(&Value::String(key.clone()), indent, Place::Key);
            self.put(':');
            self.member(&map[key], indent);
        }
    }

    fn list(&mut self, items: &[Value], indent: usize) {
        for item in items {
            self.end_line_of_sibling(indent);
            self.put('-');
            match item {
                Value::Object(map) if !map.is_empty() => {
                    self.put(' ');
                    self.mapping(map, indent + INDENT);
                }
                Value::Array(items) if !items.is_empty() => {
                    self.put(' ');
                    self.list(items, indent + INDENT);
                }
                scalar => {
                    self.put(' ');
                    self.scalar(scalar, indent + INDENT, Place::Value);
                }
            }
        }
    }

    fn end_line_of_sibling(&mut self, indent: usize) {
        if self.column > indent || self.text.ends_with(|c| c != ' ' && c != '\n') {
            self.end_line();
        }
        self.pad(indent);
    }

    fn member(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.put('\n');
                self.mapping(map, indent + INDENT);
            }
            Value::Array(items) if !items.is_empty() => {
                self.put('\n');
                self.list(items, indent);
            }
            scalar => {
                self.put(' ');
                self.scalar(scalar, indent + INDENT, Place::Value);
            }
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize, place: Place) {
        match value {
            Value::Null => self.write("null"),
            Value::Array(_) => self.write("[]"),
            Value::Object(_) => self.write("{}"),
            Value::Bool(_) | Value::Number(_) => self.write(&value.to_string()),
            Value::String(text) => match style(text, place) {
                Style::Plain => self.folded(text, indent, place),
                Style::Single => {
                    self.put('\'');
                    self.folded(&text.replace('\'', "''"), indent, place);
                    self.put('\'');
                }
                Style::Double => self.double(text, indent, place),
                Style::Literal => self.literal(text, indent),
            },
        }
    }

    /// A text that may be broken at single blanks.
    fn folded(&mut self, text: &str, indent: usize, place: Place) {
        let chars: Vec<char> = text.chars().collect();
        let mut after_blank = false;
        for (at, &c) in chars.iter().enumerate() {
            let inside = at > 0 && at + 1 < chars.len();
            let breaks = c == ' '
                && place == Place::Value
                && !after_blank
                && self.column > WIDTH
                && inside
                && chars[at + 1] != ' ';
            if breaks {
                self.indent(indent);
            } else {
                self.put(c);
            }
            after_blank = c == ' ';
        }
    }

    fn double(&mut self, text: &str, indent: usize, place: Place) {
        self.put('"');
        let chars: Vec<char> = text.chars().collect();
        let mut after_blank = false;
        for (at, &c) in chars.iter().enumerate() {
            let inside = at > 0 && at + 1 < chars.len();
            match c {
                '"' => self.write("\\\""),
                '\\' => self.write("\\\\"),
                '\n' => self.write("\\n"),
                '\t' => self.write("\\t"),
                '\r' => self.write("\\r"),
                ' ' if place == Place::Value && !after_blank && self.column > WIDTH && inside => {
                    self.indent(indent);
                    if chars[at + 1] == ' ' {
                        self.put('\\');
                    }
                }
                c if is_printable(c) => self.put(c),
                c => self.write(&format!("\\x{:02X}", u32::from(c))),
            }
            after_blank = c == ' ';
        }
        self.put('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put('|');
        if text.starts_with([' ', '\n']) {
            self.write(&INDENT.to_string());
        }
        if !text.ends_with('\n') {
            self.put('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.put('+');
        }
        self.put('\n');
        let mut lines: Vec<&str> = text.split('\n').collect();
        if text.ends_with('\n') {
            lines.pop();
        }
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                self.put('\n');
            }
            if !line.is_empty() {
                self.pad(indent);
                self.write(line);
            }
        }
        if self.column == 0 {
            self.put('\n');
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

fn style(text: &str, place: Place) -> Style {
    let special = text.chars().any(|c| c != '\n' && !is_printable(c));
    let multiline = text.contains('\n');
    let space_break = text.contains(" \n");
    if multiline {
        // A blank before the end of a line, or at the very end, is not safe in a block.
        let fits = !special && !space_break && !text.ends_with(' ') && place == Place::Value;
        return if fits { Style::Literal } else { Style::Double };
    }
    if !resolves_to_text(text) {
        return Style::Double;
    }
    if special {
        return Style::Double;
    }
    if text.is_empty() || text.starts_with(' ') || text.ends_with(' ') || has_indicators(text) {
        return Style::Single;
    }
    Style::Plain
}

/// Whether the text without quotes would be read as text again by the resolution of scalars alone.
fn resolves_to_text(text: &str) -> bool {
    if text.is_empty() {
        return false;
    }
    if is_base_60(text) {
        return false;
    }
    let indicators = has_indicators(text) || text.starts_with(' ') || text.ends_with(' ');
    // What can't stand unquoted is no number or word either, but for dates.
    if indicators {
        return true;
    }
    !is_date(text) && matches!(olm_yaml::one(text), Ok(Value::String(_)))
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 8
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes.iter().all(|byte| byte.is_ascii_digit() || b"-:. tTzZ+".contains(byte))
}

/// What YAML 1.1 takes for a number of base 60, such as `12:30`.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, _) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let rest: Vec<_> = parts.collect();
    !rest.is_empty()
        && first.starts_with(|c: char| c.is_ascii_digit())
        && first.chars().all(|c| c.is_ascii_digit() || c == '_')
        && rest.iter().all(|part| (1..=2).contains(&part.len()) && part.chars().all(|c| c.is_ascii_digit()))
}

/// Whether a text of one line needs quotes in a block context.
fn has_indicators(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let blank = |at: usize| chars.get(at).is_none_or(|c| c.is_whitespace());
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    chars.iter().enumerate().any(|(at, c)| {
        if at == 0 {
            match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`' => true,
                '?' | ':' | '-' => blank(1),
                _ => false,
            }
        } else {
            match c {
                ':' => blank(at + 1),
                '#' => blank(at - 1),
                _ => false,
            }
        }
    })
}

fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && c != '\u{feff}'
}

/// go-yaml's order of keys: letters by code point and after everything else, numbers by value.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else { return a.len().cmp(&b.len()) };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let number = |chars: &[char]| {
        let digits: String = chars[at..].iter().take_while(|c| c.is_ascii_digit()).collect();
        (digits.parse::<u64>().unwrap_or(0), digits.len())
    };
    number(&a).cmp(&number(&b)).then(a[at].cmp(&b[at]))
}
