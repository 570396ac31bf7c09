//! Templates, with bundles from a registry.

use serde_json::{Value, json};

use super::{
    CATALOG, bundle, bundle_image, catalog_image, documents, folder, olm, path, printed, printed_with_input,
    refused, registry::Registry,
};

const VERSIONS: [&str; 7] = ["1.0.0", "1.0.1", "1.1.0", "1.1.1", "1.2.0", "2.0.0", "2.1.0"];

/// A registry with bundles of the package `foo` as `foo:vVERSION`.
fn registry() -> Registry {
    let images: Vec<_> = VERSIONS.iter().map(|version| bundle_image(bundle(version).path())).collect();
    let catalog = catalog_image(folder(&CATALOG).path());
    let names: Vec<String> = VERSIONS.iter().map(|version| format!("foo:v{version}")).collect();
    let mut served: Vec<_> = names.iter().map(String::as_str).zip(&images).collect();
    served.push(("catalog:v1", &catalog));
    Registry::serve(&served)
}

fn render(registry: &Registry, template: &str, extra: &[&str]) -> Vec<Value> {
    let file = folder(&[("template.yaml", template)]);
    let [flag, host] = registry.trusted();
    let file = file.path().join("template.yaml");
    let mut arguments = vec!["catalog", "template", "render", path(&file), &flag, &host];
    arguments.extend(extra);
    documents(&printed(&arguments))
}

fn images(registry: &Registry, versions: &[&str]) -> String {
    let image = |version: &&str| format!("{{image: \"{}\"}}", registry.reference(&format!("foo:v{version}")));
    versions.iter().map(image).collect::<Vec<_>>().join(", ")
}

#[test]
fn semver_makes_channels_from_versions() {
    let registry = registry();
    let template = format!(
        "schema: olm.semver\ncandidate: {{bundles: [{}]}}\nstable: {{bundles: [{}]}}\n",
        images(&registry, &VERSIONS),
        images(&registry, &["1.0.1", "1.1.0"]),
    );
    let blobs = render(&registry, &template, &["--migrate-level", "all"]);
    assert_eq!(
        blobs[0],
        json!({
            "schema": "olm.package", "name": "foo", "defaultChannel": "stable-v1.1", "description": "about 1.1.0",
            "icon": {"base64data": "aWNvbg==", "mediatype": "image/png"},
        })
    );
    let channel =
        |name: &str| blobs.iter().find(|blob| blob["name"] == name).expect("a channel")["entries"].clone();
    assert_eq!(
        channel("candidate-v1.1"),
        json!([{"name": "foo.v1.1.0"}, {"name": "foo.v1.1.1", "replaces": "foo.v1.0.1", "skips": ["foo.v1.0.0", "foo.v1.1.0"]}])
    );
    assert_eq!(channel("stable-v1.1"), json!([{"name": "foo.v1.1.0", "replaces": "foo.v1.0.1"}]));
    let file = folder(&[("t", &template)]);
    let [flag, host] = registry.trusted();
    let mermaid = printed(&[
        "catalog",
        "template",
        "render",
        path(&file.path().join("t")),
        "-o",
        "mermaid",
        &flag,
        &host,
    ]);
    assert!(mermaid.starts_with("graph LR\n"), "{mermaid}");
    let edge = "      foo-stable-v1.1-foo.v1.0.1[\"foo.v1.0.1\"]-- replace --> foo-stable-v1.1-foo.v1.1.0[\"foo.v1.1.0\"]\n";
    assert!(mermaid.contains(edge), "{mermaid}");
    let bundles: Vec<&Value> = blobs.iter().filter(|blob| blob["schema"] == "olm.bundle").collect();
    assert_eq!(bundles.len(), VERSIONS.len());
    assert!(bundles.iter().all(|bundle| bundle["properties"][2]["type"] == "olm.csv.metadata"));
}

#[test]
fn basic_fills_in_bundles_and_is_made_from_a_catalog_again() {
    let registry = registry();
    let [flag, host] = registry.trusted();
    let template = format!(
        "schema: olm.template.basic\nentries:\n- {{schema: olm.package, name: foo, defaultChannel: c}}\n\
         - {{schema: olm.channel, package: foo, name: c, entries: [{{name: foo.v1.0.0}}]}}\n\
         - {{schema: olm.bundle, image: \"{}\"}}\n",
        registry.reference("foo:v1.0.0"),
    );
    let arguments = ["catalog", "template", "render", "basic", "-", "-o", "yaml", &flag, &host];
    let rendered = printed_with_input(&arguments, &template);
    assert!(rendered.contains("name: foo.v1.0.0\npackage: foo\n"), "{rendered}");
    let catalog = folder(&[("catalog.yaml", &rendered)]);
    let file = catalog.path().join("catalog.yaml");
    for reference in [path(catalog.path()), path(&file)] {
        let converted = printed(&["catalog", "template", "convert", "basic", reference]);
        let [document] = documents(&converted).try_into().expect("one document");
        assert_eq!(
            document["entries"][2],
            json!({"schema": "olm.bundle", "image": registry.reference("foo:v1.0.0")})
        );
        assert!(
            converted.starts_with("{\n    \"schema\": \"olm.template.basic\",\n    \"entries\": [\n"),
            "{converted}"
        );
        let again =
            printed_with_input(&["catalog", "template", "render", "-o", "yaml", &flag, &host], &converted);
        assert_eq!(again, rendered, "and back");
    }
    let from_input =
        printed_with_input(&["catalog", "template", "convert", "substitutes", "-o", "yaml"], &rendered);
    assert!(
        from_input.starts_with("---\nentries:\n")
            && from_input.ends_with("schema: olm.template.substitutes\nsubstitutions: []\n"),
        "{from_input}"
    );
}

