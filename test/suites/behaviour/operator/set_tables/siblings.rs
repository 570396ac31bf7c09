//! The rows of the collision table about revisions of one extension.

use olm_api::names::REVISION_OF_ANNOTATION;
use olm_test::prelude::*;

use super::{
    begins, controller, create_like, idle_extension, inline, map, owned_by, rolled_out, scenario, shows, spec,
};

const PROTECTIONS: [&str; 3] = ["Prevent", "IfNoController", "None"];

/// A ConfigMap for each protection, which says whose it is.
fn each(scenario: &Scenario<'_>, base: &str, whose: &str) -> Value {
    let object = |protection: &&str| {
        let mut object = map(scenario, &named(base, protection));
        object["data"]["a"] = whose.into();
        json!({"object": object, "collisionProtection": protection})
    };
    PROTECTIONS.iter().map(object).collect()
}

fn named(base: &str, protection: &str) -> String {
    format!("{base}-{}", protection.to_lowercase())
}

/// A revision of the extension with this UID.
async fn member(
    scenario: &Scenario<'_>,
    suffix: &str,
    number: i64,
    uid: &str,
    mut spec: Value,
) -> Result<String> {
    let mut annotations = scenario.by_hand();
    annotations[REVISION_OF_ANNOTATION] = uid.into();
    let metadata = json!({
        "annotations": annotations,
        // Not the label: the extension's own loop is to leave them alone.
        "ownerReferences": owned_by(&scenario.name, uid),
    });
    spec["revision"] = number.into();
    create_like(scenario, suffix, metadata, spec).await
}

/// Sees that all objects of this base are this revision's.
async fn has(scenario: &Scenario<'_>, set: &str, base: &str, whose: &str) -> Result<()> {
    let uid = scenario.sets().get(set).await?.uid();
    for protection in PROTECTIONS {
        let name = named(base, protection);
        ensure!(controller(scenario, &name).await? == uid, "{name} is not controlled by {set}");
        let data = scenario.maps().get(&name).await?.data.unwrap_or_default();
        ensure!(data["a"] == whose, "{name} is {data:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn older_ones_give_newer_ones_keep_and_equals_collide() -> Result<()> {
    let scenario = scenario(World::shared().await?, "family").await?;
    let uid = idle_extension(&scenario).await?;
    let one = member(&scenario, "one", 1, &uid, spec(&[("one", each(&scenario, "shared", "one"))])).await?;
    rolled_out(&scenario, &one).await?;
    has(&scenario, &one, "shared", "one").await?;

    // A newer revision takes over what an older active one has, whatever the protection. It never rolls out.
    let mut newest = spec(&[("one", each(&scenario, "shared", "three"))]);
    newest["progressionProbes"] = json!([{
        "selector": {"type": "GroupKind", "groupKind": {"group": "", "kind": "ConfigMap"}},
        "assertions": [{"type": "FieldValue", "fieldValue": {"fieldPath": "data.a", "value": "never"}}],
    }]);
    let three = member(&scenario, "three", 3, &uid, newest).await?;
    shows(&scenario, &three, Progressing, "True/RollingOut/Revision 7.0.0 is rolling out.").await?;
    begins(&scenario, &three, olm_api::ConditionType::Available, "False/ProbeFailure/").await?;
    has(&scenario, &three, "shared", "three").await?;

    // What a newer one has is left, and the phase counts as progressed: the next one is begun.
    let phases = [("one", each(&scenario, "shared", "two")), ("two", each(&scenario, "own", "two"))];
    let two = member(&scenario, "two", 2, &uid, spec(&phases)).await?;
    rolled_out(&scenario, &two).await?;
    has(&scenario, &three, "shared", "three").await?;
    has(&scenario, &two, "own", "two").await?;
    // It supersedes the older one, whose objects are others' by now.
    shows(&scenario, &one, Progressing, "False/Archived/revision is archived").await?;
    has(&scenario, &three, "shared", "three").await?;

    // One of the same number gets nothing; each object has a report.
    let twin = member(&scenario, "twin", 2, &uid, spec(&[("one", each(&scenario, "own", "twin"))])).await?;
    let owner = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "name": two,
        "uid": scenario.sets().get(&two).await?.uid(), "controller": true, "blockOwnerDeletion": true,
    });
    let report = |protection: &&str| {
        format!(
            "Object ConfigMap.v1 {}/{}\nAction: \"Collision\"\nConflicting Owner: {owner}",
            scenario.name,
            named("own", protection)
        )
    };
    let reports: Vec<String> = PROTECTIONS.iter().map(report).collect();
    let wanted = format!("True/Retrying/revision object collisions in phase 0\n{}", reports.join("\n\n"));
    shows(&scenario, &twin, Progressing, &wanted).await?;
    has(&scenario, &two, "own", "two").await?;
    // Objects that nobody has are another matter: they collide under Prevent alone.
    let free =
        member(&scenario, "free", 2, &uid, spec(&[("one", inline(&[map(&scenario, "free")]))])).await?;
    rolled_out(&scenario, &free).await?;
    scenario.delete_extension().await
}
