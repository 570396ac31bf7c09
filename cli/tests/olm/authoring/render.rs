//! Every kind of reference, every form, every refusal.

use olm_image::ImageBuilder;
use serde_json::json;

use super::{
    CATALOG, CONFIGS_LABEL, bundle, bundle_image, catalog_image, documents, folder, olm, path, printed,
    refused, registry::Registry,
};

const RENDERED: &str = r#"{
    "schema": "olm.package",
    "name": "bar",
    "defaultChannel": "c",
    "description": "<bar>"
}
{
    "a": [
        1000
    ],
    "package": "bar",
    "schema": "custom.io",
    "z": 1
}
{
    "schema": "olm.package",
    "name": "foo",
    "defaultChannel": "beta"
}
{
    "schema": "olm.channel",
    "name": "beta",
    "package": "foo",
    "entries": [
        {
            "name": "foo.v0.1.0"
        }
    ]
}
{
    "schema": "olm.bundle",
    "name": "foo.v0.1.0",
    "package": "foo",
    "image": "r.io/foo-bundle:v0.1.0",
    "properties": [
        {
            "type": "olm.package",
            "value": {
                "packageName": "foo",
                "version": "0.1.0"
            }
        },
        {
            "type": "olm.bundle.object",
            "value": {
                "data": "eyJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIiwic3BlYyI6eyJkaXNwbGF5TmFtZSI6IkZvbyJ9fQ=="
            }
        }
    ],
    "relatedImages": [
        {
            "name": "",
            "image": "r.io/a:1"
        },
        {
            "name": "z",
            "image": "r.io/z:1"
        }
    ]
}
{
    "schema": "rootless.io"
}
"#;

#[test]
fn a_catalog_folder_is_printed_in_order_and_in_the_originals_form() {
    let catalog = folder(&CATALOG);
    let json = printed(&["catalog", "render", path(catalog.path())]);
    assert_eq!(json, RENDERED);
    assert_eq!(documents(&json).len(), 6, "plain JSON for any tool");
    let yaml = printed(&["catalog", "render", path(catalog.path()), "-o", "yaml"]);
    assert!(yaml.starts_with("---\ndefaultChannel: c\ndescription: "), "{yaml}");
    let (from_json, from_yaml) = (folder(&[("a.json", &json)]), folder(&[("a", &yaml)]));
    for again in [from_json, from_yaml] {
        assert_eq!(printed(&["catalog", "render", path(again.path())]), json, "rendered again, the same");
    }
}

#[test]
fn catalog_images_are_printed_as_their_folder_is() {
    let catalog = folder(&CATALOG);
    let image = catalog_image(catalog.path());
    let layout = folder(&[]);
    image.write_layout(layout.path(), Some("v1")).expect("written");
    let registry = Registry::serve(&[("catalogs/some:v1", &image)]);
    let [flag, host] = registry.trusted();
    let by_tag = registry.reference("catalogs/some:v1");
    let by_digest = registry.reference(&format!("catalogs/some@{}", image.digest()));
    for reference in [path(layout.path()), &format!("oci:{}:v1", path(layout.path())), &by_tag, &by_digest] {
        assert_eq!(printed(&["catalog", "render", reference, &flag, &host]), RENDERED, "{reference}");
    }
}

#[test]
fn bundles_become_blobs() {
    let bundle = bundle("0.1.0");
    let image = bundle_image(bundle.path());
    let layout = folder(&[]);
    image.write_layout(layout.path(), None).expect("written");
    let registry = Registry::serve(&[("foo:v0.1.0", &image)]);
    let [flag, host] = registry.trusted();
    let reference = registry.reference("foo:v0.1.0");
    let template = "r.io/{{.Package}}:v{{ .Version }}-{{.Name}}";
    for (source, extra, image, related) in [
        (path(bundle.path()), "--offline", "", vec!["r.io/foo:v0.1.0"]),
        (path(layout.path()), "--offline", "", vec!["r.io/foo:v0.1.0"]),
        (
            path(bundle.path()),
            &format!("--image-ref-template={template}"),
            "r.io/foo:v0.1.0-foo.v0.1.0",
            vec!["r.io/foo:v0.1.0", "r.io/foo:v0.1.0-foo.v0.1.0"],
        ),
        (&reference, "--migrate-level=none", reference.as_str(), vec![reference.as_str(), "r.io/foo:v0.1.0"]),
    ] {
        let json = printed(&["catalog", "render", source, extra, &flag, &host]);
        let [blob] = documents(&json).try_into().expect("one document");
        assert_eq!((&blob["name"], &blob["image"]), (&json!("foo.v0.1.0"), &json!(image)), "{source}");
        let images: Vec<_> =
            blob["relatedImages"].as_array().expect("a list").iter().map(|image| &image["image"]).collect();
        assert_eq!(images, related, "{source}");
        let kinds: Vec<_> =
            blob["properties"].as_array().expect("a list").iter().map(|property| &property["type"]).collect();
        assert_eq!(kinds, ["olm.gvk", "olm.package", "olm.bundle.object", "olm.bundle.object"], "{source}");
    }
}

