//! A bundle of a file-based catalog as the registry API has it.

use std::{borrow::Cow, collections::BTreeMap};

use olm_bundle::CSV_KIND;
use olm_fbc::{
    PROPERTY_BUNDLE_OBJECT, PROPERTY_CSV_METADATA, PROPERTY_GVK, PROPERTY_GVK_REQUIRED, PROPERTY_PACKAGE,
    PROPERTY_PACKAGE_REQUIRED,
};
use olm_go::{
    Quoted, base64,
    field::{Fields, last},
    json::{self, Html, Object},
};
use olm_object::GroupVersionKind;
use olm_yaml::RepairBudget;
use serde_json::{Value, value::RawValue};

use super::{Bundle, Property, csv};

/// The members of a JSON object by name; none of anything else.
pub(super) type Members<'j> = BTreeMap<Cow<'j, str>, &'j RawValue>;

/// A document of a bundle: its fields as they are, and its properties as pairs of type and JSON text.
#[derive(Debug, Default)]
pub(super) struct Document<'d> {
    pub(super) image: Cow<'d, str>,
    pub(super) properties: Vec<(Cow<'d, str>, Cow<'d, str>)>,
    /// JSON text of `relatedImages`.
    pub(super) related_images: Option<&'d str>,
}

impl<'d> Document<'d> {
    /// Reads a whole document.
    pub(super) fn read(json: &'d [u8]) -> Result<Self, String> {
        let members = members(json)?;
        let field = |name| find(&members, name);
        let image = match field("image") {
            Some(image) => serde_json::from_str(image).map_err(|error| error.to_string())?,
            None => Cow::Borrowed(""),
        };
        let properties: Vec<&RawValue> = match field("properties") {
            Some(list) => serde_json::from_str(list).map_err(|error| error.to_string())?,
            None => Vec::new(),
        };
        let properties = properties.into_iter().map(|property| {
            let members = members_of(property.get())?;
            let kind = match find(&members, "type") {
                Some(kind) => serde_json::from_str::<String>(kind).map_err(|error| error.to_string())?,
                None => String::new(),
            };
            let value = last_of(&members, "value").unwrap_or("null");
            Ok((Cow::Owned(kind), Cow::Borrowed(value)))
        });
        Ok(Self {
            image,
            properties: properties.collect::<Result<_, String>>()?,
            related_images: field("relatedImages"),
        })
    }

    /// The same of a bundle that was read already, without its large parts.
    pub(super) fn of(bundle: &'d olm_fbc::Bundle) -> Self {
        let properties = bundle.properties.iter().map(|property| {
            (Cow::Borrowed(property.kind.as_str()), Cow::Owned(json::to_text(&property.value, Html::Kept)))
        });
        Self { image: Cow::Borrowed(&bundle.image), properties: properties.collect(), related_images: None }
    }

    fn values(&self, kind: &str) -> impl Iterator<Item = &str> {
        self.properties.iter().filter(move |(one, _)| one == kind).map(|(_, value)| value.as_ref())
    }

    /// The bundle with what is in its document: names, edges and deprecation are the caller's.
    pub(super) fn bundle(&self) -> Result<Bundle, String> {
        let kinds = |kind| self.values(kind).map(gvk).collect::<Result<Vec<_>, _>>();
        let versions: Vec<&str> = self.values(PROPERTY_PACKAGE).collect();
        let [version] = versions[..] else {
            let (kind, count) = (Quoted(PROPERTY_PACKAGE), versions.len());
            return Err(format!(
                "parse properties: expected exactly 1 property of type {kind}, found {count}"
            ));
        };
        let version: Value = serde_json::from_str(version).map_err(|error| error.to_string())?;
        let is_large = |kind: &str| kind == PROPERTY_BUNDLE_OBJECT || kind == PROPERTY_CSV_METADATA;
        let small = self.properties.iter().filter(|(kind, _)| !is_large(kind));
        Ok(Bundle {
            bundle_path: self.image.clone().into_owned(),
            provided_apis: kinds(PROPERTY_GVK)?,
            required_apis: kinds(PROPERTY_GVK_REQUIRED)?,
            version: Fields::of(&version).text("version").to_owned(),
            dependencies: self.dependencies()?,
            properties: small
                .map(|(kind, value)| Property { kind: kind.to_string(), value: value.to_string() })
                .collect(),
            ..Bundle::default()
        })
    }

