//! Operator objects: what belongs to an installed package.

use k8s_openapi::api::core::v1::ServiceAccount;
use olm_api_classic::{Operator, Subscription};
use olm_test::prelude::*;

use crate::operators::{Operators, Place};

/// A Subscription that has installed an operator.
async fn subscribe(place: &Place, package: &str, csv: &str) -> Result<Api<Subscription>> {
    let subscriptions: Api<Subscription> = Api::namespaced(place.client.clone(), &place.namespace);
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": "s"},
        "spec": {"name": package, "source": "none", "sourceNamespace": place.namespace},
    });
    subscriptions.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let status = json!({"status": {"installedCSV": csv, "lastUpdated": "2026-01-01T00:00:00Z"}});
    subscriptions.patch_status("s", &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(subscriptions)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_object_lists_what_its_package_has_installed() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("components").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    subscribe(&place, "lamp", "a.v1").await?;
    let operators: Api<Operator> = Api::all(place.client.clone());
    let name = format!("lamp.{}", place.namespace);
    let label = format!("operators.coreos.com/{name}");
    let refs = async || -> Result<Vec<String>> {
        let status = operators.get_opt(&name).await?.and_then(|operator| operator.status);
        let components = status.and_then(|status| status.components).unwrap_or_default();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let refs = components.refs.iter();
        Ok(refs
            .map(|one| {
                let conditions: Vec<_> = one.conditions.iter().map(|one| one.type_.as_str()).collect();
                format!("{} {} {}", text(&one.kind), text(&one.name), conditions.join(","))
            })
            .collect())
    };
    let lists = async |wanted: &[&str]| {
        wait::until(&format!("the components {wanted:?}"), DEADLINE, || async {
            let found = refs().await?;
            let all = wanted.iter().all(|one| found.iter().any(|found| found.starts_with(one)));
            wait::check(all, || format!("{found:?}"))
        })
        .await
    };
    lists(&[
        "ClusterServiceVersion a.v1 Succeeded",
        "Deployment a-v1 ",
        "OperatorCondition a.v1",
        "Subscription s",
    ])
    .await?;
    // Whoever labels an object adds it, and takes it away with the label.
    let accounts: Api<ServiceAccount> = Api::namespaced(place.client.clone(), &place.namespace);
    let set = async |value: Value| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {label.clone(): value}}}));
        accounts.patch("default", &PatchParams::default(), &patch).await
    };
    set("".into()).await?;
    lists(&["ServiceAccount default"]).await?;
    set(Value::Null).await?;
    wait::until("the ServiceAccount to be listed no more", DEADLINE, || async {
        let found = refs().await?;
        wait::check(!found.iter().any(|one| one.starts_with("ServiceAccount")), || format!("{found:?}"))
    })
    .await?;
    operators.delete(&name, &DeleteParams::default()).await?;
    lists(&["ClusterServiceVersion a.v1 Succeeded"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_configuration_of_a_subscription_reaches_the_deployment() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("configured").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let subscriptions = subscribe(&place, "lamp", "a.v1").await?;
    for value in ["one", "two"] {
        let config = json!({"spec": {"config": {"env": [{"name": "WORD", "value": value}]}}});
        subscriptions.patch("s", &PatchParams::default(), &Patch::Merge(config)).await?;
        wait::until(&format!("the variable to be {value}"), DEADLINE, || async {
            let found = json!(place.deployments.get("a-v1").await?);
            let env = &found["spec"]["template"]["spec"]["containers"][0]["env"];
            let set = env.as_array().into_iter().flatten().any(|one| one["value"] == value);
            wait::check(set, || env.to_string())
        })
        .await?;
    }
    place.shows("a.v1", "Succeeded/InstallSucceeded").await.map(drop)
}
