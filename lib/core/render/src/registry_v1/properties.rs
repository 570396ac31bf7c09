//! The annotation `olm.properties`: shipped in the CSV, merged with `metadata/properties.yaml`.
//!
//! Entries of the annotation come first, and keep their key order and number spelling; those of the file
//! follow. Unlike upstream, a file without entries leaves the annotation alone (upstream writes the text
//! `null` if there was none), and that text is read as an empty list.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::model::OLM_PROPERTIES;
use crate::{RenderError, limits::FILE, names::go_json};

const ANNOTATION: &str = "csv.metadata.annotations['olm.properties']";
const FILE_PATH: &str = "metadata/properties.yaml";

#[derive(Deserialize)]
struct Shipped<'a> {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default, borrow)]
    value: Option<&'a RawValue>,
}

/// Merges the file into the CSV's annotations. The annotation is parsed even when there is nothing to add.
pub(super) fn merge(annotations: &mut Map<String, Value>, file: Option<&[u8]>) -> Result<(), RenderError> {
    let mut merged = match annotations.get(OLM_PROPERTIES).and_then(Value::as_str) {
        None => Vec::new(),
        Some(text) => shipped(text)?,
    };
    let added = match file {
        None | Some([]) => return Ok(()),
        Some(content) => from_file(content)?,
    };
    if added.is_empty() {
        return Ok(());
    }
    merged.extend(added);
    let text = format!("[{}]", merged.join(","));
    annotations.insert(OLM_PROPERTIES.to_owned(), text.into());
    Ok(())
}

fn shipped(text: &str) -> Result<Vec<String>, RenderError> {
    let entries: Option<Vec<Option<Shipped<'_>>>> = serde_json::from_str(text)
        .map_err(|error| RenderError::Metadata { path: ANNOTATION, message: reason(&error) })?;
    Ok(entries
        .unwrap_or_default()
        .into_iter()
        .map(|entry| match entry {
            None => entry_text("", "null"),
            Some(entry) => {
                let value = entry.value.map_or_else(|| "null".to_owned(), |raw| compact(raw.get()));
                entry_text(&entry.kind.unwrap_or_default(), &value)
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

fn from_file(content: &[u8]) -> Result<Vec<String>, RenderError> {
    let invalid = |message: String| RenderError::Metadata { path: FILE_PATH, message };
    let value = olm_yaml::text(content)
        .and_then(|text| olm_yaml::one_within(text, FILE))
        .map_err(|error| invalid(error.to_string()))?;
    let entries = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Object(mut map) => match map.remove("properties") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(invalid("properties is not a list".to_owned())),
        },
        _ => return Err(invalid("not a map".to_owned())),
    };
    entries
        .into_iter()
        .map(|entry| {
            let Value::Object(map) = entry else { return Err(invalid("a property is not a map".to_owned())) };
            let kind = match map.get("type") {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(kind)) => kind.clone(),
                Some(scalar @ (Value::Number(_) | Value::Bool(_))) => scalar.to_string(),
                Some(_) => return Err(invalid("a property's type is not text".to_owned())),
            };
            Ok(entry_text(&kind, &map.get("value").unwrap_or(&Value::Null).to_string()))
        })
        .collect()
}

fn entry_text(kind: &str, value: &str) -> String {
    go_json(&format!("{{\"type\":{},\"value\":{value}}}", Value::from(kind)))
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
