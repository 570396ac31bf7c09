//! Package, version and release of a bundle, from its properties.

use olm_semver::{BundleVersion, Release, Version};
use serde_json::Value;

use crate::{
    BundleBlob, FieldError,
    blob::{BUNDLE_OBJECT, CSV_METADATA, PACKAGE, manifest},
    fields::Fields,
};

/// The annotation by which a bundle without release says that its build metadata is one.
const SUBSTITUTES_FOR: &str = "olm.substitutesFor";

/// The fields of an `olm.package` property.
struct Identity {
    package: String,
    version: String,
    release: String,
}

fn identities(bundle: &BundleBlob) -> Result<Vec<Identity>, FieldError> {
    let properties = bundle.properties.iter().filter(|property| property.kind == PACKAGE);
    properties
        .map(|property| {
            let value = property.parsed();
            let fields = Fields::of(&value)?;
            Ok(Identity {
                package: fields.text("packageName")?.to_owned(),
                version: fields.text("version")?.to_owned(),
                release: fields.text("release")?.to_owned(),
            })
        })
        .collect()
}

/// Package and version of a bundle, in the words of the semver template.
pub(super) fn package_and_version(bundle: &BundleBlob) -> Result<(String, Version), String> {
    let name = &bundle.name;
    let identities =
        identities(bundle).map_err(|error| format!("parse properties for bundle {name:?}: {error}"))?;
    let [identity] = identities.as_slice() else {
        return Err(format!("bundle {name:?} has multiple {PACKAGE:?} properties, expected exactly 1"));
    };
    let version = identity
        .version
        .parse()
        .map_err(|error| format!("bundle {name:?} has invalid version {:?}: {error}", identity.version))?;
    Ok((identity.package.clone(), version))
}

/// Version and release of a bundle, in the words of the substitutes template.
pub(super) fn version_and_release(bundle: &BundleBlob) -> Result<BundleVersion, String> {
    let name = &bundle.name;
    let identities = identities(bundle).map_err(|error| {
        format!("unable to unmarshal \"olm.package\" property for bundle {name:?}: {error}")
    })?;
    let identity = match identities.as_slice() {
        [] => return Err(format!("no \"olm.package\" property found for bundle {name:?}")),
        [identity] => identity,
        _ => return Err(format!("must be exactly one property of type {PACKAGE:?}")),
    };
    let version: Version = identity.version.parse().map_err(|error| {
        format!(
            "invalid semver version {:?} in \"olm.package\" property for bundle {name:?}: {error}",
            identity.version
        )
    })?;
    let release: Release = identity.release.parse().map_err(|error| {
        format!(
            "invalid release {:?} in \"olm.package\" property for bundle {name:?}: {error}",
            identity.release
        )
    })?;
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
            CSV_METADATA if annotated(value.get("annotations")) => return true,
            BUNDLE_OBJECT => {
                if let Ok(object) = manifest(&value) {
                    return annotated(object.pointer("/metadata/annotations"));
                }
            }
            _ => {}
        }
    }
    false
}
