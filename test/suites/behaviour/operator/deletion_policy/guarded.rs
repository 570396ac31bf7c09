//! The deletion guard: custom resources are not deleted with an extension by accident.

use kube::api::PropagationPolicy;
use olm_api::ConditionType::DeletionGuarded;

use super::*;

/// A deletion that admission refuses; its text.
async fn refused(scenario: &Scenario<'_>, propagation: PropagationPolicy) -> Result<String> {
    let params = DeleteParams { propagation_policy: Some(propagation), ..DeleteParams::default() };
    match scenario.extensions().delete(&scenario.name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(status.message),
        deleted => bail!("the deletion was not refused: {deleted:?}"),
    }
}

// While there are custom resources no deletion passes, however its dependents are deleted, and the text counts them and has three
// ways on; without them, or without the guard, it passes.
#[tokio::test(flavor = "multi_thread")]
async fn an_extension_with_custom_resources_is_not_deleted() -> Result<()> {
    let scenario = in_use(World::shared().await?, "guarded").await?;
    scenario.annotate("deletion-guard", "Block".into()).await?;
    let name = format!("beacons.{}", scenario.group());
    let counted = format!(
        "1 custom resource would be deleted with the extension: {name}: 1 in namespace {}",
        scenario.name
    );
    scenario.shows(DeletionGuarded, &format!("True/CustomResources/{counted}")).await?;
    for propagation in
        [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan]
    {
        let text = refused(&scenario, propagation).await?;
        for wanted in [&counted, "Delete the custom resources first", "RetainCRDs", "remove the guard"] {
            ensure!(text.contains(wanted), "{wanted:?} is not in {text}");
        }
    }
    still_readable(&scenario).await?;

    // A deletion policy has a guard of its own, and without it this one is closed.
    in_force(&scenario, "RetainCRDs").await?;
    scenario.annotate("deletion-policy", Value::Null).await?;
    eventually(
        "the policy to be gone",
        || scenario.shown(),
        |shown| shown.condition(ConditionType::DeletionPolicy).is_empty(),
    )
    .await?;
    refused(&scenario, PropagationPolicy::Background).await?;

    // It opens when the last object is gone, and closes when there is one again.
    beacons(&scenario).remove("mine").await?;
    scenario.shows(DeletionGuarded, "False/NoCustomResources/").await?;
    let beacon: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{}/v1", scenario.group()), "kind": "Beacon",
        "metadata": {"name": "second"}, "spec": {"colour": "red"},
    }))?;
    beacons(&scenario).make(&beacon).await?;
    scenario.shows(DeletionGuarded, "True/CustomResources/").await?;
    refused(&scenario, PropagationPolicy::Foreground).await?;
    scenario.annotate("deletion-guard", Value::Null).await?;
    eventually(
        "the condition to go",
        || scenario.shown(),
        |shown| shown.condition(DeletionGuarded).is_empty(),
    )
    .await?;
    scenario.delete_extension().await
}

// An edit of the spec closes the guard until the objects were counted again, and an extension without CRDs is not kept.
#[tokio::test(flavor = "multi_thread")]
async fn the_guard_lets_an_extension_without_crds_go() -> Result<()> {
    let scenario = Scenario::shared("guarded-none").await?;
    scenario.offer(&[small("lamp", "1.0.0")]).await?;
    scenario.install("lamp", json!({}), "1.0.0").await?;
    scenario.annotate("deletion-guard", "Block".into()).await?;
    scenario.shows(DeletionGuarded, "False/NoCustomResources/").await?;
    scenario.delete_extension().await
}
