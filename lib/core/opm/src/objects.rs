//! The manifests that a bundle of the older form carries in its properties.

use olm_bundle::CSV_KIND;
use olm_fbc::{PROPERTY_BUNDLE_OBJECT, yaml};
use olm_go::{base64, field::Fields};
use olm_yaml::RepairBudget;
use serde_json::Value;

use crate::{DecodeError, decode};

/// The parts that are kept of them.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    pub(crate) count: usize,
    /// The first ClusterServiceVersion.
    pub(crate) csv: Option<Value>,
}

/// Counts the manifests of a bundle, and keeps its ClusterServiceVersion.
pub(crate) fn read(package: &str, name: &str, bundle: Fields<'_>) -> Result<Manifests, DecodeError> {
    let mut manifests = Manifests::default();
    each(package, name, bundle, |manifest| {
        manifests.count += 1;
        if manifests.csv.is_none() && manifest["kind"].as_str() == Some(CSV_KIND) {
            manifests.csv = Some(manifest);
        }
    })?;
    Ok(manifests)
}

/// Reads every manifest of a bundle, as `readBundleObjects` in operator-registry's `alpha/declcfg/load.go`; the first
/// that is none ends it.
pub(crate) fn each(
    package: &str,
    name: &str,
    bundle: Fields<'_>,
    mut take: impl FnMut(Value),
) -> Result<(), DecodeError> {
    let repairs = RepairBudget::default();
    for (index, property) in bundle.objects("properties").enumerate() {
        if property.text("type") != PROPERTY_BUNDLE_OBJECT {
            continue;
        }
        let refused = |problem| DecodeError::Object(package.to_owned(), name.to_owned(), problem);
        let value = property.raw("value");
        decode::check_property(PROPERTY_BUNDLE_OBJECT, value).map_err(|problem| {
            refused(format!("parse property at index {index} as bundle object: {problem}"))
        })?;
        let manifest = manifest(value.unwrap_or(&Value::Null), &repairs).map_err(|problem| {
            refused(format!("convert bundle object property at index {index} to JSON: {problem}"))
        })?;
        take(manifest);
    }
    Ok(())
}

/// The manifest in the value of a property; null when there is none.
pub(crate) fn manifest(value: &Value, repairs: &RepairBudget) -> Result<Value, String> {
    let bytes = match Fields::of(value).scalar("data") {
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
