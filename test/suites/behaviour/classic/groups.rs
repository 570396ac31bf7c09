//! OperatorGroups: their namespaces, and what happens when two provide the same API.

use k8s_openapi::api::{core::v1::Namespace, rbac::v1::ClusterRole};
use olm_test::prelude::*;

use crate::operators::{Operators, define, provides, state};

#[tokio::test(flavor = "multi_thread")]
async fn the_namespaces_of_a_group_are_found_labelled_and_let_go() -> Result<()> {
    let world = Operators::shared().await?;
    let (place, other) = (world.place("selecting").await?, world.place("selected").await?);
    let label = unique_name("team");
    place.group(json!({"selector": {"matchLabels": {label.clone(): "a"}}})).await?;
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Failed/NoTargetNamespaces").await?;
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    let set = async |value: Value| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {label.clone(): value}}}));
        namespaces.patch(&other.namespace, &PatchParams::default(), &patch).await
    };
    set("a".into()).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let group = place.groups.get("g").await?;
    let found = group.status.clone().map(|status| status.namespaces);
    ensure!(found == Some(vec![other.namespace.clone()]), "{found:?}");
    let uid = format!("olm.operatorgroup.uid/{}", group.uid().unwrap_or_default());
    let is_labelled =
        async || -> Result<bool> { Ok(namespaces.get(&other.namespace).await?.labels().contains_key(&uid)) };
    wait::until("the label", DEADLINE, || async { wait::check(is_labelled().await?, || "none".to_owned()) })
        .await?;
    let roles: Api<ClusterRole> = Api::all(place.client.clone());
    let owner = format!("olm.owner.kind=OperatorGroup,olm.owner.namespace={}", place.namespace);
    let of_group = ListParams::default().labels(&owner);
    ensure!(roles.list(&of_group).await?.items.len() == 3, "not admin, edit and view");
    place.groups.delete("g", &DeleteParams::default()).await?;
    place.shows("a.v1", "Failed/NoOperatorGroup").await?;
    wait::until("label and roles to go", DEADLINE, || async {
        let left = roles.list(&of_group).await?.items.len();
        let is_labelled = is_labelled().await?;
        wait::check(left == 0 && !is_labelled, || format!("{left} roles, label: {is_labelled}"))
    })
    .await
}

/// Kubernetes keeps the rules that it gathered for a role that gathers nothing any more, and may write them late.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_provides_nothing_any_more_grants_nothing_any_more() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "curtains", "Curtain")?;
    let place = world.place("emptied").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    place.operator("a.v1", provides("curtains", "Curtain")).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let roles: Api<ClusterRole> = Api::all(place.client.clone());
    let owner = format!("olm.owner.kind=OperatorGroup,olm.owner.namespace={}", place.namespace);
    let of_group = ListParams::default().labels(&owner);
    let grant = async |wanted: [usize; 3]| {
        wait::until(&format!("{wanted:?} rules"), DEADLINE, || async {
            let found = roles.list(&of_group).await?.items;
            let counts: Vec<_> = found.iter().map(|role| role.rules.iter().flatten().count()).collect();
            wait::check(counts == wanted, || format!("{found:?}"))
        })
        .await
    };
    // Who views an API views its definition, too.
    grant([1, 1, 2]).await?;
    let before = roles.list(&of_group).await?.items;
    place.csvs.delete("a.v1", &DeleteParams::default()).await?;
    place.gone("a.v1").await?;
    grant([0, 0, 0]).await?;
    for role in before {
        let late = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": role.name_any()}, "rules": role.rules,
        });
        let params = PatchParams::apply("clusterrole-aggregation-controller").force();
        roles.patch(&role.name_any(), &params, &Patch::Apply(late)).await?;
    }
    grant([0, 0, 0]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn several_groups_stop_an_operator_until_one_is_left() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("several").await?;
    place.group(json!({"serviceAccountName": "nobody"})).await?;
    let second = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "h"}, "spec": {},
    });
    place.groups.create(&PostParams::default(), &serde_json::from_value(second)?).await?;
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Failed/TooManyOperatorGroups").await?;
    let conditions = async || -> Result<Vec<String>> {
        let status = place.groups.get("g").await?.status.unwrap_or_default();
        Ok(status.conditions.iter().map(|one| format!("{} {}", one.type_, one.reason)).collect())
    };
    let account = "OperatorGroupServiceAccount ServiceAccountNotFound".to_owned();
    let both = [account.clone(), "MultipleOperatorGroup MultipleOperatorGroupsFound".to_owned()];
    let found = async || conditions().await;
    eventually("both conditions", found, |found| both.iter().all(|one| found.contains(one))).await?;
    place.groups.delete("h", &DeleteParams::default()).await?;
    eventually("one condition", async || conditions().await, |found| *found == [account.clone()]).await
}

