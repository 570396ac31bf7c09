//! Archiving: in reverse order, by ownership, and with its conditions.

use olm_test::{kstatus::Status, prelude::*};

use super::{
    begins, controller, create, inline, map, patch, replace_rules, rolled_out, scenario, shows, spec, verdict,
};

const ARCHIVING: &str = "True/Retrying/removing revision resources that are not owned by another revision";

#[tokio::test(flavor = "multi_thread")]
async fn objects_go_in_reverse_order_and_only_those_of_the_revision() -> Result<()> {
    let scenario = scenario(World::shared().await?, "archived").await?;
    let archive = json!({"spec": {"lifecycleState": "Archived"}});
    let mut held = map(&scenario, "held");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    let phases =
        [("one", inline(&[map(&scenario, "first"), map(&scenario, "given")])), ("two", inline(&[held]))];
    let set = create(&scenario, "set", spec(&phases)).await?;
    rolled_out(&scenario, &set).await?;
    // Another revision of the same number wants the same object; it never gets it.
    let rival = create(&scenario, "rival", spec(&[("one", inline(&[map(&scenario, "first")]))])).await?;
    begins(&scenario, &rival, Progressing, "True/Retrying/revision object collisions in phase 0\n").await?;
    patch(&scenario, &rival, archive.clone()).await?;
    shows(&scenario, &rival, Progressing, "False/Archived/revision is archived").await?;
    let uid = scenario.sets().get(&set).await?.uid();
    ensure!(controller(&scenario, "first").await? == uid, "the rival removed what was not its own");

    // Somebody takes one object over: it is let go, not deleted.
    patch(&scenario, &set, archive).await?;
    shows(&scenario, &set, Progressing, ARCHIVING).await?;
    ensure!(verdict(&scenario, &set).await? == Status::InProgress, "something is being removed");
    ensure!(
        scenario.maps().get_opt("first").await?.is_some(),
        "the first phase went before the last was gone"
    );
    let boss = scenario.maps().get("held").await?;
    let taken = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "held", "uid": boss.uid(), "controller": true},
        {"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "name": set, "uid": uid, "controller": false},
    ]}});
    scenario.maps().merge("given", &taken).await?;
    let free = json!({"metadata": {"finalizers": null}});
    scenario.maps().merge("held", &free).await?;
    shows(&scenario, &set, Progressing, "False/Archived/revision is archived").await?;
    shows(&scenario, &set, Available, "Unknown/Archived/revision is archived").await?;
    shows(&scenario, &set, Ready, "True/Archived/revision is archived").await?;
    ensure!(verdict(&scenario, &set).await? == Status::Current, "archived as its spec wants it");
    scenario.event("ClusterObjectSet", &set, "Archived", "revision is archived").await?;
    ensure!(scenario.maps().get_opt("first").await?.is_none(), "left after teardown");
    let left = async || Ok(scenario.sets().get(&set).await?.finalizers().to_vec());
    eventually("the finalizer to go", left, Vec::is_empty).await?;
    let refused = patch(&scenario, &set, json!({"spec": {"lifecycleState": "Active"}})).await;
    ensure!(refused.is_err_and(|e| e.to_string().contains("cannot un-archive")), "un-archived");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_teardown_without_rights_is_told_and_goes_on_with_them() -> Result<()> {
    let scenario = scenario(World::shared().await?, "unarchived").await?;
    let set = create(&scenario, "set", spec(&[("one", inline(&[map(&scenario, "kept")]))])).await?;
    rolled_out(&scenario, &set).await?;
    let rules = replace_rules(&scenario, &[]).await?;
    patch(&scenario, &set, json!({"spec": {"lifecycleState": "Archived"}})).await?;
    let text = format!(
        "True/Retrying/error archiving revision: Object ConfigMap.v1 {}/kept: configmaps \"kept\" is forbidden",
        scenario.name
    );
    begins(&scenario, &set, Progressing, &text).await?;
    replace_rules(&scenario, &rules).await?;
    shows(&scenario, &set, Progressing, "False/Archived/revision is archived").await?;
    ensure!(scenario.maps().get_opt("kept").await?.is_none(), "left after teardown");
    scenario.sets().remove(&set).await?;
    Ok(())
}
