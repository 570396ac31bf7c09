use olm_bundle::BundleFiles;
use serde_json::{Value, json};

use super::RegistryV1Bundle;
use crate::BundleBlob;

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo.v0.1.0
  annotations:
    olm.properties: '[{\"type\": \"user\", \"value\": {\"b\": 1, \"a\": \"x y\"}}]'
spec:
  version: 0.1.0
  displayName: Foo
  customresourcedefinitions:
    owned: [{name: foos.test.foo, version: v1, kind: Foo, resources: []}]
    required: [{name: bars.test.bar, version: v1alpha1, kind: Bar}]
  apiservicedefinitions:
    owned: [{name: things, group: api.foo, version: v2, kind: Thing, containerPort: 443}]
    required: [{name: others, group: api.bar, version: v3, kind: Other}]
  relatedImages:
  - {name: operator, image: registry.test/foo:v0.1.0}
  - {name: again, image: registry.test/foo:v0.1.0}
  - {name: aaa, image: registry.test/aaa:1}
  install:
    strategy: deployment
    spec:
      deployments:
      - name: d
        spec:
          template:
            spec:
              containers: [{image: registry.test/foo:v0.1.0}, {image: registry.test/side:1}]
              initContainers: [{image: registry.test/init:1}]
";
const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.test.foo}
spec:
  group: test.foo
  names: {kind: Foo, plural: foos}
  versions: [{name: v1, served: true}, {name: v1beta1, served: false}]
";
const ANNOTATIONS: &str = "annotations:
  operators.operatorframework.io.bundle.package.v1: foo
  operators.operatorframework.io.bundle.channels.v1: beta,stable
";

