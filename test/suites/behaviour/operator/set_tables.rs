//! The tables of the ClusterObjectSet controller, row by row: revisions that a user makes by hand.

mod accounts;
mod archiving;
mod classic;
mod collisions;
mod content;
mod down;
mod handover;
mod health;
mod outdated;
mod restarted;
mod secrets;
mod siblings;
mod waiting;

use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use olm_test::{
    kstatus::{Status, is_about_this_generation, judge},
    prelude::*,
};

/// A namespace with an account that may do everything with ConfigMaps, Secrets and Deployments in it.
async fn scenario<'a>(world: &'a World, name: &str) -> Result<Scenario<'a>> {
    let scenario = Scenario::new(world, name).await?;
    scenario.account_for(ACCOUNT, &["", "apps"], &["configmaps", "secrets", "deployments"]).await?;
    Ok(scenario)
}

/// Replaces the rules of the account's Role; returns those it had.
async fn replace_rules(scenario: &Scenario<'_>, rules: &[PolicyRule]) -> Result<Vec<PolicyRule>> {
    let api: Api<Role> = Api::namespaced(scenario.client.clone(), &scenario.name);
    let name = format!("{}-{ACCOUNT}", scenario.name);
    let before = api.get(&name).await?.rules.unwrap_or_default();
    let patch = Patch::Merge(json!({"rules": rules}));
    api.patch(&name, &PatchParams::default(), &patch).await?;
    Ok(before)
}

fn map(scenario: &Scenario<'_>, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": scenario.name}, "data": {"a": "b", "c": "d"},
    })
}

/// Entries of a phase that hold these objects.
fn inline(objects: &[Value]) -> Value {
    objects.iter().map(|object| json!({"object": object})).collect()
}

/// A spec with these phases: name and objects as in the API.
fn spec(phases: &[(&str, Value)]) -> Value {
    let phases: Vec<Value> =
        phases.iter().map(|(name, objects)| json!({"name": name, "objects": objects})).collect();
    json!({"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent", "phases": phases})
}

/// Creates the revision `<scenario>-<suffix>` and returns its name.
async fn create(scenario: &Scenario<'_>, suffix: &str, spec: Value) -> Result<String> {
    create_with(scenario, suffix, scenario.by_hand(), spec).await
}

async fn create_with(
    scenario: &Scenario<'_>,
    suffix: &str,
    annotations: Value,
    spec: Value,
) -> Result<String> {
    create_like(scenario, suffix, json!({"annotations": annotations}), spec).await
}

/// The same with further metadata.
async fn create_like(
    scenario: &Scenario<'_>,
    suffix: &str,
    mut metadata: Value,
    spec: Value,
) -> Result<String> {
    let name = format!("{}-{suffix}", scenario.name);
    metadata["name"] = name.as_str().into();
    let set: ClusterObjectSet = serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": metadata, "spec": spec,
    }))?;
    scenario.sets().make(&set).await?;
    Ok(name)
}

/// The owner reference of a revision of this extension.
fn owned_by(extension: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": extension, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// The scenario's extension, which finds nothing to install, and its UID.
async fn idle_extension(scenario: &Scenario<'_>) -> Result<String> {
    scenario.create_extension("no-such-package", json!({})).await?;
    scenario.extensions().get(&scenario.name).await?.uid().context("an extension without UID")
}

async fn patch(scenario: &Scenario<'_>, name: &str, patch: Value) -> Result<()> {
    scenario.sets().merge(name, &patch).await?;
    Ok(())
}

/// `Status/Reason/Message` of a condition, or nothing.
async fn condition(scenario: &Scenario<'_>, name: &str, type_: ConditionType) -> Result<String> {
    scenario.set_condition(name, type_).await
}

/// Waits until a condition is as wanted, to the letter.
async fn shows(scenario: &Scenario<'_>, name: &str, type_: ConditionType, wanted: &str) -> Result<()> {
    scenario.set_reports(name, type_, |found| found == wanted).await.with_context(|| wanted.to_owned())
}

/// Waits until a condition begins as wanted; what follows are the words of the API server, or of a library.
async fn begins(scenario: &Scenario<'_>, name: &str, type_: ConditionType, wanted: &str) -> Result<()> {
    scenario
        .set_reports(name, type_, |found| found.starts_with(wanted))
        .await
        .with_context(|| wanted.to_owned())
}

/// What GitOps tools make of a revision.
async fn verdict(scenario: &Scenario<'_>, name: &str) -> Result<Status> {
    let set = serde_json::to_value(scenario.sets().get(name).await?)?;
    anyhow::ensure!(is_about_this_generation(&set), "{set}");
    Ok(judge(&set))
}

async fn rolled_out(scenario: &Scenario<'_>, name: &str) -> Result<()> {
    shows(scenario, name, ConditionType::Succeeded, "True/Succeeded/Revision succeeded rolling out.").await?;
    shows(scenario, name, ConditionType::Progressing, "True/Succeeded/Revision 7.0.0 has rolled out.")
        .await?;
    let available = "True/ProbesSucceeded/Objects are available and pass all probes.";
    shows(scenario, name, ConditionType::Available, available).await?;
    shows(scenario, name, ConditionType::Ready, "True/Active/Revision 7.0.0 has rolled out.").await?;
    let verdict = verdict(scenario, name).await?;
    anyhow::ensure!(verdict == Status::Current, "{name} is {verdict}");
    Ok(())
}

/// UID of the controller of a ConfigMap.
async fn controller(scenario: &Scenario<'_>, name: &str) -> Result<Option<String>> {
    let map = scenario.maps().get(name).await?;
    Ok(map.owner_references().iter().find(|r| r.controller == Some(true)).map(|r| r.uid.clone()))
}
