//! Migrations: newer forms of what a catalog says, in the order in which they came up.
//!
//! Selecting one runs all before it too. They change `olm.bundle` blobs only, and none can be undone: manifests
//! other than the ClusterServiceVersion remain in the bundle's image.
//!
//! Source: operator-registry `alpha/action/migrations`.

use std::{fmt, str::FromStr};

use olm_fbc::{PROPERTY_BUNDLE_OBJECT, PROPERTY_CSV_METADATA};
use thiserror::Error;

use crate::{BlobProperty, BundleBlob, FieldError, registry_v1::csv_metadata};

const NONE: &str = "none";
const BUNDLE_OBJECT_TO_CSV_METADATA: &str = "bundle-object-to-csv-metadata";
/// The name that selects the last level.
const ALL: &str = "all";

/// Up to where a catalog is migrated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MigrationLevel {
    /// Nothing is changed.
    #[default]
    None,
    /// `olm.bundle.object` properties of bundles with an image become one `olm.csv.metadata`.
    BundleObjectToCsvMetadata,
}

impl MigrationLevel {
    /// The last level.
    pub const LAST: Self = Self::BundleObjectToCsvMetadata;
}

impl fmt::Display for MigrationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => NONE,
            Self::BundleObjectToCsvMetadata => BUNDLE_OBJECT_TO_CSV_METADATA,
        })
    }
}

impl FromStr for MigrationLevel {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            NONE => Ok(Self::None),
            BUNDLE_OBJECT_TO_CSV_METADATA => Ok(Self::BundleObjectToCsvMetadata),
            ALL => Ok(Self::LAST),
            _ => Err(format!("unknown migration level {name:?}")),
        }
    }
}

/// A bundle with this name could not be migrated, because of its ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("migrate: ClusterServiceVersion of bundle {0:?}: {1}")]
pub struct MigrationError(String, FieldError);

/// Brings a bundle up to a level.
///
/// # Errors
/// The ClusterServiceVersion of the bundle has fields of wrong types.
pub fn migrate(bundle: &mut BundleBlob, level: MigrationLevel) -> Result<(), MigrationError> {
    if level >= MigrationLevel::BundleObjectToCsvMetadata {
        bundle_object_to_csv_metadata(bundle)
            .map_err(|source| MigrationError(bundle.name.clone(), source))?;
    }
    Ok(())
}

fn bundle_object_to_csv_metadata(bundle: &mut BundleBlob) -> Result<(), FieldError> {
    let Some(csv) = bundle.csv.as_ref().filter(|_| !bundle.image.is_empty()) else { return Ok(()) };
    if bundle.properties.iter().any(|property| property.kind == PROPERTY_CSV_METADATA) {
        return Ok(());
    }
    let value = csv_metadata(csv)?;
    bundle.properties.retain(|property| property.kind != PROPERTY_BUNDLE_OBJECT);
    bundle.properties.push(BlobProperty { kind: PROPERTY_CSV_METADATA.to_owned(), value });
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MigrationLevel, migrate};
    use crate::{BlobProperty, BundleBlob};

    fn bundle(image: &str, kinds: &[&str]) -> BundleBlob {
        BundleBlob {
            name: "foo.v0.1.0".into(),
            image: image.into(),
            properties: kinds.iter().map(|kind| BlobProperty::new(kind, &Value::Null)).collect(),
            csv: Some(json!({"kind": "ClusterServiceVersion", "spec": {"displayName": "Foo"}})),
            ..BundleBlob::default()
        }
    }

    fn kinds(bundle: &BundleBlob) -> Vec<&str> {
        bundle.properties.iter().map(|property| property.kind.as_str()).collect()
    }

    #[test]
    fn levels_are_selected_by_name() {
        for (name, level) in [
            ("none", MigrationLevel::None),
            ("bundle-object-to-csv-metadata", MigrationLevel::BundleObjectToCsvMetadata),
            ("all", MigrationLevel::LAST),
        ] {
            assert_eq!(name.parse(), Ok(level));
        }
        let error = "split-icon".parse::<MigrationLevel>().unwrap_err();
        assert_eq!(error, "unknown migration level \"split-icon\"");
        assert_eq!(MigrationLevel::default(), MigrationLevel::None);
    }

    #[test]
    fn manifests_become_metadata_where_image_and_csv_are_there() {
        let objects = ["olm.bundle.object", "olm.package", "olm.bundle.object"];
        let level = MigrationLevel::BundleObjectToCsvMetadata;

        let mut migrated = bundle("i", &objects);
        migrate(&mut migrated, level).unwrap();
        assert_eq!(kinds(&migrated), ["olm.package", "olm.csv.metadata"]);
        assert_eq!(
            migrated.properties[1].value.get(),
            r#"{"apiServiceDefinitions":{},"crdDescriptions":{},"displayName":"Foo","provider":{}}"#
        );

        let mut without_csv = bundle("i", &objects);
        without_csv.csv = None;
        for (name, mut untouched, level) in [
            ("none", bundle("i", &objects), MigrationLevel::None),
            ("no image", bundle("", &objects), level),
            ("no csv", without_csv, level),
        ] {
            migrate(&mut untouched, level).unwrap();
            assert_eq!(kinds(&untouched), objects, "{name}");
        }
        let both = ["olm.bundle.object", "olm.csv.metadata"];
        let mut has_metadata = bundle("i", &both);
        migrate(&mut has_metadata, level).unwrap();
        assert_eq!(kinds(&has_metadata), both, "a bundle that has metadata already keeps its manifests");
    }

    #[test]
    fn a_csv_of_wrong_form_is_refused_with_the_bundle_and_the_field() {
        let mut wrong = bundle("i", &["olm.bundle.object"]);
        wrong.csv = Some(json!({"spec": {"displayName": 1}}));
        let error = migrate(&mut wrong, MigrationLevel::BundleObjectToCsvMetadata).unwrap_err();
        assert_eq!(
            error.to_string(),
            "migrate: ClusterServiceVersion of bundle \"foo.v0.1.0\": field \"spec.displayName\" is a number, \
             expected a string"
        );
        assert_eq!(kinds(&wrong), ["olm.bundle.object"], "nothing is changed");
    }
}
