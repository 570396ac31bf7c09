//! The files of `metadata/`.

use std::collections::BTreeMap;

use olm_go::{
    field::Fields,
    json::{self, Html},
};
use serde_json::Value;

use crate::{BundleFiles, ReadError, budget::Budget};

/// The file with the annotations of a bundle.
pub const ANNOTATIONS: &str = "metadata/annotations.yaml";
/// The annotation that names a bundle's package.
pub const PACKAGE_ANNOTATION: &str = "operators.operatorframework.io.bundle.package.v1";

/// The package that `metadata/annotations.yaml` names; empty when it names none, which validation reports.
pub(crate) fn package(files: &BundleFiles, budget: &mut Budget) -> Result<String, ReadError> {
    let content = files.get(ANNOTATIONS).ok_or(ReadError::Missing(ANNOTATIONS))?;
    let invalid = |message: String| ReadError::Metadata { path: ANNOTATIONS, message };
    let value = one(content, budget, invalid)?;
    if !matches!(value, Value::Null | Value::Object(_)) {
        return Err(invalid("not a map".to_owned()));
    }
    let annotations = Fields::of(&value).scalar("annotations").unwrap_or(&Value::Null);
    if !matches!(annotations, Value::Null | Value::Object(_)) {
        return Err(invalid("annotations is not a map".to_owned()));
    }
    scalar_text(Fields::of(annotations).scalar(PACKAGE_ANNOTATION))
        .ok_or_else(|| invalid(format!("annotation {PACKAGE_ANNOTATION} is not text")))
}

/// The text of a scalar; in YAML numbers and booleans are texts where one is wanted, and null is an empty one.
pub fn scalar_text(value: Option<&Value>) -> Option<String> {
    match value {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(scalar @ (Value::Bool(_) | Value::Number(_))) => Some(json::to_text(scalar, Html::Kept)),
        Some(Value::Array(_) | Value::Object(_)) => None,
    }
}

/// The elements of a list in a metadata file, each a map or null. A file without the list has none.
///
/// # Errors
/// The text says what is no map or no list.
pub fn elements<'v>(file: &'v Value, list: &str) -> Result<Vec<Fields<'v>>, String> {
    if !matches!(file, Value::Null | Value::Object(_)) {
        return Err("not a map".to_owned());
    }
    match Fields::of(file).raw(list) {
        None | Some(Value::Null | Value::Array(_)) => {}
        Some(_) => return Err(format!("{list} is not a list")),
    }
    let elements = Fields::of(file).list(list);
    if elements.iter().any(|element| !matches!(element, Value::Null | Value::Object(_))) {
        return Err(format!("an element of {list} is not a map"));
    }
    Ok(elements.iter().map(Fields::of).collect())
}

/// The first document of a metadata file.
pub(crate) fn one(
    content: &[u8],
    budget: &mut Budget,
    invalid: impl FnOnce(String) -> ReadError,
) -> Result<Value, ReadError> {
    let read = olm_yaml::text(content)
        .and_then(|text| olm_yaml::one_within(text, budget.limits(), budget.repairs()));
    let value =
        read.map_err(|error| budget.exceeded(&error).unwrap_or_else(|| invalid(error.to_string())))?;
    budget.charge(&value)?;
    Ok(value)
}

/// The annotations of a file as the labels of an image, which are text.
///
/// # Errors
/// The text says what cannot be a label.
pub fn labels(content: &[u8]) -> Result<BTreeMap<String, String>, String> {
    let document = olm_yaml::text(content).and_then(olm_yaml::one).map_err(|error| error.to_string())?;
    let annotations = document.get("annotations").and_then(Value::as_object);
    let annotations = annotations.ok_or("annotations: missing or not a mapping")?;
    let label = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        _ => Err(format!("annotations: the value of {key:?} is not a string: put it in quotes")),
    };
    let labels: BTreeMap<String, String> = annotations.iter().map(label).collect::<Result<_, _>>()?;
    if labels.get(PACKAGE_ANNOTATION).is_none_or(String::is_empty) {
        return Err(format!("annotations: {PACKAGE_ANNOTATION:?} is missing: it names the bundle's package"));
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::labels;

    #[test]
    fn annotations_become_labels_as_they_are() {
        let text = "annotations:\n  operators.operatorframework.io.bundle.package.v1: \"a\"\n  x: 'true'\n";
        let labels = labels(text.as_bytes()).expect("valid");
        assert_eq!(labels["x"], "true");
        assert_eq!(labels.len(), 2);
    }

    #[test]
    fn annotations_that_cannot_be_labels_are_refused_by_name() {
        for (text, wanted) in [
            ("{}", "annotations: missing or not a mapping"),
            ("annotations: [a]", "annotations: missing or not a mapping"),
            ("annotations: {a: true}", "annotations: the value of \"a\" is not a string: put it in quotes"),
            ("annotations: {a: b}", "is missing: it names the bundle's package"),
            ("annotations: {a: b", ""),
        ] {
            let error = labels(text.as_bytes()).expect_err(text);
            assert!(error.contains(wanted), "{error}");
        }
    }
}
