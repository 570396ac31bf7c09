//! TLS towards registries: authorities from a folder that is read again, through a proxy.

use kube::config::Kubeconfig;
use olm_test::{
    catalogd::kubeconfig,
    faults::{ConnectProxy, FaultyRegistry},
    prelude::*,
    scrape::Scraper,
};

use crate::world::{Alone, Catalog, PROXIED_HOST, World, content, proxied_identity};

/// A host that only a proxy knows.
const API_HOST: &str = "api.example";

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

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_is_reached_through_the_proxy_of_the_environment() -> Result<()> {
    let alone = Alone::take().await?;
    let mut file = Kubeconfig::read_from(kubeconfig(&alone.cluster)?)?;
    let cluster = file.clusters.iter_mut().find_map(|named| named.cluster.as_mut()).context("no cluster")?;
    let server = cluster.server.take().context("no server")?;
    let (host, port) =
        server.trim_start_matches("https://").trim_end_matches('/').rsplit_once(':').context("no port")?;
    let target = format!("{API_HOST}:{port}");
    cluster.server = Some(format!("https://{target}"));
    cluster.tls_server_name = Some(host.to_owned());
    let (directory, proxy) = (StateDirectory::new("proxied")?, ConnectProxy::start()?);
    let path = directory.path().join("kubeconfig");
    fs::write(&path, serde_json::to_string(&file)?)?;
    let settings = alone
        .registries
        .settings()
        .arg(format!("--kubeconfig={}", path.display()))
        .env("HTTPS_PROXY", proxy.url())
        .env("NO_PROXY", "127.0.0.1,localhost");
    let catalogd = Catalogd::start(&alone.cluster, &settings).await?;
    let pushed = alone.registries.images.push_catalog(&content(10, 10_000), "behind:v1").await?;
    let catalog = Catalog::create(&alone.cluster, "behind", &pushed).await?;
    catalog.serves(&pushed).await?;
    ensure!(proxy.asked().contains(&target), "{:?}", proxy.asked());
    let scraper = Scraper::new(&alone.cluster.client().await?, "default").await?;
    let text = scraper.read(&catalogd.metrics_url()).await?;
    let counted = format!("rest_client_requests_total{{code=\"200\",host=\"{target}\",method=\"GET\"}} ");
    ensure!(text.contains(&counted), "{counted} is not in\n{text}");
    catalog.delete().await
}
