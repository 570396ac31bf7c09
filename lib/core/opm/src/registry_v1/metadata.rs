//! The files in `metadata/`: annotations, properties and dependencies, wherever they stand.
//!
//! Names of files do not matter: the first one that has annotations gives them, and so for the others. A file
//! that is not what is looked for is passed over.

use olm_bundle::{BundleFiles, MetadataDocument, PACKAGE_ANNOTATION, first_metadata};
use olm_go::json::{self, Html};
use serde_json::{Value, value::RawValue};

use super::BundleError;
use crate::{BlobProperty, fields::Fields};

const CHANNELS_KEY: &str = "operators.operatorframework.io.bundle.channels.v1";
const DEFAULT_CHANNEL_KEY: &str = "operators.operatorframework.io.bundle.channel.default.v1";

/// What the metadata says.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) package: String,
    pub(super) properties: Vec<BlobProperty>,
    pub(super) dependencies: Vec<BlobProperty>,
}

impl Metadata {
    pub(super) fn read(files: &BundleFiles) -> Result<Self, BundleError> {
        let mut package = None;
        let mut found = Self::default();
        for MetadataDocument { value, is_json } in first_metadata(files) {
            let scalars = if is_json { Scalars::Strict } else { Scalars::Converted };
            if package.is_none() {
                package = annotations(&value, scalars);
            }
            if found.dependencies.is_empty() {
                found.dependencies = typed_list(&value, "dependencies", scalars).unwrap_or_default();
            }
            if found.properties.is_empty() {
                found.properties = typed_list(&value, "properties", scalars).unwrap_or_default();
            }
        }
        found.package = package.ok_or(BundleError::NoAnnotations)?;
        Ok(found)
    }
}

/// Whether numbers and booleans pass for strings: in YAML they do, where a string is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalars {
    Converted,
    Strict,
}

/// The package named by annotations, which may be empty; `None` when these are no annotations.
fn annotations(document: &Value, scalars: Scalars) -> Option<String> {
    let annotations = Fields::of(document).ok()?.object("annotations").ok()?;
    let [package, channels, default] = [PACKAGE_ANNOTATION, CHANNELS_KEY, DEFAULT_CHANNEL_KEY]
        .map(|key| annotations.get(key).map_or(Some(String::new()), |value| text(value, scalars)));
    let (package, channels, default) = (package?, channels?, default?);
    (!package.is_empty() || !channels.is_empty() || !default.is_empty()).then_some(package)
}

fn text(value: &Value, scalars: Scalars) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) if scalars == Scalars::Converted => {
            Some(json::to_raw(value, Html::Kept).get().to_owned())
        }
        _ => None,
    }
}

/// A list of types and values; `None` when it is not one.
fn typed_list(document: &Value, name: &str, scalars: Scalars) -> Option<Vec<BlobProperty>> {
    let items = Fields::of(document).ok()?.objects(name).ok()?;
    let mut list = Vec::with_capacity(items.len());
    for item in items {
        let kind = item.get("type").map_or(Some(String::new()), |value| text(value, scalars))?;
        // The original keeps the text its YAML reader made, in which these characters are escaped.
        let html = if scalars == Scalars::Converted { Html::Escaped } else { Html::Kept };
        let value =
            item.get("value").map_or_else(|| RawValue::NULL.to_owned(), |value| json::to_raw(value, html));
        list.push(BlobProperty { kind, value });
    }
    Some(list)
}