#[test]
fn bundles_are_migrated_up_to_a_level() {
    let bundle = bundle("0.1.0");
    let folder = path(bundle.path());
    let template = "--image-ref-template=r.io/foo:1";
    let kinds = |arguments: &[&str]| -> Vec<String> {
        let all = [&["catalog", "render", folder], arguments].concat();
        let blob = documents(&printed(&all)).remove(0);
        let properties = blob["properties"].as_array().expect("a list");
        properties.iter().map(|property| property["type"].as_str().expect("text").to_owned()).collect()
    };
    let (objects, metadata) = ("olm.bundle.object", "olm.csv.metadata");
    assert_eq!(kinds(&[template]), ["olm.gvk", "olm.package", objects, objects]);
    for level in ["--migrate", "--migrate-level=all", "--migrate-level=bundle-object-to-csv-metadata"] {
        assert_eq!(kinds(&[template, level]), ["olm.gvk", "olm.package", metadata], "{level}");
        assert_eq!(
            kinds(&[level]),
            ["olm.gvk", "olm.package", objects, objects],
            "{level}, without an image"
        );
    }
    let json = printed(&["catalog", "render", folder, template, "--migrate"]);
    let wanted = r#"            "type": "olm.csv.metadata",
            "value": {
                "annotations": {
                    "note": "a <b>"
                },
                "apiServiceDefinitions": {},
                "crdDescriptions": {
                    "owned": [
                        {
                            "name": "foos.test.foo",
                            "version": "v1",
                            "kind": "Foo"
                        }
                    ]
                },
                "description": "about 0.1.0",
                "displayName": "Foo",
                "provider": {}
            }"#;
    assert!(json.contains(wanted), "fields in the originals' order: {json}");
    let catalog = super::folder(&CATALOG);
    let migrated = printed(&["catalog", "render", path(catalog.path()), "--migrate"]);
    assert!(migrated.contains("olm.csv.metadata") && !migrated.contains("olm.bundle.object"), "{migrated}");
}

#[test]
fn several_references_make_one_catalog() {
    let (one, two) = (folder(&CATALOG[..1]), folder(&CATALOG[1..]));
    let bundles: Vec<_> = (0..9).map(|patch| bundle(&format!("1.0.{patch}"))).collect();
    let mut arguments = vec!["catalog", "render", path(two.path()), path(one.path())];
    assert_eq!(printed(&arguments), RENDERED, "the order of the references does not matter for the whole");
    arguments.extend(bundles.iter().map(|bundle| path(bundle.path())));
    let json = printed(&arguments);
    let names: Vec<String> = documents(&json)
        .iter()
        .filter(|blob| blob["schema"] == "olm.bundle")
        .map(|blob| blob["name"].as_str().expect("text").to_owned())
        .collect();
    let wanted: Vec<String> = ["0.1.0".to_owned()]
        .into_iter()
        .chain((0..9).map(|patch| format!("1.0.{patch}")))
        .map(|version| format!("foo.v{version}"))
        .collect();
    assert_eq!(names, wanted);
    assert_eq!(printed(&arguments), json, "the same references, the same bytes");
}

#[test]
fn what_is_passed_over_in_a_bundle_is_reported_on_standard_error() {
    let bundle = bundle("0.1.0");
    super::write(bundle.path(), "manifests/README.md", "# text");
    let output = olm(&["catalog", "render", path(bundle.path())]);
    assert!(output.status.success(), "{output:?}");
    let warning = String::from_utf8(output.stderr).expect("text");
    let wanted = ": manifests/README.md: ignored: its first document is no object with a kind\n";
    assert!(warning.starts_with("warning: ") && warning.ends_with(wanted), "{warning}");
}

