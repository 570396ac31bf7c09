//! How a registry+v1 bundle becomes an `olm.bundle` blob of a catalog.
//!
//! As opm reads bundles, which is laxer than installing them: of each file of
//! `manifests/` the first document counts, of several ClusterServiceVersions the first; hidden files,
//! sub-folders and files that cannot be decoded are left out, the latter with a warning. Properties come
//! from the metadata, the ClusterServiceVersion and the CustomResourceDefinitions.
//!
//! The files are given by the caller. Ranges, names and images are not checked here: that is validation.

mod apis;
mod metadata;

use std::collections::BTreeSet;

use olm_bundle::{
    BundleFiles, CSV_KIND, Manifest, OLM_PROPERTIES, annotated_properties, first_manifests, typed::Kind,
};
use olm_fbc::{
    PROPERTY_BUNDLE_OBJECT, PROPERTY_GVK, PROPERTY_GVK_REQUIRED, PROPERTY_PACKAGE, PROPERTY_PACKAGE_REQUIRED,
};
use olm_go::{
    Quoted, base64,
    field::Fields,
    json::{self, Html},
};
use serde_json::{Map, Value, json, value::RawValue};
use thiserror::Error;

use crate::{
    BlobProperty, BundleBlob, FieldError, RelatedImage, decode,
    encode::encoded,
    structures::{self, CSV, CSV_IMAGES, CSV_METADATA},
};
use apis::{Apis, Gvk};
use metadata::Metadata;

/// The only install strategy there is.
const DEPLOYMENT: &str = "deployment";

/// Why a bundle could not be turned into a blob.
#[derive(Debug, Error)]
pub enum BundleError {
    /// A manifest, named by its path, has a field of the wrong type.
    #[error("{0}: {1}")]
    Manifest(String, FieldError),
    /// Something is missing, or a rule is broken; the text is opm's.
    #[error("{0}")]
    Rule(String),
}

/// A bundle as read from its files.
#[derive(Debug)]
pub struct RegistryV1Bundle {
    /// The blob, for a bundle that has no image.
    pub blob: BundleBlob,
    /// The version of the first `olm.package` property; empty when there is none.
    pub version: String,
    /// Warnings about files that were left out, a line each.
    pub warnings: Vec<String>,
}

impl RegistryV1Bundle {
    /// Reads the files of a bundle.
    ///
    /// # Errors
    /// There are no annotations or no ClusterServiceVersion, these or what the bundle declares have fields of wrong
    /// types, or the ClusterServiceVersion owns an API that no CRD of the bundle provides.
    pub fn read(files: &BundleFiles) -> Result<Self, BundleError> {
        let mut warnings = Vec::new();
        let manifests = first_manifests(files, &mut warnings);
        if manifests.is_empty() {
            let text = "no bundle objects found: manifests has no file that is a Kubernetes object";
            return Err(BundleError::Rule(text.to_owned()));
        }
        let csv = manifests.iter().find(|manifest| manifest.kind() == CSV_KIND).ok_or_else(|| {
            let text = "no csv in bundle: manifests needs one file with a ClusterServiceVersion";
            BundleError::Rule(text.to_owned())
        })?;
        let fields = checked(csv, &CSV)?;
        let name = fields.object("metadata").text("name");
        let apis = Apis::of(name, &manifests, csv, fields.object("spec"))?;
        let metadata = Metadata::read(files)?;
        let package = metadata.package.clone();
        let declared = declared(&metadata, csv, fields, &mut warnings);
        let first = declared.iter().find(|property| property.kind == PROPERTY_PACKAGE);
        let version =
            first.map(|first| Fields::of(&first.parsed()).text("version").to_owned()).unwrap_or_default();
        let mut properties = all(name, declared, &metadata, fields.object("spec"), apis)?;
        let object = |manifest: &Manifest| {
            // The manifest as opm's encoder writes it.
            let data = base64::encode(json::marshal(&manifest.object).as_bytes());
            BlobProperty::new(PROPERTY_BUNDLE_OBJECT, &json!({"data": data}))
        };
        properties.extend(manifests.iter().map(object));
        // Sorted by type and text; large ones, for user interfaces only, are last.
        properties.sort_by_cached_key(|property| {
            (property.is_object(), property.kind.clone(), property.value.get().to_owned())
        });
        let blob = BundleBlob {
            name: name.to_owned(),
            package,
            image: String::new(),
            properties,
            related_images: related_images(checked(csv, &CSV_IMAGES)?.object("spec")),
            csv: Some(csv.object.clone()),
        };
        Ok(Self { blob, version, warnings })
    }

    /// The blob, for a bundle whose image has the reference `image`; it is empty when there is no image.
    pub fn render(&self, image: &str) -> BundleBlob {
        let mut blob = self.blob.clone();
        image.clone_into(&mut blob.image);
        if !image.is_empty() && !blob.related_images.iter().any(|related| related.image == image) {
            blob.related_images.push(RelatedImage { name: String::new(), image: image.to_owned() });
        }
        blob.related_images.sort_by(|a, b| a.image.cmp(&b.image));
        blob
    }
}

/// The fields of a manifest, of the types that are asked for.
fn checked<'m>(manifest: &'m Manifest, kind: &Kind) -> Result<Fields<'m>, BundleError> {
    decode::check(&manifest.object, kind)
        .map_err(|error| BundleError::Manifest(manifest.file.clone(), error))?;
    Ok(Fields::of(&manifest.object))
}