    fn dependencies(&self) -> Result<Vec<Property>, String> {
        let mut dependencies = Vec::new();
        for (kind, value) in &self.properties {
            let (kind, value) = match kind.as_ref() {
                PROPERTY_GVK_REQUIRED => (PROPERTY_GVK, value.to_string()),
                PROPERTY_PACKAGE_REQUIRED => {
                    let value: Value = serde_json::from_str(value).map_err(|error| error.to_string())?;
                    let required = Fields::of(&value);
                    let mut out = Vec::new();
                    let mut object = Object::new(&mut out, Html::Kept);
                    object.text("packageName", required.text("packageName"));
                    object.text("version", required.text("versionRange"));
                    object.end();
                    (PROPERTY_PACKAGE, json::into_raw(out).get().to_owned())
                }
                _ => continue,
            };
            dependencies.push(Property { kind: kind.to_owned(), value });
        }
        Ok(dependencies)
    }

    /// The manifests that the document has with it, as JSON.
    pub(super) fn objects(&self) -> Result<Vec<String>, String> {
        let repairs = RepairBudget::default();
        let object = |value: &str| {
            let value: Value = serde_json::from_str(value).map_err(|error| error.to_string())?;
            let data = Fields::of(&value).text("data");
            let bytes = base64::decode(data.as_bytes())
                .map_err(|at| format!("illegal base64 data at input byte {at}"))?;
            if bytes.trim_ascii_start().starts_with(b"{") {
                return String::from_utf8(bytes).map_err(|error| error.to_string());
            }
            let text = olm_yaml::text(&bytes).map_err(|error| error.to_string())?;
            let value = olm_fbc::yaml::document(text, 0, &repairs).map_err(|error| error.to_string())?;
            Ok(json::escape_html(&json::from_yaml(&value)))
        };
        self.values(PROPERTY_BUNDLE_OBJECT).map(object).collect()
    }

    /// Adds the manifests, and the ClusterServiceVersion: that of the manifests, else one made of the metadata.
    pub(super) fn add_manifests(&self, bundle: &mut Bundle, package: &[u8]) -> Result<(), String> {
        bundle.object = self.objects()?;
        if let Some(csv) = bundle.object.iter().find(|object| is_csv(object)) {
            bundle.csv_json.clone_from(csv);
        }
        let metadata: Vec<&str> = self.values(PROPERTY_CSV_METADATA).collect();
        match metadata[..] {
            [metadata] if bundle.csv_json.is_empty() => {
                bundle.csv_json = csv::stub(bundle, metadata, self.related_images, package)?;
                if bundle.object.is_empty() {
                    bundle.object.push(bundle.csv_json.clone());
                }
            }
            [] | [_] => {}
            _ => {
                let (kind, count) = (Quoted(PROPERTY_CSV_METADATA), metadata.len());
                return Err(format!(
                    "parse properties: expected at most 1 property of type {kind}, found {count}"
                ));
            }
        }
        Ok(())
    }
}

/// The kinds of a property or dependency.
fn gvk(value: &str) -> Result<GroupVersionKind, String> {
    let value: Value = serde_json::from_str(value).map_err(|error| error.to_string())?;
    let kind = Fields::of(&value);
    Ok(GroupVersionKind {
        group: kind.text("group").to_owned(),
        version: kind.text("version").to_owned(),
        kind: kind.text("kind").to_owned(),
    })
}

fn is_csv(object: &str) -> bool {
    members_of(object).is_ok_and(|members| {
        members
            .get("kind")
            .is_some_and(|kind| serde_json::from_str(kind.get()).is_ok_and(|kind: String| kind == CSV_KIND))
    })
}

/// The members of a JSON object.
pub(super) fn members(json: &[u8]) -> Result<Members<'_>, String> {
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

pub(super) fn members_of(json: &str) -> Result<Members<'_>, String> {
    members(json.as_bytes())
}

fn last_of<'j>(members: &Members<'j>, name: &str) -> Option<&'j str> {
    last(members.iter().map(|(key, value)| (key.as_ref(), value.get())), name)
}

/// The text of a member, regardless of its name's case; `None` for null.
pub(super) fn find<'j>(members: &Members<'j>, name: &str) -> Option<&'j str> {
    last_of(members, name).filter(|value| *value != "null")
}
