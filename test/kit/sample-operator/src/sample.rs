//! The kind Sample: its two versions, what is filled in, what is refused. Pure functions on JSON.
//!
//! Version `v1` has the text as `spec.message`, `v2` as `spec.content.text`; the rest is the same, so that nothing
//! is lost on the way there and back.

use serde_json::{Map, Value, json};

/// The kind.
pub(crate) const KIND: &str = "Sample";
/// Its resource.
pub(crate) const PLURAL: &str = "samples";
/// The version that is stored, which needs no conversion to be read.
pub(crate) const STORED: &str = "v1";
/// Where a ConfigMap says which version of the operator wrote it.
pub(crate) const OPERATOR_VERSION: &str = "operator-version";
/// Copies of the text when nobody says how many.
pub(crate) const COPIES_DEFAULT: i64 = 1;
/// More are refused.
pub(crate) const COPIES_MAX: i64 = 10;

/// The same object in another version, given as `<group>/<version>`.
///
/// # Errors
/// Either version is unknown; the text says which.
pub(crate) fn convert(object: &Value, wanted: &str, group: &str) -> Result<Value, String> {
    let found = object["apiVersion"].as_str().unwrap_or_default();
    let [v1, v2] = ["v1", "v2"].map(|version| format!("{group}/{version}"));
    let known = |version: &str| version == v1 || version == v2;
    if let Some(unknown) = [found, wanted].into_iter().find(|version| !known(version)) {
        return Err(format!("there is no version {unknown:?} of {KIND}, only {v1} and {v2}"));
    }
    let mut converted = object.clone();
    converted["apiVersion"] = wanted.into();
    if found == wanted {
        return Ok(converted);
    }
    let Some(spec) = converted.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(converted) };
    if wanted == v2 {
        if let Some(message) = spec.remove("message") {
            spec.insert("content".to_owned(), json!({"text": message}));
        }
    } else if let Some(text) =
        spec.remove("content").and_then(|mut content| content.get_mut("text").map(Value::take))
    {
        spec.insert("message".to_owned(), text);
    }
    Ok(converted)
}

/// A JSON patch that fills in what is not there; none where nothing is missing.
pub(crate) fn defaults(object: &Value) -> Option<Value> {
    let spec = object.get("spec")?.as_object()?;
    let missing = spec.get("copies").is_none_or(Value::is_null);
    missing.then(|| json!([{"op": "add", "path": "/spec/copies", "value": COPIES_DEFAULT}]))
}

/// Why an object is refused, in one sentence.
pub(crate) fn refusal(object: &Value) -> Option<String> {
    let copies = object.pointer("/spec/copies").and_then(Value::as_i64)?;
    (!(1..=COPIES_MAX).contains(&copies))
        .then(|| format!("spec.copies is {copies}: a {KIND} has 1 to {COPIES_MAX} copies"))
}

/// What stands in the ConfigMap of an object of the stored version.
pub(crate) fn data(object: &Value, operator_version: &str) -> Map<String, Value> {
    let message = object.pointer("/spec/message").and_then(Value::as_str).unwrap_or_default();
    let copies = object.pointer("/spec/copies").and_then(Value::as_i64).unwrap_or(COPIES_DEFAULT);
    let copies = (1..=copies.clamp(0, COPIES_MAX)).map(|number| (format!("copy-{number}"), message.into()));
    copies.chain([(OPERATOR_VERSION.to_owned(), operator_version.into())]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "samples.example.com";

    fn v1() -> Value {
        json!({
            "apiVersion": "samples.example.com/v1", "kind": "Sample", "metadata": {"name": "a", "labels": {"x": "y"}},
            "spec": {"message": "hello", "copies": 2}, "status": {"copies": 2},
        })
    }

    #[test]
    fn versions_are_converted_there_and_back_without_loss() {
        let there = convert(&v1(), "samples.example.com/v2", GROUP).unwrap();
        assert_eq!(there["apiVersion"], "samples.example.com/v2");
        assert_eq!(there["spec"], json!({"content": {"text": "hello"}, "copies": 2}));
        assert_eq!(there["metadata"], v1()["metadata"]);
        assert_eq!(convert(&there, "samples.example.com/v1", GROUP).unwrap(), v1());
        assert_eq!(convert(&there, "samples.example.com/v2", GROUP).unwrap(), there);
    }

    #[test]
    fn unknown_versions_are_named() {
        let error = convert(&v1(), "samples.example.com/v3", GROUP).unwrap_err();
        assert!(error.starts_with("there is no version \"samples.example.com/v3\" of Sample"), "{error}");
        assert!(convert(&v1(), "samples.example.com/v2", "other.example.com").is_err());
    }

    #[test]
    fn only_what_is_missing_is_filled_in() {
        assert_eq!(defaults(&v1()), None);
        let missing = json!({"spec": {"message": "hello"}});
        assert_eq!(defaults(&missing).unwrap()[0]["path"], "/spec/copies");
        assert_eq!(defaults(&json!({})), None);
    }

    #[test]
    fn numbers_that_no_sample_has_are_refused() {
        for (copies, refused) in [(0, true), (1, false), (10, false), (11, true), (-3, true)] {
            let object = json!({"spec": {"copies": copies}});
            assert_eq!(refusal(&object).is_some(), refused, "{copies}");
        }
        assert_eq!(refusal(&json!({"spec": {}})), None);
        let sentence = refusal(&json!({"spec": {"copies": 11}})).unwrap();
        assert_eq!(sentence, "spec.copies is 11: a Sample has 1 to 10 copies");
    }

    #[test]
    fn the_config_map_holds_as_many_copies_as_are_asked_for() {
        let data = data(&v1(), "1.0.0");
        assert_eq!(
            Value::Object(data),
            json!({"copy-1": "hello", "copy-2": "hello", "operator-version": "1.0.0"})
        );
    }
}
