//! What resolution needs of a bundle.

use std::collections::BTreeSet;

use olm_fbc::{
    PROPERTY_CONSTRAINT, PROPERTY_GVK, PROPERTY_GVK_REQUIRED, PROPERTY_PACKAGE, PROPERTY_PACKAGE_REQUIRED,
};
use olm_go::{
    field::Fields,
    json::{Html, Object, into_raw},
};
use olm_object::GroupVersionKind;
use olm_semver::Version;
use serde_json::Value;

use crate::{
    limits::{ENTRY_BYTES, VALUE_BYTES},
    registry_model::{self, Property},
};

/// The property of a bundle that must not be installed any more.
pub const PROPERTY_DEPRECATED: &str = "olm.deprecated";
/// The dependency on a label, and the property that says the same.
pub(crate) const LABEL: &str = "olm.label";
pub(crate) const LABEL_REQUIRED: &str = "olm.label.required";

/// A bundle, as far as it matters to resolution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Name, which is also that of its ClusterServiceVersion.
    pub name: String,
    /// Version as it is written.
    pub version_text: String,
    /// Version, read tolerantly; `None` when it is none even so.
    pub version: Option<Version>,
    /// Image reference; empty for a bundle that is in the catalog as a whole.
    pub image: String,
    /// Kinds that its properties say it provides.
    pub provided: BTreeSet<GroupVersionKind>,
    /// Properties for resolution: those of the bundle, then one for each of its dependencies. What a bundle declares as a
    /// property and as a dependency is there twice, and upstream says it twice.
    pub properties: Vec<Property>,
}

impl Bundle {
    /// What resolution reads of an answer of the registry API. `None` when a dependency in it cannot be read: such bundles are
    /// no candidates.
    pub fn of(bundle: &registry_model::Bundle) -> Option<Self> {
        let provided: BTreeSet<_> = bundle.provided_apis.iter().cloned().collect();
        let required: BTreeSet<_> = bundle.required_apis.iter().cloned().collect();
        let mut properties = bundle.properties.clone();
        if properties.is_empty() {
            properties.extend(provided.iter().map(|kind| kind_property(PROPERTY_GVK, kind)));
        }
        if bundle.dependencies.is_empty() {
            properties.extend(required.iter().map(|kind| kind_property(PROPERTY_GVK_REQUIRED, kind)));
        }
        for dependency in &bundle.dependencies {
            properties.extend(required_property(dependency).ok()?);
        }
        if !properties.iter().any(|property| property.kind == PROPERTY_PACKAGE) {
            let value = text(&[("packageName", &bundle.package_name), ("version", &bundle.version)]);
            properties.push(Property { kind: PROPERTY_PACKAGE.to_owned(), value });
        }
        Some(Self {
            name: bundle.csv_name.clone(),
            version_text: bundle.version.clone(),
            version: Version::parse_tolerant(&bundle.version).ok(),
            image: bundle.bundle_path.clone(),
            provided: provided_kinds(&properties),
            properties,
        })
    }

    /// The memory that the bundle is reckoned to take, in bytes.
    pub(super) fn memory(&self) -> usize {
        let kinds: usize =
            self.provided.iter().map(|kind| kind.group.len() + kind.kind.len() + 3 * VALUE_BYTES).sum();
        let properties: usize =
            self.properties.iter().map(|one| one.kind.len() + one.value.len() + 2 * VALUE_BYTES).sum();
        kinds + properties + 2 * self.name.len() + self.version_text.len() + self.image.len() + ENTRY_BYTES
    }
}

/// The kinds that properties say are provided; malformed ones are none.
fn provided_kinds(properties: &[Property]) -> BTreeSet<GroupVersionKind> {
    let values = properties.iter().filter(|property| property.kind == PROPERTY_GVK);
    values.filter_map(|property| serde_json::from_str(&property.value).ok()).collect()
}

/// The property that says the same as a dependency; `None` for a dependency of unknown type.
fn required_property(dependency: &Property) -> Result<Option<Property>, serde_json::Error> {
    let (kind, value) = match dependency.kind.as_str() {
        PROPERTY_GVK => {
            let value: Value = serde_json::from_str(&dependency.value)?;
            let kind = Fields::of(&value);
            let kind = GroupVersionKind {
                group: kind.text("group").to_owned(),
                version: kind.text("version").to_owned(),
                kind: kind.text("kind").to_owned(),
            };
            return Ok(Some(kind_property(PROPERTY_GVK_REQUIRED, &kind)));
        }
        PROPERTY_PACKAGE => {
            let value: Value = serde_json::from_str(&dependency.value)?;
            let package = Fields::of(&value);
            let fields =
                [("packageName", package.text("packageName")), ("versionRange", package.text("version"))];
            (PROPERTY_PACKAGE_REQUIRED, text(&fields))
        }
        LABEL => (LABEL_REQUIRED, dependency.value.clone()),
        PROPERTY_CONSTRAINT => (PROPERTY_CONSTRAINT, dependency.value.clone()),
        _ => return Ok(None),
    };
    Ok(Some(Property { kind: kind.to_owned(), value }))
}

fn kind_property(property: &str, kind: &GroupVersionKind) -> Property {
    let value = text(&[("group", &kind.group), ("version", &kind.version), ("kind", &kind.kind)]);
    Property { kind: property.to_owned(), value }
}

/// An object of texts as JSON.
fn text(fields: &[(&str, &str)]) -> String {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out, Html::Escaped);
    for (name, value) in fields {
        object.text(name, value);
    }
    object.end();
    into_raw(out).get().to_owned()
}
