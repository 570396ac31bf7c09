//! A bundle with a webhook of each type.

use olm_test::{
    bundle::{IMAGE, crd_with_versions, deployment, webhook},
    prelude::*,
};

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

/// The bundle. All names contain `name`, because webhook configurations are cluster-scoped.
pub(crate) fn with_webhooks(name: &str) -> Bundle {
    let admission = |kind: &str, prefix: &str| {
        let more = json!({
            "targetPort": TARGET_PORT, "webhookPath": format!("/{prefix}"), "timeoutSeconds": 5,
            "objectSelector": {"matchLabels": {"guarded": name}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        });
        webhook(kind, &format!("{prefix}.{name}.example.com"), name, more)
    };
    let more = json!({"targetPort": TARGET_PORT, "webhookPath": "/c", "conversionCRDs": [crd_name(name)]});
    let conversion = webhook("ConversionWebhook", &format!("c.{name}.example.com"), name, more);
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions = [("v1", schema.clone()), ("v2", schema)];
    Bundle::new(name, "1.0.0")
        .contains(crd_with_versions(&format!("{name}.example.com"), "Widget", &versions))
        .webhook(admission("ValidatingAdmissionWebhook", "v"))
        .webhook(admission("MutatingAdmissionWebhook", "m"))
        .webhook(conversion)
        .workload(deployment(name, IMAGE))
}

fn widgets(scenario: &Scenario<'_>, version: &str) -> Api<DynamicObject> {
    let resource = resource(&format!("{}.example.com/{version}", scenario.name), "Widget", "widgets");
    Api::namespaced_with(scenario.client.clone(), &scenario.name, &resource)
}

/// A custom resource in the stored version.
pub(crate) async fn create_as_v1(scenario: &Scenario<'_>) -> Result<()> {
    let widget: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{}.example.com/v1", scenario.name), "kind": "Widget",
        "metadata": {"name": "w"}, "spec": {},
    }))?;
    widgets(scenario, "v1").make(&widget).await?;
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
