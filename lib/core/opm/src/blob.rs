//! Blobs of a catalog as the tools for authors pass them on: whole, as JSON text, with their names.
//!
//! [`Blob`] is any document. [`BundleBlob`] is an `olm.bundle` taken apart, because rendering, migrations and
//! templates work on bundles; the values of its properties stay text, so nothing is lost or put in another
//! order. Unknown fields of bundles are dropped when they are taken apart, as the original does.

use olm_bundle::CSV_KIND;
use olm_fbc::{Envelope, FbcError, Meta, MetaReader, SCHEMA_BUNDLE};
use olm_go::{
    base64,
    json::{self, Html, Object},
};
use serde_json::{Value, value::RawValue};
use thiserror::Error;

use crate::{DecodeError, Documents, FieldError, Outline, WriteError, fields::Fields};

pub(crate) use olm_fbc::{
    PROPERTY_BUNDLE_OBJECT as BUNDLE_OBJECT, PROPERTY_CSV_METADATA as CSV_METADATA, PROPERTY_GVK as GVK,
    PROPERTY_GVK_REQUIRED as GVK_REQUIRED, PROPERTY_PACKAGE as PACKAGE,
    PROPERTY_PACKAGE_REQUIRED as PACKAGE_REQUIRED,
};

/// A document is no catalog content.
#[derive(Debug, Error)]
pub enum BlobError {
    /// It is no object, or its names are no strings.
    #[error(transparent)]
    Document(#[from] FbcError),
    /// It has no schema.
    #[error(transparent)]
    Schema(#[from] DecodeError),
    /// A field of a bundle has another type.
    #[error("parse bundle: {0}")]
    Bundle(#[from] FieldError),
    /// A manifest inlined in a bundle cannot be read.
    #[error(
        "read bundle objects: package {package:?}, bundle {bundle:?}: parse property at index {index} as bundle object: {problem}"
    )]
    Object {
        /// Package of the bundle.
        package: String,
        /// Name of the bundle.
        bundle: String,
        /// Position in the list of properties.
        index: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// A document of a catalog.
#[derive(Debug, Clone)]
pub struct Blob {
    /// Schema.
    pub schema: String,
    /// Package; for an `olm.package` blob its name.
    pub package: String,
    /// Name; may be empty.
    pub name: String,
    /// The document, compact JSON.
    pub json: Box<RawValue>,
}

impl Blob {
    /// The document a reader is at.
    ///
    /// # Errors
    /// It has no schema.
    pub fn of(meta: &Meta<'_>) -> Result<Self, BlobError> {
        let envelope = &meta.envelope;
        if envelope.schema.is_empty() {
            return Err(DecodeError::no_schema(meta.line).into());
        }
        let text = String::from_utf8_lossy(meta.line);
        let (schema, name) = (envelope.schema.to_string(), envelope.name.to_string());
        let package = if schema == PACKAGE { name.clone() } else { envelope.package.to_string() };
        Ok(Self { schema, package, name, json: json::into_raw(text.into_owned().into_bytes()) })
    }

    /// A document that was part of another one.
    ///
    /// # Errors
    /// It is no catalog content.
    pub(crate) fn of_value(value: &Value) -> Result<Self, BlobError> {
        let text = json::to_raw(value, Html::Kept);
        let mut reader = MetaReader::new(text.get().as_bytes());
        match reader.next_meta()? {
            Some(meta) => Self::of(&meta),
            None => Err(DecodeError::no_schema(text.get().as_bytes()).into()),
        }
    }

    fn envelope(&self) -> Envelope<'_> {
        let package = if self.schema == PACKAGE { "" } else { &self.package };
        Envelope {
            schema: self.schema.as_str().into(),
            package: package.into(),
            name: self.name.as_str().into(),
        }
    }

    /// The document as a value.
    pub(crate) fn value(&self) -> Value {
        // The text is JSON already; null stands for the impossible.
        serde_json::from_str(self.json.get()).unwrap_or_default()
    }
}

impl Documents {
    /// Takes a document.
    ///
    /// # Errors
    /// As for [`Documents::push`].
    pub fn push_blob(&mut self, blob: &Blob) -> Result<(), WriteError> {
        self.push_line(&blob.envelope(), blob.json.get().as_bytes())
    }
}

impl Outline {
    /// Takes a document.
    ///
    /// # Errors
    /// As for [`Outline::push`].
    pub fn push_blob(&mut self, blob: &Blob) -> Result<(), DecodeError> {
        self.push_line(&blob.envelope(), blob.json.get().as_bytes())
    }
}

/// A property with its value as compact JSON text.
#[derive(Debug, Clone)]
pub struct BlobProperty {
    /// Type, for example `olm.package`.
    pub kind: String,
    /// Value.
    pub value: Box<RawValue>,
}

impl BlobProperty {
    pub(crate) fn new(kind: &str, value: Box<RawValue>) -> Self {
        Self { kind: kind.to_owned(), value }
    }

    /// Whether the property goes behind all others: it is large, and for user interfaces only.
    pub(crate) fn is_object(&self) -> bool {
        self.kind == BUNDLE_OBJECT || self.kind == CSV_METADATA
    }

    pub(crate) fn parsed(&self) -> Value {
        // The text is JSON already; null stands for the impossible.
        serde_json::from_str(self.value.get()).unwrap_or_default()
    }
}

/// An image that a bundle needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelatedImage {
    /// Name; may be empty.
    pub name: String,
    /// Reference; may be empty.
    pub image: String,
}

/// An `olm.bundle` blob.
#[derive(Debug, Clone, Default)]
pub struct BundleBlob {
    /// Name.
    pub name: String,
    /// Package.
    pub package: String,
    /// Reference of the bundle's image; empty when it has none.
    pub image: String,
    /// Properties.
    pub properties: Vec<BlobProperty>,
    /// Images the operator needs.
    pub related_images: Vec<RelatedImage>,
    /// The ClusterServiceVersion, where the blob or the bundle it comes from has it; never written.
    pub csv: Option<Value>,
}

impl BundleBlob {
    /// Takes a document apart.
    ///
    /// # Errors
    /// A field has another type than it must have, or an inlined manifest cannot be read.
    pub fn read(blob: &Blob) -> Result<Self, BlobError> {
        let value = blob.value();
        let fields = Fields::of(&value)?;
        let mut bundle = Self {
            name: fields.text("name")?.to_owned(),
            package: fields.text("package")?.to_owned(),
            image: fields.text("image")?.to_owned(),
            ..Self::default()
        };
        for property in fields.objects("properties")? {
            let content = property
                .raw("value")
                .map_or_else(|| RawValue::NULL.to_owned(), |content| json::to_raw(content, Html::Kept));
            bundle.properties.push(BlobProperty::new(property.text("type")?, content));
        }
        for image in fields.objects("relatedImages")? {
            let (name, image) = (image.text("name")?.to_owned(), image.text("image")?.to_owned());
            bundle.related_images.push(RelatedImage { name, image });
        }
        bundle.csv = bundle.inlined_csv()?;
        Ok(bundle)
    }

