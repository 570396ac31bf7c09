//! What is waited for, but not for ever: catalogs that have never been served, and definitions that are being deleted.

use kube::api::GroupVersionKind;
use olm_test::prelude::*;

/// The definition belongs to the revision before, and is on its way out until the last object of its kind is gone. Its
/// end is no event of the new revision.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_waits_for_a_definition_to_be_gone_continues_then() -> Result<()> {
    let scenario = Scenario::shared("dying").await?;
    let group = scenario.group();
    let bundles = [
        small("dying", "1.0.0").brings(&group, "Jewel"),
        small("dying", "1.1.0").brings(&group, "Jewel").replaces("1.0.0"),
    ];
    scenario.offer(&bundles).await?;
    scenario.install("dying", json!({"version": "1.0.0"}), "1.0.0").await?;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Jewel"));
    let jewels: Api<DynamicObject> = Api::namespaced_with(scenario.client.clone(), &scenario.name, &kind);
    let jewel = json!({"apiVersion": format!("{group}/v1"), "kind": "Jewel",
                       "metadata": {"name": "held", "finalizers": ["example.com/held"]}});
    jewels.make(jewel).await?;
    let definition = format!("jewels.{group}");
    let before = scenario.crds().get(&definition).await?.uid();
    scenario.crds().remove(&definition).await?;

    scenario.set_version("1.1.0").await?;
    let waits = format!("{definition}: is being deleted, and will be created again afterwards");
    scenario.set_reports(&format!("{}-2", scenario.name), Ready, |ready| ready.contains(&waits)).await?;
    let free = json!({"metadata": {"finalizers": null}});
    jewels.merge("held", &free).await?;
    scenario.installed("1.1.0").await?;
    let after = scenario.crds().get(&definition).await?;
    ensure!(after.uid() != before && after.metadata.deletion_timestamp.is_none(), "{:?}", after.metadata);
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_never_comes_is_waited_for_until_the_deadline() -> Result<()> {
    // A world of its own: the deadline of the others is longer than a test should take.
    let world = World::start_with(&["--catalog-deadline=8s"]).await?;
    let scenario = Scenario::new(&world, "awaited").await?;
    let reference = scenario.push_made(&[small("awaited", "1.0.0")], &[], "here").await?;
    let here = scenario.further_catalog("here", 0, &reference).await?;
    scenario.serves(&here).await?;
    let missing = format!("{}/no-such-catalog:latest", world.images.host());
    let away = scenario.further_catalog("away", 5, &missing).await?;
    scenario.create_extension("awaited", scenario.own_catalogs()).await?;
    let text = format!(
        "error walking catalogs: error getting package \"awaited\" from catalog \"{away}\": catalog \"{away}\" is not being served"
    );
    scenario.shows(Progressing, &format!("True/Retrying/{text}")).await?;
    let shown = scenario.shown().await?;
    ensure!(shown.condition(Stalled).is_empty(), "it ends by itself: {shown:?}");
    let told = shown.condition(Ready);
    for part in [
        format!("Waiting for catalog {away}: check the conditions of ClusterCatalog {away}."),
        format!("Without it, bundle awaited.v1.0.0 of catalog {here} would be chosen."),
        "This bundle is chosen at ".to_owned(),
    ] {
        ensure!(told.contains(&part), "{told}");
    }
    println!("[waiting]\n{told}\n");
    scenario.installed("1.0.0").await?;
    scenario
        .shows(Ready, &format!("True/Succeeded/Revision 1.0.0 has rolled out.\nBundle awaited.v1.0.0 was chosen from catalog {here}, although a catalog of the same or a higher priority cannot be read and may have another one: {away}."))
        .await?;
    println!("[taken]\n{}\n", scenario.shown().await?.condition(Ready));
    // A catalog of lower priority would not have been waited for.
    let lower = scenario.further_catalog("lower", -5, &missing).await?;
    scenario.patch_extension(json!({"spec": {"source": {"catalog": {"version": "1.x"}}}})).await?;
    scenario.installed("1.0.0").await?;
    let told = scenario.shown().await?.condition(Ready);
    ensure!(!told.contains(&lower), "{told}");
    scenario.delete_extension().await
}
