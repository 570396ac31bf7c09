//! Tests of [`compare`] as a whole.

mod definitions;
mod properties;
mod rules;
mod table;

use serde_json::{Value, json};

use crate::{Policy, Report, compare};

fn definition(versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions},
    })
}

fn version(name: &str, schema: &Value) -> Value {
    json!({"name": name, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}})
}

/// A definition with one version, whose property `f` has the given schema.
fn with_property(schema: &Value) -> Value {
    definition(&json!([version("v1", &json!({"type": "object", "properties": {"f": schema}}))]))
}

fn report(old: &Value, new: &Value, policy: Policy) -> Report {
    compare(old, new, policy).unwrap()
}

fn lines(report: &Report) -> Vec<String> {
    report.refused().map(ToString::to_string).collect()
}
