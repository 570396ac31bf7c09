//! The images of real bundles, compared with the references in their rendered objects.

use std::path::{Path, PathBuf};

use olm_bundle::{Bundle, InstallMode, MEMORY_BYTES_MAX};
use olm_render::{CertificateProvider, Options, render};
use olm_test_programs::data::large_or_sample;
use serde_json::Value;

use super::*;
use crate::{bundle::configuration, sources::Source};

/// Bundles of the data folder when it is here, else those of the sample.
fn folders() -> Vec<PathBuf> {
    let root = large_or_sample("bundles", "bundles");
    let inside = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let all =
        inside(&root).into_iter().flat_map(|operator| [vec![operator.clone()], inside(&operator)].concat());
    all.filter(|folder| folder.join("metadata/annotations.yaml").is_file()).collect()
}

/// The objects of an installation in the first mode that can be rendered.
fn rendered(files: &BundleFiles) -> Option<(BTreeSet<String>, Vec<Value>)> {
    let bundle = Bundle::read(files, MEMORY_BYTES_MAX).ok()?;
    let related = bundle.csv.related_images.iter().cloned().collect();
    let modes = [InstallMode::AllNamespaces, InstallMode::OwnNamespace, InstallMode::SingleNamespace];
    let objects = modes.into_iter().find_map(|mode| {
        let options = Options {
            config: Some(configuration(mode, "operators")),
            certificate_provider: CertificateProvider::BuiltIn,
            ..Options::new("operators")
        };
        render(bundle.clone(), &options).ok()
    })?;
    Some((related, objects.objects))
}

/// Every reference with a digest in the text of an object, and every image of a container, found without regard to structure.
/// Samples, which Pods have as an annotation, are not needed.
fn references(object: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut object = object.clone();
    if let Some(annotations) = object.pointer_mut("/spec/template/metadata/annotations") {
        annotations["alm-examples"] = Value::Null;
        annotations["operatorframework.io/initialization-resource"] = Value::Null;
    }
    let text = object.to_string();
    for part in text.split(|c: char| c.is_whitespace() || "\"'`,;=()[]{}<>|\\".contains(c)) {
        if part.contains("@sha256:") {
            found.insert(part.trim_end_matches('.').to_owned());
        }
    }
    for part in text.split("\"image\":\"").skip(1) {
        found.extend(part.split('"').next().map(str::to_owned));
    }
    found
}

#[tokio::test]
async fn no_image_of_the_rendered_objects_is_missing() {
    let (mut bundles, mut compared) = (0, 0);
    let mut outside = BTreeSet::new();
    for folder in folders() {
        let source = Source::Folder(folder.clone());
        let Ok(files) = Registries::default().bundle_files(&source).await else { continue };
        let Some((related, objects)) = rendered(&files) else { continue };
        let found = images_in(&files).unwrap();
        bundles += 1;
        // Definitions describe images; what they give to objects is a default.
        for object in objects.iter().filter(|object| object["kind"] != "CustomResourceDefinition") {
            for image in references(object).into_iter().filter(|image| image_syntax(image).is_ok()) {
                assert!(found.contains_key(&image), "{image:?} is missing in {}", folder.display());
                compared += 1;
                if !related.contains(&image) {
                    outside.insert(image);
                }
            }
        }
    }
    println!("{compared} references in {bundles} bundles; outside the related images: {outside:#?}");
    assert!(bundles > 0 && compared > 0);
}
