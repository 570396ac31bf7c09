//! The default account of revisions that somebody makes by hand, and what becomes of accounts while nobody guards them.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingAdmissionPolicyBinding,
    core::v1::ConfigMap,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use olm_api::{
    ConditionType::{Progressing, Ready, Succeeded},
    names::{REVISION_OF_ANNOTATION, SERVICE_ACCOUNT_NAME_ANNOTATION, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION},
    v1::ClusterObjectSet,
};
use olm_test::{operator::SYSTEM_NAMESPACE, rights, wait};
use serde_json::{Value, json};

use super::{SUCCESSOR, TENANT, create, object_set, objection, wants};
use crate::{
    small::{prepare, small},
    world::{ACCOUNT, DEADLINE, Scenario, World},
};

fn sets(client: &Client) -> Api<ClusterObjectSet> {
    Api::all(client.clone())
}

async fn set_default(scenario: &Scenario<'_>, account: &str) -> Result<()> {
    let settings: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let patch = json!({"data": {"default-service-account": format!("{}/{account}", scenario.name)}});
    settings.patch("olmv1-settings", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// An account that may write ConfigMaps.
async fn account(scenario: &Scenario<'_>, name: &str) -> Result<()> {
    rights::create_account(&scenario.client, &scenario.name, name).await?;
    let mut rules = rights::rules_for(&[], &scenario.name)?;
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    rules.allow_in_namespace(&[""], &["configmaps"], &verbs);
    rights::grant(&scenario.client, &scenario.name, name, &rules).await
}

async fn accounts_of(scenario: &Scenario<'_>, set: &str) -> Result<[Option<String>; 2]> {
    let set = sets(&scenario.client).get(set).await?;
    let names = [SERVICE_ACCOUNT_NAMESPACE_ANNOTATION, SERVICE_ACCOUNT_NAME_ANNOTATION];
    Ok(names.map(|name| set.annotations().get(name).cloned()))
}

fn named(scenario: &Scenario<'_>, suffix: &str) -> Value {
    let mut set = object_set(scenario, &json!({}), &json!({}));
    set["metadata"]["name"] = format!("{}-{suffix}", scenario.name).into();
    set["spec"]["phases"][0]["objects"][0]["object"]["metadata"]["name"] = suffix.into();
    set
}

/// A user with every verb on object sets, who may use the first of the accounts.
async fn tenant(scenario: &Scenario<'_>) -> Result<Client> {
    let name = format!("{}-tenant", scenario.name);
    let rules = json!([
        {"apiGroups": ["olm.operatorframework.io"], "verbs": ["*"], "resources": ["clusterobjectsets"]},
        {"apiGroups": [""], "verbs": ["impersonate"], "resources": ["serviceaccounts"], "resourceNames": [ACCOUNT]},
    ]);
    create::<ClusterRole>(&scenario.client, None, &json!({"metadata": {"name": name}, "rules": rules}))
        .await?;
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TENANT}],
    });
    create::<ClusterRoleBinding>(&scenario.client, None, &binding).await?;
    scenario.world.cluster.client_for(TENANT, &["system:authenticated"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_made_by_hand_uses_the_default_account_of_its_time() -> Result<()> {
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "byhand").await?;
    for name in [ACCOUNT, SUCCESSOR] {
        account(&scenario, name).await?;
    }
    let tenant = tenant(&scenario).await?;

    // Without a default, who may use every account may leave one out, and is told what is missing.
    wait::until("the account to be missing", DEADLINE, async || {
        let told = objection::<ClusterObjectSet>(&tenant, &named(&scenario, "first")).await?;
        wants(told.as_deref(), "name the service account of this ClusterObjectSet in")
    })
    .await?;
    let first = format!("{}-first", scenario.name);
    let object = serde_json::from_value(named(&scenario, "first"))?;
    sets(&scenario.client).create(&PostParams::default(), &object).await?;
    wait::until("the annotations to be named", DEADLINE, async || {
        let status = sets(&scenario.client).get(&first).await?.status.unwrap_or_default();
        let told = status.conditions.find(Progressing).map(|c| format!("{}/{}", c.reason, c.message));
        let wanted = format!(
            "Blocked/revision {first:?} is missing required annotations: set {SERVICE_ACCOUNT_NAME_ANNOTATION} and {SERVICE_ACCOUNT_NAMESPACE_ANNOTATION} "
        );
        ensure!(told.as_ref().is_some_and(|told| told.starts_with(&wanted)), "{told:?}");
        Ok(())
    })
    .await?;

    // With one it is used, by who may use it.
    set_default(&scenario, SUCCESSOR).await?;
    is_carried_out(&scenario, &first, SUCCESSOR).await?;
    wait::until("the default account to be guarded", DEADLINE, async || {
        let told = objection::<ClusterObjectSet>(&tenant, &named(&scenario, "second")).await?;
        wants(told.as_deref(), "(not set; the default account applies): tenant may not act as")
    })
    .await?;
    set_default(&scenario, ACCOUNT).await?;
    let second = format!("{}-second", scenario.name);
    wait::until("who may use the default account to leave it out", DEADLINE, async || {
        let object = serde_json::from_value(named(&scenario, "second"))?;
        sets(&tenant).create(&PostParams::default(), &object).await.map(drop).map_err(Into::into)
    })
    .await?;
    is_carried_out(&scenario, &second, ACCOUNT).await?;
    // The other one stays with the default of its time.
    let wanted = [Some(scenario.name.clone()), Some(SUCCESSOR.to_owned())];
    let found = accounts_of(&scenario, &first).await?;
    ensure!(found == wanted, "{found:?}");
    for name in [first, second] {
        sets(&scenario.client).delete(&name, &DeleteParams::default()).await?;
    }
    Ok(())
}

async fn is_carried_out(scenario: &Scenario<'_>, set: &str, account: &str) -> Result<()> {
    wait::until("the set to be carried out", DEADLINE, async || {
        let status = sets(&scenario.client).get(set).await?.status.unwrap_or_default();
        wait::check(status.conditions.is_true(Succeeded), || format!("{status:?}"))
    })
    .await?;
    let wanted = [Some(scenario.name.clone()), Some(account.to_owned())];
    let found = accounts_of(scenario, set).await?;
    ensure!(found == wanted, "{found:?}");
    Ok(())
}

/// Another account and the same content: while a policy is missing, that is a new revision.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_policies_no_revision_gets_another_account() -> Result<()> {
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "unguarded").await?;
    let bundle = small("unguarded", "1.0.0");
    prepare(&scenario, std::slice::from_ref(&bundle), &[]).await?;
    scenario.create_extension("unguarded", json!({})).await?;
    scenario.installed("1.0.0").await?;
    account(&scenario, SUCCESSOR).await?;

    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(scenario.client.clone());
    let binding = "clusterobjectset-account.olm.operatorframework.io";
    bindings.delete(binding, &DeleteParams::default()).await?;
    scenario
        .shows(Ready, &format!("False/Unguarded/ValidatingAdmissionPolicyBinding {binding:?} is absent"))
        .await?;
    set_default(&scenario, SUCCESSOR).await?;
    wait::until("the account to be given up", DEADLINE, async || {
        scenario.patch_extension(json!({"spec": {"serviceAccount": null}})).await
    })
    .await?;
    let second = format!("{}-2", scenario.name);
    wait::until("a new revision to act as the other account", DEADLINE, async || {
        let set = sets(&scenario.client).get(&second).await?;
        let account = set.annotations().get(SERVICE_ACCOUNT_NAME_ANNOTATION);
        ensure!(account.map(String::as_str) == Some(SUCCESSOR), "{account:?}");
        let status = set.status.unwrap_or_default();
        wait::check(status.conditions.is_true(Succeeded), || format!("{status:?}"))
    })
    .await?;
    let first = sets(&scenario.client).get(&format!("{}-1", scenario.name)).await?;
    let account = first.annotations().get(SERVICE_ACCOUNT_NAME_ANNOTATION);
    ensure!(account.map(String::as_str) == Some(ACCOUNT), "the revision before acts as {account:?}");
    ensure!(first.annotations().contains_key(REVISION_OF_ANNOTATION), "{:?}", first.annotations());
    scenario.extensions().get(&scenario.name).await.map(drop).context("the extension is gone")
}
