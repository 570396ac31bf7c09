//! The properties of a bundle, declared and derived.

use std::collections::BTreeSet;

use olm_bundle::Manifest;
use olm_go::{
    base64,
    json::{self, Html},
};
use serde_json::{Value, value::RawValue};

use super::{BundleError, Metadata, RegistryV1Bundle, apis::Apis, object_at};
use crate::{
    BlobProperty, FieldError,
    blob::{BUNDLE_OBJECT, GVK, GVK_REQUIRED, PACKAGE, PACKAGE_REQUIRED},
    fields::Fields,
};

/// The annotation of a ClusterServiceVersion that holds properties.
const ANNOTATION: &str = "olm.properties";

/// Group, version and kind.
type Gvk = (String, String, String);

/// What the bundle declares: the properties file, then what follows from annotations and manifests, without
/// duplicates.
pub(super) fn declared(
    metadata: &Metadata,
    csv: &Manifest,
    (version, release): &(String, String),
    apis: &Apis,
    warnings: &mut Vec<String>,
) -> Result<Vec<BlobProperty>, BundleError> {
    let mut list = metadata.properties.clone();
    if !metadata.package.is_empty() {
        list.push(BlobProperty::new(PACKAGE, package(&metadata.package, version, release)));
    }
    list.extend(annotated(csv, warnings)?);
    list.extend(
        apis.provided.iter().map(|api| {
            BlobProperty::new(GVK, gvk(&(api.group.clone(), api.version.clone(), api.kind.clone())))
        }),
    );
    let mut seen = BTreeSet::new();
    list.retain(|property| seen.insert((property.kind.clone(), property.value.get().to_owned())));
    Ok(list)
}

/// The properties in the annotation of the ClusterServiceVersion, values as they are written there.
fn annotated(csv: &Manifest, warnings: &mut Vec<String>) -> Result<Vec<BlobProperty>, BundleError> {
    #[derive(serde::Deserialize)]
    struct Annotated {
        #[serde(default, rename = "type")]
        kind: Option<String>,
        #[serde(default)]
        value: Option<Box<RawValue>>,
    }
    let wrong = |source| BundleError::Manifest { file: csv.file.clone(), source };
    let annotations = object_at(csv, &["metadata", "annotations"])?;
    let text = annotations.text(ANNOTATION).map_err(wrong)?;
    if annotations.get(ANNOTATION).is_none() {
        return Ok(Vec::new());
    }
    match serde_json::from_str::<Option<Vec<Option<Annotated>>>>(text) {
        Ok(list) => Ok(list
            .into_iter()
            .flatten()
            .map(|item| item.unwrap_or(Annotated { kind: None, value: None }))
            .map(|item| BlobProperty {
                kind: item.kind.unwrap_or_default(),
                value: item.value.map_or_else(|| RawValue::NULL.to_owned(), |value| compact(&value)),
            })
            .collect()),
        Err(error) => {
            warnings.push(format!("{}: annotation {ANNOTATION} is ignored: {error}", csv.file));
            Ok(Vec::new())
        }
    }
}

