//! TLS towards registries: authorities from a folder that is read again, through a proxy.

use anyhow::{Result, ensure};
use olm_api::ConditionType::Progressing;
use olm_test::faults::FaultyRegistry;

use crate::world::{Catalog, PROXIED_HOST, World, content, proxied_identity};

#[tokio::test(flavor = "multi_thread")]
async fn authorities_are_read_again_and_proxies_are_used() -> Result<()> {
    let world = World::shared().await?;
    let (first, first_identity) = proxied_identity()?;
    let (second, second_identity) = proxied_identity()?;
    let upstream = world.registries.registry.url();
    let behind_first = FaultyRegistry::start(&upstream, Some(&first_identity))?;
    let behind_second = FaultyRegistry::start(&upstream, Some(&second_identity))?;
    let pushed = world.registries.images.push_catalog(&content(8, 50_000), "trusted:v1").await?;
    let at = |registry: &FaultyRegistry| format!("{PROXIED_HOST}:{}/trusted:v1", registry.port());

    let catalog = Catalog::create(&world.cluster, "trusted", &at(&behind_first)).await?;
    let refused = "True/Retrying/source catalog content: error creating image source: pinging container registry registry.example:";
    let text = catalog.shows(Progressing, refused).await?;
    ensure!(text.contains("certificate"), "{text}");
    let file = world.authorities.join("registries.crt");
    std::fs::write(&file, first.identity().certificate)?;
    catalog.serves(&pushed).await?;
    let target = format!("{PROXIED_HOST}:{}", behind_first.port());
    ensure!(world.proxy.asked().contains(&target), "{:?}", world.proxy.asked());
    let direct = world.proxy.asked().into_iter().find(|host| host.starts_with("127.0.0.1"));
    ensure!(direct.is_none(), "NO_PROXY is heeded: {direct:?}");

    // The authority is replaced by another: the new one counts, the old one no longer.
    std::fs::write(&file, second.identity().certificate)?;
    let other = Catalog::create(&world.cluster, "rotated", &at(&behind_second)).await?;
    other.serves(&pushed).await?;
    let late = Catalog::create(&world.cluster, "too-late", &at(&behind_first)).await?;
    late.shows(Progressing, refused).await?;

    // A file that holds no certificate is said by its name, and others are not used in its place.
    std::fs::write(world.authorities.join("broken.crt"), "no certificate")?;
    let broken = Catalog::create(&world.cluster, "broken-ca", &at(&behind_second)).await?;
    let text = broken.shows(Progressing, "True/Retrying/source catalog content: ").await;
    std::fs::remove_file(world.authorities.join("broken.crt"))?;
    let text = text?;
    ensure!(text.contains("loading certificates: ") && text.contains("broken.crt"), "{text}");
    broken.serves(&pushed).await
}
