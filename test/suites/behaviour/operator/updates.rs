//! The update that the catalogs have is written when it changes, and at no other time.

use olm_api::ConditionType::UpdateAvailable;
use olm_test::prelude::*;

use crate::starts::reconciled;

/// A pause after which nothing more is to come.
const STILL: Duration = Duration::from_secs(3);

/// Waits until the extension was reconciled again and nothing goes on; its version, which each write changes.
async fn version(scenario: &Scenario<'_>, reconciled_before: usize) -> Result<String> {
    let operator = &scenario.world.operator;
    wait::until("another reconcile", DEADLINE, async || {
        operator.process().check_running()?;
        let count = reconciled(operator, &scenario.name);
        wait::check(count > reconciled_before, || format!("{count} reconciles"))
    })
    .await?;
    scenario.world.proxy().quiet(STILL, DEADLINE).await?;
    scenario.extensions().get(&scenario.name).await?.resource_version().context("no version")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_stays_the_same_is_not_written_again() -> Result<()> {
    let world = World::start_behind_proxy(&[]).await?;
    let scenario = Scenario::new(&world, "same").await?;
    let package = format!("{}-op", scenario.name);
    let offered = [small(&package, "1.0.0"), small(&package, "1.1.0").replaces("1.0.0")];
    let newer = small(&package, "1.2.0").replaces("1.1.0");
    let other = small(&format!("{}-other", scenario.name), "1.0.0");
    scenario.offer(&offered).await?;
    scenario.install(&package, json!({"version": "1.0.0"}), "1.0.0").await?;
    scenario.shows(UpdateAvailable, "True/NewerVersion/1.1.0").await?;
    let first = version(&scenario, 0).await?;

    // The catalog changes in what does not concern the package.
    let count = || reconciled(&world.operator, &scenario.name);
    let image = |reference: &str| json!({"spec": {"source": {"image": {"ref": reference}}}});
    let before = count();
    let bundles = [offered[0].clone(), offered[1].clone(), other];
    let reference = scenario.push_made(&bundles, &[], "more").await?;
    scenario.patch_catalog(&scenario.name, image(&reference)).await?;
    ensure!(version(&scenario, before).await? == first, "written: {:?}", scenario.shown().await?);

    // A new process knows of nothing that it has written.
    let before = count();
    world.operator.process().restart()?;
    world.operator.ready().await?;
    ensure!(version(&scenario, before).await? == first, "written: {:?}", scenario.shown().await?);

    // The path from the installed version leads to the same one, although there is a newer one.
    let before = count();
    let bundles = [offered[0].clone(), offered[1].clone(), newer.clone()];
    let reference = scenario.push_made(&bundles, &[], "newer").await?;
    scenario.patch_catalog(&scenario.name, image(&reference)).await?;
    ensure!(version(&scenario, before).await? == first, "written: {:?}", scenario.shown().await?);

    let before = count();
    let reference = scenario.push_made(&[offered[0].clone(), newer.replaces("1.0.0")], &[], "newest").await?;
    scenario.patch_catalog(&scenario.name, image(&reference)).await?;
    scenario.shows(UpdateAvailable, "True/NewerVersion/1.2.0").await?;
    ensure!(version(&scenario, before).await? != first, "another update is written");
    scenario.delete_extension().await
}
