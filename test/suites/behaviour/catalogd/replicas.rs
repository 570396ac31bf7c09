//! Two replicas: both serve, one leads; the follower ingests what the status names and never asks for a tag.

use olm_test::{
    faults::{Fault, FaultyRegistry},
    operator::GRACE,
    prelude::*,
};

use crate::world::{Alone, Catalog, all, content, trusting};

/// How long a replica that is behind asks clients to wait, and some more for this machine.
const CATCH_UP: Duration = Duration::from_secs(30);

/// Each replica has metrics, for who may read them; the leader's log says whose pass ended.
async fn observable(leader: &Catalogd, follower: &Catalogd, catalog: &str) -> Result<()> {
    for replica in [leader, follower] {
        let answer = trusting()?.get(replica.metrics_url()).send().await?;
        ensure!(answer.status() == reqwest::StatusCode::UNAUTHORIZED, "metrics: {}", answer.status());
    }
    let told = |line: &str| line.contains("reconcile ending") && line.contains(catalog);
    ensure!(leader.process().log().lines().any(told), "no line of a pass");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_replica_serves_what_the_status_says() -> Result<()> {
    let alone = Alone::take().await?;
    let (cluster, images) = (&alone.cluster, &alone.registries.images);
    let settings = alone.registries.settings().arg("--leader-elect");
    let leader = Catalogd::start(cluster, &settings).await?;
    let catalog = Catalog::named(cluster, "replicated").await?;
    let first = images.push_catalog(&content(1, 100_000), &format!("{}:v1", catalog.name)).await?;
    let second = images.push_catalog(&content(2, 100_000), &format!("{}:v2", catalog.name)).await?;
    let reference = |tag: &str| format!("{}/{}:{tag}", images.host(), catalog.name);
    catalog.put(serde_json::json!({ "ref": reference("v1") })).await?;
    catalog.serves(&first).await?;

    // The follower reaches the registry through one that can fail.
    let faulty = FaultyRegistry::start(&alone.registries.registry.url(), None)?;
    let conf = alone.registries.directory.path().join("follower.conf");
    let (host, address) = (images.host(), faulty.address());
    let text = format!("[[registry]]\nprefix = {host:?}\nlocation = {address:?}\ninsecure = true\n");
    std::fs::write(&conf, text)?;
    let settings = settings.env("CONTAINERS_REGISTRIES_CONF", conf.display().to_string());
    let follower = Catalogd::start(cluster, &settings).await?;
    // Readiness waits for what the status names.
    let both = async || -> Result<(String, String)> {
        Ok((all(&leader, &catalog.name).await?, all(&follower, &catalog.name).await?))
    };
    let (here, there) = both().await?;
    ensure!(here == there && here == content(1, 100_000), "both serve the same content");
    ensure!(tag(&leader, &catalog.name).await? == tag(&follower, &catalog.name).await?, "and say so");
    observable(&leader, &follower, &catalog.name).await?;

    // The leader moves on, the follower cannot: first it asks for patience, then it serves what it has.
    faulty.set(&catalog.name, Some(Fault::Status(503)));
    let before = faulty.seen(&catalog.name).len();
    catalog.set_reference(&reference("v2")).await?;
    catalog.serves(&second).await?;
    let moved = Instant::now();
    let answer = wait::until("the follower to know of newer content", DEADLINE, async || {
        let answer = trusting()?.get(follower.all(&catalog.name)).send().await?;
        ensure!(answer.status() == reqwest::StatusCode::SERVICE_UNAVAILABLE, "{}", answer.status());
        Ok(answer)
    })
    .await?;
    let seconds: u64 = answer.headers().get("retry-after").context("no Retry-After")?.to_str()?.parse()?;
    ensure!((1..=10).contains(&seconds), "Retry-After: {seconds}");
    wait::until("the follower to serve what it has", CATCH_UP, async || {
        let served = all(&follower, &catalog.name).await?;
        ensure!(served == content(1, 100_000), "{} other bytes", served.len());
        Ok(())
    })
    .await?;
    println!("old content again {:.1} s after the change", moved.elapsed().as_secs_f64());
    wait::until("the follower to try", DEADLINE, async || {
        wait::check(faulty.seen(&catalog.name).len() > before, || "no request".into())
    })
    .await?;
    faulty.set(&catalog.name, None);
    let served = async || all(&follower, &catalog.name).await;
    eventually("the follower to catch up", served, |served| *served == content(2, 100_000)).await?;
    for seen in faulty.seen(&catalog.name) {
        ensure!(!seen.request.ends_with("/v1") && !seen.request.ends_with("/v2"), "a tag: {}", seen.request);
    }

    // The leader goes: the follower leads, with what it holds, and looks at tags from now on.
    leader.process().terminate(GRACE).await?;
    catalog.set_reference(&reference("v1")).await?;
    catalog.serves(&first).await?;
    ensure!(all(&follower, &catalog.name).await? == content(1, 100_000), "new content");
    catalog.delete().await?;
    let gone = trusting()?.get(follower.all(&catalog.name)).send().await?.status();
    ensure!(gone == reqwest::StatusCode::NOT_FOUND, "{gone}");
    follower.process().terminate(GRACE).await?;
    Ok(())
}

/// Readiness waits for content that can be had, not for a registry that is down, and never for leadership.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_is_ready_once_it_serves_or_has_tried() -> Result<()> {
    let alone = Alone::take().await?;
    let (cluster, images) = (&alone.cluster, &alone.registries.images);
    let settings = alone.registries.settings().arg("--leader-elect");
    let leader = Catalogd::start(cluster, &settings).await?;
    let catalog = Catalog::named(cluster, "readiness").await?;
    let pushed = images.push_catalog(&content(5, 100_000), &format!("{}:v1", catalog.name)).await?;
    catalog.put(serde_json::json!({ "ref": pushed })).await?;
    catalog.serves(&pushed).await?;

    let faulty = FaultyRegistry::start(&alone.registries.registry.url(), None)?;
    let conf = alone.registries.directory.path().join("readiness.conf");
    let (host, address) = (images.host(), faulty.address());
    let text = format!("[[registry]]\nprefix = {host:?}\nlocation = {address:?}\ninsecure = true\n");
    std::fs::write(&conf, text)?;
    let settings = settings.env("CONTAINERS_REGISTRIES_CONF", conf.display().to_string());

    // Content is on its way: whoever asks is better sent to the leader.
    faulty.set(&catalog.name, Some(Fault::Slow(30, Duration::from_millis(500))));
    let follower = Catalogd::begin(cluster, &settings)?;
    let missing = format!("catalog {} is not served yet", catalog.name);
    wait::until("readiness to name the catalog", DEADLINE, async || {
        let answer = trusting()?.get(follower.readiness_url()).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(
            status == reqwest::StatusCode::INTERNAL_SERVER_ERROR && text.contains(&missing),
            "{status} {text}"
        );
        Ok(())
    })
    .await?;
    follower.ready().await?;
    ensure!(all(&follower, &catalog.name).await? == content(5, 100_000), "ready with its content");
    drop(follower);

    // The registry is down: it was tried, and the Pod is of use for the other catalogs.
    faulty.set(&catalog.name, Some(Fault::Status(503)));
    let before = faulty.seen(&catalog.name).len();
    let follower = Catalogd::begin(cluster, &settings)?;
    follower.ready().await?;
    ensure!(faulty.seen(&catalog.name).len() > before, "it is ready without having tried");
    let answer = trusting()?.get(follower.all(&catalog.name)).send().await?;
    ensure!(!answer.status().is_success(), "content from nowhere: {}", answer.status());
    let lines = follower.process().log();
    ensure!(!lines.contains("became leader"), "the leader leads still");
    faulty.set(&catalog.name, None);
    let served = async || all(&follower, &catalog.name).await;
    eventually("the follower to catch up", served, |served| *served == content(5, 100_000)).await?;
    catalog.delete().await?;
    // In this order, so that nobody holds the lease whom the next test would have to wait for.
    follower.process().terminate(GRACE).await?;
    leader.process().terminate(GRACE).await?;
    Ok(())
}

/// The entity tag of the whole catalog.
async fn tag(catalogd: &Catalogd, catalog: &str) -> Result<String> {
    let answer = trusting()?.get(catalogd.all(catalog)).send().await?;
    Ok(answer.headers().get("etag").context("no ETag")?.to_str()?.to_owned())
}
