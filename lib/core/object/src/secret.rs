//! Secrets in the form that the API server keeps.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use crate::ObjectKey;

/// Whether the object is a Secret of the core group.
pub fn is_secret(object: &Value) -> bool {
    let key = ObjectKey::of(object);
    key.kind == "Secret" && key.group.is_empty()
}

/// Moves a Secret's `stringData` into its `data`, as the API server does; other objects stay as they are.
///
/// Values that are no text are moved as they are: the server rejects the object with its own explanation.
pub fn encode_string_data(object: &mut Value) {
    if !is_secret(object) {
        return;
    }
    let Some(fields) = object.as_object_mut() else { return };
    let Some(Value::Object(plain)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert(Value::Null);
    if !data.is_object() {
        *data = Value::Object(Map::new());
    }
    if let Some(data) = data.as_object_mut() {
        data.extend(plain.into_iter().map(|(key, text)| {
            let encoded = text.as_str().map(|text| STANDARD.encode(text).into());
            (key, encoded.unwrap_or(text))
        }));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn string_data_overrides_data_and_only_in_secrets() {
        let stored = |mut object: Value| {
            encode_string_data(&mut object);
            (object["data"].clone(), object.get("stringData").cloned())
        };
        let both = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"b": "3"}});
        assert_eq!(stored(both.clone()), (json!({"a": "MQ==", "b": "Mw=="}), None));
        let plain = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "", "b": 7}});
        assert_eq!(stored(plain), (json!({"a": "", "b": 7}), None));
        let foreign = json!({"apiVersion": "example.com/v1", "kind": "Secret", "stringData": {"b": "3"}});
        assert_eq!(stored(foreign), (Value::Null, Some(json!({"b": "3"}))));
    }
}
