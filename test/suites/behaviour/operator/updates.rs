//! Which version an extension moves to, and which it does not.

use olm_test::prelude::*;

const PACKAGE: &str = "lighthouse-operator";

/// A serving catalog in which each of these versions replaces the one before.
async fn scenario(name: &str) -> Result<Scenario<'static>> {
    let scenario = Scenario::new(World::shared().await?, name).await?;
    let bundles = ["1.0.0", "1.1.0", "2.0.0"].map(|version| (version, lighthouse(version)));
    scenario.prepare(PACKAGE, &bundles).await?;
    Ok(scenario)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_administrator_leaves_the_catalogs_path() -> Result<()> {
    let scenario = scenario("forced").await?;
    scenario.create_extension(PACKAGE, json!({"version": "1.0.0"})).await?;
    scenario.installed("1.0.0").await?;

    scenario.set_version("2.0.0").await?;
    let refused = "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"lighthouse-operator\" matching version \"2.0.0\"";
    scenario.shows(Progressing, &format!("True/Retrying/{refused}")).await?;
    scenario.shows(Installed, "True/Succeeded/").await?;

    let forced = json!({"spec": {"source": {"catalog": {"upgradeConstraintPolicy": "SelfCertified"}}}});
    scenario.patch_extension(forced).await?;
    scenario.installed("2.0.0").await?;

    let provided = json!({"spec": {"source": {"catalog": {
        "upgradeConstraintPolicy": "CatalogProvided", "version": "1.1.0",
    }}}});
    scenario.patch_extension(provided).await?;
    let refused = "error upgrading from currently installed version \"2.0.0\": no bundles found for package \"lighthouse-operator\" matching version \"1.1.0\"";
    scenario.shows(Progressing, &format!("True/Retrying/{refused}")).await?;

    // A downgrade removes fields of the CRD: the administrator answers for that too.
    let back = json!({"spec": {
        "source": {"catalog": {"upgradeConstraintPolicy": "SelfCertified", "channels": ["stable"]}},
        "install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}},
    }});
    scenario.patch_extension(back).await?;
    scenario.installed("1.1.0").await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_brings_its_latest_version_and_nothing_outside() -> Result<()> {
    let scenario = scenario("ranged").await?;
    scenario.create_extension(PACKAGE, json!({"version": ">=1.0.0, <2.0.0"})).await?;
    scenario.installed("1.1.0").await?;
    scenario.set_version(">=1.0.0").await?;
    scenario.installed("2.0.0").await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_brings_its_latest_version() -> Result<()> {
    let scenario = scenario("channel").await?;
    scenario.create_extension(PACKAGE, json!({"channels": ["stable"]})).await?;
    scenario.installed("2.0.0").await?;
    scenario.delete_extension().await
}