/// The later of two operators of a namespace that own one kind fails for as long as the other one is there.
#[tokio::test(flavor = "multi_thread")]
async fn two_operators_of_a_namespace_do_not_own_one_kind() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "blinds", "Blind")?;
    let place = world.place("owners").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    place.operator("a.v1", provides("blinds", "Blind")).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    place.operator("b.v1", provides("blinds", "Blind")).await?;
    let failed = place.shows("b.v1", "Failed/OwnerConflict").await?;
    let message = failed.status.and_then(|status| status.message).unwrap_or_default();
    ensure!(message == "conflicting CRD owner in namespace", "{message}");
    ensure!(place.deployments.get_opt("b-v1").await?.is_none(), "it runs");
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    place.csvs.delete("a.v1", &DeleteParams::default()).await?;
    place.gone("a.v1").await?;
    place.shows("b.v1", "Succeeded/InstallSucceeded").await?;
    Ok(())
}

/// The outcomes of the rules of intersection on a real API server.
#[tokio::test(flavor = "multi_thread")]
async fn two_groups_do_not_provide_one_api_in_a_namespace() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "shades", "Shade")?;
    let (first, second) = (world.place("first").await?, world.place("second").await?);
    first.group(json!({"targetNamespaces": [first.namespace]})).await?;
    second.group(json!({"targetNamespaces": [first.namespace, second.namespace]})).await?;
    // Its API is added to the group.
    first.operator("a.v1", provides("shades", "Shade")).await?;
    first.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    ensure!(first.provided().await? == "Shade.v1.operators.example.com");
    // Another group must not add it.
    second.operator("b.v1", provides("shades", "Shade")).await?;
    second.shows("b.v1", "Failed/InterOperatorGroupOwnerConflict").await?;
    ensure!(second.deployments.get_opt("b-v1").await?.is_none(), "it runs");
    first.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    // Until the first operator is gone: then its group does not list the API any more.
    first.csvs.delete("a.v1", &DeleteParams::default()).await?;
    first.gone("a.v1").await?;
    second.shows("b.v1", "Succeeded/InstallSucceeded").await?;
    ensure!(
        first.provided().await?.is_empty() && second.provided().await? == "Shade.v1.operators.example.com"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_group_lists_what_its_administrator_wrote() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "blinds", "Blind")?;
    let place = world.place("static").await?;
    place.group(json!({"targetNamespaces": [place.namespace], "staticProvidedAPIs": true})).await?;
    place.operator("a.v1", provides("blinds", "Blind")).await?;
    place.shows("a.v1", "Failed/CannotModifyStaticOperatorGroupProvidedAPIs").await?;
    let annotation = json!({"olm.providedAPIs": "Blind.v1.operators.example.com"});
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotation}}));
    place.groups.patch("g", &PatchParams::default(), &patch).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await.map(drop)
}

/// Two groups that list the same API, and one of them is resized until they share a namespace, and back.
#[tokio::test(flavor = "multi_thread")]
async fn groups_that_come_to_share_a_namespace_stop_one_operator_until_they_do_not() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "awnings", "Awning")?;
    let (first, second) = (world.place("resized").await?, world.place("beside").await?);
    for (place, name) in [(&first, "a.v1"), (&second, "b.v1")] {
        place.group(json!({"targetNamespaces": [place.namespace]})).await?;
        place.operator(name, provides("awnings", "Awning")).await?;
        // The same API in other namespaces is no conflict.
        place.shows(name, "Succeeded/InstallSucceeded").await?;
    }
    let resize = async |targets: Value| {
        let patch = Patch::Merge(json!({"spec": {"targetNamespaces": targets}}));
        second.groups.patch("g", &PatchParams::default(), &patch).await
    };
    resize(json!([first.namespace, second.namespace])).await?;
    // Which of the two is stopped depends on which is looked at first.
    wait::until("one of the two to be stopped", DEADLINE, || async {
        let found = [state(&first.csvs.get("a.v1").await?), state(&second.csvs.get("b.v1").await?)];
        let provided = [first.provided().await?, second.provided().await?];
        let stopped = found.iter().filter(|one| *one == "Failed/InterOperatorGroupOwnerConflict").count();
        let listed = provided.iter().filter(|one| !one.is_empty()).count();
        wait::check(stopped == 1 && listed == 1, || format!("{found:?} {provided:?}"))
    })
    .await?;
    resize(json!([second.namespace])).await?;
    first.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    second.shows("b.v1", "Succeeded/InstallSucceeded").await?;
    ensure!(first.provided().await? == second.provided().await?, "they do not list the same API");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_group_does_not_give_up_what_another_one_lists_too() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "shutters", "Shutter")?;
    let (place, other) = (world.place("listed").await?, world.place("rival").await?);
    let targets = json!([place.namespace]);
    for group in [&place, &other] {
        group.group(json!({"targetNamespaces": targets, "staticProvidedAPIs": true})).await?;
        let annotation = json!({"olm.providedAPIs": "Shutter.v1.operators.example.com"});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotation}}));
        group.groups.patch("g", &PatchParams::default(), &patch).await?;
    }
    place.operator("a.v1", provides("shutters", "Shutter")).await?;
    place.shows("a.v1", "Failed/CannotModifyStaticOperatorGroupProvidedAPIs").await?;
    ensure!(place.deployments.get_opt("a-v1").await?.is_none(), "it runs");
    ensure!(place.provided().await? == "Shutter.v1.operators.example.com", "the annotation was changed");
    other.groups.delete("g", &DeleteParams::default()).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await.map(drop)
}

