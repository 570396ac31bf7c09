//! CatalogSources of OLM Classic: created to READY, memory with two real catalogs, PackageManifests through kubectl.

use super::large_catalog::LargeCatalog;
use super::watching::Watch;
use super::{DEADLINE, figure, megabytes, milliseconds, usage};
use olm_api_classic::CatalogSource;
use olm_image::{Compression, LayerBuilder, folder_layer};

use crate::{
    classic::{self, Classic, Source},
    prelude::*,
};

/// The catalogs: their image, and where the content of the second is below the folder with data.
const LARGE: &str = "bench-classic-large";
const TREE: (&str, &str) = ("bench-classic-tree", "fbc/v4.18");

/// Most memory of the whole program with two real catalogs, in MB.
const MEMORY_BUDGET: f64 = 60.0;
/// Longest time until a source whose content is here already is ready.
const READY_BUDGET: Duration = Duration::from_secs(2);

/// Takes the figures of a process that does nothing else.
pub(super) async fn measure(large: &LargeCatalog, data: &Path) -> Result<()> {
    println!("note: olm-classic on its own");
    let site = Site::start_on(Options { nodes: 0, ..Options::default() }).await?;
    classic::install(&site.cluster)?;
    let program = Classic::start(&site.cluster, &site.images.settings(&[])).await?;
    program.serve_packages(&site.cluster).await?;
    classic::packages_available(&site.cluster).await?;
    let pid = program.process().pid();
    figure("classic-memory-empty", usage::memory(pid)?.resident, "MB");

    let layer = LayerBuilder::new(Compression::Gzip).file("configs/catalog.json", &large.content)?.build()?;
    site.images.push_catalog_layers(vec![layer], &format!("{LARGE}:latest")).await?;
    figure("classic-large-size", megabytes(large.content.len() as u64), "MB");
    ready(&site, pid, LARGE, "classic-large").await?;
    let folder = data.join(TREE.1);
    if folder.is_dir() {
        let layer = folder_layer(&folder, "configs", Compression::Gzip)?;
        site.images.push_catalog_layers(vec![layer], &format!("{}:latest", TREE.0)).await?;
        ready(&site, pid, TREE.0, "classic-tree").await?;
    } else {
        println!("skipped: a second real catalog, there is no {}", folder.display());
    }
    // Content that is here already: another source of the same image.
    let again = created(&site, "bench-classic-again", LARGE).await?;
    milliseconds("classic-cached-created-to-ready", again);
    milliseconds("classic-cached-created-to-ready-budget", READY_BUDGET);
    usage::idle(pid).await?;
    figure("classic-memory-two-catalogs", usage::memory(pid)?.resident, "MB");
    figure("classic-memory-two-catalogs-budget", MEMORY_BUDGET, "MB");
    packages(&site)?;
    usage::idle(pid).await?;
    figure("classic-memory-after-lists", usage::memory(pid)?.resident, "MB");
    figure("classic-memory-peak", usage::memory(pid)?.peak, "MB");
    Ok(())
}

/// Creates a source and tells what it takes until it is ready.
async fn ready(site: &Site, pid: u32, image: &str, figures: &str) -> Result<()> {
    usage::idle(pid).await?;
    usage::reset_peak(pid)?;
    let cpu = usage::cpu_seconds(pid)?;
    milliseconds(&format!("{figures}-created-to-ready"), created(site, image, image).await?);
    usage::idle(pid).await?;
    figure(&format!("{figures}-cpu"), usage::cpu_seconds(pid)? - cpu, "s");
    figure(&format!("{figures}-memory-peak"), usage::memory(pid)?.peak, "MB");
    Ok(())
}

/// The time from the creation of a source to its connection being READY.
async fn created(site: &Site, name: &str, image: &str) -> Result<Duration> {
    let api: Api<CatalogSource> = Api::namespaced(site.cluster.client().await?, classic::NAMESPACE);
    let mut watch = Watch::begin(&api, "the source to be ready").await?;
    let image = format!("{}/{image}:latest", site.images.host());
    let spec = json!({"sourceType": "grpc", "image": image, "displayName": name});
    let start = Instant::now();
    Source::create(&site.cluster, classic::NAMESPACE, name, json!({}), spec).await?;
    let is_ready = |source: &CatalogSource| {
        let connection = source.status.as_ref().and_then(|status| status.connection_state.as_ref());
        source.name_any() == name && connection.is_some_and(|state| state.last_observed_state == "READY")
    };
    let (at, ()) = watch.first(|source, _| is_ready(source).then_some(())).await?;
    Ok(at - start)
}

/// What kubectl waits for, its own start included.
fn packages(site: &Site) -> Result<()> {
    let select = ["get", "packagemanifests", "-n", classic::NAMESPACE, "-l"];
    let large = format!("catalog={LARGE}");
    let begun = Instant::now();
    let shown = loop {
        let names = kubectl(&site.cluster, &[&select[..], &[&large, "-o", "name"]].concat())?;
        if !names.is_empty() {
            break names.lines().count();
        }
        ensure!(begun.elapsed() < DEADLINE, "the packages are not shown");
    };
    println!("note: {shown} packages of the large catalog are shown");
    for (name, output) in [("table", "wide"), ("json", "json")] {
        let format = format!("-o={output}");
        let args = [&select[..], &[&large, &format]].concat();
        let start = Instant::now();
        let text = kubectl(&site.cluster, &args)?;
        milliseconds(&format!("classic-kubectl-packages-{name}"), start.elapsed());
        figure(&format!("classic-kubectl-packages-{name}-size"), megabytes(text.len() as u64), "MB");
    }
    Ok(())
}