fn tree(files: &[(&str, &str)]) -> BundleFiles {
    let base = [
        ("manifests/csv.yaml", CSV),
        ("manifests/crd.yaml", CRD),
        ("metadata/annotations.yaml", ANNOTATIONS),
    ];
    base.iter().chain(files).map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

fn render(files: &[(&str, &str)], image: &str) -> (BundleBlob, Vec<String>) {
    let bundle = RegistryV1Bundle::read(&tree(files)).unwrap();
    (bundle.render(image), bundle.warnings)
}

fn error(files: &[(&str, &str)]) -> String {
    RegistryV1Bundle::read(&tree(files)).unwrap_err().to_string()
}

/// Type and text of each property but the objects.
fn properties(bundle: &BundleBlob) -> Vec<(&str, &str)> {
    let all = bundle.properties.iter().map(|property| (property.kind.as_str(), property.value.get()));
    all.filter(|(kind, _)| *kind != "olm.bundle.object").collect()
}

#[test]
fn a_bundle_becomes_a_blob() {
    let (bundle, warnings) = render(&[], "registry.test/foo-bundle:v0.1.0");
    assert_eq!((bundle.name.as_str(), bundle.package.as_str()), ("foo.v0.1.0", "foo"));
    assert_eq!(warnings, [""; 0]);
    assert_eq!(
        properties(&bundle),
        [
            ("olm.gvk", r#"{"group":"api.foo","kind":"Thing","version":"v2"}"#),
            ("olm.gvk", r#"{"group":"test.foo","kind":"Foo","version":"v1"}"#),
            ("olm.gvk", r#"{"group":"test.foo","kind":"Foo","version":"v1beta1"}"#),
            ("olm.gvk.required", r#"{"group":"api.bar","kind":"Other","version":"v3"}"#),
            ("olm.gvk.required", r#"{"group":"test.bar","kind":"Bar","version":"v1alpha1"}"#),
            ("olm.package", r#"{"packageName":"foo","version":"0.1.0"}"#),
            ("user", r#"{"b":1,"a":"x y"}"#),
        ]
    );
    let images: Vec<_> =
        bundle.related_images.iter().map(|image| (image.name.as_str(), image.image.as_str())).collect();
    assert_eq!(
        images,
        [
            ("aaa", "registry.test/aaa:1"),
            ("", "registry.test/foo-bundle:v0.1.0"),
            ("operator", "registry.test/foo:v0.1.0"),
            ("again", "registry.test/foo:v0.1.0"),
            ("", "registry.test/init:1"),
            ("", "registry.test/side:1"),
        ]
    );
}

#[test]
fn manifests_are_inlined_as_compact_json_behind_all_other_properties() {
    let (bundle, _) =
        render(&[("manifests/z.yaml", "kind: Role\napiVersion: v1\nx: [0x10, 1.0, <&>]\n")], "");
    let kinds: Vec<&str> = bundle.properties.iter().map(|property| property.kind.as_str()).collect();
    assert_eq!(kinds[kinds.len() - 3..], ["olm.bundle.object"; 3]);
    assert!(!kinds[..kinds.len() - 3].contains(&"olm.bundle.object"));
    let role = "eyJhcGlWZXJzaW9uIjoidjEiLCJraW5kIjoiUm9sZSIsIngiOlsxNiwxLCJcdTAwM2NcdTAwMjZcdTAwM2UiXX0=";
    assert!(
        bundle.properties.iter().any(|property| property.value.get() == format!(r#"{{"data":"{role}"}}"#))
    );
    assert!(bundle.related_images.iter().all(|image| !image.image.is_empty()), "no image, no related image");
}

#[test]
fn metadata_files_are_found_by_what_they_say() {
    let files = [
        (
            "metadata/a.yaml",
            "dependencies:\n- {type: olm.package, value: {packageName: p, version: '>=1.0.0'}}\n\
             - {type: olm.gvk, value: {group: g, version: v1, kind: K}}\n\
             - {type: olm.constraint, value: {failureMessage: 'a > b', cel: {rule: 'true'}}}\n",
        ),
        (
            "metadata/b.json",
            r#"{"properties": [{"type": "olm.package", "value": {"packageName": "foo", "version": "9.9.9", "release": "2"}},
               {"type": "olm.maxOpenShiftVersion", "value": "4.20"}, {"type": "olm.gvk", "value": {"group": "x", "kind": "X", "version": "v1"}}]}"#,
        ),
        ("metadata/broken.yaml", "a: [b"),
        ("metadata/sub/properties.yaml", "properties: [{type: never, value: 1}]"),
    ];
    let (bundle, _) = render(&files, "");
    let found = properties(&bundle);
    for wanted in [
        ("olm.gvk", r#"{"group":"x","kind":"X","version":"v1"}"#),
        ("olm.gvk.required", r#"{"group":"g","kind":"K","version":"v1"}"#),
        ("olm.constraint", r#"{"cel":{"rule":"true"},"failureMessage":"a \u003e b"}"#),
        ("olm.package.required", r#"{"packageName":"p","versionRange":">=1.0.0"}"#),
        ("olm.maxOpenShiftVersion", r#""4.20""#),
        // Of several, the last in the list counts: what follows from the annotations file.
        ("olm.package", r#"{"packageName":"foo","version":"0.1.0"}"#),
    ] {
        assert!(found.contains(&wanted), "{wanted:?} in {found:?}");
    }
    assert!(!found.iter().any(|(kind, _)| *kind == "never"));
    assert_eq!(found.iter().filter(|(kind, _)| *kind == "olm.package").count(), 1);
    let bundle = RegistryV1Bundle::read(&tree(&files)).unwrap();
    assert_eq!(bundle.version, "9.9.9", "the first one, for templates of the image");
}

#[test]
fn the_release_of_the_csv_is_part_of_the_package_property() {
    let csv = CSV.replace("version: 0.1.0\n", "version: 0.1.0\n  release: \"7\"\n");
    let (bundle, _) = render(&[("manifests/csv.yaml", &csv)], "");
    let wanted = ("olm.package", r#"{"packageName":"foo","version":"0.1.0","release":"7"}"#);
    assert!(properties(&bundle).contains(&wanted));
}

#[test]
fn what_cannot_be_read_among_the_manifests_is_passed_over_with_a_warning() {
    let (bundle, warnings) = render(
        &[
            ("manifests/.hidden.yaml", "kind: Never"),
            ("manifests/sub/x.yaml", "kind: Never"),
            ("manifests/README.md", "# text"),
            ("manifests/empty.yaml", ""),
            ("manifests/license.yaml", "# a license\n---\nkind: Never"),
            ("manifests/many.yaml", "kind: Role\n---\nkind: Never"),
            ("manifests/second-csv.yaml", "kind: ClusterServiceVersion"),
            ("manifests/broken.yaml", "a: [b"),
        ],
        "",
    );
    assert_eq!(bundle.properties.iter().filter(|property| property.kind == "olm.bundle.object").count(), 3);
    let starts = [
        "manifests/README.md: ignored: its first document is no object with a kind",
        "manifests/broken.yaml: ignored: ",
        "manifests/empty.yaml: ignored: the file is empty",
        "manifests/license.yaml: ignored: its first document is no object with a kind",
        "manifests/many.yaml: found more than one document, using only the first one",
        "manifests/second-csv.yaml: ignored: the bundle has a ClusterServiceVersion already",
    ];
    assert_eq!(warnings.len(), starts.len(), "{warnings:#?}");
    for (warning, start) in warnings.iter().zip(starts) {
        assert!(warning.starts_with(start), "{warning}");
    }
    let (_, warnings) = render(&[("manifests/csv.yaml", &CSV.replace("'[{", "'[{{"))], "");
    assert!(
        warnings[0].starts_with("manifests/csv.yaml: annotation olm.properties is ignored: "),
        "{warnings:?}"
    );
}

#[test]
fn a_bundle_that_is_none_is_refused_with_what_is_missing() {
    let empty = BundleFiles::new();
    assert!(RegistryV1Bundle::read(&empty).unwrap_err().to_string().starts_with("no bundle objects found"));
    for (files, wanted) in [
        ([("manifests/csv.yaml", "kind: Role")], "no csv in bundle"),
        ([("metadata/annotations.yaml", "annotations: {}")], "could not find annotations file"),
        (
            [("manifests/crd.yaml", "kind: Role")],
            "error checking provided apis in bundle foo.v0.1.0: couldn't find test.foo/v1/Foo (foos) in bundle. \
             found: map[api.foo/v2/Thing (things):{}]",
        ),
        (
            [(
                "manifests/csv.yaml",
                "kind: ClusterServiceVersion\nspec: {customresourcedefinitions: {owned: [{name: x}]}}",
            )],
            "manifests/csv.yaml: couldn't parse plural.group from crd name: x",
        ),
        (
            [("manifests/csv.yaml", "kind: ClusterServiceVersion\nspec: {version: 1.0}")],
            r#"manifests/csv.yaml: field "spec.version" is a number, expected a string"#,
        ),
        (
            [("metadata/p.yaml", "properties: [{type: a}, {type: olm.gvk, value: {group: 1}}]")],
            "get properties for bundle \"foo.v0.1.0\": parse property[1] of type \"olm.gvk\": field \"group\" is \
             a number, expected a string",
        ),
        (
            [(
                "metadata/p.yaml",
                &format!("properties: [{{type: olm.gvk, value: {}{}}}]", "[".repeat(200), "]".repeat(200)),
            )],
            "get properties for bundle \"foo.v0.1.0\": parse property[0] of type \"olm.gvk\": field \"value\" is \
             nested too deeply, expected less deep",
        ),
        (
            [("metadata/p.yaml", "dependencies: [{type: olm.package, value: 1}]")],
            "get properties for bundle \"foo.v0.1.0\": parse dependency[0] of type \"olm.package\": field \"\" is \
             a number, expected an object",
        ),
    ] {
        let found = error(&files);
        assert!(found.starts_with(wanted), "{found}");
    }
}

#[test]
fn csv_metadata_has_the_known_fields_in_opms_order() {
    let csv = json!({
        "metadata": {"annotations": {"b": "<1>", "a": "2"}, "labels": {}, "name": "x"},
        "spec": {
            "displayName": "Foo", "description": "", "version": "1.0.0", "unknown": 1,
            "installModes": [{"supported": true, "type": "AllNamespaces"}],
            "keywords": ["k"], "links": [{"url": "u", "name": "n"}], "maintainers": [{"email": "e"}],
            "maturity": "alpha", "minKubeVersion": "1.30.0", "icon": [{"base64data": "x", "mediatype": "y"}],
            "nativeAPIs": [{"group": "", "kind": "Pod", "version": "v1"}],
            "customresourcedefinitions": {"owned": [{
                "kind": "Foo", "name": "foos.test.foo", "version": "v1", "displayName": "F",
                "resources": [{"kind": "Pod", "version": "v1"}],
                "specDescriptors": [{"path": "size", "value": "a<b", "x-descriptors": ["urn:x"]}],
                "actionDescriptors": [],
            }]},
            "apiservicedefinitions": {"required": [{"name": "t", "containerPort": 443, "group": "g", "kind": "T", "version": "v"}]},
        },
    });
    let wanted = concat!(
        r#"{"annotations":{"a":"2","b":"<1>"},"#,
        r#""apiServiceDefinitions":{"required":[{"name":"t","group":"g","version":"v","kind":"T","containerPort":443}]},"#,
        r#""crdDescriptions":{"owned":[{"name":"foos.test.foo","version":"v1","kind":"Foo","displayName":"F","#,
        r#""resources":[{"name":"","kind":"Pod","version":"v1"}],"#,
        r#""specDescriptors":[{"path":"size","x-descriptors":["urn:x"],"value":"a\u003cb"}]}]},"#,
        r#""displayName":"Foo","installModes":[{"type":"AllNamespaces","supported":true}],"keywords":["k"],"#,
        r#""links":[{"name":"n","url":"u"}],"maintainers":[{"email":"e"}],"maturity":"alpha","#,
        r#""minKubeVersion":"1.30.0","nativeAPIs":[{"group":"","version":"v1","kind":"Pod"}],"provider":{}}"#,
    );
    assert_eq!(super::csv_metadata(&csv).unwrap().get(), wanted);
    let empty = super::csv_metadata(&Value::Object(serde_json::Map::new())).unwrap();
    assert_eq!(empty.get(), r#"{"apiServiceDefinitions":{},"crdDescriptions":{},"provider":{}}"#);
    let wrong = super::csv_metadata(&json!({"spec": {"keywords": [1]}})).unwrap_err().to_string();
    assert_eq!(wrong, r#"field "spec.keywords[0]" is a number, expected a string"#);
}
