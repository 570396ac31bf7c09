//! The annotation `olm.properties`: shipped in the CSV, merged with `metadata/properties.yaml`.
//!
//! Entries of the annotation come first, and keep their key order and number spelling; those of the file
//! follow. As upstream's list of none is Go's nil, a file without entries beside no annotation makes the text
//! `null`, and that text is read as an empty list. Field names match whatever their case.
//!
//! Source: operator-controller `rukpak/bundle/source/source.go`, Go's `encoding/json`.

use std::fmt;

use olm_go::{
    field,
    json::{self, Html},
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

use crate::{ReadError, budget::Budget, csv::OLM_PROPERTIES, limits::ANNOTATION_BYTES_MAX, metadata::one};

const ANNOTATION: &str = "csv.metadata.annotations['olm.properties']";
const FILE_PATH: &str = "metadata/properties.yaml";

/// An entry of the annotation; of several members of one name the last counts.
#[derive(Default)]
struct Shipped<'a> {
    kind: String,
    value: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Shipped<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Shipped<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a property")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut shipped = Shipped::default();
                while let Some(name) = map.next_key::<String>()? {
                    if field::names(&name, "type") {
                        if let Some(kind) = map.next_value()? {
                            shipped.kind = kind;
                        }
                    } else if field::names(&name, "value") {
                        shipped.value = Some(map.next_value()?);
                    } else {
                        map.next_value::<serde::de::IgnoredAny>()?;
                    }
                }
                Ok(shipped)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Merges the file into the CSV's annotations. The annotation is parsed even when there is nothing to add.
pub(crate) fn merge(
    annotations: &mut Map<String, Value>,
    file: Option<&[u8]>,
    budget: &mut Budget,
) -> Result<(), ReadError> {
    let mut merged = match annotations.get(OLM_PROPERTIES).and_then(Value::as_str) {
        None => Vec::new(),
        Some(text) => shipped(text)?,
    };
    let added = match file {
        None | Some([]) => return Ok(()),
        Some(content) => from_file(content, budget)?,
    };
    merged.extend(added);
    let text = if merged.is_empty() { "null".to_owned() } else { format!("[{}]", merged.join(",")) };
    annotations.insert(OLM_PROPERTIES.to_owned(), text.into());
    Ok(())
}

fn shipped(text: &str) -> Result<Vec<String>, ReadError> {
    if text.len() > ANNOTATION_BYTES_MAX {
        let message = format!("it has more than {ANNOTATION_BYTES_MAX} bytes");
        return Err(ReadError::Metadata { path: ANNOTATION, message });
    }
    let entries: Option<Vec<Option<Shipped<'_>>>> = serde_json::from_str(text)
        .map_err(|error| ReadError::Metadata { path: ANNOTATION, message: reason(&error) })?;
    Ok(entries
        .unwrap_or_default()
        .into_iter()
        .map(|entry| match entry {
            None => entry_text("", "null"),
            Some(entry) => {
                let value = entry.value.map_or_else(|| "null".to_owned(), |raw| compact(raw.get()));
                entry_text(&entry.kind, &value)
            }
        })
        .collect())
}

/// What is wrong with JSON, without the values that its parser would quote.
fn reason(error: &serde_json::Error) -> String {
    if error.is_data() {
        return format!("not a list of properties at line {} column {}", error.line(), error.column());
    }
    error.to_string()
}

fn from_file(content: &[u8], budget: &mut Budget) -> Result<Vec<String>, ReadError> {
    let invalid = |message: String| ReadError::Metadata { path: FILE_PATH, message };
    let value = one(content, budget, invalid)?;
    let entries = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Object(map) => match field::raw(&map, "properties") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(entries)) => entries.clone(),
            Some(_) => return Err(invalid("properties is not a list".to_owned())),
        },
        _ => return Err(invalid("not a map".to_owned())),
    };
    entries
        .into_iter()
        .map(|entry| {
            let map = match entry {
                Value::Object(map) => map,
                Value::Null => Map::new(),
                _ => return Err(invalid("a property is not a map".to_owned())),
            };
            let kind = match field::scalar(&map, "type") {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(kind)) => kind.clone(),
                Some(scalar @ (Value::Number(_) | Value::Bool(_))) => scalar.to_string(),
                Some(_) => return Err(invalid("a property's type is not text".to_owned())),
            };
            Ok(entry_text(
                &kind,
                &json::to_text(field::raw(&map, "value").unwrap_or(&Value::Null), Html::Kept),
            ))
        })
        .collect()
}

fn entry_text(kind: &str, value: &str) -> String {
    json::escape_html(&format!("{{\"type\":{},\"value\":{value}}}", Value::from(kind)))
}

/// JSON without the white space between its tokens.
fn compact(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    json.chars()
        .filter(|c| {
            if in_string {
                in_string = escaped || *c != '"';
                escaped = !escaped && *c == '\\';
                return true;
            }
            in_string = *c == '"';
            !c.is_ascii_whitespace()
        })
        .collect()
}
