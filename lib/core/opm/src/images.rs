//! The images that a bundle needs: those that its document in a catalog names, and those that its manifests name.

use std::collections::{BTreeMap, BTreeSet};

use olm_bundle::CSV_KIND;
use olm_go::field::Fields;
use olm_object::text;
use serde::Serialize;
use serde_json::Value;

use crate::{DecodeError, ImageSyntax, limits::IMAGES_MAX, objects};

/// The place of images that a CSV lists.
const RELATED: &str = "relatedImages";

/// A bundle with the images that its catalog names for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleImages {
    /// Package.
    pub package: String,
    /// Name of the bundle.
    pub bundle: String,
    /// The bundle's own image; empty if the catalog has its manifests instead.
    pub image: String,
    /// The related images.
    pub related: BTreeSet<String>,
    /// The images that manifests in the catalog name, with their places; bundles of the older form have such.
    pub embedded: BTreeMap<String, BTreeSet<String>>,
    /// How many manifests the catalog has.
    #[serde(skip)]
    pub manifests: usize,
    /// Why not all of them could be read.
    #[serde(skip)]
    pub problem: Option<String>,
}

impl BundleImages {
    /// The images of an `olm.bundle` document given as its line.
    ///
    /// # Errors
    /// It is no JSON, or has more related images than are read.
    pub fn of_line(line: &[u8], syntax: ImageSyntax) -> Result<Self, DecodeError> {
        let failed = |problem: String| DecodeError::Field("object", problem);
        let bundle: Value = serde_json::from_slice(line).map_err(|error| failed(error.to_string()))?;
        let bundle = Fields::of(&bundle);
        let images = bundle.objects("relatedImages").map(|related| related.text("image"));
        let related: BTreeSet<String> = images.filter(|image| !image.is_empty()).map(str::to_owned).collect();
        if related.len() > IMAGES_MAX {
            return Err(failed(format!("it has more than {IMAGES_MAX} related images")));
        }
        let (package, name) = (bundle.text("package"), bundle.text("name"));
        let mut images = Self {
            package: package.to_owned(),
            bundle: name.to_owned(),
            image: bundle.text("image").to_owned(),
            related,
            ..Self::default()
        };
        let read = objects::each(package, name, bundle, |manifest| {
            images.manifests += 1;
            for (image, places) in manifest_images(&manifest, syntax) {
                if images.embedded.len() < IMAGES_MAX {
                    images.embedded.entry(image).or_default().extend(places);
                }
            }
        });
        images.problem = read.err().map(|error| error.to_string());
        Ok(images)
    }

    /// All of them.
    pub fn references(&self) -> BTreeSet<String> {
        let own = Some(&self.image).filter(|image| !image.is_empty());
        self.related.iter().chain(self.embedded.keys()).chain(own).cloned().collect()
    }
}

/// The images that a manifest names, each with where.
///
/// Besides the fields `image` of containers that is every text that is a reference with a registry and a tag or digest,
/// wherever it is: environment variables, arguments, ConfigMaps, the defaults of CRDs. Of variables whose name says that
/// they hold an image, and of fields `image`, references without a registry or tag count too.
pub fn manifest_images(manifest: &Value, syntax: ImageSyntax) -> BTreeMap<String, BTreeSet<String>> {
    let kind = text(manifest, "/kind");
    let place = format!("{kind} {}", text(manifest, "/metadata/name"));
    let mut found = Found { syntax, images: BTreeMap::new() };
    match kind {
        CSV_KIND => {
            // Descriptions and samples name images that are not needed.
            found.walk(&manifest["spec"]["install"], &place, Texts::All);
            found.walk(&manifest["spec"]["relatedImages"], RELATED, Texts::All);
            // Annotations become those of the Pods, where operators may read them.
            let annotations = manifest.pointer("/metadata/annotations").and_then(Value::as_object);
            for (key, value) in annotations.into_iter().flatten().filter(|(key, _)| !is_prose(key)) {
                found.walk(value, &format!("{place} annotation {key}"), Texts::All);
            }
        }
        "CustomResourceDefinition" => found.walk(&manifest["spec"], &place, Texts::Defaults),
        _ => found.walk(manifest, &place, Texts::All),
    }
    found.images
}

