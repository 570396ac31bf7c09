//! The default account of revisions that somebody makes by hand, and what becomes of accounts while nobody guards them.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use olm_api::names::REVISION_OF_ANNOTATION;
use olm_test::prelude::*;

use super::{SUCCESSOR, TENANT, not_the_default, object_set, objection, set_default, wants};

fn sets(client: &Client) -> Api<ClusterObjectSet> {
    Api::all(client.clone())
}

/// Longer than API servers may admit by the default before, in the whole seconds that objects' times have.
const SETTLED: Duration = Duration::from_secs(3);

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
    let rules = json!([
        {"apiGroups": ["olm.operatorframework.io"], "verbs": ["*"], "resources": ["clusterobjectsets"]},
        {"apiGroups": [""], "verbs": ["impersonate"], "resources": ["serviceaccounts"], "resourceNames": [ACCOUNT]},
    ]);
    Ok(scenario.user(TENANT, rules).await?.1)
}

/// A world of its own with both accounts and the tenant.
async fn with_accounts<'w>(world: &'w World, name: &str) -> Result<(Scenario<'w>, Client)> {
    let scenario = Scenario::new(world, name).await?;
    for name in [ACCOUNT, SUCCESSOR] {
        scenario.account_for(name, &[""], &["configmaps"]).await?;
    }
    let tenant = tenant(&scenario).await?;
    Ok((scenario, tenant))
}

/// Creates a set as soon as the API server lets the tenant do so.
async fn created(scenario: &Scenario<'_>, tenant: &Client, suffix: &str) -> Result<String> {
    let set: ClusterObjectSet = serde_json::from_value(named(scenario, suffix))?;
    wait::until("who may use the default account to leave it out", DEADLINE, async || {
        sets(tenant).create(&PostParams::default(), &set).await.map(drop).map_err(Into::into)
    })
    .await?;
    Ok(set.name_any())
}

/// Waits until the set is Blocked for want of annotations, with this explanation.
async fn lacks_an_account(scenario: &Scenario<'_>, set: &str, why: &str) -> Result<()> {
    let wanted = format!("Blocked/revision {set:?} is missing required annotations{why}");
    wait::until(&format!("{set} to be Blocked"), DEADLINE, async || {
        let status = sets(&scenario.client).get(set).await?.status.unwrap_or_default();
        let told = status.conditions.find(Progressing).map(|c| format!("{}/{}", c.reason, c.message));
        ensure!(told.as_ref().is_some_and(|told| told.starts_with(&wanted)), "{told:?}");
        Ok(())
    })
    .await?;
    ensure!(accounts_of(scenario, set).await? == [None, None], "it was given an account");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_made_by_hand_uses_the_default_account_of_its_time() -> Result<()> {
    let world = World::start().await?;
    let (scenario, tenant) = with_accounts(&world, "byhand").await?;

    // Without a default, who may use every account may leave one out, and is told what is missing.
    wait::until("the account to be missing", DEADLINE, async || {
        let told = objection::<ClusterObjectSet>(&tenant, &named(&scenario, "first")).await?;
        wants(told.as_deref(), "name the service account of this ClusterObjectSet in")
    })
    .await?;
    let first = created(&scenario, &scenario.client, "first").await?;
    let missing =
        format!(": set {SERVICE_ACCOUNT_NAME_ANNOTATION} and {SERVICE_ACCOUNT_NAMESPACE_ANNOTATION} ");
    lacks_an_account(&scenario, &first, &missing).await?;

    // With one it is used, by who may use it, for what is created from then on.
    set_default(&scenario, SUCCESSOR).await?;
    wait::until("the default account to be guarded", DEADLINE, async || {
        let told = objection::<ClusterObjectSet>(&tenant, &named(&scenario, "second")).await?;
        wants(told.as_deref(), &not_the_default(&scenario))
    })
    .await?;
    lacks_an_account(&scenario, &first, &later(&scenario, SUCCESSOR)).await?;
    set_default(&scenario, ACCOUNT).await?;
    tokio::time::sleep(SETTLED).await;
    let second = created(&scenario, &tenant, "second").await?;
    is_carried_out(&scenario, &second, ACCOUNT).await?;
    // Another default moves nothing.
    set_default(&scenario, SUCCESSOR).await?;
    lacks_an_account(&scenario, &first, &later(&scenario, SUCCESSOR)).await?;
    is_carried_out(&scenario, &second, ACCOUNT).await?;
    for name in [first, second] {
        sets(&scenario.client).remove(&name).await?;
    }
    Ok(())
}

/// Why a default account is not used that was set after a set was created.
fn later(scenario: &Scenario<'_>, account: &str) -> String {
    let name = &scenario.name;
    format!(
        ", and the default service account {name}/{account} is not used, because it may have been set after the revision was created"
    )
}

/// What admission asked about is what is used, or nothing is: the controller sees the set only when the default is
/// another one, which its writer may not use, or when the settings are back, without which nobody asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_default_account_that_was_set_later_is_not_used() -> Result<()> {
    let world = World::start().await?;
    let (scenario, tenant) = with_accounts(&world, "later").await?;
    let program = world.operator.process();
    set_default(&scenario, ACCOUNT).await?;
    tokio::time::sleep(SETTLED).await;
    program.terminate(DEADLINE).await?;
    let before = created(&scenario, &tenant, "before").await?;
    set_default(&scenario, SUCCESSOR).await?;
    program.restart()?;
    world.operator.ready().await?;
    lacks_an_account(&scenario, &before, &later(&scenario, SUCCESSOR)).await?;

    let settings: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    settings.remove("olmv1-settings").await?;
    let unchecked = created(&scenario, &tenant, "unchecked").await?;
    lacks_an_account(&scenario, &unchecked, ": set ").await?;
    let again = json!({
        "metadata": {"name": "olmv1-settings", "namespace": SYSTEM_NAMESPACE},
        "data": {"default-service-account": format!("{}/{SUCCESSOR}", scenario.name)},
    });
    settings.make(again).await?;
    lacks_an_account(&scenario, &unchecked, &later(&scenario, SUCCESSOR)).await?;

    for name in ["before", "unchecked"] {
        ensure!(scenario.maps().get_opt(name).await?.is_none(), "{name} was carried out");
    }
    // The remedy, for whoever may use an account.
    let patch = json!({"metadata": {"annotations": {
        SERVICE_ACCOUNT_NAME_ANNOTATION: ACCOUNT, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: scenario.name,
    }}});
    sets(&tenant).merge(&before, &patch).await?;
    is_carried_out(&scenario, &before, ACCOUNT).await
}

async fn is_carried_out(scenario: &Scenario<'_>, set: &str, account: &str) -> Result<()> {
    scenario.set_succeeds(set).await?;
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
    scenario.offer(std::slice::from_ref(&bundle)).await?;
    scenario.install("unguarded", json!({}), "1.0.0").await?;
    scenario.account_for(SUCCESSOR, &[""], &["configmaps"]).await?;

    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(scenario.client.clone());
    let binding = "clusterobjectset-account.olm.operatorframework.io";
    bindings.remove(binding).await?;
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
