//! The sample of `config/samples/lighthouse` under names of the demo's own, and what the program itself needs.

use olm_test::prelude::*;

/// The name of the catalog, the extension and its namespace.
pub(crate) const NAME: &str = "demo-lighthouse";
/// What the sample calls them.
const SAMPLE: &str = "lighthouse";
/// The versions of the sample's bundles.
pub(crate) const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "2.0.0"];

/// A file of the sample, with the demo's names.
fn text(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.replace(SAMPLE, NAME))
}

/// Pushes the bundles and the catalog.
pub(crate) async fn push(images: &Images) -> Result<()> {
    let sample = kubectl::config("").join("samples").join(SAMPLE);
    for version in VERSIONS {
        let copy = tempfile::tempdir()?;
        for part in ["manifests", "metadata"] {
            fs::create_dir(copy.path().join(part))?;
            for entry in fs::read_dir(sample.join("bundles").join(version).join(part))? {
                let entry = entry?;
                fs::write(copy.path().join(part).join(entry.file_name()), text(&entry.path())?)?;
            }
        }
        images.push_bundle(copy.path(), &format!("{NAME}-operator-bundle:v{version}")).await?;
    }
    let catalog = text(&sample.join("catalog/catalog.yaml"))?.replace("REGISTRY", images.host());
    images.push_catalog(&catalog, &format!("{NAME}-catalog:latest")).await?;
    Ok(())
}

/// CRDs, permissions and admission policies of the program, in an order in which they can be created.
pub(crate) fn program() -> Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for part in ["crd", "rbac", "admission"] {
        let mut files: Vec<_> = fs::read_dir(kubectl::config("").join(part))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        files.sort_unstable();
        for file in files.iter().filter(|file| !file.ends_with("kustomization.yaml")) {
            objects.extend(documents(&fs::read_to_string(file)?)?);
        }
    }
    Ok(objects)
}

/// The catalog.
pub(crate) fn catalog(images: &Images) -> Result<DynamicObject> {
    let image = json!({"ref": format!("{}/{NAME}-catalog:latest", images.host()), "pollIntervalMinutes": 1});
    Ok(serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": NAME},
        "spec": {"source": {"type": "Image", "image": image}},
    }))?)
}

/// The namespace with the account that installs, and the extension last.
pub(crate) fn extension() -> Result<Vec<DynamicObject>> {
    let sample = kubectl::config("").join("samples").join(SAMPLE);
    let mut objects = documents(&text(&sample.join("installer.yaml"))?)?;
    objects.extend(documents(&text(&sample.join("extension.yaml"))?)?);
    Ok(objects)
}

fn documents(text: &str) -> Result<Vec<DynamicObject>> {
    let documents = olm_yaml::documents(text).collect::<Result<Vec<Value>, _>>()?;
    let objects = documents.into_iter().filter(|document| !document.is_null());
    Ok(objects.map(serde_json::from_value).collect::<Result<_, _>>()?)
}
