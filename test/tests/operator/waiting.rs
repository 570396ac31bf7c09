//! Catalogs that have never been served: waited for, but not for ever.

use anyhow::{Result, ensure};
use olm_api::ConditionType::{Progressing, Ready, Stalled};
use serde_json::json;

use crate::{
    small::{further_catalog, of_scenario, push, serves, small},
    world::{Scenario, World},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_never_comes_is_waited_for_until_the_deadline() -> Result<()> {
    // A world of its own: the deadline of the others is longer than a test should take.
    let world = World::start_with(&["--catalog-deadline=8s"]).await?;
    let scenario = Scenario::new(&world, "awaited").await?;
    let reference = push(&scenario, &[small("awaited", "1.0.0")], &[], "here").await?;
    let here = further_catalog(&scenario, "here", 0, &reference).await?;
    serves(&scenario, &here).await?;
    let missing = format!("{}/no-such-catalog:latest", world.images.host());
    let away = further_catalog(&scenario, "away", 5, &missing).await?;
    scenario.create_extension("awaited", of_scenario(&scenario)).await?;
    let text = format!(
        "error walking catalogs: error getting package \"awaited\" from catalog \"{away}\": catalog \"{away}\" is not being served"
    );
    scenario.shows(Progressing, &format!("True/Retrying/{text}")).await?;
    let told = scenario.shown().await?.condition(Stalled);
    for part in [
        format!("Waiting for catalog {away}: look at the conditions of ClusterCatalog {away}."),
        format!("Without it the answer would be bundle awaited.v1.0.0 of catalog {here}."),
        "That answer is taken at ".to_owned(),
    ] {
        ensure!(told.contains(&part), "{told}");
    }
    println!("[waiting]\n{told}\n");
    scenario.installed("1.0.0").await?;
    scenario
        .shows(Ready, &format!("True/Succeeded/Revision 1.0.0 has rolled out.\nBundle awaited.v1.0.0 is taken from catalog {here}, although a catalog of the same or a higher priority may have another one and cannot be read: {away}."))
        .await?;
    println!("[taken]\n{}\n", scenario.shown().await?.condition(Ready));
    // A catalog of lower priority would not have been waited for.
    let lower = further_catalog(&scenario, "lower", -5, &missing).await?;
    scenario.patch_extension(json!({"spec": {"source": {"catalog": {"version": "1.x"}}}})).await?;
    scenario.installed("1.0.0").await?;
    let told = scenario.shown().await?.condition(Ready);
    ensure!(!told.contains(&lower), "{told}");
    scenario.delete_extension().await
}
