//! What a bundle says about itself in the form of properties: what it needs, the kinds it provides, and the
//! limits of the platforms it supports.
//!
//! Catalogs are made from the same sources, but not always with all of them. Nothing here makes a bundle invalid:
//! what cannot be read is told to who asks.
//!
//! Source: operator-registry `pkg/registry/registry_to_model.go`.

use olm_go::json::escape_html;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    BundleFiles, ReadError,
    budget::Budget,
    csv::{Csv, OLM_PROPERTIES},
    limits::ANNOTATION_BYTES_MAX,
    metadata::one,
};

const DEPENDENCIES: &str = "metadata/dependencies.yaml";
/// The annotation in which OLM's first generation keeps properties.
const FIRST_GENERATION: &str = "operatorframework.io/properties";
/// The property that says up to which minor version a platform may be updated.
const MAX_OPENSHIFT_VERSION: &str = "olm.maxOpenShiftVersion";
/// The types that are told on, beside the kinds.
const TOLD: [&str; 4] = ["olm.package.required", "olm.gvk.required", "olm.constraint", "olm.kubeversion"];

/// The properties, each `{"type", "value"}`.
///
/// The text says why `metadata/dependencies.yaml` cannot be read, if so.
///
/// # Errors
/// It is more than the budget allows.
pub(crate) fn properties(
    csv: &Csv,
    files: &BundleFiles,
    budget: &mut Budget,
) -> Result<Result<Vec<Value>, String>, ReadError> {
    let property = |kind: &str, value: Value| json!({"type": kind, "value": value});
    let mut all: Vec<Value> = csv.owned_kinds.iter().map(|k| property("olm.gvk", k.clone())).collect();
    all.extend(csv.required_kinds.iter().map(|k| property("olm.gvk.required", k.clone())));
    match from_file(files, budget)? {
        Ok(dependencies) => all.extend(dependencies),
        Err(unreadable) => return Ok(Err(unreadable)),
    }
    all.extend(
        annotated(csv)
            .into_iter()
            .filter(|one| one.get("type").and_then(Value::as_str).is_some_and(|kind| TOLD.contains(&kind))),
    );
    Ok(Ok(all))
}

/// The properties of both annotations; malformed ones have been refused, or are nobody's.
fn annotated(csv: &Csv) -> Vec<Value> {
    let short = |text: &&str| text.len() <= ANNOTATION_BYTES_MAX;
    let text = |key: &str| csv.annotations.get(key).and_then(Value::as_str).filter(short).unwrap_or_default();
    let current: Vec<Value> = serde_json::from_str(text(OLM_PROPERTIES)).unwrap_or_default();
    let first: Map<String, Value> = serde_json::from_str(text(FIRST_GENERATION)).unwrap_or_default();
    let first = first.get("properties").and_then(Value::as_array).cloned().unwrap_or_default();
    current.into_iter().chain(first).collect()
}

fn from_file(files: &BundleFiles, budget: &mut Budget) -> Result<Result<Vec<Value>, String>, ReadError> {
    let Some(content) = files.get(DEPENDENCIES) else { return Ok(Ok(Vec::new())) };
    let invalid = |message| ReadError::Metadata { path: DEPENDENCIES, message };
    match one(content, budget, invalid) {
        Ok(value) => Ok(dependencies(value).map_err(|cause| format!("{DEPENDENCIES}: {cause}"))),
        Err(ReadError::Metadata { message, .. }) => Ok(Err(format!("{DEPENDENCIES}: {message}"))),
        Err(error) => Err(error),
    }
}

fn dependencies(value: Value) -> Result<Vec<Value>, &'static str> {
    let entries = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Object(mut map) => match map.remove("dependencies") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err("dependencies is not a list"),
        },
        _ => return Err("not a map"),
    };
    entries
        .into_iter()
        .map(|entry| {
            let Value::Object(mut entry) = entry else { return Err("a dependency is not a map") };
            let value = entry.remove("value").unwrap_or_default();
            let Some(Value::String(kind)) = entry.remove("type") else {
                return Err("a dependency has no type");
            };
            Ok(match kind.as_str() {
                "olm.package" => json!({"type": "olm.package.required", "value": {
                    "packageName": value.get("packageName"),
                    "versionRange": value.get("version"),
                }}),
                "olm.gvk" => json!({"type": "olm.gvk.required", "value": value}),
                _ => json!({"type": kind, "value": value}),
            })
        })
        .collect()
}

/// The text for the annotation `olm.properties` of a revision, where platforms look for the highest version they
/// may be updated to: as merged, and with that property of the first generation's annotation if it has none.
pub(crate) fn platform_properties(csv: &Csv) -> Option<String> {
    let merged = csv.annotations.get(OLM_PROPERTIES).and_then(Value::as_str);
    let limit = limit_of_first_generation(csv);
    let Some(limit) = limit.filter(|_| !merged.is_some_and(has_limit)) else {
        return merged.map(str::to_owned);
    };
    let head = merged.map(str::trim).and_then(|text| text.strip_suffix(']')).map(str::trim_end);
    Some(match head {
        Some(head) if head != "[" => format!("{head},{limit}]"),
        _ => format!("[{limit}]"),
    })
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default, borrow)]
    value: Option<&'a RawValue>,
}

fn has_limit(text: &str) -> bool {
    let entries: Option<Vec<Option<Entry<'_>>>> = serde_json::from_str(text).unwrap_or_default();
    entries.unwrap_or_default().iter().flatten().any(|e| e.kind.as_deref() == Some(MAX_OPENSHIFT_VERSION))
}

fn limit_of_first_generation(csv: &Csv) -> Option<String> {
    #[derive(Deserialize)]
    struct Properties<'a> {
        #[serde(borrow)]
        properties: Vec<Entry<'a>>,
    }
    let text =
        csv.annotations.get(FIRST_GENERATION)?.as_str().filter(|text| text.len() <= ANNOTATION_BYTES_MAX)?;
    let all: Properties<'_> = serde_json::from_str(text).ok()?;
    let limit = all.properties.iter().find(|e| e.kind.as_deref() == Some(MAX_OPENSHIFT_VERSION))?;
    let value = limit.value.map_or("null", RawValue::get);
    Some(escape_html(&format!("{{\"type\":\"{MAX_OPENSHIFT_VERSION}\",\"value\":{value}}}")))
}
