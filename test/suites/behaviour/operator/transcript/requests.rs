//! Requests that the catalogs do not meet.

use olm_test::prelude::*;

use super::{State, Transcript};

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_the_catalogs_do_not_meet() -> Result<()> {
    let scenario = Scenario::shared("asked").await?;
    let package = format!("{}-operator", scenario.name);
    let bundles = [small(&package, "1.0.0"), small(&package, "1.1.0").replaces("1.0.0")];
    scenario.offer(&bundles).await?;
    let mut shown = Transcript::new(&scenario);

    let misspelt = package.replacen('k', "", 1);
    scenario.create_extension(&misspelt, json!({})).await?;
    let none = format!("no bundles found for package {misspelt:?}");
    let meant = format!("Did you mean {package}?");
    let state = (State::Stalled, &[&*none, "check the name", &*meant][..]);
    shown.extension("A package that no catalog has", &scenario.name, state, &[&none]).await?;
    scenario.delete_extension().await?;

    scenario.create_extension(&package, json!({"version": "1.0.9"})).await?;
    let none = format!("no bundles found for package {package:?} matching version \"1.0.9\"");
    let nearest = "Choose another version range, for instance 1.0.0 or 1.1.0.";
    let state = (State::Stalled, &[&*none, nearest][..]);
    shown.extension("A version that there is not", &scenario.name, state, &["is outside the range"]).await?;
    scenario.upgrade("1.0.0").await?;

    scenario.set_version(">=9").await?;
    let state = (State::Stalled, &["matching version \">=9\"", "for instance 1.1.0."][..]);
    shown
        .extension(
            "A range that no bundle is in, after an installation",
            &scenario.name,
            state,
            &["installed  "],
        )
        .await?;
    scenario.set_version("1.0.0").await?;
    let channels = |channels: Value| json!({"spec": {"source": {"catalog": {"channels": channels}}}});
    scenario.patch_extension(channels(json!(["stabel"]))).await?;
    let state = (State::Stalled, &["in channels [stabel]", "Did you mean stable?"][..]);
    shown
        .extension("A channel that there is not", &scenario.name, state, &["only in channels stable"])
        .await?;
    scenario.delete_extension().await?;

    let reference = scenario.push_made(&bundles, &[], "other").await?;
    for suffix in ["one", "two"] {
        let catalog = scenario.further_catalog(suffix, 0, &reference).await?;
        scenario.serves(&catalog).await?;
    }
    let reference = scenario.push_made(&[small(&package, "1.2.0")], &[], "third").await?;
    let third = scenario.further_catalog("three", 0, &reference).await?;
    scenario.serves(&third).await?;
    let both = format!("{}-both", scenario.name);
    scenario.another(&both, &package, scenario.own_catalogs()).await?;
    let several = "in multiple catalogs with the same priority";
    let state = (State::Stalled, &[several, "Choose one: select a catalog"][..]);
    shown.extension("Catalogs of the same priority that disagree", &both, state, &[several]).await?;
    scenario.remove_extension(&both).await?;
    shown.write()
}

// Nothing but a person can correct the one; the other comes by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_is_waited_for() -> Result<()> {
    let scenario = Scenario::shared("awaited").await?;
    let package = format!("{}-operator", scenario.name);
    let reference = scenario.push_made(&[small(&package, "1.0.0")], &[], "latest").await?;
    let mut shown = Transcript::new(&scenario);
    // Nothing listens there.
    let away = scenario.further_catalog("away", 0, "127.0.0.1:9/catalog:latest").await?;
    scenario.another(&scenario.name, &package, scenario.own_catalogs()).await?;
    let advice = "No readable catalog has the package: check its name.";
    let state = (State::Reconciling, &["error walking catalogs", advice, &*away][..]);
    shown.extension("A catalog whose registry does not answer", &scenario.name, state, &[&away]).await?;
    let missing = format!("{}/no-such-catalog:latest", scenario.world.images.host());
    let image = |reference: &str| json!({"spec": {"source": {"image": {"ref": reference}}}});
    scenario.patch_catalog(&away, image(&missing)).await?;
    let state = (State::Stalled, &["error walking catalogs", advice, &*away][..]);
    shown.extension("A catalog that someone has to correct", &scenario.name, state, &[&away]).await?;
    scenario.patch_catalog(&away, image(&reference)).await?;
    scenario.installed("1.0.0").await?;
    scenario.delete_extension().await?;
    shown.write()
}
