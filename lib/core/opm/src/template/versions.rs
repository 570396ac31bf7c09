//! Package, version and release of a bundle, from its properties.

use olm_fbc::{PROPERTY_BUNDLE_OBJECT, PROPERTY_CSV_METADATA, PROPERTY_PACKAGE};
use olm_go::field::Fields;
use olm_semver::{BundleVersion, Release, Version};
use olm_yaml::RepairBudget;
use serde_json::Value;

use crate::{BundleBlob, FieldError, objects::manifest, structures};

/// The annotation by which a bundle without release says that its build metadata is one.
const SUBSTITUTES_FOR: &str = "olm.substitutesFor";

/// The values of the `olm.package` properties.
fn identities(bundle: &BundleBlob) -> Result<Vec<Value>, FieldError> {
    let properties = bundle.properties.iter().filter(|property| property.kind == PROPERTY_PACKAGE);
    properties.map(|property| property.checked(&structures::property(PROPERTY_PACKAGE))).collect()
}

/// Package and version of a bundle, in the words of the semver template.
pub(super) fn package_and_version(bundle: &BundleBlob) -> Result<(String, Version), String> {
    let name = &bundle.name;
    let identities =
        identities(bundle).map_err(|error| format!("parse properties for bundle {name:?}: {error}"))?;
    let [identity] = identities.as_slice() else {
        return Err(format!(
            "bundle {name:?} has multiple {PROPERTY_PACKAGE:?} properties, expected exactly 1"
        ));
    };
    let identity = Fields::of(identity);
    let version = identity.text("version");
    let parsed = version
        .parse()
        .map_err(|error| format!("bundle {name:?} has invalid version {version:?}: {error}"))?;
    Ok((identity.text("packageName").to_owned(), parsed))
}

/// Version and release of a bundle, in the words of the substitutes template.
pub(super) fn version_and_release(bundle: &BundleBlob) -> Result<BundleVersion, String> {
    let name = &bundle.name;
    let identities = identities(bundle).map_err(|error| {
        format!("unable to unmarshal \"olm.package\" property for bundle {name:?}: {error}")
    })?;
    let identity = match identities.as_slice() {
        [] => return Err(format!("no \"olm.package\" property found for bundle {name:?}")),
        [identity] => Fields::of(identity),
        _ => return Err(format!("must be exactly one property of type {PROPERTY_PACKAGE:?}")),
    };
    let (version, release) = (identity.text("version"), identity.text("release"));
    let invalid = |what, text, error: &dyn std::fmt::Display| {
        format!("invalid {what} {text:?} in \"olm.package\" property for bundle {name:?}: {error}")
    };
    let version: Version = version.parse().map_err(|error| invalid("semver version", version, &error))?;
    let release: Release = release.parse().map_err(|error| invalid("release", release, &error))?;
    if !release.is_empty() {
        return Ok(BundleVersion { version, release: Some(release) });
    }
    if version.build().is_empty() || !substitutes(bundle) {
        return Ok(BundleVersion { version, release: None });
    }
    let release = version.build().parse().map_err(|error| {
        format!("unable to convert build metadata to release for bundle {name:?}: {error}")
    })?;
    Ok(BundleVersion { version: version.without_build(), release: Some(release) })
}

/// Whether the bundle's ClusterServiceVersion says that it substitutes another; asked of the manifest that is
/// known, else of the properties in their order.
fn substitutes(bundle: &BundleBlob) -> bool {
    let annotated = |annotations: Option<&Value>| {
        let value = annotations.and_then(|annotations| annotations.get(SUBSTITUTES_FOR));
        value.and_then(Value::as_str).is_some_and(|value| !value.is_empty())
    };
    if let Some(csv) = &bundle.csv {
        return annotated(csv.pointer("/metadata/annotations"));
    }
    for property in &bundle.properties {
        let value = property.parsed();
        match property.kind.as_str() {
            PROPERTY_CSV_METADATA if annotated(value.get("annotations")) => return true,
            PROPERTY_BUNDLE_OBJECT => {
                if let Ok(object) = manifest(&value, &RepairBudget::default()) {
                    return annotated(object.pointer("/metadata/annotations"));
                }
            }
            _ => {}
        }
    }
    false
}
