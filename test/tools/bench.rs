//! What `make bench` measures: figures of the release build on a control plane and a registry of its own.
//!
//! A figure is one line, `BENCH <name> <value> <unit>`. Nothing is asserted: how long things take depends on
//! the machine, and clients, API server and program share its cores. What cannot be measured here is reported in
//! a line that begins with `skipped`.

mod accounts;
mod catalogs;
mod classic;
mod classic_operators;
mod crds;
mod extensions;
mod floor;
mod in_process;
mod large_catalog;
mod roll_out;
mod sample;
pub mod usage;
mod volume;
mod watching;

use crate::process::target_folder;
use crate::{instance::Instance, prelude::*};

/// For anything that should happen by itself; a bench that waits longer has failed.
const DEADLINE: Duration = Duration::from_mins(2);
/// The programs whose size is told.
const PROGRAMS: [&str; 4] = ["operator-controller", "catalogd", "olm-classic", "olm"];

/// The release build on a control plane that records requests of accounts.
async fn start() -> Result<World> {
    start_on(Options::default().nodes).await
}

/// The same with so many nodes.
async fn start_on(nodes: usize) -> Result<World> {
    let (options, _policy) = options()?;
    World::start_on(Options { nodes, ..options }).await
}

/// A control plane that records requests of accounts, and the folder with its policy, which it reads when it starts.
fn options() -> Result<(Options, StateDirectory)> {
    let directory = StateDirectory::new("bench-policy")?;
    let policy = directory.path().join("audit-policy.json");
    std::fs::write(&policy, audit_policy().to_string())?;
    // The last of two flags holds.
    let api_server_args = vec![format!("--audit-policy-file={}", policy.display())];
    Ok((Options { api_server_args, ..Options::default() }, directory))
}

/// The figures of catalogs, of a catalogd that shares its process with nobody.
async fn standalone(large: &large_catalog::LargeCatalog, folder: &Path) -> Result<()> {
    println!("note: catalogd on its own");
    let options = Options { nodes: 0, ..Options::default() };
    let site = Site::start_on(options).await?;
    let settings = site.images.settings(&[&format!("--insecure-registry={}", site.images.host())]);
    let catalogd = Catalogd::start(&site.cluster, &settings).await?;
    let subject = Subject { site: &site, program: &catalogd };
    catalogs::small(&subject, large).await?;
    catalogs::large(&subject, large).await?;
    catalogs::tree(&subject, folder).await?;
    catalogs::restart(&subject).await
}

/// Requests of accounts, reads included; watches are left out because they only follow.
fn audit_policy() -> serde_json::Value {
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "verbs": ["watch"]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
            {"level": "None"},
        ],
    })
}

/// What is measured together, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Sizes of the programs.
    Programs,
    /// Rendering real bundles.
    Render,
    /// Comparing real CRDs, validating objects.
    Crds,
    /// Catalogs, memory, requests a second, restart, resolution.
    Catalogs,
    /// Ingest and restart of catalogd on its own.
    Catalogd,
    /// CatalogSources and PackageManifests of olm-classic.
    Classic,
    /// Operators of OLM Classic in many namespaces. Few of them, unless `BENCH_FULL=1`.
    ClassicOperators,
    /// Extensions, drift, idleness.
    Extensions,
    /// Real operators, beside a bare client that creates the same objects.
    Floor,
    /// Very many extensions at once, then idle. Few of them, unless `BENCH_FULL=1`.
    Volume,
    /// Hostile bundles and catalogs at once, in a process with the memory of the Deployment.
    Hostile,
}

/// What serves catalogs, and where its catalogs come from.
struct Subject<'a> {
    site: &'a Site,
    program: &'a Instance,
}

fn subject(world: &World) -> Subject<'_> {
    Subject { site: world, program: &world.operator }
}

