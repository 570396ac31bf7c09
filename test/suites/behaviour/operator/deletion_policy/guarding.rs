//! A deletion waits for its policy, and what is kept is nobody else's.

use olm_api::ConditionType::DeletionPolicy;
use olm_test::prelude::*;

use super::{PACKAGE, crd, gone, in_force, in_use, objection, own_bundle, remove_rights, still_readable};

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_is_refused_until_its_policy_is_in_force() -> Result<()> {
    let scenario = in_use(World::shared().await?, "heldback").await?;
    let definition = format!("beacons.{}", scenario.group());
    remove_rights(&scenario, &definition).await?;
    scenario.annotate("deletion-policy", "Orphan".into()).await?;
    let told = objection(&scenario).await?;
    let wanted = "the deletion policy \"Orphan\" is not in force yet";
    ensure!(told.as_deref().is_some_and(|text| text.contains(wanted)), "{told:?}");
    scenario.shows(DeletionPolicy, "False/Orphan/").await?;
    wait::until("Ready to say why", DEADLINE, || async {
        let shown = scenario.shown().await?.condition(Ready);
        let says = shown
            .contains("The deletion policy Orphan is not in force yet, so the extension cannot be deleted");
        wait::check(says && shown.contains("forbidden"), || shown)
    })
    .await?;
    let told = objection(&scenario).await?;
    ensure!(told.is_some_and(|text| text.contains("to delete everything, remove the annotation")));

    let bundle = own_bundle(&scenario)?;
    scenario.grant(&[("1.0.0", bundle.path().to_owned())]).await?;
    scenario.shows(DeletionPolicy, "True/Orphan/").await?;
    ensure!(crd(&scenario).await?.owner_references().is_empty(), "the CRD has an owner");

    // Without rights the references cannot be given back: it is said, and the deletion passes.
    remove_rights(&scenario, &definition).await?;
    scenario.annotate("deletion-policy", json!(null)).await?;
    let told = objection(&scenario).await?;
    ensure!(told.is_some_and(|text| text.contains("the deletion policy \"Delete\" is not in force yet")));
    scenario.shows(DeletionPolicy, "Unknown/Delete/").await?;
    let told = objection(&scenario).await?;
    ensure!(told.is_none(), "{told:?}");
    gone(&scenario).await?;
    still_readable(&scenario).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_without_revisions_can_be_deleted_under_a_policy() -> Result<()> {
    let scenario = Scenario::shared("nothing").await?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.create_extension("no-such-package", json!({})).await?;
    scenario.annotate("deletion-policy", "RetainCRDs".into()).await?;
    scenario.shows(DeletionPolicy, "True/RetainCRDs/").await?;
    ensure!(objection(&scenario).await?.is_none());
    gone(&scenario).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_no_other_extensions() -> Result<()> {
    let scenario = in_use(World::shared().await?, "heir").await?;
    in_force(&scenario, "Orphan").await?;
    ensure!(objection(&scenario).await?.is_none());
    gone(&scenario).await?;
    let other = format!("{}-other", scenario.name);
    scenario.another(&other, PACKAGE, json!({})).await?;
    wait::until("the collision to be told", DEADLINE, || async {
        let status = scenario.extensions().get(&other).await?.status.unwrap_or_default();
        let told = status.conditions.find(Progressing).map(|c| c.message.clone()).unwrap_or_default();
        let kept = format!(
            "Kept by the deletion policy of ClusterExtension {:?} (package {PACKAGE:?})",
            scenario.name
        );
        wait::check(told.starts_with("revision object collisions in phase ") && told.contains(&kept), || told)
    })
    .await?;
    scenario.remove_extension(&other).await?;
    still_readable(&scenario).await?;
    scenario.install(PACKAGE, json!({}), "1.0.0").await?;
    still_readable(&scenario).await?;
    scenario.uninstall().await
}
