//! A small operator in versions that differ where plans look.

use std::{fs, path::Path};

use anyhow::Result;
use serde_json::{Value, json};

pub(super) const PACKAGE: &str = "plans";
/// What the Secrets of the versions hold; nobody may print it.
pub(super) const PASSWORDS: [&str; 2] = ["correct-horse-1", "battery-staple-2"];

/// What a version is like.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) number: &'static str,
    pub(super) image: &'static str,
    pub(super) password: &'static str,
    /// Name of its ConfigMap.
    pub(super) map: &'static str,
    /// Properties of the spec of its custom resources.
    pub(super) properties: &'static [&'static str],
    /// Resources that the operator reads.
    pub(super) reads: &'static [&'static str],
    /// The spec of its PodDisruptionBudget, if it has one.
    pub(super) budget: Option<Value>,
}

impl Version {
    pub(super) const FIRST: Self = Self {
        number: "1.0.0",
        image: "example.com/c:v1",
        password: PASSWORDS[0],
        map: "plans-old",
        properties: &["size"],
        reads: &["configmaps"],
        budget: None,
    };
    pub(super) const SECOND: Self = Self {
        number: "1.1.0",
        image: "example.com/c:v2",
        password: PASSWORDS[1],
        map: "plans-new",
        properties: &["colour", "size"],
        reads: &["configmaps", "secrets"],
        budget: None,
    };
}

/// Writes the bundle of a version below `folder`.
pub(super) fn write(folder: &Path, version: &Version, group: &str) -> Result<()> {
    let bundle = folder.join(version.number);
    for name in ["manifests", "metadata"] {
        fs::create_dir_all(bundle.join(name))?;
    }
    let manifest =
        |name: &str, value: Value| fs::write(bundle.join("manifests").join(name), value.to_string());
    manifest("csv.yaml", csv(version, group))?;
    manifest("crd.yaml", crd(version, group))?;
    manifest(
        "secret.yaml",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plans-login"},
            "stringData": {"password": version.password}}),
    )?;
    manifest(
        "map.yaml",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": version.map}, "data": {"a": "b"}}),
    )?;
    if let Some(budget) = &version.budget {
        manifest(
            "budget.yaml",
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "plans"}, "spec": budget}),
        )?;
    }
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.package.v1": PACKAGE,
    }});
    fs::write(bundle.join("metadata/annotations.yaml"), annotations.to_string())?;
    Ok(())
}

fn csv(version: &Version, group: &str) -> Value {
    let deployment = json!({"name": "plans", "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "plans"}},
        "template": {
            "metadata": {"labels": {"app": "plans"}},
            "spec": {"serviceAccountName": "plans", "containers": [{
                "name": "c", "image": version.image, "resources": {"requests": {"cpu": "0.010", "memory": "16384Ki"}},
            }]},
        },
    }});
    // The group is the test's own, and so are the names of roles, which are made from the rules.
    let rules = json!([
        {"apiGroups": [""], "resources": version.reads, "verbs": ["get", "list"]},
        {"apiGroups": [group], "resources": ["widgets"], "verbs": ["get", "list"]},
    ]);
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{PACKAGE}.v{}", version.number)},
        "spec": {
            "version": version.number,
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": format!("widgets.{group}"), "kind": "Widget", "version": "v1"}]},
            "install": {"strategy": "deployment", "spec": {
                "deployments": [deployment],
                "clusterPermissions": [{"serviceAccountName": "plans", "rules": rules}],
            }},
        },
    })
}

fn crd(version: &Version, group: &str) -> Value {
    let properties: Value =
        version.properties.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    let spec = json!({"type": "object", "properties": properties});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}
