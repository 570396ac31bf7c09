//! A bundle with a webhook of each type.

use std::{fs, path::Path};

use anyhow::Result;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
};
use olm_test::cluster::Cluster;
use serde_json::{Value, json};

use crate::world::Scenario;

/// A port that no container has, so that the pods' own endpoints are none for the webhooks.
const TARGET_PORT: &str = "webhooks";

/// The CRD of the bundle `name`.
pub(crate) fn crd_name(name: &str) -> String {
    format!("widgets.{name}.example.com")
}

/// The Service in front of its webhooks.
pub(crate) fn service_name(name: &str) -> String {
    format!("{name}-service")
}

/// The Secret with their certificate.
pub(crate) fn secret_name(name: &str) -> String {
    format!("{name}-service-cert")
}

/// Writes the bundle. All names contain `name`, because webhook configurations are cluster-scoped.
pub(crate) fn write(folder: &Path, name: &str) -> Result<()> {
    fs::create_dir_all(folder.join("manifests"))?;
    fs::create_dir_all(folder.join("metadata"))?;
    fs::write(folder.join("manifests/csv.json"), csv(name).to_string())?;
    fs::write(folder.join("manifests/crd.json"), crd(name).to_string())?;
    fs::write(
        folder.join("metadata/annotations.yaml"),
        format!("annotations:\n  operators.operatorframework.io.bundle.package.v1: {name}\n"),
    )?;
    Ok(())
}

fn csv(name: &str) -> Value {
    let webhook = |kind: &str, prefix: &str| {
        json!({
            "type": kind, "generateName": format!("{prefix}.{name}.example.com"), "deploymentName": name,
            "containerPort": 443, "targetPort": TARGET_PORT, "webhookPath": format!("/{prefix}"), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "timeoutSeconds": 5,
            "objectSelector": {"matchLabels": {"guarded": name}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        })
    };
    let conversion = json!({
        "type": "ConversionWebhook", "generateName": format!("c.{name}.example.com"), "deploymentName": name,
        "containerPort": 443, "targetPort": TARGET_PORT, "webhookPath": "/c", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "conversionCRDs": [crd_name(name)],
    });
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v1.0.0")},
        "spec": {
            "version": "1.0.0",
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": crd_name(name), "kind": "Widget", "version": "v1"}]},
            "webhookdefinitions": [
                webhook("ValidatingAdmissionWebhook", "v"), webhook("MutatingAdmissionWebhook", "m"), conversion,
            ],
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": name, "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "manager", "image": "registry.k8s.io/pause:3.10"}]},
                },
            }}]}},
        },
    })
}

fn crd(name: &str) -> Value {
    let version = |version: &str, storage: bool| {
        json!({
            "name": version, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": crd_name(name)},
        "spec": {
            "group": format!("{name}.example.com"), "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

fn widgets(scenario: &Scenario<'_>, version: &str) -> Api<DynamicObject> {
    let group = format!("{}.example.com", scenario.name);
    let resource = ApiResource {
        api_version: format!("{group}/{version}"),
        group,
        version: version.to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    };
    Api::namespaced_with(scenario.client.clone(), &scenario.name, &resource)
}

/// A custom resource in the stored version.
pub(crate) async fn create_as_v1(scenario: &Scenario<'_>) -> Result<()> {
    let widget: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{}.example.com/v1", scenario.name), "kind": "Widget",
        "metadata": {"name": "w"}, "spec": {},
    }))?;
    widgets(scenario, "v1").create(&PostParams::default(), &widget).await?;
    Ok(())
}

/// The same as it is stored.
pub(crate) async fn read_as_v1(scenario: &Scenario<'_>) -> Result<Value> {
    Ok(serde_json::to_value(widgets(scenario, "v1").get("w").await?)?)
}

/// The same in the other version, which the webhook has to make.
pub(crate) async fn read_as_v2(scenario: &Scenario<'_>) -> Result<Value> {
    Ok(serde_json::to_value(widgets(scenario, "v2").get("w").await?)?)
}

/// CRDs of somebody else's kinds, whose controllers are not at hand.
pub(crate) async fn serve_kinds(cluster: &Cluster, group: &str, kinds: &[(&str, &str)]) -> Result<()> {
    let crds = kinds.iter().map(|(kind, plural)| {
        Ok(serde_json::from_value(json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": if *kind == "ServiceCA" { "Cluster" } else { "Namespaced" },
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        }))?)
    });
    cluster.apply_crds(crds.collect::<Result<_>>()?).await
}
