//! Documents as Go's encoder writes opm's structures: known fields in their order, empty ones left out where the
//! structures say so. Other values keep the text that they have.
//!
//! Source: Go's `encoding/json/encode.go` (`structEncoder`, `isEmptyValue`).

use std::collections::BTreeMap;

use olm_bundle::typed::{Fields, Kind, Presence};
use olm_go::{
    field::last,
    json::{self, Html, Object},
};
use serde_json::{Value, value::RawValue};

const NULL: &str = "null";

/// Writes the JSON text `json` as a value of this type. `raw` says how values of any type are written.
///
/// # Errors
/// A list or an object of the type is something else in the text.
pub fn write(out: &mut Vec<u8>, json: &str, kind: &Kind, raw: Html) -> Result<(), serde_json::Error> {
    match kind {
        Kind::Object(fields) => return object(out, json, fields, raw),
        Kind::List(of) if json != NULL => {
            let items: Vec<&RawValue> = serde_json::from_str(json)?;
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(out, item.get(), of, raw)?;
            }
            out.push(b']');
        }
        Kind::Map(of) if json != NULL => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(json)?;
            let mut object = Object::new(out, Html::Kept);
            for (key, value) in members {
                write(object.key(&key), value.get(), of, raw)?;
            }
            object.end();
        }
        Kind::Text if json == NULL => out.extend_from_slice(b"\"\""),
        Kind::Bool if json == NULL => out.extend_from_slice(b"false"),
        Kind::Int32 if json == NULL => out.push(b'0'),
        // Line breaks are no part of base64.
        Kind::Bytes => out.extend_from_slice(json.replace("\\n", "").replace("\\r", "").as_bytes()),
        // The only characters that serde_json leaves as they are and Go does not.
        Kind::Text => {
            let text = json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
            out.extend_from_slice(text.as_bytes());
        }
        Kind::Raw if raw == Html::Escaped => out.extend_from_slice(json::escape_html(json).as_bytes()),
        _ => out.extend_from_slice(json.as_bytes()),
    }
    Ok(())
}

fn object(out: &mut Vec<u8>, json: &str, fields: &Fields, raw: Html) -> Result<(), serde_json::Error> {
    let members: BTreeMap<String, &RawValue> =
        if json == NULL { BTreeMap::new() } else { serde_json::from_str(json)? };
    let mut object = Object::new(out, Html::Kept);
    for (name, presence, kind) in fields.rows {
        let members = members.iter().map(|(key, value)| (key.as_str(), value.get()));
        let value = match kind {
            Kind::Bytes | Kind::List(_) | Kind::Map(_) | Kind::Raw => last(members, name),
            _ => last(members.filter(|(_, value)| *value != NULL), name),
        };
        let value = match (presence, value) {
            (Presence::Always, value) => value.unwrap_or(NULL),
            (_, None) => continue,
            (_, Some(value)) if is_empty(value, kind) => continue,
            (_, Some(value)) => value,
        };
        write(object.key(name), value, kind, raw)?;
    }
    object.end();
    Ok(())
}

/// Whether a field that may be left out is; raw messages and pointers are left out when they are absent only.
fn is_empty(json: &str, kind: &Kind) -> bool {
    !matches!(kind, Kind::Raw | Kind::Object(_))
        && matches!(json, NULL | "\"\"" | "[]" | "{}" | "0" | "false")
}

/// A value of a type that it has been checked against, as text.
pub(crate) fn encoded(value: &Value, kind: &Kind, raw: Html) -> Box<RawValue> {
    let mut out = Vec::new();
    // Its members are of the types that are looked for, so this cannot fail; null replaces the impossible.
    match write(&mut out, &json::to_text(value, Html::Kept), kind, raw) {
        Ok(()) => json::into_raw(out),
        Err(_) => RawValue::NULL.to_owned(),
    }
}