/// Whether an annotation of a CSV has samples, or a description.
fn is_prose(annotation: &str) -> bool {
    ["alm-examples", "operatorframework.io/initialization-resource", "description"].contains(&annotation)
}

/// Which texts of a manifest are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Texts {
    All,
    /// Those in values of `default` only: the others describe.
    Defaults,
}

struct Found {
    syntax: ImageSyntax,
    images: BTreeMap<String, BTreeSet<String>>,
}

impl Found {
    fn walk(&mut self, value: &Value, place: &str, texts: Texts) {
        match value {
            Value::String(text) if texts == Texts::All => self.words(text, place),
            Value::Array(items) => items.iter().for_each(|item| self.walk(item, place, texts)),
            Value::Object(members) => {
                let name = members.get("name").and_then(Value::as_str).unwrap_or_default();
                for (key, member) in members {
                    match member {
                        Value::String(image) if key == "image" && texts == Texts::All => {
                            self.take(image, place, true);
                        }
                        Value::String(image) if key == "value" && name.contains("IMAGE") => {
                            self.take(image, &format!("{place} env {name}"), true);
                            self.words(image, &format!("{place} env {name}"));
                        }
                        Value::String(text) if key == "value" && !name.is_empty() && texts == Texts::All => {
                            self.words(text, &format!("{place} env {name}"));
                        }
                        other if key == "default" => self.walk(other, place, Texts::All),
                        other => self.walk(other, place, texts),
                    }
                }
            }
            _ => {}
        }
    }

    /// The references among the words of a text.
    fn words(&mut self, text: &str, place: &str) {
        let is_separator = |c: char| c.is_whitespace() || "\"'`,;=()[]{}<>|\\".contains(c);
        for word in text.split(is_separator).filter(|word| is_complete(word)) {
            self.take(word.trim_end_matches(['.', ':']), place, false);
        }
    }

    /// Takes a reference if it is one; short ones only where an image is expected.
    fn take(&mut self, image: &str, place: &str, may_be_short: bool) {
        let image = image.trim();
        let fits = !image.is_empty() && (may_be_short && !image.contains("://") || is_complete(image));
        if fits && self.images.len() < IMAGES_MAX && (self.syntax)(image).is_ok() {
            self.images.entry(image.to_owned()).or_default().insert(place.to_owned());
        }
    }
}

