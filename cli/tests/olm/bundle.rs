//! `olm bundle render` and `olm bundle validate`, as a person runs them.

use std::{fs, process::Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{folder, olm, path};

fn csv(modes: &[&str]) -> Value {
    let modes: Vec<_> = modes.iter().map(|mode| json!({"type": mode, "supported": true})).collect();
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "sample.v1.0.0"},
        "spec": {
            "version": "1.0.0", "installModes": modes, "minKubeVersion": "1.30.0",
            "relatedImages": [{"name": "beside", "image": "example.com/beside:1"}],
            "webhookdefinitions": [{
                "type": "ValidatingAdmissionWebhook", "generateName": "v.example.com", "deploymentName": "sample",
                "containerPort": 443, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            }],
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": [{
                    "serviceAccountName": "sample",
                    "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}],
                }],
                "deployments": [{"name": "sample", "spec": {
                    "selector": {"matchLabels": {"app": "sample"}},
                    "template": {"metadata": {"labels": {"app": "sample"}}, "spec": {
                        "initContainers": [{"name": "i", "volumeMounts": [{"name": "gone", "mountPath": "/x"}]}],
                        "containers": [{"name": "c", "image": "i"}],
                    }},
                }}],
            }},
        },
    })
}

fn bundle(modes: &[&str]) -> TempDir {
    let annotations = "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
                       operators.operatorframework.io.bundle.package.v1: sample\n";
    let monitor = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "m"}});
    folder(&[
        ("manifests/csv.json", &csv(modes).to_string()),
        ("manifests/monitor.json", &monitor.to_string()),
        ("metadata/annotations.yaml", annotations),
    ])
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

#[test]
fn objects_are_rendered_in_every_form_and_from_every_source() {
    let folder = bundle(&["AllNamespaces"]);
    let layout = tempfile::tempdir().expect("a folder");
    let layout = layout.path().join("layout");
    let packed = olm(&["bundle", "pack", path(folder.path()), "--layout", path(&layout)]);
    assert!(packed.status.success(), "{}", stderr(&packed));
    let mut lists = Vec::new();
    for source in [path(folder.path()).to_owned(), format!("oci:{}", path(&layout))] {
        let json = olm(&["bundle", "render", &source, "-n", "ops", "-o", "json"]);
        assert!(json.status.success(), "{}", stderr(&json));
        let list: Value = serde_json::from_str(stdout(&json)).expect("JSON");
        let lines = olm(&["bundle", "render", &source, "-n", "ops", "-o", "jsonl"]);
        let objects: Vec<Value> =
            stdout(&lines).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(list["items"], Value::Array(objects.clone()));
        let yaml = olm(&["bundle", "render", &source, "-n", "ops"]);
        let documents: Vec<Value> =
            olm_yaml::documents(stdout(&yaml)).map(|document| document.expect("YAML")).collect();
        assert_eq!(documents, objects);
        lists.push(list);
    }
    assert_eq!(lists[0], lists[1]);
    let kinds: Vec<_> =
        lists[0]["items"].as_array().expect("items").iter().map(|object| &object["kind"]).collect();
    assert!(kinds.contains(&&json!("Certificate")), "{kinds:?}");
}

#[test]
fn providers_namespaces_and_configurations_are_asked_for_by_flags() {
    let folder = bundle(&["SingleNamespace"]);
    let source = path(folder.path());
    let refused = olm(&["bundle", "render", source, "-n", "ops"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("required field \"watchNamespace\" is missing"),
        "{}",
        stderr(&refused)
    );
    let apps = ["-n", "ops", "--watch-namespace", "apps", "--certificate-provider", "built-in"];
    let built_in = olm(&[&["bundle", "render", source, "-o", "jsonl"], &apps[..]].concat());
    assert!(built_in.status.success(), "{}", stderr(&built_in));
    assert!(!stdout(&built_in).contains("cert-manager"));
    assert!(stdout(&built_in).contains("\"olm.targetNamespaces\":\"apps\""));
    let config = folder.path().join("config.yaml");
    fs::write(&config, "watchNamespace: ops\n").expect("written");
    let refused = olm(&["bundle", "render", source, "-n", "ops", "--config", path(&config)]);
    assert!(stderr(&refused).contains("must be different from \"ops\""), "{}", stderr(&refused));
    let none = olm(&["bundle", "render", source, "-n", "ops", "--certificate-provider", "none"]);
    assert!(stderr(&none).contains("webhookDefinitions are not supported"), "{}", stderr(&none));
    let rights = olm(&[&["bundle", "rbac", source], &apps[..]].concat());
    assert!(stdout(&rights).contains("sample-service-cert"), "{}", stderr(&rights));
    assert!(
        stdout(&rights)
            .contains("# The bundle has webhooks. These permissions assume that the controller issues")
    );
    let rights = olm(&["bundle", "rbac", source, "-n", "ops", "--watch-namespace", "apps"]);
    let printed =
        "on a cluster without\n# it, pass --certificate-provider openshift-service-ca or built-in.\n";
    assert!(stdout(&rights).contains(printed), "{}", stdout(&rights));
}

#[test]
fn valid_bundles_are_told_with_modes_and_hints() {
    let folder = bundle(&["AllNamespaces", "OwnNamespace"]);
    let output = olm(&["bundle", "validate", path(folder.path()), "-o", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer: Value = serde_json::from_str(stdout(&output)).expect("JSON");
    assert_eq!(
        (&answer["valid"], &answer["package"], &answer["version"]),
        (&json!(true), &json!("sample"), &json!("1.0.0"))
    );
    assert_eq!(
        answer["installModes"],
        json!([
            {"name": "AllNamespaces", "config": {}},
            {"name": "OwnNamespace", "config": {"watchNamespace": "operators"}},
        ])
    );
    assert_eq!(answer["images"], json!(["example.com/beside:1", "i"]));
    let hints = answer["hints"].to_string();
    for hint in [
        "needs Kubernetes 1.30.0",
        "has webhooks",
        "ServiceMonitor (monitoring.coreos.com)",
        "mounts the volume \\\"gone\\\"",
        "rules in the whole cluster",
    ] {
        assert!(hints.contains(hint), "{hint}: {hints}");
    }
    let dangers = answer["dangers"].as_array().expect("a list");
    let secrets = dangers.iter().find(|group| group["danger"] == "may read Secrets of every namespace");
    let permissions = secrets.expect("a group")["permissions"].to_string();
    assert!(permissions.contains("secrets") && permissions.contains("get"), "{permissions}");
    let text = olm(&["bundle", "validate", path(folder.path())]);
    assert!(
        stdout(&text).starts_with("sample.v1.0.0 1.0.0 of package sample is valid\n"),
        "{}",
        stdout(&text)
    );
    assert!(
        stdout(&text).contains("install mode OwnNamespace: configuration {\"watchNamespace\":\"operators\"}")
    );
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let folder = bundle(&["AllNamespaces"]);
    fs::write(folder.path().join("manifests/pod.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
        .expect("written");
    fs::write(folder.path().join("metadata/annotations.yaml"), "annotations: {}\n").expect("written");
    let output = olm(&["bundle", "validate", path(folder.path())]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stdout(&output),
        "error: package name is empty\nerror: unsupported resource \"p\" with kind \"Pod\"\n"
    );
    assert!(stderr(&output).contains("the bundle is not valid"), "{}", stderr(&output));
    let absent = olm(&["bundle", "validate", "/nowhere/at all"]);
    assert!(
        stderr(&absent).contains("neither a file or folder here nor an image reference"),
        "{}",
        stderr(&absent)
    );
}
