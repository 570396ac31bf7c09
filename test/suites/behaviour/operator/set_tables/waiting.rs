//! What is told while a revision waits: for rights, for a deletion, for its deadline.

use olm_test::{kstatus::Status, prelude::*};

use super::{
    begins, condition, create, inline, map, replace_rules, rolled_out, scenario, shows, spec, verdict,
};
use crate::extension_tables::refused::{give_back, take};

const ROLLING_OUT: &str = "True/RollingOut/Revision 7.0.0 is rolling out.";

#[tokio::test(flavor = "multi_thread")]
async fn an_error_makes_what_was_available_unknown() -> Result<()> {
    let scenario = scenario(World::shared().await?, "unknown").await?;
    let set = create(&scenario, "set", spec(&[("one", inline(&[map(&scenario, "kept")]))])).await?;
    rolled_out(&scenario, &set).await?;
    let rules = replace_rules(&scenario, &[]).await?;
    scenario.maps().remove("kept").await?;
    let text = format!(
        "True/Retrying/Object ConfigMap.v1 {}/kept: configmaps \"kept\" is forbidden: ",
        scenario.name
    );
    begins(&scenario, &set, Progressing, &text).await?;
    let told = condition(&scenario, &set, Progressing).await?;
    let text = told.strip_prefix("True/Retrying/").context("another reason")?;
    shows(&scenario, &set, Available, &format!("Unknown/Reconciling/{text}")).await?;
    let advice = "Give the ServiceAccount this permission (\"olm bundle rbac\" prints the permissions that a bundle needs), or change the policy or quota that the message names.";
    shows(&scenario, &set, Ready, &format!("False/Blocked/{text}. {advice}")).await?;
    shows(&scenario, &set, Stalled, &format!("True/Blocked/{text}. {advice}")).await?;
    shows(&scenario, &set, Succeeded, "True/Succeeded/Revision succeeded rolling out.").await?;
    ensure!(verdict(&scenario, &set).await? == Status::Failed, "somebody has to act");
    replace_rules(&scenario, &rules).await?;
    rolled_out(&scenario, &set).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_being_deleted_is_waited_for() -> Result<()> {
    let scenario = scenario(World::shared().await?, "held").await?;
    let mut held = map(&scenario, "held");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    let set = create(&scenario, "set", spec(&[("one", inline(&[held]))])).await?;
    rolled_out(&scenario, &set).await?;
    scenario.maps().remove("held").await?;
    let rolling = "Revision 7.0.0 is rolling out.";
    shows(&scenario, &set, Available, &format!("False/RollingOut/{rolling}")).await?;
    shows(&scenario, &set, Progressing, &format!("True/RollingOut/{rolling}")).await?;
    let waits = format!(
        "False/RollingOut/Object ConfigMap.v1 {}/held: is being deleted, and will be created again afterwards",
        scenario.name
    );
    shows(&scenario, &set, Ready, &waits).await?;
    let free = json!({"metadata": {"finalizers": null}});
    scenario.maps().merge("held", &free).await?;
    rolled_out(&scenario, &set).await
}

/// Changes the schema of revisions as no cluster has it: deadlines may be short, and phases may change.
async fn allow_what_the_api_refuses(scenario: &Scenario<'_>) -> Result<()> {
    let name = "clusterobjectsets.olm.operatorframework.io";
    let mut crd = serde_json::to_value(scenario.crds().get(name).await?)?;
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let minimum = crd.pointer_mut(&format!("{spec}/progressDeadlineMinutes/minimum"));
    *minimum.context("the deadline has no minimum")? = json!(1);
    let phases = crd.pointer_mut(&format!("{spec}/phases")).and_then(Value::as_object_mut);
    phases.and_then(|phases| phases.remove("x-kubernetes-validations")).context("phases have no rule")?;
    let patch = Patch::Merge(json!({"spec": {"versions": crd["spec"]["versions"]}}));
    scenario.crds().patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// A probe that no ConfigMap of these tests passes.
fn never() -> Value {
    json!([{
        "selector": {"type": "GroupKind", "groupKind": {"group": "", "kind": "ConfigMap"}},
        "assertions": [{"type": "FieldValue", "fieldValue": {"fieldPath": "data.a", "value": "never"}}],
    }])
}

/// A revision that has rolled out in time, and is no longer healthy.
async fn in_time(scenario: &Scenario<'_>) -> Result<String> {
    let mut done = spec(&[("one", inline(&[map(scenario, "done")]))]);
    done["progressDeadlineMinutes"] = 1.into();
    let done = create(scenario, "done", done).await?;
    rolled_out(scenario, &done).await?;
    super::patch(scenario, &done, json!({"spec": {"progressionProbes": never()}})).await?;
    shows(scenario, &done, Progressing, ROLLING_OUT).await?;
    Ok(done)
}

/// Such a one is never late, and one that is late may still roll out.
async fn deadlines_are_for_the_first_roll_out(scenario: &Scenario<'_>, done: &str, late: &str) -> Result<()> {
    super::patch(scenario, late, json!({"spec": {"progressionProbes": null}})).await?;
    rolled_out(scenario, late).await?;
    wait::until("the other deadline to pass", DEADLINE, || async {
        let created = scenario.sets().get(done).await?.metadata.creation_timestamp.context("its age")?;
        let age = jiff::Timestamp::now().duration_since(created.0);
        wait::check(age.as_secs() > 61, || format!("{age:?} old"))
    })
    .await?;
    super::patch(scenario, done, json!({"spec": {"progressionProbes": null}})).await?;
    rolled_out(scenario, done).await?;
    super::patch(scenario, done, json!({"spec": {"progressionProbes": never()}})).await?;
    shows(scenario, done, Progressing, ROLLING_OUT).await?;
    shows(scenario, done, Succeeded, "True/Succeeded/Revision succeeded rolling out.").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_replaces_what_was_told() -> Result<()> {
    // A world of its own: the API allows so short a deadline only after its schema has been changed.
    let world = World::start().await?;
    let scenario = scenario(&world, "late").await?;
    allow_what_the_api_refuses(&scenario).await?;
    let mut forbidden = map(&scenario, "x");
    forbidden["metadata"]["namespace"] = "kube-public".into();
    let mut errors = spec(&[("one", inline(&[forbidden]))]);
    let mut unhealthy = spec(&[("one", inline(&[map(&scenario, "sick")]))]);
    unhealthy["progressionProbes"] = never();
    for spec in [&mut errors, &mut unhealthy] {
        spec["progressDeadlineMinutes"] = 1.into();
    }
    let errors = wait::until("the schema to be in force", DEADLINE, || {
        let errors = errors.clone();
        async { create(&scenario, "errors", errors).await }
    })
    .await?;
    let unhealthy = create(&scenario, "unhealthy", unhealthy).await?;
    begins(
        &scenario,
        &errors,
        Progressing,
        "True/Retrying/Object ConfigMap.v1 kube-public/x: configmaps \"x\" is forbidden: ",
    )
    .await?;
    let told = condition(&scenario, &errors, Progressing).await?;
    let error = told.strip_prefix("True/Retrying/").context("another reason")?;
    let done = in_time(&scenario).await?;
    content_that_the_api_let_change_blocks(&scenario).await?;
    objects_that_may_not_be_watched_are_looked_at(&scenario).await?;
    let advice = ". Give the ServiceAccount this permission (\"olm bundle rbac\" prints the permissions that a bundle needs), or change the policy or quota that the message names.";
    let waits = format!(" Waiting for ConfigMap {}/sick: ", scenario.name);
    let rolling = "Revision 7.0.0 is rolling out.";
    for (set, last, advice) in [(&unhealthy, rolling, waits.as_str()), (&errors, error, advice)] {
        let reason = "ProgressDeadlineExceeded";
        let text = format!("{reason}/Revision has not rolled out for 1 minute(s). Last status: {last}");
        shows(&scenario, set, Progressing, &format!("False/{text}")).await?;
        begins(&scenario, set, Stalled, &format!("True/{text}{advice}")).await?;
        ensure!(verdict(&scenario, set).await? == Status::Failed, "{set} is over its time");
    }
    deadlines_are_for_the_first_roll_out(&scenario, &done, &unhealthy).await
}

/// The digests are a second line of defence: they hold where the API server's rule does not.
async fn content_that_the_api_let_change_blocks(scenario: &Scenario<'_>) -> Result<()> {
    let whole =
        spec(&[("one", inline(&[map(scenario, "first")])), ("two", inline(&[map(scenario, "second")]))]);
    let set = create(scenario, "altered", whole.clone()).await?;
    rolled_out(scenario, &set).await?;
    let fewer = spec(&[("one", inline(&[map(scenario, "first")]))]);
    let mut more = whole.clone();
    let third = json!({"name": "three", "objects": inline(&[map(scenario, "third")])});
    more["phases"].as_array_mut().context("phases")?.push(third);
    let mut renamed = whole.clone();
    renamed["phases"][1]["name"] = "other".into();
    for (changed, wanted) in [
        (fewer, "number of phases has changed (expected 2 phases, got 1)"),
        (more, "number of phases has changed (expected 2 phases, got 3)"),
        (renamed, "resolved content of 1 phase(s) has changed: phase \"two\" (expected digest sha256:"),
    ] {
        super::patch(scenario, &set, json!({"spec": {"phases": changed["phases"]}})).await?;
        begins(scenario, &set, Progressing, &format!("False/Blocked/{wanted}")).await?;
        begins(scenario, &set, Stalled, &format!("True/Blocked/{wanted}")).await?;
        ensure!(scenario.maps().get_opt("third").await?.is_none(), "content that is not the recorded one");
        super::patch(scenario, &set, json!({"spec": {"phases": whole["phases"]}})).await?;
        rolled_out(scenario, &set).await?;
    }
    Ok(())
}

/// The program's right is at fault, not the account's: it is told beside upstream's texts, and drift is repaired.
async fn objects_that_may_not_be_watched_are_looked_at(scenario: &Scenario<'_>) -> Result<()> {
    let right = ("apps", "deployments", "watch");
    let taken = take(scenario, right).await?;
    let labels = json!({"app": "unseen"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "unseen", "namespace": scenario.name},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    });
    let set = create(scenario, "unseen", spec(&[("one", inline(&[deployment]))])).await?;
    let done = "True/Succeeded/Revision 7.0.0 has rolled out.";
    shows(scenario, &set, Progressing, done).await?;
    let told = "True/Active/Revision 7.0.0 has rolled out.\nChanges of Deployment.apps/v1 objects are not noticed at once, because watching the kind fails (deployments.apps is forbidden: ";
    begins(scenario, &set, Ready, told).await?;
    shows(scenario, &set, Progressing, done).await?;
    ensure!(verdict(scenario, &set).await? == Status::Current, "it is as its spec says");
    let deployments: Api<Deployment> = Api::namespaced(scenario.client.clone(), &scenario.name);
    deployments.remove("unseen").await?;
    deployments.appears("unseen").await?;
    give_back(scenario, taken, right).await?;
    wait::until("the watch to work", COLLECTED, || async {
        let found = condition(scenario, &set, Ready).await?;
        wait::check(found == "True/Active/Revision 7.0.0 has rolled out.", || found)
    })
    .await
}
