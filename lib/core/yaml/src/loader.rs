//! From parser events to one JSON value. No recursion: the depth of the input costs heap, not stack.
//!
//! Reproduces go-yaml v2's decoder into `interface{}` followed by sigs.k8s.io/yaml's conversion: merges
//! happen where `<<` stands (so they overwrite what precedes them), the last of duplicate keys wins.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value};

use crate::{
    YamlError, block,
    limits::{Limits, MAPPING_MEMORY, NODE_MEMORY, memory_for},
    repair::{RepairBudget, Repairs},
    scalar::{Asked, Scalar, plain, tagged},
};

const CORE: &str = "tag:yaml.org,2002:";

/// The first document of `text`; `Null` when there is none.
pub(crate) fn first_document(
    text: &str,
    limits: &Limits,
    repairs: &RepairBudget,
) -> Result<Value, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(value) = block::read(text, limits) {
        return Ok(value);
    }
    parsed(text, limits, repairs)
}

/// What the full parser makes of the first document.
pub(crate) fn parsed(text: &str, limits: &Limits, budget: &RepairBudget) -> Result<Value, YamlError> {
    let failure = match load(text, limits, &BTreeSet::new()) {
        Ok(value) => return Ok(value),
        Err(failure) => failure,
    };
    let Some(behind) = failure.quoted_behind else { return Err(failure.error) };
    // All at once where that turns out to have touched nothing else, one by one otherwise.
    let mut repairs = Repairs::default();
    if let Some(repaired) = repairs.indent_all(text, behind)
        && let Ok(value) = load(&repaired, limits, repairs.lines())
    {
        return Ok(value);
    }
    repaired_one_by_one(text, limits, budget, failure)
}

fn repaired_one_by_one(
    text: &str,
    limits: &Limits,
    budget: &RepairBudget,
    mut failure: Failure,
) -> Result<Value, YamlError> {
    let mut text = Cow::Borrowed(text);
    let mut repairs = Repairs::default();
    loop {
        let repaired = match &failure {
            Failure { error: YamlError::Syntax { line, .. }, quoted_behind: Some(behind) } => {
                repairs.indent(&text, (*line, *behind), budget)
            }
            _ => None,
        };
        match repaired {
            Some(repaired) => text = Cow::Owned(repaired),
            None => return Err(repairs.unpadded(failure.error)),
        }
        failure = match load(&text, limits, &BTreeSet::new()) {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
    }
}

/// An error, and for a quoted scalar of too little indentation the end of what precedes it.
struct Failure {
    error: YamlError,
    quoted_behind: Option<usize>,
}

impl From<YamlError> for Failure {
    fn from(error: YamlError) -> Self {
        Self { error, quoted_behind: None }
    }
}

/// Reads the first document. Lines of `inside_quotes` (counted from 1) must continue quoted scalars.
fn load(text: &str, limits: &Limits, inside_quotes: &BTreeSet<usize>) -> Result<Value, Failure> {
    let mut options = granit_parser::options! {
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    options.set_emit_comments(false);
    let mut loader = Loader::new(limits, text.len());
    let (mut read, mut quoted_lines) = (0, 0);
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| Failure {
            quoted_behind: matches!(error.kind(), ErrorKind::InvalidQuotedScalarIndent).then_some(read),
            error: YamlError::Syntax {
                line: error.marker().line(),
                column: error.marker().col() + 1,
                message: error.info(),
            },
        })?;
        if let Some(range) = span.byte_range() {
            read = range.end;
        }
        if !inside_quotes.is_empty()
            && matches!(event, Event::Scalar(_, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted, _, _))
        {
            let end = span.end.line();
            let lines = inside_quotes.range(span.start.line() + 1..);
            quoted_lines += lines.take_while(|line| **line <= end).count();
        }
        if loader.take(event, span.start)? == Progress::Done {
            break;
        }
    }
    if quoted_lines != inside_quotes.len() {
        return Err(refused(Marker::new(0, 1, 0), "indented text that is not quoted").into());
    }
    Ok(loader.root.unwrap_or(Value::Null))
}

#[derive(PartialEq, Eq)]
enum Progress {
    More,
    Done,
}

enum Key {
    Text(String),
    Merge,
}

enum Container {
    List(Vec<Value>),
    Mapping(Map<String, Value>, Option<Key>),
}

/// An open list or mapping; `before` is what was counted up to its start, `height` that of its content.
struct Frame {
    container: Container,
    anchor: usize,
    before: Cost,
    height: usize,
}

/// A finished anchored node and what one more copy of it costs.
struct Anchored {
    value: Value,
    cost: Cost,
    height: usize,
}

/// What is limited.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    nodes: usize,
    /// Of scalars and keys.
    bytes: usize,
    memory: usize,
}

