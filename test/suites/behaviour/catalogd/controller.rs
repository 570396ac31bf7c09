//! The controller against the real API server: references, labels, availability, deletion, and what must not
//! cause work.

use jiff::Timestamp;
use olm_api::names::{CATALOG_NAME_LABEL, DELETE_SERVER_CACHE_FINALIZER};
use olm_image::{Compression, ImageBuilder, LayerBuilder};
use olm_test::prelude::*;

use crate::world::{Catalog, DEADLINE, World, all, content, files, trusting};

/// References that the API admits and that stand for nothing: blocked until the spec changes.
#[tokio::test(flavor = "multi_thread")]
async fn references_that_the_api_admits_and_nobody_can_pull_are_blocked() -> Result<()> {
    let world = World::shared().await?;
    let (hex32, hex64) = ("0123456789abcdef".repeat(2), "0123456789abcdef".repeat(4));
    let parsing = |reference: &str| {
        format!(
            "False/Blocked/source catalog content: terminal error: error parsing image reference {reference:?}: "
        )
    };
    let creating =
        "False/Blocked/source catalog content: terminal error: error creating reference: ".to_owned();
    let tagged = format!("quay.io/x/y:tag@sha256:{hex64}");
    let mut rows = vec![(
        tagged,
        format!("{creating}Docker references with both a tag and digest are currently not supported"),
    )];
    for (reference, cause) in [
        ("library/busybox:latest".to_owned(), "repository name must be canonical"),
        ("quay.io/Foo/bar:v1".to_owned(), "invalid reference format: repository name"),
        ("quay.io/foo/Bar:v1".to_owned(), "invalid reference format: repository name"),
        ("docker://quay.io/foo/bar:v1".to_owned(), "invalid reference format"),
        ("https://quay.io/foo/bar:v1".to_owned(), "invalid reference format"),
        ("quay.io//foo:v1".to_owned(), "invalid reference format"),
        ("quay.io/foo bar:v1".to_owned(), "invalid reference format"),
        ("quay.io/foo/bar:a:b".to_owned(), "invalid reference format"),
        (format!("quay.io/foo/bar@md5:{hex32}"), "unsupported digest algorithm"),
        (format!("quay.io/foo/bar@sha512:{hex64}"), "invalid checksum digest length"),
        (format!("quay.io/foo/bar@sha256:{}", hex64.to_uppercase()), "invalid checksum digest format"),
    ] {
        rows.push((reference.clone(), format!("{}{cause}", parsing(&reference))));
    }
    let mut blocked = Vec::new();
    for (reference, wanted) in rows {
        blocked.push((Catalog::create(&world.cluster, "reference", &reference).await?, wanted));
    }
    for (catalog, wanted) in &blocked {
        catalog.shows(Progressing, wanted).await?;
        ensure!(catalog.condition(Serving).await?.is_empty());
        ensure!(catalog.condition(Stalled).await?.starts_with("True/Blocked/"));
    }
    Ok(())
}

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

#[tokio::test(flavor = "multi_thread")]
async fn availability_and_deletion_take_the_content_away() -> Result<()> {
    let world = World::shared().await?;
    let images = &world.registries.images;
    let pushed = images.push_catalog(&content(20, 50_000), "available:v1").await?;
    let catalog =
        Catalog::create(&world.cluster, "available", &format!("{}/available:v1", images.host())).await?;
    catalog.serves(&pushed).await?;
    let object = catalog.api.get(&catalog.name).await?;
    ensure!(object.metadata.labels.unwrap_or_default().get(CATALOG_NAME_LABEL) == Some(&catalog.name));
    let finalizers = object.metadata.finalizers.unwrap_or_default();
    ensure!(finalizers == [DELETE_SERVER_CACHE_FINALIZER], "{finalizers:?}");
    let status = object.status.unwrap_or_default();
    let base = format!("{}/catalogs/{}", world.catalogd.url(), catalog.name);
    ensure!(status.urls.map(|urls| urls.base) == Some(base.clone()), "urls");
    let unpacked = status.last_unpacked.map(|time| time.0).unwrap_or_default();
    ensure!(Timestamp::now().duration_since(unpacked).as_secs() < 300, "{unpacked}");
    catalog
        .shows(Progressing, "True/Succeeded/Successfully unpacked and stored content from resolved source")
        .await?;

    catalog.patch(json!({ "spec": { "availabilityMode": "Unavailable" } })).await?;
    let message = "Catalog availability mode is set to Unavailable";
    catalog.shows(Serving, &format!("False/UserSpecifiedUnavailable/{message}")).await?;
    catalog.shows(Progressing, &format!("True/Succeeded/{message}")).await?;
    let status = catalog.status().await?;
    ensure!(status.resolved_source.is_none() && status.urls.is_none() && status.last_unpacked.is_none());
    let gone = trusting()?.get(format!("{base}/api/v1/all")).send().await?.status();
    ensure!(gone == reqwest::StatusCode::NOT_FOUND, "{gone}");
    wait::until("the finalizer to be gone", DEADLINE, async || {
        let finalizers = catalog.api.get(&catalog.name).await?.metadata.finalizers.unwrap_or_default();
        wait::check(finalizers.is_empty(), || format!("{finalizers:?}"))
    })
    .await?;

    catalog.patch(json!({ "spec": { "availabilityMode": "Available" } })).await?;
    catalog.serves(&pushed).await?;
    catalog.delete().await?;
    let left: Vec<_> =
        files(&world.catalogd.cache())?.into_iter().filter(|file| file.contains(&catalog.name)).collect();
    ensure!(left.is_empty(), "{left:?}");
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
