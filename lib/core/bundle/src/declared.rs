//! The properties that a bundle declares: its requirements, the kinds it provides, and the
//! limits of the platforms it supports.
//!
//! Catalogs are made from the same sources, but not always with all of them. Nothing here makes a bundle invalid:
//! an unreadable file is reported as such.
//!
//! Source: operator-registry `pkg/registry/registry_to_model.go`.

use olm_fbc::{
    PROPERTY_CONSTRAINT, PROPERTY_GVK, PROPERTY_GVK_REQUIRED, PROPERTY_KUBERNETES_VERSION,
    PROPERTY_MAX_OPENSHIFT_VERSION, PROPERTY_PACKAGE, PROPERTY_PACKAGE_REQUIRED,
};
use olm_go::field::Fields;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    BundleFiles, ReadError,
    budget::Budget,
    csv::{Csv, OLM_PROPERTIES},
    limits::ANNOTATION_BYTES_MAX,
    metadata::{elements, one},
    properties::{Shipped, annotated_properties, entry_text},
};

const DEPENDENCIES: &str = "metadata/dependencies.yaml";
/// The annotation in which OLM's first generation keeps properties.
const FIRST_GENERATION: &str = "operatorframework.io/properties";
/// The types that are passed on, beside the kinds.
const DECLARED: [&str; 4] =
    [PROPERTY_PACKAGE_REQUIRED, PROPERTY_GVK_REQUIRED, PROPERTY_CONSTRAINT, PROPERTY_KUBERNETES_VERSION];

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
    let mut all: Vec<Value> = csv.owned_kinds.iter().map(|k| property(PROPERTY_GVK, k.clone())).collect();
    all.extend(csv.required_kinds.iter().map(|k| property(PROPERTY_GVK_REQUIRED, k.clone())));
    match from_file(files, budget)? {
        Ok(dependencies) => all.extend(dependencies),
        Err(unreadable) => return Ok(Err(unreadable)),
    }
    all.extend(
        annotated(csv).into_iter().filter(|one| {
            one.get("type").and_then(Value::as_str).is_some_and(|kind| DECLARED.contains(&kind))
        }),
    );
    Ok(Ok(all))
}

/// The properties of both annotations; malformed ones have been refused, or are ignored.
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
        Ok(value) => Ok(dependencies(&value).map_err(|cause| format!("{DEPENDENCIES}: {cause}"))),
        Err(ReadError::Metadata { message, .. }) => Ok(Err(format!("{DEPENDENCIES}: {message}"))),
        Err(error) => Err(error),
    }
}

fn dependencies(file: &Value) -> Result<Vec<Value>, String> {
    let property = |entry: Fields<'_>| {
        let value = entry.raw("value").cloned().unwrap_or_default();
        let kind = entry.scalar("type").and_then(Value::as_str).ok_or("a dependency has no type")?;
        Ok(match kind {
            PROPERTY_PACKAGE => json!({"type": PROPERTY_PACKAGE_REQUIRED, "value": {
                "packageName": value.get("packageName"),
                "versionRange": value.get("version"),
            }}),
            PROPERTY_GVK => json!({"type": PROPERTY_GVK_REQUIRED, "value": value}),
            _ => json!({"type": kind, "value": value}),
        })
    };
    elements(file, "dependencies")?.into_iter().map(property).collect()
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

fn has_limit(text: &str) -> bool {
    annotated_properties(text)
        .is_ok_and(|all| all.iter().any(|(kind, _)| kind == PROPERTY_MAX_OPENSHIFT_VERSION))
}

fn limit_of_first_generation(csv: &Csv) -> Option<String> {
    #[derive(Deserialize)]
    struct Properties {
        properties: Vec<Shipped>,
    }
    let text =
        csv.annotations.get(FIRST_GENERATION)?.as_str().filter(|text| text.len() <= ANNOTATION_BYTES_MAX)?;
    let all: Properties = serde_json::from_str(text).ok()?;
    let limit = all.properties.into_iter().find(|entry| entry.kind == PROPERTY_MAX_OPENSHIFT_VERSION)?;
    Some(entry_text(&limit.kind, limit.value.as_deref().unwrap_or(RawValue::NULL).get()))
}
