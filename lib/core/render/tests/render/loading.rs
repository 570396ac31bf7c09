//! Reading files: what is an object, what is an error, and in which words.

use olm_bundle::{Bundle, BundleFiles, MEMORY_BYTES_MAX, ReadError};
use olm_render::{Reason, RenderError};
use serde_json::json;

use crate::builder::{ANNOTATIONS, bundle, crd, find, object};

#[test]
fn missing_parts_are_named() {
    let without = |path: &str| {
        let files = bundle().files();
        files
            .iter()
            .filter(|(name, _)| !name.starts_with(path))
            .map(|(name, content)| (name.to_owned(), content.to_vec()))
            .collect::<BundleFiles>()
    };
    for (path, text) in [
        ("metadata/annotations.yaml", "open metadata/annotations.yaml: no such file or directory"),
        ("manifests/csv.yaml", "no ClusterServiceVersion found in \"manifests\""),
        ("manifests", "stat manifests: no such file or directory"),
    ] {
        let error = RenderError::from(Bundle::read(&without(path), MEMORY_BYTES_MAX).unwrap_err());
        assert_eq!(error.to_string(), text);
        assert_eq!(error.reason(), Reason::Blocked);
    }
}

#[test]
fn every_file_of_manifests_is_read() {
    for (path, content, text) in [
        (
            "manifests/sub/x.yaml",
            "kind: ConfigMap",
            "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found \"manifests/sub\"",
        ),
        (
            "manifests/README.md",
            "Read me: [",
            "error parsing objects in \"manifests/README.md\": unable to decode \"manifests/README.md\": yaml: line 1",
        ),
        (
            "manifests/.hidden",
            "a: hunter2",
            "error parsing objects in \"manifests/.hidden\": unable to decode \"manifests/.hidden\": document 1: Object 'Kind' is missing",
        ),
        (
            "manifests/text",
            "just text",
            "error parsing objects in \"manifests/text\": unable to decode \"manifests/text\": document 1: not a map",
        ),
    ] {
        let refusal = bundle().file(path, content).refusal();
        assert!(refusal.starts_with(text), "{refusal}");
        assert!(!refusal.contains("hunter2"));
    }
}

#[test]
fn empty_documents_lists_and_json_streams_are_fine() {
    let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}, object("Secret", "b")]});
    let rendered = bundle()
        .file("manifests/empty", "")
        .file("manifests/comments", "# nothing\n---\n# here\n")
        .file("manifests/list", list)
        .file("manifests/stream", format!("{}{}\n", object("ConfigMap", "c"), object("ConfigMap", "d")))
        .render()
        .unwrap();
    for (kind, name) in [("ConfigMap", "a"), ("Secret", "b"), ("ConfigMap", "c"), ("ConfigMap", "d")] {
        assert_eq!(find(&rendered, kind, name)["metadata"]["namespace"], "ns");
    }
}

#[test]
fn wrong_types_fail_with_kubernetes_words_and_the_place() {
    let prefix = "error parsing objects in \"manifests/csv.yaml\": ";
    let at = "spec.install.spec.deployments[0].spec.template.spec.containers[0]";
    let pattern =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for (bundle, text) in [
        (
            bundle().container("env", json!([{"name": "A", "value": 1}])),
            format!("cannot convert int64 to string at {at}.env[0].value"),
        ),
        (bundle().container("stdin", json!("yes")), format!("unrecognized type: bool at {at}.stdin")),
        (bundle().container("args", json!({})), format!("cannot restore slice from map at {at}.args")),
        (
            bundle().set("/spec/version", json!("abc")),
            "spec.version: Invalid character(s) found in major number \"0abc\"".to_owned(),
        ),
        (
            bundle().set("/spec/version", json!(1)),
            "cannot convert int64 to string at spec.version".to_owned(),
        ),
        (
            bundle().container("resources", json!({"limits": {"cpu": "1 core"}})),
            format!("{pattern} at {at}.resources.limits[\"cpu\"]"),
        ),
    ] {
        assert_eq!(bundle.refusal(), format!("{prefix}{text}"));
    }
}

#[test]
fn several_csvs_are_refused() {
    let other = bundle().csv;
    let error = bundle().file("manifests/other.json", other).read(MEMORY_BYTES_MAX).unwrap_err();
    assert!(
        matches!(error, ReadError::SeveralClusterServiceVersions(ref names) if names.len() == 2),
        "{error}"
    );
}

#[test]
fn annotations_tell_the_package() {
    let package =
        |text: &str| bundle().file("metadata/annotations.yaml", text).render().map(|r| r.package_name);
    assert_eq!(package(ANNOTATIONS), Ok("sample".to_owned()));
    let number = ANNOTATIONS.replace("sample", "12");
    assert_eq!(package(&number), Ok("12".to_owned()));
    for empty in ["", "annotations: {}\n", "other: 1\n"] {
        assert_eq!(package(empty).unwrap_err().to_string(), "package name is empty");
    }
    for broken in ["- a\n", "annotations: [", "annotations: 1\n"] {
        let text = package(broken).unwrap_err().to_string();
        assert!(text.starts_with("failed to unmarshal metadata/annotations.yaml: "), "{text}");
    }
}

#[test]
fn yaml_is_of_version_1_1() {
    let rendered = bundle()
        .file(
            "manifests/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {n: \"1\", mode: 0644}\n",
        )
        .render()
        .unwrap();
    assert_eq!(find(&rendered, "ConfigMap", "a")["data"], json!({"false": "1", "mode": 420}));
}

#[test]
fn deep_schemas_are_read_up_to_the_limit() {
    let nested = |levels: usize| {
        let mut definition = crd("samples.x.io");
        let schema =
            (0..levels).fold(json!({"type": "string"}), |schema, _| json!({"properties": {"a": schema}}));
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        bundle().file("manifests/crd.yaml", olm_yaml::to_yaml(&definition)).render()
    };
    assert!(nested(90).is_ok());
    let refusal = nested(110).unwrap_err().to_string();
    assert!(
        refusal.starts_with("error parsing objects in \"manifests/crd.yaml\": unable to decode"),
        "{refusal}"
    );
}

#[test]
fn crds_of_v1beta1_are_pressed_through_the_v1_type() {
    let mut old = crd("samples.x.io");
    old["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    old["spec"]["version"] = json!("v1");
    old["spec"]["validation"] = json!({"openAPIV3Schema": {"type": "object"}});
    let rendered = bundle().file("manifests/crd.yaml", old).render().unwrap();
    let new = find(&rendered, "CustomResourceDefinition", "samples.x.io");
    assert_eq!(new["apiVersion"], "apiextensions.k8s.io/v1beta1");
    assert_eq!((new["spec"].get("version"), new["spec"].get("validation")), (None, None));
}