/// The same text without white space between its tokens.
fn compact(value: &RawValue) -> Box<RawValue> {
    let mut out = String::with_capacity(value.get().len());
    let (mut quoted, mut escaped) = (false, false);
    for character in value.get().chars() {
        if quoted {
            quoted = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if character.is_ascii_whitespace() {
            continue;
        } else {
            quoted = character == '"';
        }
        out.push(character);
    }
    json::into_raw(out.into_bytes())
}

/// All properties of the blob, in no particular order.
pub(super) fn all(bundle: &RegistryV1Bundle) -> Result<Vec<BlobProperty>, BundleError> {
    let mut package_property = None;
    let mut provided: BTreeSet<Gvk> = BTreeSet::new();
    let mut required: BTreeSet<Gvk> = BTreeSet::new();
    let mut all = Vec::new();
    let wrong = |list: &'static str, index: usize, kind: &str| {
        let (bundle, kind) = (bundle.name.clone(), kind.to_owned());
        move |source| BundleError::Property { bundle, list, index, kind, source: Box::new(source) }
    };
    for (index, property) in bundle.declared.iter().enumerate() {
        let wrong = wrong("property", index, &property.kind);
        match property.kind.as_str() {
            GVK => drop(provided.insert(read_gvk(&property.value).map_err(wrong)?)),
            // The last one wins: the annotation's over the annotations file's.
            PACKAGE => package_property = Some(read_package(&property.value).map_err(wrong)?),
            _ => all.push(property.clone()),
        }
    }
    for (index, dependency) in bundle.metadata.dependencies.iter().enumerate() {
        let wrong = wrong("dependency", index, &dependency.kind);
        match dependency.kind.as_str() {
            GVK => drop(required.insert(read_gvk(&dependency.value).map_err(wrong)?)),
            PACKAGE => {
                let [name, range, _] = read_package(&dependency.value).map_err(wrong)?;
                let value = json::object_of_texts(&[("packageName", &name), ("versionRange", &range)]);
                all.push(BlobProperty::new(PACKAGE_REQUIRED, value));
            }
            _ => all.push(dependency.clone()),
        }
    }
    let key = |api: &super::apis::Api| (api.group.clone(), api.version.clone(), api.kind.clone());
    provided.extend(bundle.apis.provided.iter().map(key));
    required.extend(bundle.apis.required.iter().map(key));
    let [name, version, release] = package_property.unwrap_or_else(|| {
        let (version, release) = bundle.version.clone();
        [bundle.metadata.package.clone(), version, release]
    });
    all.push(BlobProperty::new(PACKAGE, package(&name, &version, &release)));
    all.extend(provided.iter().map(|api| BlobProperty::new(GVK, gvk(api))));
    all.extend(required.iter().map(|api| BlobProperty::new(GVK_REQUIRED, gvk(api))));
    all.extend(
        bundle
            .manifests
            .iter()
            .map(|manifest| BlobProperty::new(BUNDLE_OBJECT, object_value(&manifest.object))),
    );
    Ok(all)
}

/// The value of an `olm.bundle.object`: the manifest as the original's encoder writes it, in base64.
fn object_value(object: &Value) -> Box<RawValue> {
    let mut json = Vec::new();
    json::write_value(&mut json, object, Html::Escaped);
    json::object_of_texts(&[("data", &base64::encode(&json))])
}

fn package(name: &str, version: &str, release: &str) -> Box<RawValue> {
    let mut members = vec![("packageName", name), ("version", version)];
    if !release.is_empty() {
        members.push(("release", release));
    }
    json::object_of_texts(&members)
}

fn gvk((group, version, kind): &Gvk) -> Box<RawValue> {
    json::object_of_texts(&[("group", group), ("kind", kind), ("version", version)])
}

fn with_value<T>(
    value: &RawValue,
    read: impl FnOnce(&Fields<'_>) -> Result<T, FieldError>,
) -> Result<T, FieldError> {
    // The text is JSON already, so only its depth can be wrong.
    let value = serde_json::from_str::<Value>(value.get()).map_err(|_| FieldError {
        path: "value".to_owned(),
        expected: "less deep",
        found: "nested too deeply",
    })?;
    read(&Fields::of(&value)?)
}

fn read_gvk(value: &RawValue) -> Result<Gvk, FieldError> {
    with_value(value, |fields| {
        Ok((
            fields.text("group")?.to_owned(),
            fields.text("version")?.to_owned(),
            fields.text("kind")?.to_owned(),
        ))
    })
}

/// Package name, version and release.
fn read_package(value: &RawValue) -> Result<[String; 3], FieldError> {
    with_value(value, |fields| {
        Ok([
            fields.text("packageName")?.to_owned(),
            fields.text("version")?.to_owned(),
            fields.text("release")?.to_owned(),
        ])
    })
}