/// What the bundle declares: the properties file, then what follows from annotations and manifests, without
/// duplicates.
fn declared(
    metadata: &Metadata,
    csv: &Manifest,
    fields: Fields<'_>,
    warnings: &mut Vec<String>,
) -> Vec<BlobProperty> {
    let mut list = metadata.properties.clone();
    if !metadata.package.is_empty() {
        list.push(BlobProperty::new(PROPERTY_PACKAGE, &package(&metadata.package, fields.object("spec"))));
    }
    if let Some(text) =
        fields.object("metadata").object("annotations").scalar(OLM_PROPERTIES).and_then(Value::as_str)
    {
        match annotated_properties(text) {
            Ok(entries) => list.extend(
                entries
                    .into_iter()
                    .map(|(kind, value)| BlobProperty { kind, value: json::into_raw(value.into()) }),
            ),
            Err(error) => {
                warnings.push(format!("{}: annotation {OLM_PROPERTIES} is ignored: {error}", csv.file));
            }
        }
    }
    let mut seen = BTreeSet::new();
    list.retain(|property| seen.insert((property.kind.clone(), property.value.get().to_owned())));
    list
}

/// The value of `olm.package` for a ClusterServiceVersion.
fn package(name: &str, spec: Fields<'_>) -> Value {
    json!({"packageName": name, "version": spec.text("version"), "release": spec.text("release")})
}

/// All properties of the blob but the manifests, as `ObjectsAndPropertiesFromBundle` in operator-registry's
/// `pkg/registry/registry_to_model.go`.
fn all(
    bundle: &str,
    declared: Vec<BlobProperty>,
    metadata: &Metadata,
    spec: Fields<'_>,
    apis: Apis,
) -> Result<Vec<BlobProperty>, BundleError> {
    let known = |property: &BlobProperty| [PROPERTY_GVK, PROPERTY_PACKAGE].contains(&property.kind.as_str());
    let checked = |list, index, property: &BlobProperty| {
        property.checked(&structures::property(&property.kind)).map_err(|error| {
            let (bundle, kind) = (Quoted(bundle), Quoted(&property.kind));
            let place = format!("parse {list}[{index}] of type {kind}");
            BundleError::Rule(format!("get properties for bundle {bundle}: {place}: {error}"))
        })
    };
    let mut named = None;
    let (mut provided, mut required) = (apis.provided, apis.required);
    let mut all = Vec::new();
    for (index, property) in declared.into_iter().enumerate() {
        if !known(&property) {
            all.push(property);
            continue;
        }
        let value = checked("property", index, &property)?;
        match property.kind.as_str() {
            PROPERTY_GVK => drop(provided.insert(Gvk::of(Fields::of(&value)))),
            // The last one wins: the annotation's over the annotations file's.
            _ => named = Some(value),
        }
    }
    for (index, dependency) in metadata.dependencies.iter().enumerate() {
        if !known(dependency) {
            all.push(dependency.clone());
            continue;
        }
        let value = checked("dependency", index, dependency)?;
        let fields = Fields::of(&value);
        if dependency.kind == PROPERTY_GVK {
            required.insert(Gvk::of(fields));
        } else {
            let value =
                json!({"packageName": fields.text("packageName"), "versionRange": fields.text("version")});
            all.push(BlobProperty::new(PROPERTY_PACKAGE_REQUIRED, &value));
        }
    }
    let named = named.unwrap_or_else(|| package(&metadata.package, spec));
    all.push(BlobProperty::new(PROPERTY_PACKAGE, &named));
    all.extend(provided.iter().map(|api| BlobProperty::new(PROPERTY_GVK, &api.value())));
    all.extend(required.iter().map(|api| BlobProperty::new(PROPERTY_GVK_REQUIRED, &api.value())));
    Ok(all)
}

/// The images that a ClusterServiceVersion lists, as they are, and those of its deployments that it does not list.
fn related_images(spec: Fields<'_>) -> Vec<RelatedImage> {
    let mut related: Vec<RelatedImage> = spec.objects("relatedImages").map(RelatedImage::of).collect();
    let install = spec.object("install");
    if install.text("strategy") == DEPLOYMENT {
        let mut known: BTreeSet<String> = related.iter().map(|related| related.image.clone()).collect();
        for deployment in install.object("spec").objects("deployments") {
            let pod = deployment.object("spec").object("template").object("spec");
            let containers = pod.objects("containers").chain(pod.objects("initContainers"));
            let images = containers.map(|container| container.text("image").to_owned());
            related.extend(
                images
                    .filter(|image| known.insert(image.clone()))
                    .map(|image| RelatedImage { name: String::new(), image }),
            );
        }
    }
    related
}

/// The value of `olm.csv.metadata` for a ClusterServiceVersion, which has some fields under other names.
pub(crate) fn csv_metadata(csv: &Value) -> Result<Box<RawValue>, FieldError> {
    let mut shown = Map::new();
    for (name, _, kind) in CSV_METADATA.rows {
        let (part, source) = match *name {
            "annotations" | "labels" => ("metadata", *name),
            "apiServiceDefinitions" => ("spec", "apiservicedefinitions"),
            "crdDescriptions" => ("spec", "customresourcedefinitions"),
            name => ("spec", name),
        };
        if let Some(value) = decode::csv_field(csv, part, source, kind)? {
            shown.insert((*name).to_owned(), value.clone());
        }
    }
    Ok(encoded(&shown.into(), &Kind::Object(&CSV_METADATA), Html::Escaped))
}

#[cfg(test)]
mod tests;
