//! Objects that look like an extension's and are not.

use kube::{Discovery, core::GroupVersionKind, discovery::Scope};
use olm_test::prelude::*;

/// Creates them.
pub(crate) async fn create(client: &Client, extension: &str) -> Result<()> {
    let (cluster_name, group) =
        (format!("bystander-of-{extension}"), format!("bystanders-of-{extension}.example.com"));
    let mine = json!({
        "olm.operatorframework.io/owner-kind": "ClusterExtension",
        "olm.operatorframework.io/owner-name": extension,
        "app.kubernetes.io/managed-by": "operator-controller",
    });
    let selector = json!({"matchLabels": {"app": "bystander"}});
    let template = json!({
        "metadata": {"labels": {"app": "bystander"}},
        "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]},
    });
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let elsewhere = format!("{extension}-elsewhere");
    let bystanders = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}}),
        // Labelled as ours, in the install namespace, of kinds that the bundle has too.
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bystander", "namespace": extension, "labels": mine}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bystander", "namespace": extension, "labels": mine}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bystander", "namespace": extension, "labels": mine}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": cluster_name, "labels": mine}, "rules": []}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "bystander", "namespace": extension, "labels": mine},
               "spec": {"replicas": 0, "selector": selector, "template": template}}),
        // Named as ours, elsewhere.
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lighthouse-operator-settings", "namespace": elsewhere}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lighthouse-key", "namespace": elsewhere}}),
        // In the namespace of the revisions' Secrets: somebody else's, and that of an extension of another name.
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": cluster_name, "namespace": SYSTEM_NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "Secret", "type": "olm.operatorframework.io/object-data",
               "metadata": {"name": format!("{cluster_name}-data"), "namespace": SYSTEM_NAMESPACE, "labels": {
                   "olm.operatorframework.io/owner-name": format!("{extension}-2"),
                   "olm.operatorframework.io/revision-name": format!("{extension}-2-1")}}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
               "metadata": {"name": format!("bystanders.{group}"), "labels": mine},
               "spec": {"group": group, "scope": "Cluster", "names": {"kind": "Bystander", "plural": "bystanders"},
                        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}),
    ];
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    for bystander in bystanders {
        create_one(client, &discovery, &bystander).await?;
    }
    // What the cluster itself writes to them shall not look like our doing.
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), extension);
    let status = async || Ok(deployments.get("bystander").await?.status.unwrap_or_default());
    eventually("the bystander to be looked at", status, |status| status.observed_generation == Some(1))
        .await?;
    for namespace in [extension, elsewhere.as_str()] {
        furnished(client, namespace).await?;
    }
    Ok(())
}

/// Waits for what the cluster puts into every namespace, which a controller-manager that has just started does late.
async fn furnished(client: &Client, namespace: &str) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    wait::until("the namespace's own objects", DEADLINE, async || {
        accounts.get("default").await?;
        maps.get("kube-root-ca.crt").await.map(drop).map_err(Into::into)
    })
    .await
}

async fn create_one(client: &Client, discovery: &Discovery, object: &Value) -> Result<()> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("/kind"));
    let (resource, capabilities) =
        discovery.resolve_gvk(&kind).ok_or_else(|| anyhow::anyhow!("no kind {kind:?}"))?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Namespaced => Api::namespaced_with(client.clone(), text("/metadata/namespace"), &resource),
        Scope::Cluster => Api::all_with(client.clone(), &resource),
    };
    api.make(object.clone()).await?;
    Ok(())
}
