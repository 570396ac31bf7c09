//! Catalogs: created to Serving, memory and CPU on the way, requests a second, a restart with them cached.

use std::sync::atomic::{AtomicU64, Ordering};

use olm_image::{Compression, LayerBuilder, folder_layer};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING};

use super::large_catalog::LargeCatalog;
use super::watching::Watch;
use super::{DEADLINE, Subject, figure, megabytes, milliseconds, percentile, usage};
use crate::{catalog::cluster_catalog, prelude::*};

/// The name of the large catalog.
pub(super) const LARGE: &str = "bench-large";
/// The name of the catalog that is a tree of files.
const TREE: &str = "bench-tree";
/// Its folder below the one with data.
const TREE_FOLDER: &str = "fbc/v4.18";
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
pub(super) async fn create_and_serve(subject: &Subject<'_>, name: &str) -> Result<Duration> {
    let api: Api<ClusterCatalog> = Api::all(subject.site.cluster.client().await?);
    let reference = format!("{}/{name}:latest", subject.site.images.host());
    let catalog = cluster_catalog(name, &json!({"ref": reference}));
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
pub(super) async fn push(subject: &Subject<'_>, content: &[u8], name: &str) -> Result<()> {
    let layer = LayerBuilder::new(Compression::Gzip).file("configs/catalog.json", content)?.build()?;
    subject.site.images.push_catalog_layers(vec![layer], &format!("{name}:latest")).await?;
    Ok(())
}

pub(super) async fn small(subject: &Subject<'_>, catalog: &LargeCatalog) -> Result<()> {
    figure("catalog-small-size", megabytes(catalog.small.len() as u64), "MB");
    let mut times = Vec::new();
    for round in 0..SMALL_ROUNDS {
        let name = format!("bench-small-{round}");
        push(subject, &catalog.small, &name).await?;
        times.push(create_and_serve(subject, &name).await?.as_secs_f64() * 1e3);
    }
    figure("catalog-small-created-to-serving", percentile(&mut times, 50), "ms");
    Ok(())
}

pub(super) async fn large(subject: &Subject<'_>, catalog: &LargeCatalog) -> Result<()> {
    figure("catalog-large-size", megabytes(catalog.content.len() as u64), "MB");
    push(subject, &catalog.content, LARGE).await?;
    let size = megabytes(catalog.content.len() as u64);
    let peak = ingested(subject, LARGE, "catalog-large", size).await?;
    figure("memory-peak-ingest", peak, "MB");
    figure("memory-idle-catalog-large", usage::at_rest(subject.program.process().pid()).await?, "MB");
    Ok(())
}

/// The real catalog that is a tree of YAML files.
pub(super) async fn tree(subject: &Subject<'_>, folder: &Path) -> Result<()> {
    let folder = folder.join(TREE_FOLDER);
    if !folder.is_dir() {
        println!("skipped: figures on a tree of YAML files, there is no {}", folder.display());
        return Ok(());
    }
    let size = megabytes(bytes_below(&folder)?);
    figure("catalog-tree-size", size, "MB");
    let layer = folder_layer(&folder, "configs", Compression::Gzip)?;
    subject.site.images.push_catalog_layers(vec![layer], &format!("{TREE}:latest")).await?;
    let peak = ingested(subject, TREE, "catalog-tree", size).await?;
    figure("memory-peak-ingest-tree", peak, "MB");
    Ok(())
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        sum +=
            if entry.file_type()?.is_dir() { bytes_below(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(sum)
}

/// Creates a catalog that was pushed and tells what it takes until it serves; answers with the peak of memory.
async fn ingested(subject: &Subject<'_>, name: &str, figures: &str, size: f64) -> Result<f64> {
    let pid = subject.program.process().pid();
    usage::idle(pid).await?;
    usage::reset_peak(pid)?;
    let (before, written) = (usage::cpu_seconds(pid)?, usage::written(pid)?);
    let time = create_and_serve(subject, name).await?;
    let at_serving = usage::cpu_seconds(pid)?;
    let serving = Instant::now();
    milliseconds(&format!("{figures}-created-to-serving"), time);
    figure(&format!("{figures}-rate"), size / time.as_secs_f64(), "MB/s");
    figure(&format!("{figures}-cpu-until-serving"), at_serving - before, "s");
    compressed(subject, name).await?;
    milliseconds(&format!("{figures}-serving-to-compressed"), serving.elapsed());
    usage::idle(pid).await?;
    // Nearly all of it makes the compressed form.
    figure(&format!("{figures}-cpu-after-serving"), usage::cpu_seconds(pid)? - at_serving, "s");
    figure(&format!("{figures}-written"), usage::written(pid)? - written, "MB");
    Ok(usage::memory(pid)?.peak)
}

/// Waits until answers are compressed.
async fn compressed(subject: &Subject<'_>, name: &str) -> Result<()> {
    let url = format!("{}/catalogs/{name}/api/v1/metas?schema=olm.package", subject.program.catalogs_url());
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
pub(super) async fn queries(subject: &Subject<'_>, catalog: &LargeCatalog) -> Result<()> {
    let base = format!("{}/catalogs/{LARGE}/api/v1", subject.program.catalogs_url());
    let all = vec![format!("{base}/all")];
    let metas: Vec<String> =
        catalog.packages.iter().map(|package| format!("{base}/metas?package={package}")).collect();
    let pid = subject.program.process().pid();
    usage::reset_peak(pid)?;
    for connections in [1, 8] {
        for (name, urls, form) in [
            ("all", &all, Form::Plain),
            ("all-gzip", &all, Form::Gzip),
            ("metas-package", &metas, Form::Plain),
            ("metas-package-gzip", &metas, Form::Gzip),
        ] {
            let before = usage::cpu_seconds(pid)?;
            let answered = ask(urls, connections, form).await;
            subject.program.process().check_running()?;
            let answered = answered.with_context(|| subject.program.process().log_tail())?;
            let cpu = usage::cpu_seconds(pid)? - before;
            let (seconds, requests) =
                (answered.time.as_secs_f64(), f64::from(u32::try_from(answered.requests)?));
            let name = format!("{name}-{connections}-connections");
            figure(&name, requests / seconds, "requests/s");
            figure(&format!("{name}-rate"), megabytes(answered.bytes) / seconds, "MB/s");
            figure(&format!("{name}-cpu"), cpu * 1e3 / requests.max(1.0), "ms/request");
        }
    }
    figure("memory-peak-http", usage::memory(pid)?.peak, "MB");
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
pub(super) async fn restart(subject: &Subject<'_>) -> Result<()> {
    let process = subject.program.process();
    process.kill()?;
    let client = client()?;
    let catalog =
        format!("{}/catalogs/{LARGE}/api/v1/metas?schema=olm.package", subject.program.catalogs_url());
    let start = Instant::now();
    process.restart()?;
    let serves = answers(&client, &catalog, start).await?;
    let ready = answers(&client, &subject.program.readiness_url(), start).await?;
    milliseconds("start-to-serving-catalog-large-cached", serves);
    milliseconds("start-to-ready-catalog-large-cached", ready);
    figure("memory-idle-restart", usage::at_rest(process.pid()).await?, "MB");
    figure("memory-peak-restart", usage::memory(process.pid())?.peak, "MB");
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