#[test]
fn references_that_cannot_be_rendered_are_refused_and_nothing_is_printed() {
    let good = folder(&CATALOG);
    let catalog = |content: &str| folder(&[("a.yaml", content)]);
    let (bad_type, no_schema) = (catalog("schema: olm.package\nname: [a]"), catalog("a: b"));
    let bad_field = catalog("schema: olm.package\nname: a\ndefaultChannel: 1.10");
    let no_package = catalog("schema: olm.bundle\nname: x");
    let file = good.path().join("foo/catalog.yaml");
    let no_csv = folder(&[("manifests/a.yaml", "kind: Role"), ("metadata/a.yaml", "")]);
    let labelled = ImageBuilder::new().label("b", "2").label("a", "1").build();
    let sqlite = ImageBuilder::new().label("operators.operatorframework.io.index.database.v1", "/db").build();
    let empty = ImageBuilder::new().label(CONFIGS_LABEL, "/configs").build();
    let registry = Registry::serve(&[
        ("none:1", &ImageBuilder::new().build()),
        ("labelled:1", &labelled),
        ("sqlite:1", &sqlite),
        ("empty:1", &empty),
    ]);
    let [flag, host] = registry.trusted();
    let [none, labelled, sqlite, empty, absent] =
        ["none:1", "labelled:1", "sqlite:1", "empty:1", "absent:1"].map(|name| registry.reference(name));
    for (reference, wanted) in [
        (path(&file), format!("ref {:?} is not a directory: not allowed", path(&file))),
        ("no-such-thing", "neither a file or folder here nor an image reference".to_owned()),
        (path(bad_type.path()), "a.yaml: expected value for key \"name\" to be a string".to_owned()),
        (path(no_schema.path()), "object '{\"a\":\"b\"}\n  ' is missing root schema field".to_owned()),
        (
            path(bad_field.path()),
            "a.yaml: parse package: json: cannot unmarshal number into Go struct field Package.defaultChannel of \
             type string"
                .to_owned(),
        ),
        (path(no_package.path()), "olm.bundle \"x\": the field package is missing".to_owned()),
        (path(no_csv.path()), "no csv in bundle".to_owned()),
        (&none, format!("render {none:?}: image type could not be determined: image has no labels")),
        (
            &labelled,
            format!("render {labelled:?}: image type could not be determined, found labels\n    a=1\n    b=2"),
        ),
        (
            &sqlite,
            format!(
                "render {sqlite:?}: sqlite-based index images are no longer supported, migrate to a file-based \
                 catalog: not allowed"
            ),
        ),
        (&empty, "the image has no files at /configs".to_owned()),
        (&absent, "404".to_owned()),
    ] {
        let error = refused(&["catalog", "render", path(good.path()), reference, &flag, &host]);
        let prefix = format!("error: render reference {reference:?}: ");
        let prefix = if wanted.contains("field package") { "error: " } else { &prefix };
        assert!(error.starts_with(prefix) && error.contains(&wanted), "{error}");
    }
}

#[test]
fn wrong_arguments_are_reported_with_exit_code_one() {
    for (arguments, wanted) in [
        (&["catalog", "render"][..], "required"),
        (
            &["catalog", "render", ".", "--migrate-level", "split-icon"],
            "unknown migration level \"split-icon\"",
        ),
        (&["catalog", "render", ".", "--migrate", "--migrate-level", "all"], "cannot be used with"),
        (&["catalog", "render", ".", "--image-ref-template", "{{.Image}}"], "unknown field \".Image\""),
        (&["catalog", "render", ".", "-o", "xml"], "possible values: json, yaml"),
    ] {
        let output = olm(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(wanted), "{text}");
    }
    for group in [
        &["catalog", "render", "--help"][..],
        &["catalog", "migrate", "--help"],
        &["catalog", "template", "render", "--help"],
        &["catalog", "template", "convert", "--help"],
    ] {
        let help = printed(group);
        assert!(help.contains("Exit code 0") && help.contains("--insecure-registry"), "{help}");
    }
}
