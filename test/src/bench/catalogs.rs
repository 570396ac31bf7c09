//! Catalogs: created to Serving, memory and CPU on the way, requests a second, a restart with them cached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::Api;
use kube::ResourceExt;
use kube::api::PostParams;
use olm_api::ConditionType;
use olm_api::v1::ClusterCatalog;
use olm_image::{Compression, LayerBuilder};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use serde_json::json;

use super::large_catalog::LargeCatalog;
use super::watching::Watch;
use super::{DEADLINE, World, figure, megabytes, milliseconds, percentile, usage};

/// The name of the large catalog.
pub(super) const LARGE: &str = "bench-large";
/// Small catalogs that are created one after another; the median counts.
const SMALL_ROUNDS: usize = 5;
/// One measurement of requests a second ends after this time, or after that many requests.
const QUERIES_TIME: Duration = Duration::from_secs(5);
const QUERIES_MAX: u64 = 2_000;
/// Between two looks at a program that starts.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// Between two looks at whether content is compressed yet.
const COMPRESSED_PAUSE: Duration = Duration::from_millis(20);

/// Creates a catalog of a pushed image and waits until it serves; answers with the time that took.
pub(super) async fn create_and_serve(world: &World, name: &str) -> Result<Duration> {
    let api: Api<ClusterCatalog> = Api::all(world.cluster.client().await?);
    let catalog: ClusterCatalog = serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
        "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": format!("{}/{name}:latest", world.images.host())}}},
    }))?;
    let mut watch = Watch::begin(&api, "the catalog to serve").await?;
    let start = Instant::now();
    api.create(&PostParams::default(), &catalog).await?;
    let is_serving = |c: &ClusterCatalog| {
        c.name_any() == name
            && c.status.as_ref().is_some_and(|s| s.conditions.is_true(ConditionType::Serving))
    };
    let (at, ()) = watch.first(|catalog, _| is_serving(catalog).then_some(())).await?;
    Ok(at - start)
}

/// Packs JSON lines into a catalog image and pushes it as `<name>:latest`.
pub(super) async fn push(world: &World, content: &[u8], name: &str) -> Result<()> {
    let layer = LayerBuilder::new(Compression::Gzip).file("configs/catalog.json", content)?.build()?;
    world.images.push_catalog_layers(vec![layer], &format!("{name}:latest")).await?;
    Ok(())
}

pub(super) async fn small(world: &World, catalog: &LargeCatalog) -> Result<()> {
    figure("catalog-small-size", megabytes(catalog.small.len() as u64), "MB");
    let mut times = Vec::new();
    for round in 0..SMALL_ROUNDS {
        let name = format!("bench-small-{round}");
        push(world, &catalog.small, &name).await?;
        times.push(create_and_serve(world, &name).await?.as_secs_f64() * 1e3);
    }
    figure("catalog-small-created-to-serving", percentile(&mut times, 50), "ms");
    Ok(())
}

pub(super) async fn large(world: &World, catalog: &LargeCatalog) -> Result<()> {
    figure("catalog-large-size", megabytes(catalog.content.len() as u64), "MB");
    push(world, &catalog.content, LARGE).await?;
    let pid = world.operator.process().pid();
    usage::idle(pid).await?;
    let before = usage::cpu_seconds(pid)?;
    let time = create_and_serve(world, LARGE).await?;
    let at_serving = usage::cpu_seconds(pid)?;
    let serving = Instant::now();
    milliseconds("catalog-large-created-to-serving", time);
    figure("catalog-large-cpu-until-serving", at_serving - before, "s");
    compressed(world, catalog).await?;
    milliseconds("catalog-large-serving-to-compressed", serving.elapsed());
    usage::idle(pid).await?;
    // Nearly all of it makes the compressed form.
    figure("catalog-large-cpu-after-serving", usage::cpu_seconds(pid)? - at_serving, "s");
    let memory = usage::memory(pid)?;
    figure("memory-peak-ingest", memory.peak, "MB");
    figure("memory-idle-catalog-large", memory.resident, "MB");
    Ok(())
}

/// Waits until answers are compressed.
async fn compressed(world: &World, catalog: &LargeCatalog) -> Result<()> {
    let package = catalog.packages.first().context("a package")?;
    let url = format!("{}/catalogs/{LARGE}/api/v1/metas?package={package}", world.operator.catalogs_url());
    let (client, start) = (client()?, Instant::now());
    loop {
        let answer = client.get(&url).header(ACCEPT_ENCODING, Form::Gzip.name()).send().await?;
        if answer.headers().contains_key(CONTENT_ENCODING) {
            return Ok(());
        }
        ensure!(start.elapsed() < DEADLINE, "{url} is not compressed");
        tokio::time::sleep(COMPRESSED_PAUSE).await;
    }
}

