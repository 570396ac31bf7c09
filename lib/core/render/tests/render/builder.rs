//! A bundle that renders, and ways to change it.

use olm_bundle::{BundleFiles, MEMORY_BYTES_MAX, ReadError};
use olm_render::{Options, RenderError, Rendered, render};
use serde_json::{Value, json};

pub(crate) const ANNOTATIONS: &str =
    "annotations:\n  operators.operatorframework.io.bundle.package.v1: sample\n";

/// A bundle of one Deployment `manager`, one owned CRD and one ServiceAccount with permissions.
#[derive(Clone)]
pub(crate) struct Bundle {
    pub(crate) csv: Value,
    pub(crate) files: BundleFiles,
}

pub(crate) fn bundle() -> Bundle {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "sample.v1.0.0", "annotations": {"capabilities": "Basic"}},
        "spec": {
            "displayName": "Sample",
            "version": "1.0.0",
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": "samples.x.io", "version": "v1", "kind": "Sample"}]},
            "install": {"strategy": "deployment", "spec": {
                "permissions": [{
                    "serviceAccountName": "sample",
                    "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
                }],
                "deployments": [{"name": "manager", "spec": {
                    "selector": {"matchLabels": {"app": "sample"}},
                    "template": {
                        "metadata": {"labels": {"app": "sample"}},
                        "spec": {
                            "serviceAccountName": "sample",
                            "containers": [{"name": "manager", "image": "x.io/sample:1"}],
                        },
                    },
                }}],
            }},
        },
    });
    let mut files = BundleFiles::new();
    files.insert("metadata/annotations.yaml", ANNOTATIONS);
    files.insert("manifests/crd.yaml", crd("samples.x.io").to_string());
    Bundle { csv, files }
}

pub(crate) fn crd(name: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"plural": "samples", "kind": "Sample"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

pub(crate) fn object(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
}

impl Bundle {
    /// With the value at a JSON pointer of the CSV, whose parent exists.
    pub(crate) fn set(mut self, pointer: &str, value: Value) -> Self {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        match self.csv.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[field.parse::<usize>().unwrap()] = value,
            parent => parent[field] = value,
        }
        self
    }

    pub(crate) fn modes(self, modes: &[&str]) -> Self {
        let modes = modes.iter().map(|mode| json!({"type": mode, "supported": true})).collect();
        self.set("/spec/installModes", Value::Array(modes))
    }

    pub(crate) fn webhooks(self, webhooks: Value) -> Self {
        self.set("/spec/webhookdefinitions", webhooks)
    }

    pub(crate) fn container(self, field: &str, value: Value) -> Self {
        self.set(&format!("/spec/install/spec/deployments/0/spec/template/spec/containers/0/{field}"), value)
    }

    pub(crate) fn pod(self, field: &str, value: Value) -> Self {
        self.set(&format!("/spec/install/spec/deployments/0/spec/template/spec/{field}"), value)
    }

    pub(crate) fn file(mut self, path: &str, content: impl std::fmt::Display) -> Self {
        self.files.insert(path, content.to_string());
        self
    }

    pub(crate) fn files(&self) -> BundleFiles {
        let mut files = self.files.clone();
        files.insert("manifests/csv.yaml", olm_yaml::to_yaml(&self.csv));
        files
    }

    pub(crate) fn read(&self, memory: usize) -> Result<olm_bundle::Bundle, ReadError> {
        olm_bundle::Bundle::read(&self.files(), memory)
    }

    pub(crate) fn render(&self) -> Result<Rendered, RenderError> {
        self.render_with(&Options::new("ns"))
    }

    pub(crate) fn render_with(&self, options: &Options) -> Result<Rendered, RenderError> {
        render(self.read(MEMORY_BYTES_MAX)?, options)
    }

    /// Rendered in the namespace `ns` with a configuration.
    pub(crate) fn configured(&self, config: Value) -> Result<Rendered, RenderError> {
        self.render_with(&Options { config: Some(config), ..Options::new("ns") })
    }

    /// The error's text when it can't be rendered.
    pub(crate) fn refusal(&self) -> String {
        self.render().unwrap_err().to_string()
    }
}

/// A webhook definition for the Deployment `manager`.
pub(crate) fn webhook(kind: &str, name: &str) -> Value {
    json!({
        "type": kind, "generateName": name, "deploymentName": "manager", "containerPort": 443, "targetPort": 9443,
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "webhookPath": "/hook",
    })
}

/// The one object of a kind and name.
pub(crate) fn find<'a>(rendered: &'a Rendered, kind: &str, name: &str) -> &'a Value {
    let mut found =
        rendered.objects.iter().filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    let object = found.next().unwrap_or_else(|| panic!("no {kind} {name} in {:#?}", rendered.objects));
    assert_eq!(found.next(), None, "{kind} {name} occurs twice");
    object
}
