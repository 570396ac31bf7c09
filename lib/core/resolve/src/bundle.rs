//! Version and properties of a bundle of a catalog.

use olm_fbc::{
    Bundle, PROPERTY_BUNDLE_OBJECT, PROPERTY_CONSTRAINT, PROPERTY_CSV_METADATA, PROPERTY_GVK_REQUIRED,
    PROPERTY_PACKAGE, PROPERTY_PACKAGE_REQUIRED, Property,
};
use olm_go::{
    Quoted,
    field::{Fields, names},
};
use olm_semver::{BundleVersion, ReleaseSupport};
use serde_json::Value;
use thiserror::Error;

/// Types of the properties that declare dependencies.
const PROPERTIES_DEPENDENCY: [&str; 3] =
    [PROPERTY_PACKAGE_REQUIRED, PROPERTY_GVK_REQUIRED, PROPERTY_CONSTRAINT];

/// Types of properties that nothing is decided by, and that are large.
const PROPERTIES_CONTENT: [&str; 2] = [PROPERTY_CSV_METADATA, PROPERTY_BUNDLE_OBJECT];

/// A bundle without a valid version. Displays in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BundleVersionError(String);

/// The fields of an `olm.package` property.
///
/// # Errors
/// One has another type. The text is that of Go's decoder.
fn package_fields(value: &Value) -> Result<Fields<'_>, String> {
    const NAMES: [&str; 3] = ["packageName", "version", "release"];
    let not = |found: &str, wanted: &str| format!("json: cannot unmarshal {found} into Go {wanted}");
    let type_of = |value: &Value| match value {
        Value::Null => None,
        Value::Bool(_) => Some("bool"),
        Value::Number(_) => Some("number"),
        Value::String(_) => Some("string"),
        Value::Array(_) => Some("array"),
        Value::Object(_) => Some("object"),
    };
    let members = match (value, type_of(value)) {
        (Value::Object(members), _) => members,
        (_, None) => return Ok(Fields::default()),
        (_, Some(found)) => return Err(not(found, "value of type property.Package")),
    };
    for (key, value) in members {
        let name = NAMES.into_iter().find(|name| names(key, name));
        match (name, type_of(value)) {
            (Some(name), Some(found)) if found != "string" => {
                return Err(not(found, &format!("struct field Package.{name} of type string")));
            }
            _ => {}
        }
    }
    Ok(Fields::from(members))
}

/// Version and release of a bundle, from the first of its `olm.package` properties.
///
/// # Errors
/// It has none, or an invalid one.
pub fn bundle_version(
    bundle: &Bundle,
    releases: ReleaseSupport,
) -> Result<BundleVersion, BundleVersionError> {
    let property =
        bundle.properties.iter().find(|property| property.kind == PROPERTY_PACKAGE).ok_or_else(|| {
            BundleVersionError(format!("no package property found in bundle {}", Quoted(&bundle.name)))
        })?;
    let fields = package_fields(&property.value)
        .map_err(|error| BundleVersionError(format!("error unmarshalling package property: {error}")))?;
    let release = fields.scalar("release").and_then(Value::as_str);
    BundleVersion::from_fields(fields.text("version"), release, releases)
        .map_err(|error| BundleVersionError(error.to_string()))
}

/// The properties by which the bundle declares dependencies.
pub(crate) fn dependencies(bundle: &Bundle) -> impl Iterator<Item = &Property> {
    bundle.properties.iter().filter(|property| PROPERTIES_DEPENDENCY.contains(&property.kind.as_str()))
}

/// The properties that others may depend on, and all others of which we know nothing.
pub(crate) fn properties(bundle: &Bundle) -> impl Iterator<Item = &Property> {
    bundle.properties.iter().filter(|property| !PROPERTIES_CONTENT.contains(&property.kind.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn version_of(properties: serde_json::Value) -> Result<String, String> {
        let bundle = Bundle {
            name: "b".to_owned(),
            properties: serde_json::from_value(properties).unwrap(),
            ..Bundle::default()
        };
        bundle_version(&bundle, ReleaseSupport::On)
            .map(|version| version.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_version_is_that_of_the_first_package_property() {
        for (properties, want) in [
            (json!([]), Err(r#"no package property found in bundle "b""#)),
            (
                json!([{"type": "olm.gvk", "value": {"version": "v1"}}]),
                Err(r#"no package property found in bundle "b""#),
            ),
            (json!([{"type": "olm.package", "value": null}]), Err("Version string empty")),
            (json!([{"type": "olm.package", "value": {"version": null}}]), Err("Version string empty")),
            (
                json!([{"type": "olm.package", "value": {"version": "1.2"}}]),
                Err("No Major.Minor.Patch elements found"),
            ),
            (
                json!([{"type": "olm.package", "value": {"packageName": "p", "version": "1.2.3"}}]),
                Ok("1.2.3"),
            ),
            (json!([{"type": "olm.package", "value": {"version": "1.2.3", "release": "4"}}]), Ok("1.2.3+4")),
            (
                json!([
                    {"type": "olm.package", "value": {"version": "1.2.3"}},
                    {"type": "olm.package", "value": {"version": "2.0.0"}},
                ]),
                Ok("1.2.3"),
            ),
        ] {
            let shown = properties.to_string();
            let want = want.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(version_of(properties), want, "{shown}");
        }
    }

    #[test]
    fn a_value_of_another_form_is_an_error() {
        for (value, text) in [
            (json!("1.2.3"), "string into Go value of type property.Package"),
            (json!({"version": 1}), "number into Go struct field Package.version of type string"),
            (
                json!({"version": [], "release": 4}),
                "number into Go struct field Package.release of type string",
            ),
            (json!({"packageName": {}}), "object into Go struct field Package.packageName of type string"),
        ] {
            let error = version_of(json!([{"type": "olm.package", "value": value}])).unwrap_err();
            assert_eq!(error, format!("error unmarshalling package property: json: cannot unmarshal {text}"));
        }
    }
}
