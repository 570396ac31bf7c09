//! Texts of several documents: cutting YAML at `---`, and telling JSON from YAML.
//!
//! Source: k8s.io/apimachinery `pkg/util/yaml` (`YAMLReader`, `YAMLOrJSONDecoder`). The cut is made before
//! anything is parsed, so it also falls inside of texts that are one document in YAML.

use std::borrow::Cow;

use olm_go::json::tokens;
use serde_json::{Deserializer, Value, de::StrRead, value::RawValue};

use crate::{
    YamlError,
    limits::{Cost, Limits, Meter},
    loader::first_document,
    repair::RepairBudget,
    scalar::json_number,
};

/// The documents of a YAML text in order, within the default [`Limits`].
///
/// A document of comments only is `Null`; separators at the beginning and the end make no documents. The
/// first error ends the iteration.
pub fn documents(text: &str) -> Documents<'_> {
    documents_within(text, Limits::default())
}

/// The documents of a YAML text in order, within `limits`.
pub fn documents_within(text: &str, limits: Limits) -> Documents<'_> {
    Documents { text, next: 0, line: 0, count: 0, limits, repairs: RepairBudget::default(), ended: false }
}

/// The first document of a YAML text within the default [`Limits`]; `Null` when the text is empty.
///
/// Documents that follow are not looked at, like in sigs.k8s.io/yaml `Unmarshal`.
pub fn one(text: &str) -> Result<Value, YamlError> {
    one_within(text, Limits::default(), &RepairBudget::default())
}

/// The first document of a YAML text within `limits` and the budget of the input that it is part of; `Null` when the
/// text is empty.
pub fn one_within(text: &str, limits: Limits, repairs: &RepairBudget) -> Result<Value, YamlError> {
    check_bytes(text, &limits)?;
    first_document(text, &limits, repairs)
}

/// The values of a text that is either YAML documents or concatenated JSON values.
///
/// It is taken for JSON when its first character is `{`; when that fails at the first or second value, the
/// rest is read as YAML.
pub fn mixed(text: &str) -> Mixed<'_> {
    mixed_within(text, Limits::default(), &RepairBudget::default())
}

/// As [`mixed`], within `limits` and the budget of the input that the text is part of.
pub fn mixed_within<'t>(text: &'t str, limits: Limits, repairs: &RepairBudget) -> Mixed<'t> {
    let json = text.trim_start().starts_with('{');
    Mixed {
        documents: Documents { repairs: repairs.clone(), ..documents_within(text, limits) },
        json: json.then(|| Deserializer::from_str(text).into_iter::<&RawValue>()),
        consumed: 0,
        json_error: None,
    }
}

/// The bytes of a file as text.
///
/// # Errors
/// [`YamlError::NotUtf8`] with the place of the first byte that is not UTF-8.
pub fn text(bytes: &[u8]) -> Result<&str, YamlError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let last_line = good.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = good.split(|byte| *byte == b'\n').count();
        YamlError::NotUtf8 { line, column: last_line.len() + 1 }
    })
}

/// Iterator over the documents of a YAML text; see [`documents`].
#[derive(Debug)]
pub struct Documents<'t> {
    text: &'t str,
    next: usize,
    line: usize,
    count: usize,
    limits: Limits,
    repairs: RepairBudget,
    ended: bool,
}

impl<'t> Documents<'t> {
    /// The text of the next document and the number of lines before it.
    fn cut(&mut self) -> Result<Option<(&'t str, usize)>, YamlError> {
        let (start, lines_before) = (self.next, self.line);
        let rest = self.text.get(start..).unwrap_or_default();
        for (at, _) in rest.match_indices("---") {
            let (document, separator) = rest.split_at(at);
            if !document.is_empty() && !document.ends_with('\n') {
                continue;
            }
            let separator = separator.split_inclusive('\n').next().unwrap_or_default();
            let comment = separator.strip_prefix("---").unwrap_or_default().trim();
            let line = lines_before + newlines(document) + 1;
            if !comment.is_empty() && !comment.starts_with('#') {
                return Err(YamlError::Separator { line });
            }
            // One at the beginning separates nothing.
            if !document.is_empty() {
                (self.next, self.line) = (start + at + separator.len(), line);
                return Ok(Some((document, lines_before)));
            }
        }
        self.next = self.text.len();
        Ok((!rest.is_empty()).then_some((rest, lines_before)))
    }

    fn read(&mut self) -> Result<Option<Value>, YamlError> {
        check_bytes(self.text, &self.limits)?;
        let Some((document, lines_before)) = self.cut()? else { return Ok(None) };
        self.count_document(lines_before + 1)?;
        let value = first_document(document, &self.limits, &self.repairs);
        value.map(Some).map_err(|error| error.moved_down(lines_before))
    }

    /// Counts one more document.
    fn count_document(&mut self, line: usize) -> Result<(), YamlError> {
        self.count += 1;
        let limit = self.limits.documents;
        if self.count > limit { Err(YamlError::Limit { line, what: "documents", limit }) } else { Ok(()) }
    }

    /// The next item, the first error being the last.
    fn item(&mut self, read: Result<Option<Value>, YamlError>) -> Option<Result<Value, YamlError>> {
        self.ended = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Value, YamlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read();
        self.item(read)
    }
}

/// Iterator over the values of a YAML or JSON text; see [`mixed`].
pub struct Mixed<'t> {
    documents: Documents<'t>,
    json: Option<serde_json::StreamDeserializer<'t, StrRead<'t>, &'t RawValue>>,
    consumed: usize,
    json_error: Option<YamlError>,
}

impl std::fmt::Debug for Mixed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mixed").field("json", &self.json.is_some()).finish_non_exhaustive()
    }
}