/// What clients take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Gzip,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "identity",
            Self::Gzip => "gzip",
        }
    }
}

/// Requests a second, plain and compressed, one connection and eight; the program's CPU for each.
pub(super) async fn queries(world: &World, catalog: &LargeCatalog) -> Result<()> {
    let base = format!("{}/catalogs/{LARGE}/api/v1", world.operator.catalogs_url());
    let all = vec![format!("{base}/all")];
    let metas: Vec<String> =
        catalog.packages.iter().map(|package| format!("{base}/metas?package={package}")).collect();
    for connections in [1, 8] {
        for (name, urls, form) in [
            ("all", &all, Form::Plain),
            ("all-gzip", &all, Form::Gzip),
            ("metas-package", &metas, Form::Plain),
            ("metas-package-gzip", &metas, Form::Gzip),
        ] {
            let pid = world.operator.process().pid();
            let before = usage::cpu_seconds(pid)?;
            let answered = ask(urls, connections, form).await;
            world.operator.process().check_running()?;
            let answered = answered.with_context(|| world.operator.process().log_tail())?;
            let cpu = usage::cpu_seconds(pid)? - before;
            let (seconds, requests) =
                (answered.time.as_secs_f64(), f64::from(u32::try_from(answered.requests)?));
            let name = format!("{name}-{connections}-connections");
            figure(&name, requests / seconds, "requests/s");
            figure(&format!("{name}-rate"), megabytes(answered.bytes) / seconds, "MB/s");
            figure(&format!("{name}-cpu"), cpu * 1e3 / requests.max(1.0), "ms/request");
        }
    }
    Ok(())
}

struct Answered {
    requests: u64,
    bytes: u64,
    time: Duration,
}

/// Asks for the addresses in turn, over a number of connections, for a bounded time.
async fn ask(urls: &[String], connections: usize, form: Form) -> Result<Answered> {
    let (next, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let urls: Arc<[String]> = urls.into();
    let start = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (next, bytes, urls, client) = (next.clone(), bytes.clone(), urls.clone(), client()?);
        workers.spawn(async move {
            let mut done = 0;
            while start.elapsed() < QUERIES_TIME {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= QUERIES_MAX {
                    break;
                }
                let url = &urls[usize::try_from(number)? % urls.len()];
                let request = client.get(url).header(ACCEPT_ENCODING, form.name());
                let mut answer = request.send().await?.error_for_status()?;
                while let Some(chunk) = answer.chunk().await? {
                    bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                }
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    let mut requests = 0;
    while let Some(done) = workers.join_next().await {
        requests += done??;
    }
    Ok(Answered { requests, bytes: bytes.load(Ordering::Relaxed), time: start.elapsed() })
}

/// A client that believes every certificate: the program made its own.
fn client() -> Result<reqwest::Client> {
    let builder = reqwest::Client::builder().tls_danger_accept_invalid_certs(true);
    builder.build().context("a client for catalogs")
}

/// Kills the program and starts it again with its caches.
pub(super) async fn restart(world: &World) -> Result<()> {
    let process = world.operator.process();
    process.kill()?;
    let client = client()?;
    let catalog =
        format!("{}/catalogs/{LARGE}/api/v1/metas?schema=olm.package", world.operator.catalogs_url());
    let start = Instant::now();
    process.restart()?;
    let serves = answers(&client, &catalog, start).await?;
    let ready = answers(&client, &world.operator.readiness_url(), start).await?;
    milliseconds("start-to-serving-catalog-large-cached", serves);
    milliseconds("start-to-ready-catalog-large-cached", ready);
    usage::idle(process.pid()).await?;
    let memory = usage::memory(process.pid())?;
    figure("memory-peak-restart", memory.peak, "MB");
    figure("memory-idle-restart", memory.resident, "MB");
    Ok(())
}

async fn answers(client: &reqwest::Client, url: &str, start: Instant) -> Result<Duration> {
    loop {
        if client.get(url).send().await.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(start.elapsed());
        }
        ensure!(start.elapsed() < DEADLINE, "{url} does not answer");
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}
