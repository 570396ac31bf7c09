//! What a process finds that another one left behind.

use olm_test::prelude::*;

use super::{
    begins, create_like, create_with, idle_extension, inline, map, owned_by, patch, rolled_out, scenario,
    shows, spec,
};

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_only_what_was_changed_counts_as_drift() -> Result<()> {
    // A world of its own: the other tests need a program that lives.
    let world = World::start().await?;
    let scenario = scenario(&world, "form").await?;
    // The server keeps 1000m as 1: a new process cannot see by comparing that nobody changed it.
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "app", "namespace": scenario.name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "app"}},
            "template": {
                "metadata": {"labels": {"app": "app"}},
                "spec": {"containers": [
                    {"name": "app", "image": "app", "resources": {"limits": {"cpu": "1000m"}}},
                ]},
            },
        },
    });
    let set =
        super::create(&scenario, "form", spec(&[("one", inline(&[deployment, map(&scenario, "kept")]))]))
            .await?;
    rolled_out(&scenario, &set).await?;
    world.operator.process().kill()?;
    scenario.maps().remove("kept").await?;
    world.operator.process().restart()?;
    let text = format!("Restored after an outside change: ConfigMap.v1 {}/kept", scenario.name);
    scenario.event("ClusterObjectSet", &set, "DriftRepaired", &text).await?;
    let told = scenario.events("ClusterObjectSet", &set).await?;
    ensure!(!told.iter().any(|(_, note)| note.contains("Deployment")), "{told:?}");
    Ok(())
}

/// A process that ends between the last status of a teardown and the finalizer leaves nothing to do but this, whatever
/// has become of account and content.
#[tokio::test(flavor = "multi_thread")]
async fn a_teardown_that_is_over_stays_over_without_account_and_content() -> Result<()> {
    // A world of its own: without a garbage collector, and with a program that dies.
    let world = World::start().await?;
    let scenario = scenario(&world, "over").await?;
    let collector = world.cluster.processes().iter().find(|p| p.name() == "kube-controller-manager");
    collector.context("no controller manager")?.kill()?;
    world.operator.process().kill()?;
    let gone = json!({
        "olm.operatorframework.io/service-account-name": "gone",
        "olm.operatorframework.io/service-account-namespace": scenario.name,
    });
    let secret = json!([{"ref": {"namespace": scenario.name, "name": "gone", "key": "k"}}]);
    let set = create_with(&scenario, "over", gone, spec(&[("one", secret)])).await?;
    patch(
        &scenario,
        &set,
        json!({"metadata": {"finalizers": ["olm.operatorframework.io/teardown"]}, "spec": {"lifecycleState": "Archived"}}),
    )
    .await?;
    let told = json!({"status": {"conditions": [{
        "type": "Progressing", "status": "False", "reason": "Archived", "message": "revision is archived",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2,
    }]}});
    scenario.sets().patch_status(&set, &PatchParams::default(), &Patch::Merge(&told)).await?;

    // An extension of the name, but not the one that the revision was made for.
    let uid = idle_extension(&scenario).await?;
    let content = spec(&[("one", inline(&[map(&scenario, "loot")]))]);
    let other = uid.replace(|c: char| c.is_ascii_digit(), "0");
    let metadata = json!({"ownerReferences": owned_by(&scenario.name, &other)});
    let orphan = create_like(&scenario, "orphan", metadata, content).await?;
    world.operator.process().restart()?;
    let left = async || Ok(scenario.sets().get(&set).await?.finalizers().to_vec());
    eventually("the finalizer to go", left, Vec::is_empty).await?;
    shows(&scenario, &set, Progressing, "False/Archived/revision is archived").await?;
    let blocked =
        format!("False/Blocked/revision \"{orphan}\" is missing required annotations: only the controller ");
    begins(&scenario, &orphan, Progressing, &blocked).await?;
    ensure!(scenario.maps().get_opt("loot").await?.is_none(), "written for another extension");
    Ok(())
}