/// Takes the figures of some parts, all if none is named, and prints them.
pub async fn run(parts: &[Part]) -> Result<()> {
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    if cfg!(debug_assertions) {
        println!("note: this is a debug build, whose figures say little: use `make bench`");
    }
    if wanted(Part::Programs) {
        sizes()?;
    }
    let data = crate::data::find("");
    if let Some(folder) = data.as_deref().filter(|_| wanted(Part::Render)) {
        in_process::renders(&folder.join("bundles"))?;
    }
    if let Some(folder) = data.as_deref().filter(|_| wanted(Part::Crds)) {
        crds::comparisons(&folder.join("bundles"))?;
    }
    let of_large = [Part::Catalogs, Part::Catalogd, Part::Classic];
    let large = match data.as_deref().filter(|_| of_large.into_iter().any(wanted)) {
        Some(folder) => large_catalog::LargeCatalog::read(folder)?,
        None => None,
    };
    if let (Some(large), Some(folder)) = (&large, data.as_deref().filter(|_| wanted(Part::Catalogd))) {
        standalone(large, folder).await?;
    }
    if let (Some(large), Some(folder)) = (&large, data.as_deref().filter(|_| wanted(Part::Classic))) {
        classic::measure(large, folder).await?;
    }
    if let Some(folder) = data.as_deref().filter(|_| wanted(Part::Floor)) {
        floor::measure(&folder.join("bundles")).await?;
    }
    if wanted(Part::ClassicOperators) {
        classic_operators::measure().await?;
    }
    if wanted(Part::Volume) {
        volume::measure().await?;
    }
    if wanted(Part::Hostile) {
        hostile().await?;
    }
    if !wanted(Part::Catalogs) && !wanted(Part::Extensions) {
        return Ok(());
    }
    let world = start().await?;
    if let (Some(large), Some(folder)) = (&large, &data) {
        let subject = subject(&world);
        catalogs::small(&subject, large).await?;
        catalogs::large(&subject, large).await?;
        catalogs::queries(&subject, large).await?;
        catalogs::tree(&subject, folder).await?;
        catalogs::restart(&subject).await?;
    }
    if wanted(Part::Extensions) {
        extensions::one_by_one(&world).await?;
        roll_out::measure(&world).await?;
        extensions::many_at_once(&world).await?;
    }
    if let Some(large) = &large {
        // What a process sees is gone with it.
        world.operator.process().kill()?;
        let store = world.operator.cache().join("catalogs");
        in_process::resolutions(&store, large).await?;
    }
    Ok(())
}

/// Memory of a process that gets hostile input, and the time of what is honest beside it.
async fn hostile() -> Result<()> {
    let Some(figures) = Box::pin(crate::tools::hostile::run()).await? else { return Ok(()) };
    figure("hostile-input-memory-charged", megabytes(figures.group_peak), "MB");
    figure("hostile-input-memory-resident", figures.resident_peak, "MB");
    figure("hostile-input-honest-installed", figures.honest.as_secs_f64(), "s");
    figure("hostile-input-rejected-after", figures.judged.as_secs_f64(), "s");
    Ok(())
}

/// Prints a figure.
fn figure(name: &str, value: f64, unit: &str) {
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 1.0 => 2,
        _ => 4,
    };
    println!("BENCH {name} {value:.digits$} {unit}");
}

fn milliseconds(name: &str, value: Duration) {
    figure(name, value.as_secs_f64() * 1e3, "ms");
}

/// The value below which `percent` of the values lie.
fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(index).copied().unwrap_or_default()
}

fn sizes() -> Result<()> {
    let folder = target_folder()?;
    for program in PROGRAMS {
        let path = folder.join(program);
        match std::fs::metadata(&path) {
            Ok(file) => figure(&format!("binary-{program}"), megabytes(file.len()), "MB"),
            Err(error) => println!("skipped: {}: {error}", path.display()),
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let mut values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert!((percentile(&mut values, 50) - 3.0).abs() < f64::EPSILON);
        assert!((percentile(&mut values, 100) - 5.0).abs() < f64::EPSILON);
        assert!(percentile(&mut [], 50).abs() < f64::EPSILON);
    }
}
