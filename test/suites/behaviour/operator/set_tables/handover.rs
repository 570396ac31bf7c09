//! From one revision of an extension to the next: no object is away for a moment.

use olm_test::prelude::*;

use super::{begins, controller, create_with, inline, map, shows, spec};

#[tokio::test(flavor = "multi_thread")]
async fn objects_change_hands_and_each_step_is_an_event() -> Result<()> {
    let scenario = Scenario::shared("handover").await?;
    let bundles = [small("lamp", "1.0.0"), small("lamp", "1.1.0").replaces("1.0.0")];
    scenario.offer(&bundles).await?;
    scenario.install("lamp", json!({"version": "1.0.0"}), "1.0.0").await?;
    let before = scenario.maps().get("lamp-data").await?;
    scenario.upgrade("1.1.0").await?;
    let (first, second) = (format!("{}-1", scenario.name), format!("{}-2", scenario.name));
    shows(&scenario, &first, Progressing, "False/Archived/revision is archived").await?;
    let after = scenario.maps().get("lamp-data").await?;
    ensure!(after.uid() == before.uid(), "the object was made anew");
    let uid = scenario.sets().get(&second).await?.uid();
    ensure!(controller(&scenario, "lamp-data").await? == uid, "the new revision does not control it");
    ensure!(after.owner_references().len() == 1, "{:?}", after.owner_references());
    ensure!(
        scenario.sets().get(&first).await?.spec.lifecycle_state == LifecycleState::Archived,
        "the old revision is not archived"
    );
    scenario.maps().remove("lamp-data").await?;
    scenario.maps().appears("lamp-data").await?;
    let name = scenario.name.as_str();
    let told = [
        ("RollingOut", "Rolling out bundle lamp.v1.0.0 with version 1.0.0 from catalog"),
        ("Installed", "Installed bundle lamp.v1.0.0"),
        ("RollingOut", "Rolling out bundle lamp.v1.1.0 with version 1.1.0 from catalog"),
        ("Upgraded", "Upgraded from bundle lamp.v1.0.0 to lamp.v1.1.0"),
        ("DriftRepaired", "/lamp-data"),
    ];
    for (reason, text) in told {
        scenario.event("ClusterExtension", name, reason, text).await?;
    }
    for (set, reason) in [(&first, "Archived"), (&second, "DriftRepaired")] {
        scenario.event("ClusterObjectSet", set, reason, "").await?;
    }
    // What its extension says of a revision is not said twice.
    let of_extension = scenario.events("ClusterExtension", name).await?;
    let said = |reason: &str| of_extension.iter().filter(|(found, _)| found == reason).count();
    ensure!(said("RollingOut") == 2 && said("Resolved") == 0, "{of_extension:?}");
    for set in [&first, &second] {
        let events = scenario.events("ClusterObjectSet", set).await?;
        let is_twice = |reason: &str| matches!(reason, "RollingOut" | "RolledOut");
        ensure!(!events.iter().any(|(reason, _)| is_twice(reason)), "{events:?}");
    }
    scenario.event("ClusterCatalog", name, "Unpacked", "Serving content of").await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_is_somebody_elses_is_named_and_left_alone() -> Result<()> {
    let scenario = Scenario::shared("squatted").await?;
    let bundles = [small("squat", "1.0.0"), small("squat", "1.1.0").replaces("1.0.0")];
    scenario.offer(&bundles).await?;
    scenario.install("squat", json!({"version": "1.0.0"}), "1.0.0").await?;
    let content = spec(&[("one", inline(&[map(&scenario, "theirs")]))]);
    let theirs = create_with(&scenario, "2", json!({}), content).await?;
    let blocked = format!("False/Blocked/revision \"{theirs}\" is missing required annotations: set ");
    begins(&scenario, &theirs, Progressing, &blocked).await?;
    let before = scenario.sets().get(&theirs).await?;
    scenario.upgrade("1.1.0").await?;
    scenario.sets().get(&format!("{}-3", scenario.name)).await.context("the next number was not taken")?;
    let told = format!("they are ignored: {theirs:?}. Delete them.");
    let ready = scenario.shown().await?.condition(Ready);
    ensure!(ready.contains(&told), "{ready}");
    let after = scenario.sets().get(&theirs).await?;
    ensure!(before.metadata == after.metadata && before.spec == after.spec, "it was written");
    scenario.sets().remove(&theirs).await?;
    scenario.shows(Ready, "True/Succeeded/").await?;
    scenario.reports(Ready, |ready| !ready.contains("ignored")).await?;
    scenario.delete_extension().await
}
