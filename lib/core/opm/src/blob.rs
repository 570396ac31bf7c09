//! Blobs of a catalog as the tools for authors pass them on: whole, as JSON text, with their names.
//!
//! [`Blob`] is any document. [`BundleBlob`] is an `olm.bundle` taken apart, because rendering, migrations and
//! templates work on bundles; the values of its properties stay text, so nothing is lost or put in another
//! order. Unknown fields of bundles are dropped when they are taken apart, as opm does.

use olm_bundle::typed::Kind;
use olm_fbc::{
    Envelope, Meta, MetaReader, PROPERTY_BUNDLE_OBJECT, PROPERTY_CSV_METADATA, SCHEMA_BUNDLE, SCHEMA_PACKAGE,
};
use olm_go::{
    field::Fields,
    json::{self, Html},
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    DecodeError, Documents, FieldError, Outline, WriteError, decode,
    encode::{encoded, write},
    objects,
    structures::{self, BUNDLE},
};

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
    pub fn of(meta: &Meta<'_>) -> Result<Self, DecodeError> {
        let envelope = &meta.envelope;
        if envelope.schema.is_empty() {
            return Err(DecodeError::no_schema(meta.line));
        }
        let text = String::from_utf8_lossy(meta.line);
        let (schema, name) = (envelope.schema.to_string(), envelope.name.to_string());
        let package = if schema == SCHEMA_PACKAGE { name.clone() } else { envelope.package.to_string() };
        Ok(Self { schema, package, name, json: json::into_raw(text.into_owned().into_bytes()) })
    }

    /// A document that was part of another one.
    ///
    /// # Errors
    /// It is no catalog content.
    pub(crate) fn of_value(value: &Value) -> Result<Self, DecodeError> {
        let text = json::to_raw(value, Html::Kept);
        let mut reader = MetaReader::new(text.get().as_bytes());
        match reader.next_meta()? {
            Some(meta) => Self::of(&meta),
            None => Err(DecodeError::no_schema(text.get().as_bytes())),
        }
    }

    fn envelope(&self) -> Envelope<'_> {
        let package = if self.schema == SCHEMA_PACKAGE { "" } else { &self.package };
        Envelope {
            schema: self.schema.as_str().into(),
            package: package.into(),
            name: self.name.as_str().into(),
        }
    }

    /// The document as a value.
    pub(crate) fn value(&self) -> Value {
        // The text is JSON already; null is for the impossible.
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
#[derive(Debug, Clone, Serialize)]
pub struct BlobProperty {
    /// Type, for example `olm.package`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Value.
    pub value: Box<RawValue>,
}

impl BlobProperty {
    /// A property of a known type, from a value of that type.
    pub(crate) fn new(kind: &str, value: &Value) -> Self {
        Self { kind: kind.to_owned(), value: encoded(value, &structures::property(kind), Html::Kept) }
    }

    /// Whether the property comes behind all others: it is large, and for user interfaces only.
    pub(crate) fn is_object(&self) -> bool {
        self.kind == PROPERTY_BUNDLE_OBJECT || self.kind == PROPERTY_CSV_METADATA
    }

    pub(crate) fn parsed(&self) -> Value {
        // The text is JSON already; null is for the impossible.
        serde_json::from_str(self.value.get()).unwrap_or_default()
    }

    /// The value as one of type `kind`.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn checked(&self, kind: &Kind) -> Result<Value, FieldError> {
        // The text is JSON already, so only its depth can be wrong.
        let value = serde_json::from_str(self.value.get()).map_err(|_| FieldError::too_deep())?;
        decode::check(&value, kind)?;
        Ok(value)
    }
}

/// An image that a bundle needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RelatedImage {
    /// Name; may be empty.
    pub name: String,
    /// Reference; may be empty.
    pub image: String,
}

impl RelatedImage {
    pub(crate) fn of(fields: Fields<'_>) -> Self {
        Self { name: fields.text("name").to_owned(), image: fields.text("image").to_owned() }
    }
}

/// An `olm.bundle` blob.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(tag = "schema", rename = "olm.bundle", rename_all = "camelCase")]
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
    #[serde(skip)]
    pub csv: Option<Value>,
}

impl BundleBlob {
    /// Takes a document apart.
    ///
    /// # Errors
    /// A field has another type than it must have, or an inlined manifest cannot be read.
    pub fn read(blob: &Blob) -> Result<Self, DecodeError> {
        let value = blob.value();
        decode::check(&value, &Kind::Object(&BUNDLE))
            .map_err(|error| DecodeError::Field("bundle", error.to_string()))?;
        let fields = Fields::of(&value);
        let (name, package) = (fields.text("name").to_owned(), fields.text("package").to_owned());
        let csv = objects::read(&package, &name, fields)?.csv;
        let property = |property: Fields<'_>| BlobProperty {
            kind: property.text("type").to_owned(),
            value: json::to_raw(property.raw("value").unwrap_or(&Value::Null), Html::Kept),
        };
        Ok(Self {
            name,
            package,
            image: fields.text("image").to_owned(),
            properties: fields.objects("properties").map(property).collect(),
            related_images: fields.objects("relatedImages").map(RelatedImage::of).collect(),
            csv,
        })
    }

    /// Puts related images and properties in the order in which they are written.
    pub fn normalise(&mut self) {
        self.related_images.sort_by(|a, b| a.image.cmp(&b.image));
        self.properties.sort_by_key(BlobProperty::is_object);
    }

    /// The document, fields in opm's order; empty ones but the image are left out.
    pub fn to_blob(&self) -> Blob {
        let mut out = Vec::new();
        // Only texts and JSON are written, so neither step can fail.
        let text = serde_json::to_string(self).unwrap_or_default();
        let _ =
            structures::document(SCHEMA_BUNDLE).map(|(_, kind)| write(&mut out, &text, &kind, Html::Kept));
        Blob {
            schema: SCHEMA_BUNDLE.to_owned(),
            package: self.package.clone(),
            name: self.name.clone(),
            json: json::into_raw(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Blob, BundleBlob};

    fn read(value: &serde_json::Value) -> BundleBlob {
        BundleBlob::read(&Blob::of_value(value).unwrap()).unwrap()
    }

    #[test]
    fn a_bundle_is_written_in_opms_order_without_what_it_does_not_know() {
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
