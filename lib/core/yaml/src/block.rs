//! A fast reader for the YAML that tools write: block mappings and lists, scalars of every style.
//!
//! It reads a document only if it is beyond doubt, and gives up on everything else (anchors, tags, flow style,
//! tabs, odd indentation, every error, every limit), which the full parser then reads from the start. The
//! values are exactly those of the full parser; tests compare the two.

mod lines;
mod scalars;

use serde_json::{Map, Value};

use crate::{
    limits::{Cost, Limits, Meter},
    scalar::{Scalar, plain},
};
use lines::Lines;
use scalars::Quoted;

/// Deepest nesting that is read here; reading recurses. CRDs reach 60 levels.
const DEPTH_MAX: usize = 96;
/// Longest key: parsers look ahead 1,024 characters for its colon.
const KEY_BYTES_MAX: usize = 256;

/// The one document of `text`, if it can be read here.
pub(crate) fn read(text: &str, limits: &Limits) -> Option<Value> {
    let mut reader = Reader { lines: Lines::new(text)?, meter: Meter::new(limits, text.len()) };
    let indent = reader.lines.first()?;
    let value = reader.block(indent, 1)?;
    reader.lines.is_at_end().then_some(value)
}

struct Reader<'t, 'l> {
    lines: Lines<'t>,
    meter: Meter<'l>,
}

impl Reader<'_, '_> {
    /// Counts as the full parser does; beyond a limit it is left to that parser to report it.
    fn count(&mut self, cost: Cost) -> Option<()> {
        self.meter.add(cost).ok()
    }

    /// A mapping or list whose first entry is at the cursor, in column `indent`.
    fn block(&mut self, indent: usize, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX.min(self.meter.limits.depth) {
            return None;
        }
        if self.lines.is_entry() { self.list(indent, depth) } else { self.mapping(indent, depth) }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Option<Value> {
        self.count(Cost::list())?;
        let mut items = Vec::new();
        loop {
            // The cursor is at the hyphen.
            self.lines.skip(1);
            let blanks = self.lines.skip_blanks();
            let item = if self.lines.is_line_end() {
                self.lines.end_line();
                match self.lines.next_indent()? {
                    Some(next) if next > indent => {
                        self.lines.skip(next);
                        self.block(next, depth + 1)?
                    }
                    _ => self.null()?,
                }
            } else {
                let column = indent + 1 + blanks;
                if self.lines.is_entry() || self.starts_mapping() {
                    self.block(column, depth + 1)?
                } else {
                    self.scalar(indent)?
                }
            };
            items.push(item);
            match self.lines.next_indent()? {
                Some(next) if next == indent => {
                    self.lines.skip(next);
                    if !self.lines.is_entry() {
                        self.lines.leave();
                        return Some(Value::Array(items));
                    }
                }
                Some(next) if next > indent => return None,
                _ => return Some(Value::Array(items)),
            }
        }
    }

    fn mapping(&mut self, indent: usize, depth: usize) -> Option<Value> {
        self.count(Cost::mapping())?;
        let mut map = Map::new();
        loop {
            let key = self.key()?;
            let value = self.member(indent, depth)?;
            map.insert(key, value);
            match self.lines.next_indent()? {
                Some(next) if next == indent => self.lines.skip(next),
                Some(next) if next > indent => return None,
                _ => return Some(Value::Object(map)),
            }
        }
    }

    /// The value behind a key's colon.
    fn member(&mut self, indent: usize, depth: usize) -> Option<Value> {
        self.lines.skip_blanks();
        if !self.lines.is_line_end() {
            return self.scalar(indent);
        }
        self.lines.end_line();
        match self.lines.next_indent()? {
            Some(next) if next > indent => {
                self.lines.skip(next);
                self.block(next, depth + 1)
            }
            Some(next) if next == indent => {
                self.lines.skip(next);
                if self.lines.is_entry() {
                    return self.block(next, depth + 1);
                }
                self.lines.leave();
                self.null()
            }
            _ => self.null(),
        }
    }

    fn null(&mut self) -> Option<Value> {
        self.count(Cost::scalar(0))?;
        Some(Value::Null)
    }

    /// Whether there is a key at the cursor.
    fn starts_mapping(&self) -> bool {
        key_end(self.lines.rest()).is_some()
    }

    /// The key at the cursor and its colon.
    fn key(&mut self) -> Option<String> {
        let rest = self.lines.rest();
        let end = key_end(rest)?;
        let written = rest.get(..end)?;
        self.lines.skip(end + 1);
        let quoted = written.strip_prefix(['"', '\'']).and_then(|text| text.strip_suffix(['"', '\'']));
        let key = match quoted {
            Some(text) => Scalar::Text(text.into()),
            None => plain(written.into()),
        };
        self.count(Cost::scalar(quoted.unwrap_or(written).len()))?;
        key.into_key()
    }

    /// A scalar at the cursor, of a node in column `indent`.
    fn scalar(&mut self, indent: usize) -> Option<Value> {
        let scalar = match self.lines.rest().as_bytes().first()? {
            b'|' => Scalar::Text(scalars::block(&mut self.lines, indent, false)?.into()),
            b'>' => Scalar::Text(scalars::block(&mut self.lines, indent, true)?.into()),
            b'"' => Scalar::Text(scalars::quoted(&mut self.lines, Quoted::Double)?.into()),
            b'\'' => Scalar::Text(scalars::quoted(&mut self.lines, Quoted::Single)?.into()),
            b'[' | b'{' => return self.empty(),
            _ => {
                let text = scalars::unquoted(&mut self.lines, indent)?;
                self.count(Cost::scalar(text.len()))?;
                return plain(text).into_value();
            }
        };
        if let Scalar::Text(text) = &scalar {
            self.count(Cost::scalar(text.len()))?;
        }
        scalar.into_value()
    }

    /// An empty list or mapping in flow style.
    fn empty(&mut self) -> Option<Value> {
        let (value, cost) = match self.lines.rest().get(..2)? {
            "[]" => (Value::Array(Vec::new()), Cost::list()),
            "{}" => (Value::Object(Map::new()), Cost::mapping()),
            _ => return None,
        };
        self.count(cost)?;
        self.lines.skip(2);
        self.lines.skip_blanks();
        self.lines.is_line_end().then_some(())?;
        self.lines.end_line();
        Some(value)
    }
}

/// Where the colon of a key is; keys of unusual characters are none here.
fn key_end(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let end = match bytes.first()? {
        quote @ (b'"' | b'\'') => {
            let inner =
                bytes.get(1..)?.iter().position(|byte| matches!(byte, b'"' | b'\'' | b'\\' | b'\n'))?;
            if bytes.get(inner + 1) != Some(quote) || inner == 0 {
                return None;
            }
            inner + 2
        }
        first if first.is_ascii_alphanumeric() || matches!(first, b'_' | b'.' | b'/' | b'$') => {
            bytes.iter().position(|byte| {
                !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'$' | b'-'))
            })?
        }
        _ => return None,
    };
    let is_key = bytes.get(end) == Some(&b':') && matches!(bytes.get(end + 1), None | Some(b' ' | b'\n'));
    (is_key && end <= KEY_BYTES_MAX).then_some(end)
}

#[cfg(test)]
mod tests;