impl Cost {
    /// That of a scalar or key of `bytes`.
    fn scalar(bytes: usize) -> Self {
        Self { nodes: 1, bytes, memory: bytes.saturating_add(NODE_MEMORY) }
    }

    fn add(&mut self, more: Self) {
        self.nodes = self.nodes.saturating_add(more.nodes);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.memory = self.memory.saturating_add(more.memory);
    }

    /// What was counted since it was `before`.
    fn since(self, before: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_sub(before.nodes),
            bytes: self.bytes.saturating_sub(before.bytes),
            memory: self.memory.saturating_sub(before.memory),
        }
    }
}

struct Loader<'l> {
    limits: &'l Limits,
    memory_max: usize,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Anchored>,
    cost: Cost,
    root: Option<Value>,
}

impl<'l> Loader<'l> {
    fn new(limits: &'l Limits, bytes: usize) -> Self {
        Self {
            limits,
            memory_max: memory_for(bytes),
            stack: Vec::new(),
            anchors: BTreeMap::new(),
            cost: Cost::default(),
            root: None,
        }
    }

    fn take(&mut self, event: Event<'_>, at: Marker) -> Result<Progress, YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(text, style, anchor, tag.as_deref(), at)?;
            }
            Event::Alias(id) => self.alias(id, at)?,
            Event::SequenceStart(_, anchor, _) => self.open(Container::List(Vec::new()), anchor, at)?,
            Event::MappingStart(_, anchor, _) => {
                self.open(Container::Mapping(Map::new(), None), anchor, at)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(at)?,
            Event::DocumentEnd => return Ok(Progress::Done),
            _ => {}
        }
        Ok(Progress::More)
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        at: Marker,
    ) -> Result<(), YamlError> {
        let cost = Cost::scalar(text.len());
        self.count(cost, at)?;
        let unquoted = style == ScalarStyle::Plain;
        if unquoted && self.wants_key() && text == "<<" && tag.is_none_or(|tag| is_core(tag, "merge")) {
            return self.key(Key::Merge, at);
        }
        let scalar = resolve(text, unquoted, tag, at)?;
        if self.wants_key() {
            if anchor != 0 {
                self.count(cost, at)?;
                let value = scalar.clone().into_value().ok_or_else(|| infinite(at))?;
                self.anchors.insert(anchor, Anchored { value, cost, height: 0 });
            }
            let key =
                scalar.into_key().ok_or_else(|| refused(at, "null and very large numbers can't be keys"))?;
            return self.key(Key::Text(key), at);
        }
        let value = scalar.into_value().ok_or_else(|| infinite(at))?;
        if anchor != 0 {
            self.count(cost, at)?;
            self.anchors.insert(anchor, Anchored { value: value.clone(), cost, height: 0 });
        }
        self.put(value, 0, at)
    }

    fn alias(&mut self, id: usize, at: Marker) -> Result<(), YamlError> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(refused(at, "an anchor's value contains itself"));
        };
        let (cost, height) = (anchored.cost, anchored.height);
        if self.stack.len() + height > self.limits.depth {
            return Err(limit(at, "levels of nesting", self.limits.depth));
        }
        self.count(cost, at)?;
        // Counted first: a copy is made only of what the limits allow.
        let Some(value) = self.anchors.get(&id).map(|anchored| anchored.value.clone()) else { return Ok(()) };
        if self.wants_key() {
            let key = match value {
                Value::String(text) => text,
                Value::Bool(value) => value.to_string(),
                Value::Number(number) if !number.is_u64() || number.is_i64() => number.to_string(),
                _ => return Err(refused(at, "only text, whole numbers and booleans can be keys")),
            };
            return self.key(Key::Text(key), at);
        }
        self.put(value, height, at)
    }

    fn open(&mut self, container: Container, anchor: usize, at: Marker) -> Result<(), YamlError> {
        if self.wants_key() {
            return Err(refused(at, "lists and mappings can't be keys"));
        }
        if self.stack.len() >= self.limits.depth {
            return Err(limit(at, "levels of nesting", self.limits.depth));
        }
        let before = self.cost;
        let own = if matches!(container, Container::Mapping(..)) { MAPPING_MEMORY } else { 0 };
        self.count(Cost { nodes: 1, bytes: 0, memory: NODE_MEMORY + own }, at)?;
        self.stack.push(Frame { container, anchor, before, height: 0 });
        Ok(())
    }

    fn close(&mut self, at: Marker) -> Result<(), YamlError> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let value = match frame.container {
            Container::List(items) => Value::Array(items),
            Container::Mapping(map, _) => Value::Object(map),
        };
        let height = frame.height + 1;
        if frame.anchor != 0 {
            // The copy that is kept costs as much as one that is asked for.
            let cost = self.cost.since(frame.before);
            self.count(cost, at)?;
            self.anchors.insert(frame.anchor, Anchored { value: value.clone(), cost, height });
        }
        self.put(value, height, at)
    }

    /// Adds a finished value, `height` levels high, to what is open.
    fn put(&mut self, value: Value, height: usize, at: Marker) -> Result<(), YamlError> {
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        frame.height = frame.height.max(height);
        match &mut frame.container {
            Container::List(items) => items.push(value),
            Container::Mapping(map, key) => match key.take() {
                Some(Key::Text(key)) => {
                    map.insert(key, value);
                }
                Some(Key::Merge) => merge(map, value, at)?,
                None => return Err(refused(at, "lists and mappings can't be keys")),
            },
        }
        Ok(())
    }

    fn wants_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { container: Container::Mapping(_, None), .. }))
    }

    fn key(&mut self, new: Key, at: Marker) -> Result<(), YamlError> {
        match self.stack.last_mut() {
            Some(Frame { container: Container::Mapping(_, key), .. }) => {
                *key = Some(new);
                Ok(())
            }
            _ => Err(refused(at, "a key outside a mapping")),
        }
    }

    fn count(&mut self, cost: Cost, at: Marker) -> Result<(), YamlError> {
        self.cost.add(cost);
        for (counted, limit, what) in [
            (self.cost.nodes, self.limits.nodes, "nodes"),
            (self.cost.bytes, self.limits.expanded_bytes, "bytes of scalars"),
            (self.cost.memory, self.memory_max, "bytes of memory"),
        ] {
            if counted > limit {
                return Err(YamlError::Limit { line: at.line(), what, limit });
            }
        }
        Ok(())
    }
}

