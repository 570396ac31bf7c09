//! `olm catalog pack` and `olm bundle pack`, as a person runs them.

use std::{fs, path::Path};

use serde_json::Value;

use crate::program::{olm, path, write};

fn blob(layout: &Path, descriptor: &Value) -> Value {
    let digest = descriptor["digest"].as_str().expect("a digest").replace("sha256:", "blobs/sha256/");
    serde_json::from_slice(&fs::read(layout.join(digest)).expect("reads")).expect("JSON")
}

/// The labels of the only image in a layout.
fn labels(layout: &Path) -> Value {
    let index: Value =
        serde_json::from_slice(&fs::read(layout.join("index.json")).expect("reads")).expect("JSON");
    let manifest = blob(layout, &index["manifests"][0]);
    blob(layout, &manifest["config"])["config"]["Labels"].clone()
}

fn bundle(folder: &Path) {
    write(folder, "manifests/csv.yaml", "kind: ClusterServiceVersion\n");
    write(folder, "Dockerfile", "not part of the image");
    write(
        folder,
        "metadata/annotations.yaml",
        "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
         operators.operatorframework.io.bundle.package.v1: sample\n",
    );
}

#[test]
fn a_catalog_is_packed_with_the_label_that_names_its_folder() {
    let (source, layout) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    write(source.path(), "sample/catalog.yaml", "schema: olm.package\nname: sample\n");
    let arguments = ["catalog", "pack", path(source.path()), "--layout", path(layout.path()), "-o", "json"];
    let first = olm(&arguments);
    assert!(first.status.success(), "{first:?}");
    let wanted = serde_json::json!({"operators.operatorframework.io.index.configs.v1": "/configs"});
    assert_eq!(labels(layout.path()), wanted);
    let answer: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert!(answer["digest"].as_str().expect("a digest").starts_with("sha256:"));
    assert_eq!(olm(&arguments).stdout, first.stdout, "the same folder, the same digest");
}

#[test]
fn a_bundle_is_packed_with_its_annotations_as_labels() {
    let (source, layout) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    bundle(source.path());
    let packed = olm(&["bundle", "pack", path(source.path()), "--layout", path(layout.path())]);
    assert!(packed.status.success(), "{packed:?}");
    let wanted = serde_json::json!({
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.package.v1": "sample",
    });
    assert_eq!(labels(layout.path()), wanted);
}

/// Puts something into a folder that is to be packed.
type Prepare<'a> = &'a dyn Fn(&Path);

#[test]
fn what_cannot_be_packed_is_refused_with_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = path(folder.path()).to_owned() + "/layout";
    let cases: [(&str, &str, Prepare<'_>); 5] = [
        ("catalog", "the folder is empty", &|_| ()),
        ("bundle", "manifests: no such folder", &|_| ()),
        ("bundle", "metadata/annotations.yaml: annotations: missing", &|folder| {
            bundle(folder);
            write(folder, "metadata/annotations.yaml", "{}");
        }),
        ("catalog", "passwd: the link leads out of the folder", &|folder| {
            std::os::unix::fs::symlink("/etc/passwd", folder.join("passwd")).expect("linked");
        }),
        ("bundle", "dangling: the link leads out of the folder or to nothing", &|folder| {
            bundle(folder);
            std::os::unix::fs::symlink("nothing", folder.join("manifests/dangling")).expect("linked");
        }),
    ];
    for (index, (group, wanted, prepare)) in cases.iter().enumerate() {
        let source = folder.path().join(index.to_string());
        fs::create_dir(&source).expect("made");
        prepare(&source);
        let output = olm(&[group, "pack", path(&source), "--layout", &layout]);
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("error: ") && text.contains(wanted), "{text}");
        assert!(!Path::new(&layout).exists(), "nothing is written");
    }
}

#[test]
fn without_a_destination_or_with_a_bad_one_the_usage_is_reported() {
    for arguments in [
        &["catalog", "pack", "."][..],
        &["catalog", "pack", ".", "--push", "busybox:latest"],
        &["bundle", "pack", ".", "--insecure-registry"],
    ] {
        let output = olm(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
    let output = olm(&["catalog", "pack", ".", "--push", "busybox:latest"]);
    assert!(String::from_utf8(output.stderr).expect("text").contains("repository name must be canonical"));
}

#[test]
fn a_place_to_pack_to_is_asked_for_by_both_its_names() {
    let source = tempfile::tempdir().expect("a folder");
    bundle(source.path());
    for command in ["bundle", "catalog"] {
        for more in [&[][..], &["-o", "json"]] {
            let output = olm(&[&[command, "pack", path(source.path())][..], more].concat());
            assert_eq!(output.status.code(), Some(1));
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(error.contains("<--push <REFERENCE>|--layout <FOLDER>>"), "{error}");
        }
    }
}
