//! Objects as documentation shows them: the API server takes them with every field.

use kube::{
    api::TypeMeta,
    core::{GroupVersionKind, ObjectMeta},
};
use olm_test::prelude::*;

use crate::operators::Operators;

const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";
const V1: &str = "operators.coreos.com/v1";

/// Creates an object, and answers what of `spec` the API server kept.
async fn kept(client: &Client, namespace: &str, object: &Value) -> Result<Value> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').context("no group")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let made = DynamicObject {
        types: Some(TypeMeta { api_version, kind }),
        metadata: ObjectMeta {
            name: object["metadata"]["name"].as_str().map(str::to_owned),
            annotations: serde_json::from_value(object["metadata"]["annotations"].clone())?,
            ..ObjectMeta::default()
        },
        data: json!({"spec": object["spec"]}),
    };
    let made = api.create(&PostParams::default(), &made).await?;
    Ok(made.data["spec"].clone())
}

fn named(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_of_the_documentation_are_kept_with_every_field() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("examples").await?;
    let toleration = json!({"key": "node-role.kubernetes.io/master", "operator": "Equal", "value": "default", "effect": "NoSchedule"});
    let source = json!({
        "displayName": "Example Catalog", "image": "quay.io/example-org/example-catalog:v1", "priority": -400,
        "publisher": "Example Org", "sourceType": "grpc",
        "grpcPodConfig": {
            "securityContextConfig": "restricted", "nodeSelector": {"custom_label": "label"},
            "priorityClassName": "system-cluster-critical", "tolerations": [toleration],
        },
        "updateStrategy": {"registryPoll": {"interval": "30m0s"}},
    });
    let preferred = json!({
        "sourceType": "grpc", "image": "quay.io/example-org/example-catalog:v1", "displayName": "My Operators", "priority": 100,
    });
    let subscription = json!({
        "channel": "stable", "name": "example-operator", "source": "example-catalog",
        "sourceNamespace": "openshift-marketplace",
    });
    let condition = json!({"conditions": [{
        "type": "Upgradeable", "status": "False", "reason": "migration", "message": "The Operator is performing a migration.",
        "lastTransitionTime": "2020-08-24T23:15:55Z",
    }]});
    let examples = [
        named(V1ALPHA1, "CatalogSource", "example-catalog", &source),
        named(V1ALPHA1, "CatalogSource", "my-operators", &preferred),
        named(V1ALPHA1, "Subscription", "example-operator", &subscription),
        named("operators.coreos.com/v2", "OperatorCondition", "my-operator", &condition),
    ];
    for object in &examples {
        let kept = kept(&place.client, &place.namespace, object).await?;
        let name = &object["metadata"]["name"];
        for (field, value) in object["spec"].as_object().into_iter().flatten() {
            ensure!(kept[field] == *value, "{name}: {field} is {}", kept[field]);
        }
    }
    Ok(())
}

/// The object of an old field is dropped, the rest is understood: an empty selector selects nothing by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_fields_of_an_older_release_is_tolerated() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("older").await?;
    let spec = json!({
        "selector": {}, "serviceAccount": {"metadata": {"creationTimestamp": null}},
        "targetNamespaces": [place.namespace],
    });
    let mut group = named(V1, "OperatorGroup", "g", &spec);
    let listed = "PackageManifest.v1alpha1.packages.apps.example.com";
    group["metadata"]["annotations"] = json!({"olm.providedAPIs": listed});
    let kept = kept(&place.client, &place.namespace, &group).await?;
    ensure!(
        kept["targetNamespaces"] == json!([place.namespace]) && kept["serviceAccount"].is_null(),
        "{kept}"
    );
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let status = place.groups.get("g").await?.status.unwrap_or_default();
    ensure!(status.namespaces == [place.namespace.clone()] && status.last_updated.is_some(), "{status:?}");
    // No operator provides what the annotation lists.
    eventually("the API to be pruned", async || place.provided().await, String::is_empty).await
}
