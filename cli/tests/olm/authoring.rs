//! `olm catalog render`, `migrate` and `template`, as authors of catalogs run them.

mod data;
mod migrate;
mod progress;
mod registry;
mod render;
mod template;
mod workflow;

use std::{io::Write as _, path::Path, process::Stdio};

use olm_image::{Compression, ImageBuilder, PackedImage, folder_layer, folders_layer};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{command, folder, olm, path, write};

const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
const PACKAGE_LABEL: &str = "operators.operatorframework.io.bundle.package.v1";

/// What a command that succeeds prints; it says nothing on standard error.
fn printed(arguments: &[&str]) -> String {
    let output = olm(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What a command that is given `input` prints.
fn printed_with_input(arguments: &[&str], input: &str) -> String {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What a command says that fails with exit code 1 and prints nothing.
fn refused(arguments: &[&str]) -> String {
    let output = olm(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn documents(json: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(json).into_iter().map(|value| value.expect("JSON")).collect()
}

/// The folder of a bundle of the package `foo`.
fn bundle(version: &str) -> TempDir {
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {{name: foo.v{version}, annotations: {{note: a <b>}}}}
spec:
  version: {version}
  displayName: Foo
  description: about {version}
  icon: [{{base64data: aWNvbg==, mediatype: image/png}}]
  relatedImages: [{{name: operator, image: r.io/foo:v{version}}}]
  customresourcedefinitions: {{owned: [{{name: foos.test.foo, version: v1, kind: Foo}}]}}
"
    );
    folder(&[
        ("manifests/csv.yaml", &csv),
        ("manifests/crd.yaml", CRD),
        ("metadata/annotations.yaml", &format!("annotations: {{{PACKAGE_LABEL}: foo}}")),
    ])
}

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.test.foo}
spec:
  group: test.foo
  names: {kind: Foo, plural: foos}
  versions: [{name: v1}]
";

fn bundle_image(folder: &Path) -> PackedImage {
    let (manifests, metadata) = (folder.join("manifests"), folder.join("metadata"));
    let folders = [(manifests.as_path(), "manifests"), (metadata.as_path(), "metadata")];
    let layer = folders_layer(&folders, Compression::Gzip).expect("packed");
    ImageBuilder::new().label(PACKAGE_LABEL, "foo").layer(layer).build()
}

fn catalog_image(folder: &Path) -> PackedImage {
    let layer = folder_layer(folder, "/configs", Compression::Gzip).expect("packed");
    ImageBuilder::new().label(CONFIGS_LABEL, "/configs").layer(layer).build()
}

/// A catalog of two packages in two files, in no particular order.
const CATALOG: [(&str, &str); 3] = [
    (
        "foo/catalog.yaml",
        "---
schema: olm.bundle
package: foo
name: foo.v0.1.0
image: r.io/foo-bundle:v0.1.0
unknown: dropped
relatedImages: [{image: r.io/z:1, name: z}, {image: r.io/a:1}]
properties:
- {type: olm.bundle.object, value: {data: eyJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIiwic3BlYyI6eyJkaXNwbGF5TmFtZSI6IkZvbyJ9fQ==}}
- {type: olm.package, value: {version: 0.1.0, packageName: foo}}
---
schema: olm.channel
package: foo
name: beta
entries: [{name: foo.v0.1.0}]
---
schema: olm.package
name: foo
defaultChannel: beta
",
    ),
    (
        "bar/index.json",
        r#"{"name": "bar", "schema": "olm.package", "defaultChannel": "c", "description": "<bar>"}
{"schema": "custom.io", "package": "bar", "z": 1.0, "a": [1e3]}{"schema": "rootless.io"}"#,
    ),
    (".indexignore", "*.md\n"),
];