/// Whether a text begins with a registry and ends with a tag or a digest, as references of images do that are complete.
fn is_complete(text: &str) -> bool {
    let Some((registry, rest)) = text.split_once('/') else { return false };
    let is_registry = registry.contains('.') || registry.contains(':') || registry == "localhost";
    let last = rest.rsplit('/').next().unwrap_or_default();
    let is_pinned =
        last.split_once(['@', ':']).is_some_and(|(name, pin)| !name.is_empty() && !pin.is_empty());
    is_registry && is_pinned && !text.contains("://")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bundle_names_its_own_image_and_related_ones_once() {
        let bundle = json!({"package": "p", "name": "b", "image": "r.io/b:1", "relatedImages": [
            {"name": "", "image": "r.io/b:1"}, {"name": "x", "image": "r.io/x:1"}, {"name": "none", "image": ""}]});
        let images = BundleImages::of_line(bundle.to_string().as_bytes(), no_spaces).unwrap();
        assert_eq!(images.references().into_iter().collect::<Vec<_>>(), ["r.io/b:1", "r.io/x:1"]);
    }

    fn no_spaces(text: &str) -> Result<(), String> {
        if text.contains(' ') { Err(String::new()) } else { Ok(()) }
    }

    #[test]
    fn manifests_in_the_catalog_name_images_too() {
        // {"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"image":"r.io/run:1"}]}}
        let pod = "eyJraW5kIjoiUG9kIiwibWV0YWRhdGEiOnsibmFtZSI6InAifSwic3BlYyI6eyJjb250YWluZXJzIjpbeyJpbWFnZSI6InIuaW8vcnVuOjEifV19fQ==";
        let bundle = json!({"package": "p", "name": "b",
            "properties": [{"type": "olm.bundle.object", "value": {"data": pod}}]});
        let images = BundleImages::of_line(bundle.to_string().as_bytes(), no_spaces).unwrap();
        assert_eq!(images.references().into_iter().collect::<Vec<_>>(), ["r.io/run:1"]);
        assert_eq!(images.embedded["r.io/run:1"].iter().collect::<Vec<_>>(), ["Pod p"]);
        let broken = json!({"properties": [{"type": "olm.bundle.object", "value": {"data": "!"}}]});
        let problem = BundleImages::of_line(broken.to_string().as_bytes(), no_spaces).unwrap().problem;
        assert!(problem.as_deref().is_some_and(|text| text.contains("illegal base64")), "{problem:?}");
    }

    fn found(manifest: &Value) -> Vec<String> {
        manifest_images(manifest, no_spaces)
            .into_iter()
            .map(|(image, places)| format!("{image}: {}", places.into_iter().collect::<Vec<_>>().join("+")))
            .collect()
    }

    #[test]
    fn images_are_found_in_containers_variables_arguments_and_texts() {
        let digest = format!("r.io/digest@sha256:{}", "a".repeat(64));
        let deployment = json!({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"containers": [{
            "image": "short", "args": ["--image=r.io/arg:1", "--url=https://r.io/x:1", "a.example.com/v1"],
            "env": [{"name": "RELATED_IMAGE_A", "value": "r.io/a"}, {"name": "LIST", "value": format!("r.io/b:1,{digest}")},
                {"name": "OTHER", "value": "example.com/group"}],
        }]}});
        assert_eq!(
            found(&deployment),
            [
                "r.io/a: Deployment d env RELATED_IMAGE_A".to_owned(),
                "r.io/arg:1: Deployment d".to_owned(),
                "r.io/b:1: Deployment d env LIST".to_owned(),
                format!("{digest}: Deployment d env LIST"),
                "short: Deployment d".to_owned(),
            ]
        );
        let map = json!({"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"x": "image: r.io/map:2\nport: 1"}});
        assert_eq!(found(&map), ["r.io/map:2: ConfigMap m"]);
    }

    #[test]
    fn descriptions_and_samples_name_no_image() {
        let csv = json!({"kind": "ClusterServiceVersion", "metadata": {"name": "c", "annotations": {
                "containerImage": "r.io/annotated:1", "alm-examples": "r.io/sample:1"}},
            "spec": {"description": "r.io/described:1", "relatedImages": [{"name": "x", "image": "r.io/related:1"}],
                "install": {"spec": {"deployments": [{"image": "r.io/run:1"}]}}}});
        assert_eq!(
            found(&csv),
            [
                "r.io/annotated:1: ClusterServiceVersion c annotation containerImage",
                "r.io/related:1: relatedImages",
                "r.io/run:1: ClusterServiceVersion c",
            ]
        );
        let crd = json!({"kind": "CustomResourceDefinition", "metadata": {"name": "x"}, "spec": {"schema": {
            "image": {"type": "string", "description": "such as r.io/described:1", "default": "r.io/default:1"}}}});
        assert_eq!(found(&crd), ["r.io/default:1: CustomResourceDefinition x"]);
    }

    #[test]
    fn related_images_have_a_limit() {
        let related: Vec<Value> = (0..=IMAGES_MAX).map(|i| json!({"image": format!("r.io/{i}")})).collect();
        let line = json!({"relatedImages": related}).to_string();
        let error = BundleImages::of_line(line.as_bytes(), no_spaces).unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
    }
}
