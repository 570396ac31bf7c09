//! Catalogs that change.

use olm_test::prelude::*;

const PACKAGE: &str = "lighthouse-operator";

/// As Go's decoder has it, whatever is read first. The same catalog is asked of the command line in cli/tests/olm/resolve.rs.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_spellings_of_an_edge_the_last_counts() -> Result<()> {
    let scenario = Scenario::shared("spellings").await?;
    let both = [("1.0.0", lighthouse("1.0.0")), ("1.1.0", lighthouse("1.1.0"))];
    scenario.push(PACKAGE, &both[..1], "latest").await?;
    scenario.create_catalog(&scenario.catalog_image("latest"), Some(1)).await?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.grant(&both).await?;
    scenario.catalog_serves().await?;
    scenario.install(PACKAGE, json!({}), "1.0.0").await?;

    let content = scenario.push_bundles(PACKAGE, &both).await?;
    let twice = content.replace("\"replaces\":", "\"Replaces\":\"lighthouse-operator.v0.9.0\",\"replaces\":");
    ensure!(twice != content, "no edge was spelled twice: {content}");
    scenario.push_catalog(&twice, "latest").await?;
    scenario.installed("1.1.0").await?;
    scenario.uninstall().await
}
