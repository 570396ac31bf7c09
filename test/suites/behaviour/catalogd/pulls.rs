//! Registries that drip or hang: whose catalogs wait, and whose do not.

use olm_test::{
    faults::{Fault, FaultyRegistry},
    prelude::*,
};

use crate::world::{Alone, Catalog, DEADLINE, content};

/// A byte in this time: a catalog of 200 kB would take eleven days.
const DRIP: Fault = Fault::Drip(Duration::from_secs(5));
/// What a program has to end within that is asked to.
const END: Duration = Duration::from_secs(10);

/// Waits until a layer of the repository was requested.
async fn is_pulled(hostile: &FaultyRegistry, repository: &str) -> Result<()> {
    wait::until(&format!("the pull of {repository}"), DEADLINE, || async {
        // The image's config comes first, the layer then.
        let blobs = hostile.seen(repository).iter().filter(|seen| seen.request.contains("/blobs/")).count();
        wait::check(blobs == 2, || format!("{blobs} blobs were requested"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn registries_that_drip_delay_nobody_else_and_hold_up_no_end() -> Result<()> {
    let alone = Alone::take().await?;
    let (cluster, registries) = (&alone.cluster, &alone.registries);
    let (hostile, images) = (&registries.faulty, &registries.images);
    let catalogd = Catalogd::start_installed(cluster, &registries.settings()).await?;
    let mut dripping = Vec::new();
    for name in ["drip-one", "drip-two"] {
        let pushed = images.push_catalog(&content(21, 200_000), &format!("{name}:v1")).await?;
        let digest = pushed.rsplit_once('@').map(|(_, digest)| digest).unwrap_or_default();
        hostile.set(name, Some(DRIP));
        let reference = format!("{}/{name}@{digest}", hostile.address());
        dripping.push(Catalog::create(cluster, name, &reference).await?);
    }
    for name in ["drip-one", "drip-two"] {
        is_pulled(hostile, name).await?;
    }
    // One whose registry never answers, one of the same registry without a fault, and an honest one.
    hostile.set("hanging", Some(Fault::Hang));
    let hanging = Catalog::create(cluster, "hanging", &format!("{}/hanging:v1", hostile.address())).await?;
    let pushed = images.push_catalog(&content(22, 50_000), "same-host:v1").await?;
    let same_host =
        Catalog::create(cluster, "same-host", &format!("{}/same-host:v1", hostile.address())).await?;
    let honest_image = images.push_catalog(&content(23, 50_000), "honest:v1").await?;
    let honest = Catalog::create(cluster, "honest", &honest_image).await?;
    honest.serves(&honest_image).await?;
    for catalog in &dripping {
        let ready = catalog.condition(Ready).await?;
        ensure!(!ready.starts_with("True/") && !ready.contains("Retrying"), "it drips no more: {ready}");
        ensure!(catalog.condition(Serving).await?.is_empty(), "nothing can be served");
    }
    ensure!(
        hostile.seen("same-host").is_empty() && hostile.seen("hanging").is_empty(),
        "more than two places"
    );
    same_host.shows(Ready, "False/Reconciling/Pulling ").await?;

    // What is deleted makes room.
    for catalog in &dripping {
        catalog.delete().await?;
    }
    same_host.serves(&pushed).await?;
    ensure!(!hostile.seen("hanging").is_empty(), "asked before the other one");
    hanging.shows(Ready, "False/Reconciling/Pulling ").await?;

    // Whatever a registry does, the end comes in time.
    let again = Catalog::create(cluster, "drip-again", &format!("{}/drip-one:v1", hostile.address())).await?;
    wait::until("the pull to begin again", DEADLINE, || async {
        let ready = again.condition(Ready).await?;
        wait::check(ready.contains(" MB, 0 of 1 layers"), || format!("it is {ready:?}"))
    })
    .await?;
    catalogd.process().terminate(END).await?;
    for catalog in [hanging, same_host, honest, again] {
        // Nobody is there any more to take the finalizer off.
        catalog.patch(serde_json::json!({ "metadata": { "finalizers": null } })).await?;
        catalog.delete().await?;
    }
    Ok(())
}
