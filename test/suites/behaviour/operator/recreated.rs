//! Names of namespaces and ServiceAccounts that were given to others after an extension began to use them.

use k8s_openapi::api::core::v1::Namespace;
use olm_api::names::{IDENTITY_ANNOTATION, SERVICE_ACCOUNT_UID_ANNOTATION};
use olm_test::prelude::*;

const BLOCKED: &str = "False/Blocked/operation cannot proceed due to the following validation error(s): ";

/// The account `installer`, which may do everything in the namespace.
async fn powerful_account(scenario: &Scenario<'_>) -> Result<()> {
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    let mut rules = rules_for(&[], &scenario.name)?;
    rules.allow_in_namespace(&["*"], &["*"], &["*"]);
    grant(&scenario.client, &scenario.name, ACCOUNT, &rules).await
}

/// Waits until the only revision is Blocked because its ServiceAccount is another one.
async fn revision_is_blocked(scenario: &Scenario<'_>, revision: &str) -> Result<()> {
    let wanted = format!(
        "False/Blocked/service account \"{ACCOUNT}\" in namespace {:?} was deleted and created again",
        scenario.name
    );
    scenario.set_reports(revision, Progressing, |found| found.starts_with(&wanted)).await
}

/// Writes by the ServiceAccount since `mark`.
fn writes_as_account(scenario: &Scenario<'_>, mark: u64) -> Result<Vec<String>> {
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", scenario.name);
    let events = scenario.world.cluster.audit_events_since(mark)?;
    let by_it = events.iter().filter(|e| e.user == user);
    Ok(by_it.map(|e| format!("{} {} {}", e.verb, e.group, e.name)).collect())
}

/// What the API server says against a change of the extension, or nothing.
async fn objection(client: &Client, name: &str, patch: &Value) -> Result<Option<String>> {
    let api: Api<ClusterExtension> = Api::all(client.clone());
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    match api.patch(name, &params, &Patch::Merge(patch)).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(error) => Err(error).context("asking the API server"),
    }
}

