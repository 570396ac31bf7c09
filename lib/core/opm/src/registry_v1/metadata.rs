//! The files in `metadata/`: annotations, properties and dependencies, whatever file they are in.
//!
//! Names of files do not matter: the first one that has annotations gives them, and so for the others. A file
//! without any of them is ignored.

use olm_bundle::{BundleFiles, MetadataDocument, PACKAGE_ANNOTATION, elements, first_metadata, scalar_text};
use olm_go::{
    field::Fields,
    json::{self, Html},
};
use serde_json::Value;

use super::BundleError;
use crate::BlobProperty;

const CHANNELS_KEY: &str = "operators.operatorframework.io.bundle.channels.v1";
const DEFAULT_CHANNEL_KEY: &str = "operators.operatorframework.io.bundle.channel.default.v1";

/// The content of the metadata.
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
        for document in first_metadata(files) {
            package = package.or_else(|| annotations(&document));
            if found.dependencies.is_empty() {
                found.dependencies = typed_list(&document, "dependencies").unwrap_or_default();
            }
            if found.properties.is_empty() {
                found.properties = typed_list(&document, "properties").unwrap_or_default();
            }
        }
        found.package = package.ok_or_else(|| {
            BundleError::Rule(format!(
                "could not find annotations file: metadata needs one whose annotations have {PACKAGE_ANNOTATION}"
            ))
        })?;
        Ok(found)
    }
}

/// The package named by annotations, which may be empty; `None` when these are no annotations.
fn annotations(document: &MetadataDocument) -> Option<String> {
    let annotations = Fields::of(&document.value).object("annotations");
    let [package, channels, default] = [PACKAGE_ANNOTATION, CHANNELS_KEY, DEFAULT_CHANNEL_KEY]
        .map(|key| text(annotations.raw(key), document.is_json));
    let (package, channels, default) = (package?, channels?, default?);
    (!package.is_empty() || !channels.is_empty() || !default.is_empty()).then_some(package)
}

/// The text of a field. In YAML numbers and booleans pass for texts, where one is wanted.
fn text(value: Option<&Value>, is_json: bool) -> Option<String> {
    let is_number = matches!(value, Some(Value::Bool(_) | Value::Number(_)));
    scalar_text(value).filter(|_| !is_json || !is_number)
}

/// A list of types and values; `None` when it is not one.
fn typed_list(document: &MetadataDocument, name: &str) -> Option<Vec<BlobProperty>> {
    // opm keeps the text its YAML reader made, in which these characters are escaped.
    let html = if document.is_json { Html::Kept } else { Html::Escaped };
    let property = |item: Fields<'_>| {
        let value = json::to_raw(item.raw("value").unwrap_or(&Value::Null), html);
        Some(BlobProperty { kind: text(item.raw("type"), document.is_json)?, value })
    };
    elements(&document.value, name).ok()?.into_iter().map(property).collect()
}
