//! How catalogs are kept: from a list of images, by edits of text, and with tools of one's own.

use std::fs;

use serde_json::{Value, json};

use super::{
    bundle, bundle_image, catalog_image, documents, folder, olm, path, printed, registry::Registry, write,
};

fn operator(package: &str) -> String {
    format!(
        "---\nschema: olm.package\nname: {package}\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: {package}\n\
         name: stable\nentries:\n- name: {package}.v1.0.0\n---\nschema: olm.bundle\npackage: {package}\nname: {package}.v1.0.0\n\
         image: r.io/{package}:v1.0.0\nproperties:\n- type: olm.package\n  value:\n    packageName: {package}\n    version: 1.0.0\n"
    )
}

#[test]
fn a_catalog_is_built_from_a_list_of_catalog_images() {
    let operators = ["etcd-operator", "prometheus-operator"];
    let folders = operators.map(|name| folder(&[("catalog.yaml", &operator(name))]));
    let images = [catalog_image(folders[0].path()), catalog_image(folders[1].path())];
    let registry = Registry::serve(&[("etcd:v1", &images[0]), ("prometheus:v1", &images[1])]);
    let [flag, host] = registry.trusted();
    // The configuration that the documentation shows, and what its script does with it.
    let configuration = json!({
        "name": "community-operators",
        "repo": "quay.io/community-operators/catalog",
        "tag": "latest",
        "references": [
            {"name": operators[0], "image": registry.reference(&format!("etcd@{}", images[0].digest()))},
            {"name": operators[1], "image": registry.reference(&format!("prometheus@{}", images[1].digest()))},
        ],
    });
    let place = folder(&[]);
    let catalog = place.path().join("community-operators");
    for reference in configuration["references"].as_array().expect("a list") {
        let (name, image) =
            (reference["name"].as_str().expect("text"), reference["image"].as_str().expect("text"));
        let index = printed(&["catalog", "render", image, "-o", "yaml", &flag, &host]);
        write(&catalog, &format!("{name}/index.yaml"), &index);
    }
    assert!(olm(&["catalog", "validate", path(&catalog)]).status.success());
    assert!(olm(&["catalog", "dockerfile", path(&catalog)]).status.success());
    let dockerfile =
        fs::read_to_string(place.path().join("community-operators.Dockerfile")).expect("beside the folder");
    assert!(dockerfile.contains("operators.operatorframework.io.index.configs.v1=/configs"), "{dockerfile}");
    let whole = documents(&printed(&["catalog", "render", path(&catalog)]));
    let packages: Vec<&Value> =
        whole.iter().filter(|blob| blob["schema"] == "olm.package").map(|blob| &blob["name"]).collect();
    assert_eq!(packages, operators);
    assert_eq!(whole.len(), 6);
    let parts = printed(&["catalog", "render", path(folders[0].path()), path(folders[1].path())]);
    assert_eq!(documents(&parts), whole, "nothing is lost on the way");
}

#[test]
fn promotion_default_channel_and_edges_are_edits_of_text() {
    let catalog = folder(&[("sample/catalog.yaml", &operator("sample"))]);
    let file = catalog.path().join("sample/catalog.yaml");
    let text = fs::read_to_string(&file).expect("reads");
    let edited = text.replace("defaultChannel: stable", "defaultChannel: fast").replace(
        "- name: sample.v1.0.0\n",
        "- name: sample.v1.0.0\n  skips: [sample.v0.9.1]\n---\nschema: olm.channel\npackage: sample\nname: fast\n\
         entries: [{name: sample.v1.0.0}]\n",
    );
    fs::write(&file, &edited).expect("written");
    fs::write(&file, edited.replace("defaultChannel: fast", "defaultChannel: none")).expect("written");
    assert_eq!(olm(&["catalog", "validate", path(catalog.path())]).status.code(), Some(1), "a slip is found");
    fs::write(&file, edited).expect("written");
    assert!(olm(&["catalog", "validate", path(catalog.path())]).status.success());
    let validated = documents(&printed(&["catalog", "render", path(catalog.path())]));
    assert_eq!(validated[0]["defaultChannel"], "fast");
    assert_eq!(
        (&validated[1]["name"], &validated[1]["entries"][0]["name"]),
        (&json!("fast"), &json!("sample.v1.0.0"))
    );
    assert_eq!(validated[2]["entries"][0]["skips"], json!(["sample.v0.9.1"]));
}

#[test]
fn a_property_added_by_any_tool_travels_with_its_bundle() {
    let catalog = printed(&["catalog", "render", path(folder(&[("a.yaml", &operator("sample"))]).path())]);
    let mut blobs = documents(&catalog);
    for blob in blobs.iter_mut().filter(|blob| blob["schema"] == "olm.bundle") {
        let properties = blob["properties"].as_array_mut().expect("a list");
        properties.push(json!({"type": "example.com/tested-on", "value": {"versions": ["1.36"]}}));
    }
    let text: String = blobs.iter().map(Value::to_string).collect();
    let edited = folder(&[("a.json", &text)]);
    let rendered = documents(&printed(&["catalog", "render", path(edited.path()), "--migrate"]));
    let bundle = rendered.iter().find(|blob| blob["schema"] == "olm.bundle").expect("the bundle");
    assert_eq!(
        bundle["properties"],
        json!([
            {"type": "olm.package", "value": {"packageName": "sample", "version": "1.0.0"}},
            {"type": "example.com/tested-on", "value": {"versions": ["1.36"]}},
        ])
    );
}

#[test]
fn rendering_an_image_twice_gives_the_same_bytes() {
    let bundle = bundle("1.0.0");
    let image = bundle_image(bundle.path());
    let registry = Registry::serve(&[("foo:1", &image)]);
    let [flag, host] = registry.trusted();
    let reference = registry.reference("foo:1");
    let render = || printed(&["catalog", "render", &reference, "--migrate", &flag, &host]);
    assert_eq!(render(), render());
}