/// Somebody who may write extensions, and use no ServiceAccount.
async fn tenant(scenario: &Scenario<'_>) -> Result<Client> {
    let rules = json!([{"apiGroups": ["olm.operatorframework.io"], "verbs": ["get", "create", "update", "patch"],
                        "resources": ["clusterextensions"]}]);
    let (_, client) = scenario.user("tenant", rules).await?;
    let harmless = json!({"metadata": {"labels": {"team": "a"}}});
    let objected = async || objection(&client, &scenario.name, &harmless).await;
    eventually("the tenant to have its rights", objected, Option::is_none).await?;
    Ok(client)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_does_not_act_in_a_namespace_that_was_created_again() -> Result<()> {
    let scenario = Scenario::shared("shop").await?;
    scenario.offer(&[small("lamp", "1.0.0")]).await?;
    scenario.install("lamp", json!({}), "1.0.0").await?;
    let revision = format!("{}-1", scenario.name);

    let namespaces: Api<Namespace> = Api::all(scenario.client.clone());
    namespaces.remove(&scenario.name).await?;
    namespaces.gone(&scenario.name).await?;
    let mark = scenario.world.cluster.audit_mark()?;
    scenario.world.cluster.create_namespace(&scenario.name).await?;
    powerful_account(&scenario).await?;

    let told = format!(
        "{BLOCKED}the namespace of spec.namespace was deleted and created again since this extension first used it"
    );
    scenario.shows(Progressing, &told).await?;
    revision_is_blocked(&scenario, &revision).await?;
    ensure!(scenario.maps().get_opt("lamp-data").await?.is_none(), "it was installed in the new namespace");
    let writes = writes_as_account(&scenario, mark)?;
    ensure!(writes.is_empty(), "the new account was used: {writes:?}");

    // Whoever wrote the extension has no right there any more, so the record stays.
    let tenant = tenant(&scenario).await?;
    let record = |value: Value| json!({"metadata": {"annotations": {IDENTITY_ANNOTATION: value}}});
    let present = scenario.extensions().get(&scenario.name).await?;
    let forged = present.annotations()[IDENTITY_ANNOTATION].replace("generation=1", "generation=2");
    for (patch, wanted) in [
        (record(Value::Null), "may not act as the service account"),
        (json!({"spec": {"source": {"catalog": {"version": "1.x"}}}}), "may not act as the service account"),
        (record(forged.clone().into()), "may not act as the service account"),
    ] {
        let told = objection(&tenant, &scenario.name, &patch).await?.context("it was let through")?;
        ensure!(told.contains(wanted), "{patch}: {told}");
    }
    let other = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": format!("{}-other", scenario.name), "annotations": {IDENTITY_ANNOTATION: forged}},
        "spec": present.spec,
    });
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let answer = Api::<ClusterExtension>::all(tenant).create(&params, &serde_json::from_value(other)?).await;
    ensure!(answer.is_err_and(|e| e.to_string().contains("may not act as the service account")));

    // Somebody who may use the new one allows it.
    scenario.patch_extension(record(Value::Null)).await?;
    scenario.installed("1.0.0").await?;
    ensure!(scenario.maps().get_opt("lamp-data").await?.is_some(), "nothing was installed");
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_was_created_again_is_used_once_it_is_allowed() -> Result<()> {
    let scenario = Scenario::shared("remade").await?;
    scenario.offer(&[small("lamp", "1.0.0"), small("lamp", "1.1.0").replaces("1.0.0")]).await?;
    scenario.install("lamp", json!({"version": "1.0.0"}), "1.0.0").await?;
    let revision = format!("{}-1", scenario.name);
    let remade = async || -> Result<()> {
        let before = scenario.accounts().get(ACCOUNT).await?.uid();
        scenario.accounts().remove(ACCOUNT).await?;
        powerful_account(&scenario).await?;
        ensure!(scenario.accounts().get(ACCOUNT).await?.uid() != before, "it is the same one");
        Ok(())
    };
    let told = format!(
        "{BLOCKED}service account \"{ACCOUNT}\" in namespace {:?} was deleted and created again since this extension first used it",
        scenario.name
    );

    // It is told without anything else having happened; what is installed is not repaired as the new one.
    remade().await?;
    let mark = scenario.world.cluster.audit_mark()?;
    scenario.shows(Progressing, &told).await?;
    scenario.maps().remove("lamp-data").await?;
    revision_is_blocked(&scenario, &revision).await?;
    ensure!(scenario.maps().get_opt("lamp-data").await?.is_none(), "it was repaired as the new account");
    let writes = writes_as_account(&scenario, mark)?;
    ensure!(writes.is_empty(), "the new account was used: {writes:?}");

    // Another spec is a way to allow it, by admission: the revision that goes is torn down as the new one as well.
    scenario.upgrade("1.1.0").await?;
    ensure!(scenario.maps().get_opt("lamp-data").await?.is_some(), "nothing was repaired");
    let uid = scenario.accounts().get(ACCOUNT).await?.uid();
    wait::until("both revisions to be bound to the new one", DEADLINE, async || {
        for revision in [&revision, &format!("{}-2", scenario.name)] {
            let bound = scenario
                .sets()
                .get(revision)
                .await?
                .annotations()
                .get(SERVICE_ACCOUNT_UID_ANNOTATION)
                .cloned();
            ensure!(bound == uid, "{revision} is bound to {bound:?}");
        }
        let progressing = scenario.sets().get(&revision).await?.status.unwrap_or_default();
        let reason = progressing.conditions.find(Progressing).map(|c| c.reason.clone());
        wait::check(reason.as_deref() == Some("Archived"), || format!("{reason:?}"))
    })
    .await?;

    // While it is Blocked, it can be deleted: nothing is done as the account for that.
    remade().await?;
    scenario.shows(Progressing, &told).await?;
    let mark = scenario.world.cluster.audit_mark()?;
    scenario.uninstall().await?;
    let writes = writes_as_account(&scenario, mark)?;
    ensure!(writes.is_empty(), "the new account was used: {writes:?}");
    Ok(())
}

/// A revision made by hand is bound to its ServiceAccount as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_made_by_hand_does_not_act_as_an_account_created_again() -> Result<()> {
    let scenario = Scenario::shared("byhand").await?;
    powerful_account(&scenario).await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
                     "metadata": {"name": "one", "namespace": scenario.name}});
    scenario.make_set(&json!([{"object": map}])).await?;
    let is_there = async || scenario.maps().get("one").await.map(drop).map_err(anyhow::Error::from);
    wait::until("the object", DEADLINE, is_there).await?;

    scenario.accounts().remove(ACCOUNT).await?;
    powerful_account(&scenario).await?;
    scenario.maps().remove("one").await?;
    revision_is_blocked(&scenario, &scenario.name).await?;
    ensure!(scenario.maps().get_opt("one").await?.is_none(), "it was repaired as the new account");
    let allow = json!({"metadata": {"annotations": {SERVICE_ACCOUNT_UID_ANNOTATION: null}}});
    scenario.sets().merge(&scenario.name, &allow).await?;
    wait::until("the object to be back", DEADLINE, is_there).await?;
    scenario.sets().remove(&scenario.name).await?;
    Ok(())
}
