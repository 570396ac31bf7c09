//! Disks that are full: the old content stays, nothing is left behind, and it recovers when there is room.

use olm_test::{instance::Settings, prelude::*};

use crate::world::{Alone, Catalog, all, content, files};

/// A small catalog, one that does not fit, and what happens.
async fn grows_beyond_the_disk(
    alone: &Alone,
    settings: &Settings,
    wanted: &str,
    make_room: impl AsyncFnOnce(&Catalogd, &Catalog) -> Result<String>,
) -> Result<()> {
    let (cluster, images) = (&alone.cluster, &alone.registries.images);
    let catalogd = Catalogd::start(cluster, settings).await?;
    let catalog = Catalog::named(cluster, "full").await?;
    let small = images.push_catalog(&content(1, 200_000), &format!("{}:small", catalog.name)).await?;
    images.push_catalog(&content(2, 8_000_000), &format!("{}:large", catalog.name)).await?;
    let reference = |tag: &str| format!("{}/{}:{tag}", images.host(), catalog.name);
    catalog.put(serde_json::json!({ "ref": reference("small") })).await?;
    catalog.serves(&small).await?;
    let served = all(&catalogd, &catalog.name).await?;
    let held = files(&catalogd.cache())?;

    catalog.set_reference(&reference("large")).await?;
    let text = catalog.shows(Progressing, "True/Retrying/").await?;
    ensure!(text.contains(wanted), "{text}");
    catalog.shows(Serving, "True/Available/").await?;
    catalog.shows(Ready, "False/Retrying/").await?;
    ensure!(all(&catalogd, &catalog.name).await? == served, "old content");
    let left = async || Ok(files(&catalogd.cache())?);
    eventually("nothing but the old content to be on disk", left, |left| *left == held).await?;
    let digest = make_room(&catalogd, &catalog).await?;
    catalog.serves(&digest).await?;
    catalogd.process().check_running()?;
    catalog.delete().await
}

/// The kernel refuses to let a file grow, as it does where a quota is reached.
#[tokio::test(flavor = "multi_thread")]
async fn files_may_not_grow() -> Result<()> {
    let alone = Alone::take().await?;
    // Two or four MiB: shells differ in the unit.
    let settings = alone.registries.settings().shell("trap '' XFSZ; ulimit -f 4096; exec \"$@\"");
    grows_beyond_the_disk(&alone, &settings, "File too large", async |_, catalog| {
        let images = &alone.registries.images;
        let other = images.push_catalog(&content(3, 300_000), &format!("{}:other", catalog.name)).await?;
        catalog.set_reference(&format!("{}/{}:other", images.host(), catalog.name)).await?;
        Ok(other)
    })
    .await
}

/// A file system of its own that is too small until something else on it is removed.
#[tokio::test(flavor = "multi_thread")]
async fn the_file_system_is_full() -> Result<()> {
    let Some(unshare) = unshare() else {
        olm_test::data::skip("this machine allows no mount namespace (unshare)");
        return Ok(());
    };
    let alone = Alone::take().await?;
    let inner = "mount -t tmpfs -o size=24m tmpfs \"$0\" && head -c 18000000 /dev/zero >\"$0/ballast\" && exec \"$@\"";
    let settings =
        alone.registries.settings().shell(&format!("exec {unshare} sh -c '{inner}' \"$0\" \"$@\""));
    grows_beyond_the_disk(&alone, &settings, "No space left on device", async |catalogd, catalog| {
        std::fs::remove_file(catalogd.cache().join("ballast"))?;
        let images = &alone.registries.images;
        // The same image as before, now that it fits: nobody but the disk has to change.
        images.push_catalog(&content(2, 8_000_000), &format!("{}:large", catalog.name)).await
    })
    .await
}

/// How a mount namespace is made here, if it can be.
fn unshare() -> Option<&'static str> {
    ["unshare -rm", "unshare -m"].into_iter().find(|command| {
        let mut words = command.split(' ');
        let made = std::process::Command::new(words.next().unwrap_or_default())
            .args(words)
            .args(["sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"])
            .output();
        made.is_ok_and(|output| output.status.success())
    })
}