fn merge(map: &mut Map<String, Value>, value: Value, at: Marker) -> Result<(), YamlError> {
    const WANTED: &str = "map merge requires map or sequence of maps as the value";
    match value {
        Value::Object(other) => map.extend(other),
        // Backwards: of several merged mappings the first one wins.
        Value::Array(items) => {
            for item in items.into_iter().rev() {
                match item {
                    Value::Object(other) => map.extend(other),
                    _ => return Err(refused(at, WANTED)),
                }
            }
        }
        _ => return Err(refused(at, WANTED)),
    }
    Ok(())
}

fn resolve<'a>(
    text: Cow<'a, str>,
    unquoted: bool,
    tag: Option<&Tag>,
    at: Marker,
) -> Result<Scalar<'a>, YamlError> {
    let Some(tag) = tag else {
        return Ok(if unquoted { plain(text) } else { Scalar::Text(text) });
    };
    let asked = match tag.suffix_in_namespace(CORE).as_deref() {
        Some("bool") => Asked::Bool,
        Some("int") => Asked::Int,
        Some("float") => Asked::Float,
        Some("null") => Asked::Null,
        Some("timestamp") => Asked::Timestamp,
        Some("binary") => {
            return binary(&text)
                .map(|text| Scalar::Text(text.into()))
                .ok_or_else(|| refused(at, "!!binary value contains invalid base64 data"));
        }
        _ => return Ok(Scalar::Text(text)),
    };
    tagged(text, asked).ok_or_else(|| refused(at, "the value is not of the type its tag names"))
}

fn is_core(tag: &Tag, name: &str) -> bool {
    tag.suffix_in_namespace(CORE).is_some_and(|suffix| suffix == name)
}

/// Standard base64 with padding; line ends are skipped. Bytes that are not UTF-8 become U+FFFD, as Go's
/// JSON encoder writes them.
fn binary(text: &str) -> Option<String> {
    let symbols: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    if !symbols.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(symbols.len() / 4 * 3);
    let last = symbols.len() / 4;
    for (index, quad) in symbols.chunks_exact(4).enumerate() {
        let padding = quad.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || padding > 0 && index + 1 != last {
            return None;
        }
        let mut word = 0_u32;
        for &symbol in quad.iter().take(4 - padding) {
            word = word << 6 | sextet(symbol)?;
        }
        word <<= 6 * u32::try_from(padding).ok()?;
        bytes.extend_from_slice(word.to_be_bytes().get(1..4 - padding)?);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn sextet(symbol: u8) -> Option<u32> {
    let value = match symbol {
        b'A'..=b'Z' => symbol - b'A',
        b'a'..=b'z' => symbol - b'a' + 26,
        b'0'..=b'9' => symbol - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

fn refused(at: Marker, message: &'static str) -> YamlError {
    YamlError::Value { line: at.line(), column: at.col() + 1, message }
}

fn infinite(at: Marker) -> YamlError {
    refused(at, "infinities and NaN have no JSON form")
}

fn limit(at: Marker, what: &'static str, limit: usize) -> YamlError {
    YamlError::Limit { line: at.line(), what, limit }
}
