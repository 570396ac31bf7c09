//! Catalogs that change.

use olm_test::prelude::*;

const PACKAGE: &str = "lighthouse-operator";

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_moves_brings_the_upgrade_at_the_next_poll() -> Result<()> {
    let world = World::shared().await?;
    let scenario = Scenario::new(world, "moving").await?;
    let first = [("1.0.0", lighthouse("1.0.0"))];
    let both = [("1.0.0", lighthouse("1.0.0")), ("1.1.0", lighthouse("1.1.0"))];
    scenario.push(PACKAGE, &first, "latest").await?;
    scenario.create_catalog(&scenario.catalog_image("latest"), Some(1)).await?;
    olm_test::rights::create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.grant(&both).await?;
    scenario.catalog_serves().await?;
    scenario.create_extension(PACKAGE, json!({})).await?;
    scenario.installed("1.0.0").await?;

    scenario.push(PACKAGE, &both, "latest").await?;
    scenario.installed("1.1.0").await?;
    scenario.delete_extension().await?;
    scenario.nothing_left().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_stays_installed_and_repaired_when_its_catalog_goes() -> Result<()> {
    let world = World::shared().await?;
    let scenario = Scenario::new(world, "orphaned").await?;
    scenario.prepare(PACKAGE, &[("1.0.0", lighthouse("1.0.0"))]).await?;
    scenario.create_extension(PACKAGE, json!({"version": "1.x"})).await?;
    scenario.installed("1.0.0").await?;
    let catalogs: kube::Api<olm_api::v1::ClusterCatalog> = kube::Api::all(scenario.client.clone());
    catalogs.delete(&scenario.name, &kube::api::DeleteParams::default()).await?;
    scenario
        .shows(
            olm_api::ConditionType::Ready,
            "True/Succeeded/Revision 1.0.0 has rolled out.\nNo catalog has the package",
        )
        .await?;

    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(scenario.client.clone(), &scenario.name);
    maps.delete("lighthouse-operator-settings", &kube::api::DeleteParams::default()).await?;
    olm_test::wait::until("the config map to be back", DEADLINE, || async {
        let back = maps.get_opt("lighthouse-operator-settings").await?.is_some();
        olm_test::wait::check(back, || "it is not there".into())
    })
    .await?;
    scenario.delete_extension().await?;
    scenario.nothing_left().await
}

/// As Go's decoder has it, whatever is read first. The same catalog is asked of the command line in cli/tests/resolve.rs.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_spellings_of_an_edge_the_last_counts() -> Result<()> {
    let world = World::shared().await?;
    let scenario = Scenario::new(world, "spellings").await?;
    let both = [("1.0.0", lighthouse("1.0.0")), ("1.1.0", lighthouse("1.1.0"))];
    scenario.push(PACKAGE, &both[..1], "latest").await?;
    scenario.create_catalog(&scenario.catalog_image("latest"), Some(1)).await?;
    olm_test::rights::create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.grant(&both).await?;
    scenario.catalog_serves().await?;
    scenario.create_extension(PACKAGE, json!({})).await?;
    scenario.installed("1.0.0").await?;

    let content = scenario.push_bundles(PACKAGE, &both).await?;
    let twice = content.replace("\"replaces\":", "\"Replaces\":\"lighthouse-operator.v0.9.0\",\"replaces\":");
    ensure!(twice != content, "no edge was spelled twice: {content}");
    scenario.push_catalog(&twice, "latest").await?;
    scenario.installed("1.1.0").await?;
    scenario.delete_extension().await?;
    scenario.nothing_left().await
}
