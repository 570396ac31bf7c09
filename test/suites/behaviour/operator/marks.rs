//! Objects of a bundle that say about themselves what only we say about objects.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use olm_api::names::{
    EXTENSIONS_PREFIX, MANAGED_BY, MANAGED_BY_LABEL, OWNER_UID_ANNOTATION, REVISION_ANNOTATION,
    REVISION_OF_ANNOTATION,
};
use olm_test::prelude::*;

const MARKED: &str = "marked";

/// A ConfigMap that claims to be kept, of a high revision, of somebody else's and held.
fn marked(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"data": "1.0.0"},
        "metadata": {
            "name": MARKED, "uid": uid, "resourceVersion": "1", "generation": 9,
            "finalizers": ["example.com/held"],
            "deletionTimestamp": "2020-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
                                 "name": "victim", "uid": uid, "controller": true}],
            "labels": {OWNER_KIND_LABEL: "Namespace", OWNER_NAME_LABEL: "victim", MANAGED_BY_LABEL: "victim"},
            "annotations": {
                OWNER_UID_ANNOTATION: uid, REVISION_ANNOTATION: "999", REVISION_OF_ANNOTATION: uid,
                SERVICE_ACCOUNT_NAME_ANNOTATION: "default", SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: "kube-system",
                format!("{EXTENSIONS_PREFIX}deletion-policy"): "Orphan",
            },
        },
    })
}

/// The object is the revision's, whatever the bundle says.
fn is_ours(map: &ConfigMap, scenario: &Scenario<'_>, set_uid: Option<&str>) -> Result<()> {
    let label = |name: &str| map.labels().get(name).map(String::as_str);
    ensure!(label(OWNER_NAME_LABEL) == Some(&scenario.name), "{:?}", map.labels());
    ensure!(label(OWNER_KIND_LABEL) == Some("ClusterExtension"), "{:?}", map.labels());
    ensure!(label(MANAGED_BY_LABEL) == Some(MANAGED_BY), "{:?}", map.labels());
    ensure!(map.annotations().get(REVISION_ANNOTATION).is_some_and(|number| number == "1"), "{map:?}");
    let owners: Vec<_> = map.owner_references().iter().map(|owner| owner.uid.as_str()).collect();
    ensure!(Some(owners.as_slice()) == set_uid.as_ref().map(std::slice::from_ref), "{owners:?}");
    ensure!(map.finalizers().is_empty() && map.metadata.deletion_timestamp.is_none(), "{map:?}");
    Ok(())
}

/// Has the revision reconciled some times: another object of it comes back.
async fn reconciled(scenario: &Scenario<'_>, package: &str) -> Result<()> {
    let other = format!("{package}-data");
    for _ in 0..3 {
        scenario.maps().remove(&other).await?;
        wait::until("the other object to be back", DEADLINE, async || {
            scenario.maps().get(&other).await.map(drop).map_err(Into::into)
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_on_objects_of_a_bundle_change_nothing() -> Result<()> {
    let scenario = Scenario::shared("marks").await?;
    let package = format!("{}-op", scenario.name);
    let uid = "11111111-2222-3333-4444-555555555555";
    scenario.offer(&[small(&package, "1.0.0").ships(marked(uid))]).await?;
    scenario.allow_everything().await?;
    scenario.install(&package, json!({}), "1.0.0").await?;
    let set = scenario.revisions().await?.pop().context("no revision")?;
    is_ours(&scenario.maps().get(MARKED).await?, &scenario, set.uid().as_deref())?;

    // Changed by hand, they are put right once, and that is all.
    let by_hand = json!({"metadata": {
        "annotations": {OWNER_UID_ANNOTATION: "another", REVISION_ANNOTATION: "5"},
        "labels": {OWNER_NAME_LABEL: "victim", MANAGED_BY_LABEL: null},
    }});
    scenario.maps().merge(MARKED, &by_hand).await?;
    let right = wait::until("the marks to be put right", DEADLINE, async || {
        let map = scenario.maps().get(MARKED).await?;
        is_ours(&map, &scenario, set.uid().as_deref())?;
        Ok(map)
    })
    .await?;
    reconciled(&scenario, &package).await?;
    let after = scenario.maps().get(MARKED).await?;
    ensure!(after.resource_version() == right.resource_version(), "written again and again: {after:?}");

    // It goes with its extension, and nothing keeps it.
    scenario.delete_extension().await?;
    scenario.maps().gone(MARKED).await?;
    scenario.nothing_left().await
}

// Kubernetes fills in the rules of a ClusterRole that is made of others, and overwrites what is written there.
#[tokio::test(flavor = "multi_thread")]
async fn rules_that_kubernetes_aggregates_are_not_repaired() -> Result<()> {
    let scenario = Scenario::shared("aggregated").await?;
    let package = format!("{}-op", scenario.name);
    let [sum, part] = ["sum", "part"].map(|name| format!("{}-{name}", scenario.name));
    let role = |name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": []});
    let mut whole = role(&sum);
    whole["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"part-of": sum}}]});
    let mut portion = role(&part);
    portion["metadata"]["labels"] = json!({"part-of": sum});
    portion["rules"] = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    scenario.offer(&[small(&package, "1.0.0").ships(whole).ships(portion)]).await?;
    scenario.allow_everything().await?;
    scenario.install(&package, json!({}), "1.0.0").await?;
    let roles: Api<ClusterRole> = Api::all(scenario.client.clone());
    let filled = wait::until("the rules to be filled in", DEADLINE, async || {
        let role = roles.get(&sum).await?;
        wait::check(role.rules.iter().flatten().count() == 1, || format!("{:?}", role.rules))?;
        Ok(role)
    })
    .await?;
    reconciled(&scenario, &package).await?;
    let after = roles.get(&sum).await?;
    ensure!(after.resource_version() == filled.resource_version(), "repaired: {after:?}");
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_binds_cluster_admin_is_refused_before_anything_is_written() -> Result<()> {
    let scenario = Scenario::shared("binds").await?;
    let package = format!("{}-op", scenario.name);
    let name = format!("{}-loot", scenario.name);
    let shipped = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}],
    });
    scenario.offer(&[small(&package, "1.0.0").ships(shipped)]).await?;
    // It may write bindings, but not give what it does not have.
    scenario.account_for(ACCOUNT, &[""], &["configmaps"]).await?;
    scenario.create_extension(&package, json!({})).await?;
    let refused = format!(
        "True/Retrying/error for resolved bundle \"{package}.v1.0.0\" with version \"1.0.0\": creating new Revision: pre-authorization failed: "
    );
    scenario.shows(olm_api::ConditionType::Progressing, &refused).await?;
    let told = scenario.shown().await?.condition(olm_api::ConditionType::Progressing);
    ensure!(told.contains("APIGroups:[*] Resources:[*] Verbs:[*]"), "{told}");
    let owned = scenario.owned().await?;
    ensure!(owned.is_empty(), "written before the check: {owned:?}");
    ensure!(Api::<ClusterRoleBinding>::all(scenario.client.clone()).get_opt(&name).await?.is_none());
    scenario.delete_extension().await
}
