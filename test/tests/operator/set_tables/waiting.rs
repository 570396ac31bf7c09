//! What is told while a revision waits: for rights, for a deletion, for its deadline.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use olm_api::ConditionType::{Available, Progressing, Ready, Stalled, Succeeded};
use olm_test::{kstatus::Status, wait};
use serde_json::json;

use super::{
    begins, condition, create, inline, map, maps, replace_rules, rolled_out, scenario, shows, spec, verdict,
};
use crate::world::{DEADLINE, Scenario, World};

#[tokio::test(flavor = "multi_thread")]
async fn an_error_makes_what_was_available_unknown() -> Result<()> {
    let scenario = scenario(World::shared().await?, "unknown").await?;
    let set = create(&scenario, "set", spec(&[("one", inline(&[map(&scenario, "kept")]))])).await?;
    rolled_out(&scenario, &set).await?;
    let rules = replace_rules(&scenario, &[]).await?;
    maps(&scenario).delete("kept", &DeleteParams::default()).await?;
    let text = format!(
        "True/Retrying/Object ConfigMap.v1 {}/kept: configmaps \"kept\" is forbidden: ",
        scenario.name
    );
    begins(&scenario, &set, Progressing, &text).await?;
    let told = condition(&scenario, &set, Progressing).await?;
    let text = told.strip_prefix("True/Retrying/").context("another reason")?;
    shows(&scenario, &set, Available, &format!("Unknown/Reconciling/{text}")).await?;
    shows(&scenario, &set, Ready, &format!("False/Retrying/{text}")).await?;
    shows(&scenario, &set, Succeeded, "True/Succeeded/Revision succeeded rolling out.").await?;
    ensure!(verdict(&scenario, &set).await? == Status::InProgress, "it is tried again");
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
    maps(&scenario).delete("held", &DeleteParams::default()).await?;
    let rolling = "Revision 7.0.0 is rolling out.";
    shows(&scenario, &set, Available, &format!("False/RollingOut/{rolling}")).await?;
    shows(&scenario, &set, Progressing, &format!("True/RollingOut/{rolling}")).await?;
    let waits = format!(
        "False/RollingOut/{rolling}\nObject ConfigMap.v1 {}/held: is being deleted, and made anew once it has gone",
        scenario.name
    );
    shows(&scenario, &set, Ready, &waits).await?;
    let free = json!({"metadata": {"finalizers": null}});
    maps(&scenario).patch("held", &PatchParams::default(), &Patch::Merge(&free)).await?;
    rolled_out(&scenario, &set).await
}

async fn allow_short_deadlines(scenario: &Scenario<'_>) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(scenario.client.clone());
    let name = "clusterobjectsets.olm.operatorframework.io";
    let mut crd = serde_json::to_value(crds.get(name).await?)?;
    let minimum =
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/progressDeadlineMinutes/minimum";
    *crd.pointer_mut(minimum).context("the deadline has no minimum")? = json!(1);
    let patch = Patch::Merge(json!({"spec": {"versions": crd["spec"]["versions"]}}));
    crds.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_replaces_what_was_told() -> Result<()> {
    // A world of its own: the API allows so short a deadline only after its schema has been changed.
    let world = World::start().await?;
    let scenario = scenario(&world, "late").await?;
    allow_short_deadlines(&scenario).await?;
    let mut forbidden = map(&scenario, "x");
    forbidden["metadata"]["namespace"] = "kube-public".into();
    let mut errors = spec(&[("one", inline(&[forbidden]))]);
    let mut unhealthy = spec(&[("one", inline(&[map(&scenario, "sick")]))]);
    unhealthy["progressionProbes"] = json!([{
        "selector": {"type": "GroupKind", "groupKind": {"group": "", "kind": "ConfigMap"}},
        "assertions": [{"type": "FieldValue", "fieldValue": {"fieldPath": "data.a", "value": "never"}}],
    }]);
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
    for (set, last) in [(&unhealthy, "Revision 7.0.0 is rolling out."), (&errors, error)] {
        let reason = "ProgressDeadlineExceeded";
        let text = format!("{reason}/Revision has not rolled out for 1 minute(s). Last status: {last}");
        shows(&scenario, set, Progressing, &format!("False/{text}")).await?;
        shows(&scenario, set, Stalled, &format!("True/{text}")).await?;
        ensure!(verdict(&scenario, set).await? == Status::Failed, "{set} is over its time");
    }
    Ok(())
}
