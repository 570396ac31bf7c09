//! Objects held as JSON.

use std::fmt::Write;

use serde_json::Value;

/// The text at a JSON pointer; empty when there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the API server may drop the value of an optional field: null, an empty list, or a map of such values.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Bytes as lower-case hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_empty_lists_and_maps_of_these_are_empty() {
        for empty in [json!(null), json!([]), json!({}), json!({"a": {"b": null}, "c": []})] {
            assert!(is_empty(&empty), "{empty}");
        }
        for filled in [json!(""), json!(0), json!(false), json!([null]), json!({"a": {"b": 0}})] {
            assert!(!is_empty(&filled), "{filled}");
        }
    }
}
