//! From parser events to one JSON value. No recursion: the depth of the input costs heap, not stack.
//!
//! Reproduces go-yaml v2's decoder into `interface{}` followed by sigs.k8s.io/yaml's conversion: merges
//! happen where `<<` is (so they overwrite what precedes them), the last of duplicate keys wins.

use std::{borrow::Cow, collections::BTreeMap};

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Tag};
use olm_go::base64;
use serde_json::{Map, Value};

use crate::{
    YamlError, block,
    limits::{Cost, Limits, Meter},
    repair::{RepairBudget, Repairs},
    scalar::{RequestedTag, Scalar, plain, tagged},
};

const CORE: &str = "tag:yaml.org,2002:";
/// The character "next line".
const NEL: char = '\u{85}';

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
    // To go-yaml it is the end of a line, in YAML 1.2 it is none.
    if text.contains(NEL) {
        return parsed(&text.replace(NEL, "\n"), limits, repairs);
    }
    parsed(text, limits, repairs)
}

/// The first document as the full parser reads it. Quoted scalars that are indented too little are indented one by
/// one, and the text is read again.
pub(crate) fn parsed(text: &str, limits: &Limits, budget: &RepairBudget) -> Result<Value, YamlError> {
    let mut text = Cow::Borrowed(text);
    let mut repairs = Repairs::default();
    loop {
        let failure = match load(&text, limits) {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
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

/// Reads the first document.
fn load(text: &str, limits: &Limits) -> Result<Value, Failure> {
    let mut options = granit_parser::options! {
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    options.set_emit_comments(false);
    let mut loader = Loader::new(limits, text.len());
    let mut read = 0;
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
            if matches!(event, Event::Scalar(_, ScalarStyle::DoubleQuoted, ..)) {
                check_escapes(text.get(range).unwrap_or_default(), span.start)?;
            }
        }
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        loader.take(event, span.start)?;
    }
    Ok(loader.root.unwrap_or(Value::Null))
}

/// Refuses the escapes that go-yaml does not know: slashes, and surrogates, alone or in pairs.
fn check_escapes(quoted: &str, at: Marker) -> Result<(), YamlError> {
    let mut rest = quoted;
    while let Some((_, escape)) = rest.split_once('\\') {
        let code = || escape.get(1..=4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let message = match escape.chars().next() {
            Some('/') => "found unknown escape character",
            Some('u') if code().is_some_and(|code| (0xd800..0xe000).contains(&code)) => {
                "found invalid Unicode character escape code"
            }
            _ => {
                let mut chars = escape.chars();
                chars.next();
                rest = chars.as_str();
                continue;
            }
        };
        return Err(refused(at, message));
    }
    Ok(())
}

enum Key {
    Text(String),
    Merge,
}

enum Container {
    List(Vec<Value>),
    Mapping(Map<String, Value>, Option<Key>),
}

/// An open list or mapping; `before` is the cost up to its start, `height` that of its content.
struct Frame {
    container: Container,
    anchor: usize,
    before: Cost,
    height: usize,
}

/// A finished anchored node and the cost of one more copy.
struct Anchored {
    value: Value,
    cost: Cost,
    height: usize,
}

struct Loader<'l> {
    meter: Meter<'l>,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Anchored>,
    root: Option<Value>,
}

impl<'l> Loader<'l> {
    fn new(limits: &'l Limits, bytes: usize) -> Self {
        Self { meter: Meter::new(limits, bytes), stack: Vec::new(), anchors: BTreeMap::new(), root: None }
    }

    fn take(&mut self, event: Event<'_>, at: Marker) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(text, style == ScalarStyle::Plain, anchor, tag.as_deref(), at)
            }
            Event::Alias(id) => self.alias(id, at),
            Event::SequenceStart(_, anchor, _) => self.open(Container::List(Vec::new()), anchor, at),
            Event::MappingStart(_, anchor, _) => self.open(Container::Mapping(Map::new(), None), anchor, at),
            Event::SequenceEnd | Event::MappingEnd => self.close(at),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        unquoted: bool,
        anchor: usize,
        tag: Option<&Tag>,
        at: Marker,
    ) -> Result<(), YamlError> {
        let cost = Cost::scalar(text.len());
        self.count(cost, at)?;
        if unquoted && self.wants_key() && text == "<<" && tag.is_none_or(|tag| is_core(tag, "merge")) {
            return self.key(Key::Merge, at);
        }
        let scalar = resolve(text, unquoted, tag, at)?;
        if anchor != 0 {
            let value = scalar.clone().into_value().ok_or_else(|| infinite(at))?;
            self.anchor(anchor, Anchored { value, cost, height: 0 }, at)?;
        }
        if self.wants_key() {
            let key =
                scalar.into_key().ok_or_else(|| refused(at, "null and very large numbers can't be keys"))?;
            return self.key(Key::Text(key), at);
        }
        let value = scalar.into_value().ok_or_else(|| infinite(at))?;
        self.put(value, 0, at)
    }

    /// Remembers a node for its aliases. The copy costs as much as one that an alias makes.
    fn anchor(&mut self, anchor: usize, node: Anchored, at: Marker) -> Result<(), YamlError> {
        self.count(node.cost, at)?;
        self.anchors.insert(anchor, node);
        Ok(())
    }

    fn alias(&mut self, id: usize, at: Marker) -> Result<(), YamlError> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(refused(at, "an anchor's value contains itself"));
        };
        let (cost, height) = (anchored.cost, anchored.height);
        self.check_depth(height, at)?;
        self.count(cost, at)?;
        // Counted first: nothing beyond the limits is copied.
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
        self.check_depth(1, at)?;
        let before = self.meter.cost;
        let is_list = matches!(container, Container::List(_));
        self.count(if is_list { Cost::list() } else { Cost::mapping() }, at)?;
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
            let cost = self.meter.cost.since(frame.before);
            self.anchor(frame.anchor, Anchored { value: value.clone(), cost, height }, at)?;
        }
        self.put(value, height, at)
    }

    /// Adds a finished value, `height` levels high, to the open list or mapping.
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
        self.meter.add(cost).map_err(|(what, limit)| YamlError::Limit { line: at.line(), what, limit })
    }

    /// Fails if a value of so many levels would be too deep here.
    fn check_depth(&self, levels: usize, at: Marker) -> Result<(), YamlError> {
        let limit = self.meter.limits.depth;
        if self.stack.len() + levels > limit {
            return Err(YamlError::Limit { line: at.line(), what: "levels of nesting", limit });
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
    let requested = match tag.suffix_in_namespace(CORE).as_deref() {
        Some("bool") => RequestedTag::Bool,
        Some("int") => RequestedTag::Int,
        Some("float") => RequestedTag::Float,
        Some("null") => RequestedTag::Null,
        Some("timestamp") => RequestedTag::Timestamp,
        Some("binary") => {
            // Bytes that are not UTF-8 become U+FFFD, as Go's JSON encoder writes them.
            return base64::decode(text.as_bytes())
                .map(|bytes| Scalar::Text(String::from_utf8_lossy(&bytes).into_owned().into()))
                .map_err(|_| refused(at, "!!binary value contains invalid base64 data"));
        }
        _ => return Ok(Scalar::Text(text)),
    };
    tagged(text, requested).ok_or_else(|| refused(at, "the value is not of the type its tag names"))
}

fn is_core(tag: &Tag, name: &str) -> bool {
    tag.suffix_in_namespace(CORE).is_some_and(|suffix| suffix == name)
}

fn refused(at: Marker, message: &'static str) -> YamlError {
    YamlError::Value { line: at.line(), column: at.col() + 1, message }
}

fn infinite(at: Marker) -> YamlError {
    refused(at, "infinities and NaN have no JSON form")
}
