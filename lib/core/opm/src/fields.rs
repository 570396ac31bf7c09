//! Fields of a decoded document, read as Go's decoder fills structures; a value of another type is an error that names
//! the field.

use serde_json::{Map, Value};
use thiserror::Error;

use olm_go::field;

/// A field has another type than its meaning asks for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("field {path:?} is {found}, expected {expected}")]
pub struct FieldError {
    /// Where the field stands, from the document's top.
    pub path: String,
    /// What it must be.
    pub expected: &'static str,
    /// What it is.
    pub found: &'static str,
}

/// An object and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    map: Option<&'a Map<String, Value>>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The fields of a document.
    pub(crate) fn of(document: &'a Value) -> Result<Self, FieldError> {
        Self::at(Some(document), String::new())
    }

    fn at(value: Option<&'a Value>, path: String) -> Result<Self, FieldError> {
        match value {
            None | Some(Value::Null) => Ok(Self { map: None, path }),
            Some(Value::Object(map)) => Ok(Self { map: Some(map), path }),
            Some(other) => Err(FieldError { path, expected: "an object", found: kind(other) }),
        }
    }

    /// Where the first field stands that is none of `known`.
    pub(crate) fn unknown(&self, known: &[&str]) -> Option<String> {
        let mut keys = self.map?.keys();
        keys.find(|key| !known.iter().any(|name| field::names(key, name))).map(|key| self.path_of(key))
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The value of a text, number, flag or structure.
    fn scalar(&self, name: &str) -> Option<&'a Value> {
        field::scalar(self.map?, name)
    }

    /// The value of a list or map; null is like absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.raw(name).filter(|value| !value.is_null())
    }

    /// The value of a field that may be anything, null included.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a Value> {
        field::raw(self.map?, name)
    }

    pub(crate) fn text(&self, name: &str) -> Result<&'a str, FieldError> {
        match self.scalar(name) {
            None => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(self.wrong(name, "a string", other)),
        }
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<bool, FieldError> {
        match self.scalar(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(other) => Err(self.wrong(name, "a boolean", other)),
        }
    }

    /// A whole number of 32 bits.
    pub(crate) fn integer(&self, name: &str) -> Result<i32, FieldError> {
        let Some(value) = self.scalar(name) else { return Ok(0) };
        value
            .as_i64()
            .and_then(|number| i32::try_from(number).ok())
            .ok_or_else(|| self.wrong(name, "an integer of 32 bits", value))
    }

    pub(crate) fn object(&self, name: &str) -> Result<Self, FieldError> {
        Self::at(self.scalar(name), self.path_of(name))
    }

    fn items(&self, name: &str) -> Result<&'a [Value], FieldError> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(self.wrong(name, "a list", other)),
        }
    }

    pub(crate) fn objects(&self, name: &str) -> Result<Vec<Self>, FieldError> {
        let items = self.items(name)?.iter().enumerate();
        items.map(|(index, item)| Self::at(Some(item), format!("{}[{index}]", self.path_of(name)))).collect()
    }

    pub(crate) fn texts(&self, name: &str) -> Result<Vec<&'a str>, FieldError> {
        let items = self.items(name)?.iter().enumerate();
        items
            .map(|(index, item)| match item {
                Value::Null => Ok(""),
                Value::String(text) => Ok(text.as_str()),
                other => Err(self.wrong(&format!("{name}[{index}]"), "a string", other)),
            })
            .collect()
    }

    /// A map of strings, sorted by key.
    pub(crate) fn text_map(&self, name: &str) -> Result<Vec<(&'a str, &'a str)>, FieldError> {
        let object = Self::at(self.get(name), self.path_of(name))?;
        let Some(map) = object.map else { return Ok(Vec::new()) };
        let mut entries = Vec::with_capacity(map.len());
        for (key, value) in map {
            match value {
                Value::Null => entries.push((key.as_str(), "")),
                Value::String(text) => entries.push((key.as_str(), text.as_str())),
                other => return Err(object.wrong(key, "a string", other)),
            }
        }
        entries.sort_unstable_by_key(|(key, _)| *key);
        Ok(entries)
    }

    pub(crate) fn wrong(&self, name: &str, expected: &'static str, found: &Value) -> FieldError {
        FieldError { path: self.path_of(name), expected, found: kind(found) }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use olm_fbc::ChannelEntry;
    use olm_go::field;
    use serde_json::json;

    use super::Fields;

    #[test]
    fn names_match_in_any_case_and_null_is_absent() {
        let document = json!({"Spec": {"Version": "1", "other": null, "list": [{"name": "a"}, null]}});
        let spec = Fields::of(&document).unwrap().object("spec").unwrap();
        assert_eq!(spec.text("version").unwrap(), "1");
        assert_eq!(spec.text("other").unwrap(), "");
        let list = spec.objects("list").unwrap();
        assert_eq!((list[0].text("name").unwrap(), list[1].text("name").unwrap()), ("a", ""));
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_its_place() {
        let document = json!({"spec": {"list": [{"name": 1}], "map": {"k": true}, "n": 3_000_000_000_u32}});
        let spec = Fields::of(&document).unwrap().object("spec").unwrap();
        let errors = [
            spec.objects("list").unwrap()[0].text("name").unwrap_err().to_string(),
            spec.text_map("map").unwrap_err().to_string(),
            spec.integer("n").unwrap_err().to_string(),
            spec.objects("map").unwrap_err().to_string(),
        ];
        assert_eq!(
            errors,
            [
                r#"field "spec.list[0].name" is a number, expected a string"#,
                r#"field "spec.map.k" is a boolean, expected a string"#,
                r#"field "spec.n" is a number, expected an integer of 32 bits"#,
                r#"field "spec.map" is an object, expected a list"#,
            ]
        );
    }

    /// Reading for resolution, for validation and for templates gives the same answer.
    #[test]
    fn all_readers_find_the_same_value() {
        for (document, replaces, skips) in [
            (json!({"Replaces": "a", "replaces": "b"}), "b", 0),
            (json!({"REPLACES": "a", "Replaces": "b"}), "b", 0),
            (json!({"Replaces": "a", "replaces": null}), "a", 0),
            (json!({"replaces": "a", "replace\u{17f}": "b"}), "b", 0),
            (json!({"replaces": null}), "", 0),
            (json!({"Skips": ["a"], "skips": null}), "", 0),
            (json!({"Skips": null, "skips": ["a"]}), "", 1),
        ] {
            let object = document.as_object().unwrap();
            let outlined = (field::text(object, "replaces"), field::list(object, "skips").len());
            let resolved: ChannelEntry = serde_json::from_str(&document.to_string()).unwrap();
            let fields = Fields::of(&document).unwrap();
            let templated = (fields.text("replaces").unwrap(), fields.texts("skips").unwrap().len());
            let all = [outlined, (&resolved.replaces, resolved.skips.len()), templated];
            assert_eq!(all, [(replaces, skips); 3], "{document}");
        }
    }
}
