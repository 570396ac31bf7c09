//! Revisions made by hand, and objects that belong to somebody else.

use olm_test::prelude::*;

const PACKAGE: &str = "lighthouse-operator";

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"a": "b"}})
}

/// A revision of two phases, as a user would write it.
fn set(scenario: &Scenario<'_>, objects: [Value; 2]) -> Result<ClusterObjectSet> {
    let [first, second] = objects;
    Ok(serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": scenario.name, "annotations": scenario.by_hand()},
        "spec": {
            "lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
            "phases": [
                {"name": "one", "objects": [{"object": first}]},
                {"name": "two", "objects": [{"object": second}]},
            ],
            "progressionProbes": [{
                "selector": {"type": "GroupKind", "groupKind": {"group": "", "kind": "ConfigMap"}},
                "assertions": [{"type": "FieldValue", "fieldValue": {"fieldPath": "data.a", "value": "b"}}],
            }],
        },
    }))?)
}

async fn shows(scenario: &Scenario<'_>, type_: ConditionType, wanted: &str) -> Result<()> {
    let api: Api<ClusterObjectSet> = Api::all(scenario.client.clone());
    wait::until(&format!("{type_} of the set to be {wanted}"), DEADLINE, || async {
        let status = api.get(&scenario.name).await?.status.unwrap_or_default();
        let found = condition_text(&status.conditions, type_);
        wait::check(found.starts_with(wanted), || format!("{type_} is {found}"))
    })
    .await
}

async fn scenario(name: &str) -> Result<Scenario<'static>> {
    let scenario = Scenario::new(World::shared().await?, name).await?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    // The sample's rights cover ConfigMaps of one name; this account may write any.
    let mut rules = rules_for(&[], &scenario.name)?;
    rules.allow_in_namespace(&[""], &["configmaps"], &["get", "create", "update", "patch", "delete"]);
    grant(&scenario.client, &scenario.name, ACCOUNT, &rules).await?;
    Ok(scenario)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_made_by_hand_waits_for_an_object_of_somebody_else_to_go() -> Result<()> {
    let scenario = scenario("collision").await?;
    let maps: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), &scenario.name);
    let foreign: ConfigMap = serde_json::from_value(config_map(&scenario.name, "first"))?;
    maps.make(&foreign).await?;
    let objects = [config_map(&scenario.name, "first"), config_map(&scenario.name, "second")];
    let sets: Api<ClusterObjectSet> = Api::all(scenario.client.clone());
    sets.make(&set(&scenario, objects)?).await?;

    let text = format!(
        "True/Retrying/revision object collisions in phase 0\nObject ConfigMap.v1 {}/first\nAction: \"Collision\"",
        scenario.name
    );
    shows(&scenario, Progressing, &text).await?;
    ensure!(maps.get_opt("second").await?.is_none(), "the second phase began before the first was done");

    maps.remove("first").await?;
    shows(&scenario, Progressing, "True/Succeeded/Revision 7.0.0 has rolled out.").await?;
    shows(&scenario, ConditionType::Available, "True/ProbesSucceeded/").await?;
    shows(&scenario, ConditionType::Succeeded, "True/Succeeded/Revision succeeded rolling out.").await?;

    let archived = json!({"spec": {"lifecycleState": "Archived"}});
    let patch = kube::api::Patch::Merge(&archived);
    sets.patch(&scenario.name, &kube::api::PatchParams::default(), &patch).await?;
    shows(&scenario, Progressing, "False/Archived/revision is archived").await?;
    ensure!(
        maps.get_opt("first").await?.is_none() && maps.get_opt("second").await?.is_none(),
        "left after teardown"
    );
    sets.remove(&scenario.name).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutable_secret_blocks_a_set() -> Result<()> {
    let scenario = scenario("mutable").await?;
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "content", "namespace": scenario.name},
        "stringData": {"key": config_map(&scenario.name, "first").to_string()},
    }))?;
    Api::namespaced(scenario.client.clone(), &scenario.name).create(&PostParams::default(), &secret).await?;
    let mut rules = rules_for(&[], &scenario.name)?;
    rules.allow_in_namespace(
        &[""],
        &["configmaps", "secrets"],
        &["get", "create", "update", "patch", "delete"],
    );
    grant(&scenario.client, &scenario.name, ACCOUNT, &rules).await?;

    let inline = config_map(&scenario.name, "second");
    let mut set = set(&scenario, [inline.clone(), inline])?;
    set.spec.phases[0].objects[0] = serde_json::from_value(json!({
        "ref": {"name": "content", "namespace": scenario.name, "key": "key"},
    }))?;
    let sets: Api<ClusterObjectSet> = Api::all(scenario.client.clone());
    sets.make(&set).await?;
    let text = format!(
        "False/Blocked/the following secrets are not immutable (referenced secrets must have immutable set to true): {}/content",
        scenario.name
    );
    shows(&scenario, Progressing, &text).await?;
    sets.remove(&scenario.name).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_tells_of_the_collision_and_heals() -> Result<()> {
    let scenario = Scenario::new(World::shared().await?, "taken").await?;
    scenario.prepare(PACKAGE, &[("1.0.0", lighthouse("1.0.0"))]).await?;
    let maps: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), &scenario.name);
    let foreign: ConfigMap =
        serde_json::from_value(config_map(&scenario.name, "lighthouse-operator-settings"))?;
    maps.make(&foreign).await?;
    scenario.create_extension(PACKAGE, json!({})).await?;
    scenario.shows(Progressing, "True/Retrying/revision object collisions in phase ").await?;
    scenario.shows(ConditionType::Installed, "False/Failed/No bundle installed").await?;
    maps.remove("lighthouse-operator-settings").await?;
    scenario.installed("1.0.0").await?;
    scenario.delete_extension().await
}
