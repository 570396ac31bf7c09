//! The annotation `olm.properties`: shipped in the CSV, merged with `metadata/properties.yaml`.
//!
//! Entries of the annotation come first, and keep their key order and number spelling; those of the file
//! follow. As upstream's list of none is Go's nil, a file without entries beside no annotation makes the text
//! `null`, and that text is read as an empty list. Field names match whatever their case.
//!
//! Source: operator-controller `rukpak/bundle/source/source.go`, Go's `encoding/json`.

use olm_go::{
    field::Fields,
    json::{self, tokens},
};
use serde_json::{Map, Value, value::RawValue};

use crate::{
    ReadError,
    budget::Budget,
    csv::OLM_PROPERTIES,
    limits::ANNOTATION_BYTES_MAX,
    metadata::{elements, one, scalar_text},
};

const ANNOTATION: &str = "csv.metadata.annotations['olm.properties']";
const FILE_PATH: &str = "metadata/properties.yaml";

/// An entry of the annotation.
#[derive(Default)]
pub(crate) struct Shipped {
    pub(crate) kind: String,
    pub(crate) value: Option<Box<RawValue>>,
}

olm_go::read_as_go_does! { Shipped { "type" => kind, "value" => value } }

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
    let entries = annotated_properties(text)
        .map_err(|error| ReadError::Metadata { path: ANNOTATION, message: reason(&error) })?;
    Ok(entries.iter().map(|(kind, value)| entry_text(kind, value)).collect())
}

/// The entries of the annotation `olm.properties`: type, and the JSON text of the value without white space between
/// its tokens.
///
/// # Errors
/// The text is no list of objects, or a type is no string.
pub fn annotated_properties(text: &str) -> Result<Vec<(String, String)>, serde_json::Error> {
    let entries: Option<Vec<Option<Shipped>>> = serde_json::from_str(text)?;
    let entry = |entry: Option<Shipped>| {
        let Shipped { kind, value } = entry.unwrap_or_default();
        (kind, tokens(value.as_deref().unwrap_or(RawValue::NULL).get()).collect())
    };
    Ok(entries.unwrap_or_default().into_iter().map(entry).collect())
}

/// The fault of JSON, without the values that its parser would quote.
fn reason(error: &serde_json::Error) -> String {
    if error.is_data() {
        return format!("not a list of properties at line {} column {}", error.line(), error.column());
    }
    error.to_string()
}

fn from_file(content: &[u8], budget: &mut Budget) -> Result<Vec<String>, ReadError> {
    let invalid = |message: String| ReadError::Metadata { path: FILE_PATH, message };
    let file = one(content, budget, invalid)?;
    let text = |entry: Fields<'_>| {
        let kind = scalar_text(entry.scalar("type")).ok_or("a property's type is not text")?;
        let value = json::from_yaml(entry.raw("value").unwrap_or(&Value::Null));
        Ok(entry_text(&kind, &value))
    };
    elements(&file, "properties").and_then(|all| all.into_iter().map(text).collect()).map_err(invalid)
}

pub(crate) fn entry_text(kind: &str, value: &str) -> String {
    json::escape_html(&format!("{{\"type\":{},\"value\":{value}}}", Value::from(kind)))
}
