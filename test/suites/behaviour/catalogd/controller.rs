//! The controller against the real API server: labels of images, and what must not cause work.

use olm_image::{Compression, ImageBuilder, LayerBuilder};
use olm_test::prelude::*;

use crate::world::{Catalog, World, all, content};

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_the_label_is_blocked_by_digest_and_tried_again_by_tag() -> Result<()> {
    let world = World::shared().await?;
    let images = &world.registries.images;
    let layer = LayerBuilder::new(Compression::Gzip).file("configs/a.json", "{}")?.build()?;
    let pinned = images.push(&ImageBuilder::new().layer(layer).build(), "unlabelled:v1").await?;
    let text = "source catalog content: error applying image: ";
    let missing =
        "catalog image is missing the required label \"operators.operatorframework.io.index.configs.v1\"";
    let by_tag =
        Catalog::create(&world.cluster, "tagged", &format!("{}/unlabelled:v1", images.host())).await?;
    let by_digest = Catalog::create(&world.cluster, "pinned", &pinned).await?;
    by_tag.shows(Progressing, &format!("True/Retrying/{text}{missing}")).await?;
    by_digest.shows(Progressing, &format!("False/Blocked/{text}terminal error: {missing}")).await?;

    // A label that points nowhere is no empty catalog.
    let layer = LayerBuilder::new(Compression::Gzip).file("elsewhere/a.json", "{}")?.build()?;
    images.push_catalog_layers(vec![layer], "nowhere:v1").await?;
    let nowhere =
        Catalog::create(&world.cluster, "nowhere", &format!("{}/nowhere:v1", images.host())).await?;
    nowhere
        .shows(Progressing, "True/Retrying/error storing fbc: error walking FBC root: the image has no files")
        .await?;
    Ok(())
}

/// Defects of upstream: conditions of others, edits that do not matter and a second look at the same digest
/// made it ingest again.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_change_the_content_causes_no_ingest() -> Result<()> {
    let world = World::shared().await?;
    let faulty = &world.registries.faulty;
    let pushed = world.registries.images.push_catalog(&content(21, 50_000), "calm:v1").await?;
    let reference = format!("{}/calm:v1", faulty.address());
    let catalog = Catalog::create(&world.cluster, "calm", &reference).await?;
    catalog.serves(&pushed).await?;
    let unpacked = catalog.status().await?.last_unpacked;
    let requests = faulty.seen("calm").len();
    let version = async || Ok::<_, anyhow::Error>(catalog.api.get(&catalog.name).await?.metadata.generation);

    let generation = version().await?;
    catalog.patch(json!({ "spec": { "priority": 7 }, "metadata": { "annotations": { "a": "b" } } })).await?;
    let foreign = json!({ "status": { "conditions": [{
        "type": "Foreign", "status": "True", "reason": "Other", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } });
    let patch = kube::api::Patch::Apply(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
        "metadata": { "name": catalog.name }, "status": foreign["status"],
    }));
    let params = kube::api::PatchParams::apply("somebody").force();
    catalog.api.patch_status(&catalog.name, &params, &patch).await?;
    wait::until("the new generation to be observed", DEADLINE, async || {
        let status = catalog.status().await?;
        let observed = status.conditions.find(Progressing).and_then(|c| c.observed_generation);
        ensure!(observed > generation, "{observed:?} after {generation:?}");
        ensure!(status.conditions.iter().any(|c| c.type_ == "Foreign"), "the foreign condition is gone");
        Ok(())
    })
    .await?;
    catalog.shows(Ready, "True/Succeeded/").await?;
    ensure!(faulty.seen("calm").len() == requests, "{:?}", faulty.seen("calm"));
    ensure!(catalog.status().await?.last_unpacked == unpacked, "unpacked again");

    // Another tag of the same digest: one look, no layer.
    world.registries.images.push_catalog(&content(21, 50_000), "calm:v2").await?;
    catalog.set_reference(&format!("{}/calm:v2", faulty.address())).await?;
    wait::until("the look at the other tag", DEADLINE, async || {
        wait::check(faulty.seen("calm").iter().any(|seen| seen.request.ends_with("/v2")), || "no look".into())
    })
    .await?;
    catalog.serves(&pushed).await?;
    let blobs = faulty.seen("calm")[requests..].iter().filter(|s| s.request.contains("/blobs/")).count();
    ensure!(blobs == 0, "{blobs} blobs fetched again");
    ensure!(catalog.status().await?.last_unpacked == unpacked, "unpacked again");
    ensure!(all(&world.catalogd, &catalog.name).await? == content(21, 50_000));
    Ok(())
}
