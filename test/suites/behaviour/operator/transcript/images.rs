//! Images of catalogs and bundles that cannot be used.

use olm_test::{catalog, images::UNKNOWN_HOST, prelude::*};

use super::{State, Transcript};

const UNUSABLE: &str =
    "The registry cannot be used like this, and trying again does not help: correct the reference";
const NO_HOST: &str = "No host has this name: correct the reference";

#[tokio::test(flavor = "multi_thread")]
async fn images_of_catalogs_that_cannot_be_used() -> Result<()> {
    let scenario = Scenario::shared("catalogs").await?;
    let (mut shown, host) = (Transcript::new(&scenario), scenario.world.images.host());
    let package = format!("{}-operator", scenario.name);
    let bundle =
        scenario.world.images.push_made(&small(&package, "1.0.0"), &format!("{package}:v1.0.0")).await?;
    let elsewhere = format!("{UNKNOWN_HOST}/catalog:latest");
    // The same registry by a name for which plain HTTP is not allowed.
    let strict = host.replace("127.0.0.1", "localhost");
    let rows = [
        (
            "The registry of a catalog answers without TLS",
            "notls",
            format!("{strict}/{package}:v1.0.0"),
            ["answers without TLS", UNUSABLE],
        ),
        (
            "The tag of a catalog does not exist",
            "notag",
            format!("{host}/{package}:nope"),
            [
                "manifest unknown",
                "The registry does not have this image: correct the reference, or push the image.",
            ],
        ),
        ("The host of a catalog does not exist", "nohost", elsewhere, ["no such host", NO_HOST]),
        (
            "A bundle is not a catalog",
            "bundle",
            bundle,
            ["catalog image is missing the required label", "use the image of a catalog, not of a bundle"],
        ),
        (
            "A digest that is none",
            "digest",
            format!("{host}/{package}@sha256:aaaa"),
            ["error parsing image reference", "Correct the reference: <registry>/<repository>:<tag>"],
        ),
    ];
    for (title, suffix, reference, parts) in rows {
        let name = scenario.further_catalog(suffix, 0, &reference).await?;
        shown.catalog(title, &name, (State::Stalled, &parts)).await?;
    }
    // Nothing listens there: it may yet.
    let name = scenario.further_catalog("away", 0, "127.0.0.1:9/catalog:latest").await?;
    let state = (State::Reconciling, &["pinging container registry 127.0.0.1:9"][..]);
    shown.catalog("The registry of a catalog does not answer", &name, state).await?;
    shown.write()
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_bundles_that_cannot_be_used() -> Result<()> {
    let scenario = Scenario::shared("bundles").await?;
    let (mut shown, host) = (Transcript::new(&scenario), scenario.world.images.host());
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    let package = format!("{}-operator", scenario.name);
    let missing = format!("{host}/no-such-bundle:v1.0.0");
    let elsewhere = format!("{UNKNOWN_HOST}/bundle:v1.1.0");
    let away = "127.0.0.1:9/bundle:v1.2.0";
    let strict = format!("{}/bundle:v1.3.0", host.replace("127.0.0.1", "localhost"));
    let images = [("1.0.0", missing.as_str()), ("1.1.0", &elsewhere), ("1.2.0", away), ("1.3.0", &strict)];
    let reference = scenario.push_catalog(&catalog::chain(&package, &images), "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    scenario.catalog_serves().await?;
    let rows = [
        (
            "1.0.0",
            "The image of a bundle does not exist",
            State::Stalled,
            [
                "manifest unknown",
                "The registry does not have this image: correct the reference, or push the image.",
            ],
        ),
        ("1.1.0", "The host of a bundle does not exist", State::Stalled, ["no such host", NO_HOST]),
        (
            "1.2.0",
            "The registry of a bundle does not answer",
            State::Reconciling,
            ["pinging container registry 127.0.0.1:9", "error for resolved bundle"],
        ),
        (
            "1.3.0",
            "The registry of a bundle answers without TLS",
            State::Stalled,
            ["answers without TLS", UNUSABLE],
        ),
    ];
    scenario.create_extension(&package, json!({"version": "1.0.0"})).await?;
    for (version, title, state, parts) in rows {
        scenario.set_version(version).await?;
        let bundle = format!("{package}.v{version}");
        shown.extension(title, &scenario.name, (state, &parts), &[&bundle]).await?;
    }
    scenario.delete_extension().await?;
    shown.write()
}
