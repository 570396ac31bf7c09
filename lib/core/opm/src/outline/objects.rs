//! The manifests that a bundle of the older form carries in its properties.

use olm_bundle::CSV_KIND;
use olm_fbc::{PROPERTY_BUNDLE_OBJECT, yaml};
use olm_go::{
    base64,
    field::{self, text},
};
use olm_yaml::RepairBudget;
use serde_json::Value;

use crate::{decode, property::raw_value};

/// What is kept of them.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    pub(crate) count: usize,
    /// From the first ClusterServiceVersion.
    pub(crate) display_name: String,
}

/// Reads every manifest; the first that is none ends it.
pub(crate) fn read(properties: &[Value]) -> Result<Manifests, String> {
    let mut manifests = Manifests::default();
    let (mut csv_found, repairs) = (false, RepairBudget::default());
    for (index, property) in properties.iter().enumerate() {
        let Some(object) = property.as_object() else { continue };
        if text(object, "type") != PROPERTY_BUNDLE_OBJECT {
            continue;
        }
        let parsed = |problem| format!("parse property at index {index} as bundle object: {problem}");
        let value = raw_value(object).ok_or_else(|| parsed("unexpected end of JSON input".to_owned()))?;
        decode::check(value, &decode::BUNDLE_OBJECT).map_err(parsed)?;
        let manifest = manifest(value, &repairs).map_err(|problem| {
            format!("convert bundle object property at index {index} to JSON: {problem}")
        })?;
        manifests.count += 1;
        if !csv_found && manifest["kind"].as_str() == Some(CSV_KIND) {
            csv_found = true;
            manifest["spec"]["displayName"]
                .as_str()
                .unwrap_or_default()
                .clone_into(&mut manifests.display_name);
        }
    }
    Ok(manifests)
}

/// The manifest in the value of a property; null when there is none.
fn manifest(value: &Value, repairs: &RepairBudget) -> Result<Value, String> {
    let data = value.as_object().and_then(|object| field::scalar(object, "data"));
    let bytes = match data {
        Some(Value::String(encoded)) => base64::decode(encoded.as_bytes())
            .map_err(|at| format!("illegal base64 data at input byte {at}"))?,
        Some(Value::Array(bytes)) => {
            bytes.iter().filter_map(Value::as_u64).filter_map(|byte| u8::try_from(byte).ok()).collect()
        }
        _ => Vec::new(),
    };
    if let Ok(manifest) = serde_json::from_slice(&bytes) {
        return Ok(manifest);
    }
    let text = olm_yaml::text(&bytes).map_err(|error| error.to_string())?;
    yaml::document(text, 0, repairs).map_err(|error| error.to_string())
}