impl Mixed<'_> {
    fn read(&mut self) -> Result<Option<Value>, YamlError> {
        let text = self.documents.text;
        if let Some(json) = &mut self.json {
            check_bytes(text, &self.documents.limits)?;
            let (read, rest) = text.split_at(self.consumed);
            if let Some((what, limit)) = exceeded(rest.as_bytes(), text.len(), &self.documents.limits) {
                return Err(YamlError::Limit { line: newlines(read) + 1, what, limit });
            }
            let error = match json.next() {
                None => return Ok(None),
                Some(Err(error)) => json_error(&error),
                Some(Ok(raw)) => match json_value(raw.get()) {
                    Ok(value) => {
                        self.consumed = json.byte_offset();
                        self.documents.count_document(1)?;
                        return Ok(Some(plain_numbers(value)));
                    }
                    Err(error) => {
                        let blank = rest.len() - rest.trim_start().len();
                        let before = newlines(read) + newlines(rest.get(..blank).unwrap_or_default());
                        let error = json_error(&error).moved_down(before);
                        // It is JSON all the same, and so no YAML.
                        if has_infinite_number(raw.get()) {
                            return Err(error);
                        }
                        error
                    }
                },
            };
            // Two values make a JSON stream; fewer may be YAML's flow style.
            if self.documents.count > 1 {
                return Err(error);
            }
            self.json_error = Some(error);
            self.switch_to_yaml();
        }
        match self.documents.read() {
            Ok(Some(value)) => {
                self.json_error = None;
                Ok(Some(value))
            }
            Err(error) if !matches!(error, YamlError::Limit { .. }) => {
                Err(self.json_error.take().unwrap_or(error))
            }
            other => other,
        }
    }

    /// Continues as YAML behind the last good JSON value and the rest of its line.
    fn switch_to_yaml(&mut self) {
        let text = self.documents.text;
        let rest = text.get(self.consumed..).unwrap_or_default();
        let blank = rest.find(|c: char| !c.is_whitespace() || c == '\n').unwrap_or(rest.len());
        let newline = usize::from(rest.get(blank..).is_some_and(|rest| rest.starts_with('\n')));
        self.documents.next = self.consumed + blank + newline;
        self.documents.line = newlines(text.get(..self.documents.next).unwrap_or_default());
        self.json = None;
    }
}

impl Iterator for Mixed<'_> {
    type Item = Result<Value, YamlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.documents.ended {
            return None;
        }
        let read = self.read();
        self.documents.item(read)
    }
}

/// A value as Go reads it: a surrogate without its other half is the replacement character.
fn json_value(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&paired(text))
}

/// The text with the escapes of surrogates that have no other half replaced; its length stays.
fn paired(text: &str) -> Cow<'_, str> {
    let mut paired = Cow::Borrowed(text);
    let unit = |at: usize| {
        let hex = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u32::from_str_radix(hex, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        let is_high = |unit: u32| (0xd800..0xdc00).contains(&unit);
        let is_low = |unit: u32| (0xdc00..0xe000).contains(&unit);
        at += match unit(at) {
            None => 2,
            Some(high) if is_high(high) && unit(at + 6).is_some_and(is_low) => 12,
            Some(lone) if is_high(lone) || is_low(lone) => {
                paired.to_mut().replace_range(at..at + 6, "\\ufffd");
                6
            }
            Some(_) => 6,
        };
    }
    paired
}

/// Whether a JSON text has a number that no float of 64 bits can be.
fn has_infinite_number(json: &str) -> bool {
    let numbers = tokens(json).filter(|token| token.starts_with(|c: char| c == '-' || c.is_ascii_digit()));
    numbers.filter_map(|number| number.parse::<f64>().ok()).any(f64::is_infinite)
}

/// Floats of JSON that are whole become integers, as they do when they come from YAML.
fn plain_numbers(mut value: Value) -> Value {
    match &mut value {
        Value::Number(number) if number.is_f64() => {
            if let Some(plain) = number.as_f64().and_then(json_number) {
                *number = plain;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = plain_numbers(item.take())),
        Value::Object(map) => map.values_mut().for_each(|item| *item = plain_numbers(item.take())),
        _ => {}
    }
    value
}

/// The limit that the JSON value at the head of `bytes` exceeds, with its name. Nodes are counted by their
/// punctuation, before anything is built of them; `text_bytes` is the length of the whole text.
fn exceeded(bytes: &[u8], text_bytes: usize, limits: &Limits) -> Option<(&'static str, usize)> {
    let bytes = bytes.trim_ascii_start();
    if !bytes.starts_with(b"{") && !bytes.starts_with(b"[") {
        return None;
    }
    let mut meter = Meter::new(limits, text_bytes);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        if in_string {
            in_string = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        let cost = match byte {
            b'{' => Cost::mapping(),
            b'[' => Cost::list(),
            b',' | b':' => Cost::scalar(0),
            b'}' | b']' if depth <= 1 => break,
            _ => {
                in_string = *byte == b'"';
                depth -= usize::from(matches!(byte, b'}' | b']'));
                continue;
            }
        };
        depth += usize::from(matches!(byte, b'{' | b'['));
        if let Err(exceeded) = meter.add(cost) {
            return Some(exceeded);
        }
    }
    None
}

fn json_error(error: &serde_json::Error) -> YamlError {
    let text = error.to_string();
    // serde_json appends the place, which has fields of its own here.
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned();
    YamlError::Json { line: error.line(), column: error.column(), message }
}

fn check_bytes(text: &str, limits: &Limits) -> Result<(), YamlError> {
    if text.len() > limits.bytes {
        return Err(YamlError::Limit { line: 1, what: "bytes", limit: limits.bytes });
    }
    Ok(())
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}