#[test]
fn substitutes_put_a_bundle_in_the_place_of_another() {
    let registry = registry();
    let [flag, host] = registry.trusted();
    let basic = format!(
        "schema: olm.template.basic\nentries:\n- {{schema: olm.package, name: foo, defaultChannel: c}}\n\
         - {{schema: olm.channel, package: foo, name: c, entries: [{{name: foo.v1.0.0}}, {{name: foo.v1.1.0, replaces: foo.v1.0.0}}]}}\n\
         - {{schema: olm.bundle, image: \"{}\"}}\n- {{schema: olm.bundle, image: \"{}\"}}\n",
        registry.reference("foo:v1.0.0"),
        registry.reference("foo:v1.1.0"),
    );
    let catalog = printed_with_input(&["catalog", "template", "render", &flag, &host], &basic);
    let template = printed_with_input(&["catalog", "template", "convert", "substitutes"], &catalog);
    let with = |base: &str, name: &str| {
        let one = format!(
            "\"substitutions\": [{{\"name\": \"{}\", \"base\": {base:?}}}]",
            registry.reference(name)
        );
        template.replace("\"substitutions\": []", &one)
    };
    let blobs = render(&registry, &with("foo.v1.1.0", "foo:v1.1.1"), &[]);
    assert_eq!(
        blobs[1]["entries"],
        json!([
            {"name": "foo.v1.0.0"},
            {"name": "foo.v1.1.0"},
            {"name": "foo.v1.1.1", "replaces": "foo.v1.0.0", "skips": ["foo.v1.1.0"]},
        ])
    );
    assert_eq!(blobs.len(), 5);
    let file = folder(&[
        ("older.json", &with("foo.v1.1.0", "foo:v1.0.1")),
        ("invalid.json", &with("foo.v1.0.0", "foo:v1.1.0")),
    ]);
    for (name, wanted) in [
        ("older.json", "base bundle \"foo.v1.1.0\" is not less than substitute bundle"),
        ("invalid.json", "resulting config is not valid FBC: "),
    ] {
        let file = file.path().join(name);
        let error = refused(&["catalog", "template", "render", "substitutes", path(&file), &flag, &host]);
        assert!(error.starts_with("error: render: error processing substitution foo.v1."), "{error}");
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn templates_that_cannot_be_rendered_are_refused() {
    let registry = registry();
    let [flag, host] = registry.trusted();
    let basic = |image: &str| {
        format!("schema: olm.template.basic\nentries: [{{schema: olm.bundle, image: {image:?}}}]")
    };
    let (bundle, catalog) = (bundle("1.0.0"), folder(&CATALOG));
    let layout = folder(&[]);
    bundle_image(bundle.path()).write_layout(layout.path(), None).expect("written");
    let (absent, index) = (registry.reference("absent:v1"), registry.reference("catalog:v1"));
    for (template, wanted) in [
        (
            basic(path(bundle.path())),
            format!("cannot render bundle directory {:?}: not allowed", path(bundle.path())),
        ),
        (basic(path(catalog.path())), "cannot render declarative config directory: not allowed".to_owned()),
        (basic(path(layout.path())), "cannot render OCI image layout".to_owned()),
        (basic(&index), "cannot render declarative config image: not allowed".to_owned()),
        (basic(&absent), format!("render reference {absent:?}: ")),
        ("entries: []".to_owned(), "template input missing required 'schema' field".to_owned()),
        ("schema: olm.composite".to_owned(), "unknown template schema: olm.composite".to_owned()),
    ] {
        let file = folder(&[("t", &template)]);
        let error = refused(&["catalog", "template", "render", path(&file.path().join("t")), &flag, &host]);
        assert!(error.contains(&wanted), "{error}");
    }
    let error = refused(&["catalog", "template", "render", "composite", "file"]);
    assert!(
        error.contains("unknown template type \"composite\": it is basic, semver or substitutes"),
        "{error}"
    );
    let too_many = olm(&["catalog", "template", "render", "basic", "a", "b"]);
    assert_eq!(too_many.status.code(), Some(1), "{too_many:?}");
}