    /// The first ClusterServiceVersion among the inlined manifests. All of them must be readable.
    fn inlined_csv(&self) -> Result<Option<Value>, BlobError> {
        let mut csv = None;
        for (index, property) in self.properties.iter().enumerate() {
            if property.kind != BUNDLE_OBJECT {
                continue;
            }
            let object = manifest(&property.parsed()).map_err(|problem| BlobError::Object {
                package: self.package.clone(),
                bundle: self.name.clone(),
                index,
                problem,
            })?;
            if csv.is_none() && object.get("kind").and_then(Value::as_str) == Some(CSV_KIND) {
                csv = Some(object);
            }
        }
        Ok(csv)
    }

    /// Puts related images and properties in the order in which they are written.
    pub fn normalise(&mut self) {
        self.related_images.sort_by(|a, b| a.image.cmp(&b.image));
        self.properties.sort_by_key(BlobProperty::is_object);
    }

    /// The document, fields in the original's order; empty ones but the image are left out.
    pub fn to_blob(&self) -> Blob {
        let mut out = Vec::new();
        let mut object = Object::new(&mut out, Html::Kept);
        object.text("schema", SCHEMA_BUNDLE);
        for (key, text) in [("name", &self.name), ("package", &self.package)] {
            if !text.is_empty() {
                object.text(key, text);
            }
        }
        object.text("image", &self.image);
        list(&mut object, "properties", &self.properties, |object, property| {
            object.text("type", &property.kind);
            object.key("value").extend_from_slice(property.value.get().as_bytes());
        });
        list(&mut object, "relatedImages", &self.related_images, |object, related| {
            object.text("name", &related.name);
            object.text("image", &related.image);
        });
        object.end();
        let json = json::into_raw(out);
        Blob {
            schema: SCHEMA_BUNDLE.to_owned(),
            package: self.package.clone(),
            name: self.name.clone(),
            json,
        }
    }
}

/// A list of objects, left out when empty.
pub(crate) fn list<T>(object: &mut Object<'_>, key: &str, items: &[T], write: impl Fn(&mut Object<'_>, &T)) {
    if items.is_empty() {
        return;
    }
    let out = object.key(key);
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut object = Object::new(out, Html::Kept);
        write(&mut object, item);
        object.end();
    }
    out.push(b']');
}

