//! What belongs to operators and is lost comes back, and what could not be made at first is made when it can: nobody has to
//! touch the operator.

use k8s_openapi::{
    api::{
        core::v1::{Namespace, Service},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::Resource;
use olm_api_classic::OperatorCondition;
use olm_test::prelude::*;
use serde::de::DeserializeOwned;

use crate::operators::{Operators, Place, create_runner, define, deployment, provides};

/// Creates a ServiceAccount `runner` that may read Pods in the place, and an operator that needs that.
async fn reading(world: &Operators, place: &Place, mut spec: Value) -> Result<()> {
    let rule = json!({"apiGroups": [""], "resources": ["services"], "verbs": ["get"]});
    create_runner(&world.cluster, place, &rule)?;
    spec["install"] = json!({"strategy": "deployment", "spec": {
        "deployments": [deployment("a-v1")], "permissions": [{"serviceAccountName": "runner", "rules": [rule]}],
    }});
    place.operator("a.v1", spec).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await.map(drop)
}

/// Waits until one object has the labels of the operator; answers its name.
async fn only<K>(api: &Api<K>, place: &Place) -> Result<String>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let labels = format!("olm.owner=a.v1,olm.owner.namespace={}", place.namespace);
    wait::until(&format!("a {} of the operator", K::kind(&())), DEADLINE, || async {
        let found = api.list(&ListParams::default().labels(&labels)).await?.items;
        wait::check(found.len() == 1, || format!("{} of them", found.len()))?;
        Ok(found[0].name_any())
    })
    .await
}

/// Deletes an object, and waits until there is another one of its name.
async fn comes_back<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let uid = api.get(name).await?.uid();
    api.delete(name, &DeleteParams::default()).await?;
    wait::until(&format!("{} {name} to come back", K::kind(&())), DEADLINE, || async {
        let found = api.get_opt(name).await?.and_then(|object| object.uid());
        wait::check(found.is_some() && found != uid, || format!("{found:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_come_to_namespaces_that_come_later_and_come_back() -> Result<()> {
    // Namespaces are not deleted while an API of another operator does not answer.
    let world = Operators::alone().await?;
    let place = world.place("late").await?;
    let late = unique_name("later");
    place.group(json!({"targetNamespaces": [place.namespace, late]})).await?;
    reading(&world, &place, json!({})).await?;
    let roles: Api<Role> = Api::namespaced(place.client.clone(), &late);
    let bindings: Api<RoleBinding> = Api::namespaced(place.client.clone(), &late);
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    world.cluster.create_namespace(&late).await?;
    comes_back(&bindings, &only(&bindings, &place).await?).await?;
    comes_back(&roles, &only(&roles, &place).await?).await?;
    namespaces.delete(&late, &DeleteParams::default()).await?;
    namespaces.gone(&late).await?;
    world.cluster.create_namespace(&late).await?;
    only(&roles, &place).await?;
    only(&bindings, &place).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_of_apis_and_permissions_in_all_namespaces_come_back() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "beams", "Beam")?;
    let place = world.place("all").await?;
    place.group(json!({})).await?;
    reading(world, &place, provides("beams", "Beam")).await?;
    let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
        (Api::all(place.client.clone()), Api::all(place.client.clone()));
    comes_back(&bindings, &only(&bindings, &place).await?).await?;
    comes_back(&roles, &only(&roles, &place).await?).await?;
    for role in ["admin", "crdview"] {
        comes_back(&roles, &format!("beams.operators.example.com-v1-{role}")).await?;
    }
    // A ClusterRole that gives a permission counts, too.
    let accounts: Api<RoleBinding> = Api::namespaced(place.client.clone(), &place.namespace);
    let name = unique_name("reader");
    let reads = |verb: &str| json!([{"apiGroups": [""], "resources": ["services"], "verbs": [verb]}]);
    let role = json!({"metadata": {"name": name}, "rules": reads("get")});
    roles.create(&PostParams::default(), &serde_json::from_value(role)?).await?;
    accounts.delete("runner", &DeleteParams::default()).await?;
    place.shows("a.v1", "Pending/RequirementsNotMet").await?;
    let binding = json!({
        "metadata": {"name": "other"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "runner", "namespace": place.namespace}],
    });
    accounts.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let weak = Patch::Merge(json!({"rules": reads("list")}));
    roles.patch(&name, &PatchParams::default(), &weak).await?;
    place.shows("a.v1", "Pending/RequirementsNotMet").await?;
    roles.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_webhook_needs_comes_back() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("needed").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    place
        .operator("a.v1", json!({"webhookdefinitions": [crate::registered::webhook("one", "CREATE")]}))
        .await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let client = || place.client.clone();
    comes_back(&Api::<Service>::namespaced(client(), &place.namespace), "a-v1-service").await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    comes_back(&Api::<Role>::namespaced(client(), &place.namespace), "a-v1-service-cert").await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    comes_back(&Api::<RoleBinding>::namespaced(client(), &place.namespace), "a-v1-service-cert").await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let secrets: Api<Secret> = Api::namespaced(client(), &place.namespace);
    comes_back(&secrets, "a-v1-service-cert").await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_condition_that_was_there_is_taken_over_unless_something_keeps_it() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("condition").await?;
    place.group(json!({})).await?;
    let conditions: Api<OperatorCondition> = Api::namespaced(place.client.clone(), &place.namespace);
    let create = async |name: &str, owners: Value| {
        let one = json!({"type": "Upgradeable", "status": "True", "reason": "R", "message": "m"});
        let object = json!({
            "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
            "metadata": {"name": name, "ownerReferences": owners}, "spec": {"overrides": [one]},
        });
        conditions
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await
            .map_err(anyhow::Error::from)
    };
    create("a.v1", json!([])).await?;
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "keeper"}}))?;
    let maps: Api<ConfigMap> = Api::namespaced(place.client.clone(), &place.namespace);
    let keeper = maps.create(&PostParams::default(), &map).await?.uid();
    let kept = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper", "uid": keeper, "controller": true}]);
    create("b.v1", kept.clone()).await?;
    for name in ["a.v1", "b.v1"] {
        place.operator(name, json!({})).await?;
        place.shows(name, "Succeeded/InstallSucceeded").await?;
    }
    let taken = conditions.get("a.v1").await?;
    ensure!(taken.spec.deployments == ["a-v1"] && taken.spec.overrides.len() == 1, "{:?}", taken.spec);
    ensure!(taken.owner_references()[0].name == "a.v1", "{:?}", taken.metadata);
    Api::<Role>::namespaced(place.client.clone(), &place.namespace).get("a.v1").await?;
    let other = conditions.get("b.v1").await?;
    ensure!(other.owner_references()[0].name == "keeper" && other.spec.deployments.is_empty(), "{other:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_service_without_its_operator_is_removed() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("orphan").await?;
    place.group(json!({})).await?;
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let services: Api<APIService> = Api::all(place.client.clone());
    let create = async |group: &str, labels: Value| {
        let group = format!("{group}.{}.example.com", place.namespace);
        let object = json!({
            "metadata": {"name": format!("v1.{group}"), "labels": labels},
            "spec": {
                "group": group, "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 15,
                "service": {"name": "none", "namespace": place.namespace}, "insecureSkipTLSVerify": true,
            },
        });
        let made = services.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        anyhow::Ok(made.name_any())
    };
    let labels = |owner: &str| json!({"olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": place.namespace, "olm.owner": owner});
    let orphan = create("orphan", labels("gone.v1")).await?;
    let others = [create("owned", labels("b.v1")).await?, create("plain", json!({})).await?];
    place.operator("b.v1", json!({})).await?;
    place.shows("b.v1", "Succeeded/InstallSucceeded").await?;
    place.csvs.delete("a.v1", &DeleteParams::default()).await?;
    services.gone(&orphan).await?;
    for name in others {
        services.delete(&name, &DeleteParams::default()).await.context("it was removed")?;
    }
    Ok(())
}