/// It protects the kinds that it lists in the namespaces that it selects.
#[tokio::test(flavor = "multi_thread")]
async fn a_static_group_keeps_an_api_from_others_without_an_operator_of_its_own() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "canopies", "Canopy")?;
    let (place, keeper) = (world.place("kept").await?, world.place("keeper").await?);
    let label = unique_name("monitored");
    let patch = Patch::Merge(json!({"metadata": {"labels": {label.clone(): "true"}}}));
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    namespaces.patch(&place.namespace, &PatchParams::default(), &patch).await?;
    let kinds = ["Canopy", "CanopyRule", "CanopyMonitor", "CanopyAlert"];
    let listed = kinds.map(|kind| format!("{kind}.v1.operators.example.com")).join(",");
    let group = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "g", "annotations": {"olm.providedAPIs": listed}},
        "spec": {"staticProvidedAPIs": true, "selector": {"matchLabels": {label: "true"}}},
    });
    keeper.groups.create(&PostParams::default(), &serde_json::from_value(group)?).await?;
    wait::until("the namespace to be selected", DEADLINE, || async {
        let status = keeper.groups.get("g").await?.status.unwrap_or_default();
        wait::check(status.namespaces == [place.namespace.clone()], || format!("{status:?}"))
    })
    .await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    place.operator("a.v1", provides("canopies", "Canopy")).await?;
    place.shows("a.v1", "Failed/InterOperatorGroupOwnerConflict").await?;
    ensure!(keeper.provided().await? == listed, "the annotation was changed");
    Ok(())
}

/// What an operator cannot serve, it serves when the group or its own install modes are changed.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_cannot_serve_its_group_waits_for_one_of_the_two_to_change() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("modes").await?;
    place.group(json!({})).await?;
    let mode = |name: &str| json!({"type": name, "supported": true});
    let only = |name: &str| json!({"installModes": [mode(name)]});
    place.operator("a.v1", only("OwnNamespace")).await?;
    place.operator("b.v1", only("OwnNamespace")).await?;
    place.shows("a.v1", "Failed/UnsupportedOperatorGroup").await?;
    place.shows("b.v1", "Failed/UnsupportedOperatorGroup").await?;
    let passed_through_pending = async |name: &str| -> Result<bool> {
        let csv = place.shows(name, "Succeeded/InstallSucceeded").await?;
        let history = csv.status.map(|status| status.conditions).unwrap_or_default();
        let reasons: Vec<_> = history.iter().filter_map(|one| one.reason.clone()).collect();
        Ok(reasons.starts_with(&["UnsupportedOperatorGroup".to_owned(), "RequirementsUnknown".to_owned()]))
    };
    let modes = Patch::Merge(json!({"spec": only("AllNamespaces")}));
    place.csvs.patch("a.v1", &PatchParams::default(), &modes).await?;
    ensure!(passed_through_pending("a.v1").await?, "not through Pending");
    let targets = Patch::Merge(json!({"spec": {"targetNamespaces": [place.namespace]}}));
    place.groups.patch("g", &PatchParams::default(), &targets).await?;
    ensure!(passed_through_pending("b.v1").await?, "not through Pending");
    // And the other way round for the first.
    place.shows("a.v1", "Failed/UnsupportedOperatorGroup").await.map(drop)
}

/// Versions of one operator run beside each other if the definition of their API has the version of each.
#[tokio::test(flavor = "multi_thread")]
async fn operators_share_a_definition_that_another_bundle_brings() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "cups", "Cup")?;
    for (namespace, operator, version, wanted) in [
        ("older", "tea.v1", "v1", "Succeeded/InstallSucceeded"),
        ("newer", "tea.v2", "v1", "Succeeded/InstallSucceeded"),
        ("other", "tea.v3", "v2", "Pending/RequirementsNotMet"),
    ] {
        let place = world.place(namespace).await?;
        place.group(json!({"targetNamespaces": [place.namespace]})).await?;
        let cup = json!({"name": "cups.operators.example.com", "version": version, "kind": "Cup"});
        place.operator(operator, json!({"customresourcedefinitions": {"required": [cup]}})).await?;
        place.shows(operator, wanted).await?;
        ensure!(place.provided().await?.is_empty(), "{operator} provides nothing");
    }
    Ok(())
}