/// The manifest in the value of an `olm.bundle.object`.
pub(crate) fn manifest(value: &Value) -> Result<Value, String> {
    let text = Fields::of(value).and_then(|fields| fields.text("data")).map_err(|error| error.to_string())?;
    let bytes =
        base64::decode(text.as_bytes()).map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    let text = olm_yaml::text(&bytes).map_err(|error| error.to_string())?;
    olm_yaml::one(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Blob, BundleBlob};

    fn read(value: &serde_json::Value) -> BundleBlob {
        BundleBlob::read(&Blob::of_value(value).unwrap()).unwrap()
    }

    #[test]
    fn a_bundle_is_written_in_the_originals_order_without_what_it_does_not_know() {
        let mut bundle = read(&json!({
            "schema": "olm.bundle", "Name": "a.v1", "package": "a", "unknown": 1,
            "relatedImages": [{"image": "b"}, {"image": "a", "name": "x"}],
            "properties": [
                {"type": "olm.csv.metadata", "value": {"b": "<", "a": 1.0}},
                {"type": "olm.package", "value": {"version": "1.0.0", "packageName": "a"}},
                {"value": null},
            ],
        }));
        bundle.normalise();
        assert_eq!(
            bundle.to_blob().json.get(),
            concat!(
                r#"{"schema":"olm.bundle","name":"a.v1","package":"a","image":"","properties":["#,
                r#"{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}},{"type":"","value":null},"#,
                r#"{"type":"olm.csv.metadata","value":{"a":1,"b":"<"}}],"#,
                r#""relatedImages":[{"name":"x","image":"a"},{"name":"","image":"b"}]}"#,
            )
        );
        let empty = read(&json!({"schema": "olm.bundle"}));
        assert_eq!(empty.to_blob().json.get(), r#"{"schema":"olm.bundle","image":""}"#);
    }

    #[test]
    fn the_csv_is_the_first_one_among_the_inlined_manifests() {
        // A Role, then a ClusterServiceVersion as YAML, then another one.
        let bundle = read(&json!({"schema": "olm.bundle", "properties": [
            {"type": "olm.bundle.object", "value": {"data": "a2luZDogUm9sZQo="}},
            {"type": "olm.bundle.object", "value": {"data": "a2luZDogQ2x1c3RlclNl\ncnZpY2VWZXJzaW9uCng6IDEK"}},
            {"type": "olm.bundle.object", "value": {"data": "a2luZDogQ2x1c3RlclNlcnZpY2VWZXJzaW9uCng6IDIK"}},
        ]}));
        assert_eq!(bundle.csv.unwrap()["x"], 1);
    }

    #[test]
    fn what_is_no_catalog_content_is_refused() {
        for (value, wanted) in [
            (json!({"name": "x"}), "object '{\"name\":\"x\"}\n' is missing root schema field"),
            (
                json!({"schema": "olm.bundle", "image": 1}),
                r#"parse bundle: field "image" is a number, expected a string"#,
            ),
            (
                json!({"schema": "olm.bundle", "name": "b", "package": "p", "properties":
                    [{"type": "olm.bundle.object", "value": {"data": "!"}}]}),
                "read bundle objects: package \"p\", bundle \"b\": parse property at index 0 as bundle object: illegal base64 data at input byte 0",
            ),
        ] {
            let found =
                Blob::of_value(&value).and_then(|blob| BundleBlob::read(&blob)).unwrap_err().to_string();
            assert_eq!(found, wanted);
        }
    }
}
