//! `install.yaml` of another commit with its images, and this one's over it while catalogs are read and an extension is
//! upgraded.

use olm_test::{
    prelude::*,
    tools::e2e::{PREVIOUS, PREVIOUS_PREFIX},
};

use crate::extension::{installed, namespace_and_rights};
use crate::sample::{self, CATALOG, PACKAGE};
use crate::watched::Watched;
use crate::world::{OPERATOR, SYSTEM, World};
use crate::{extension, installing};

/// Readers of catalogs at a time.
const READERS: usize = 4;

pub(crate) async fn under_load(world: &World) -> Result<()> {
    let Some(folder) = std::env::var_os(PREVIOUS).map(PathBuf::from) else {
        world.leave_out("the upgrade from another commit: make previous brings its images");
        return Ok(());
    };
    let before =
        std::fs::read_to_string(folder.join("install.yaml")).context("install.yaml of that commit")?;
    let ours = "localhost/olmv1/";
    ensure!(before.contains(ours), "install.yaml of that commit names its images otherwise");
    world.apply(&before.replace(ours, PREVIOUS_PREFIX))?;
    world.deployed(SYSTEM, OPERATOR, 2).await?;
    installing::registries(world).await?;
    installing::catalog(world).await?;
    namespace_and_rights(world)?;
    world.apply(&sample::extension("1.0.0").to_string())?;
    installed(world, "1.0.0").await?;
    ensure!(images(world)?.iter().all(|image| image.starts_with(PREVIOUS_PREFIX)), "{:?}", images(world)?);

    let readers: Vec<Watched> = (0..READERS).map(|_| Watched::begin(world, CATALOG)).collect();
    world.apply(&sample::extension("1.1.0").to_string())?;
    let started = Instant::now();
    world.apply(&world.manifests("install.yaml")?)?;
    world.deployed(SYSTEM, OPERATOR, 2).await?;
    installed(world, "1.1.0").await?;
    println!("BENCH e2e_program_upgraded_under_load {:.2} s", started.elapsed().as_secs_f64());
    world.deployed(PACKAGE, PACKAGE, 1).await?;
    let now = images(world)?;
    ensure!(!now.iter().any(|image| image.starts_with(PREVIOUS_PREFIX)), "of that commit still: {now:?}");
    let mut answered = 0;
    for seen in readers.into_iter().map(Watched::end) {
        ensure!(seen.refused.is_empty(), "not answered: {:?}", seen.refused.first());
        answered += seen.answered;
    }
    println!("   {answered} questions for the catalog meanwhile, all answered");
    // What the other commit installed is gone on with, not made anew.
    let revisions = world.kubectl(&["get", "clusterobjectsets", "-o=name"])?;
    ensure!(revisions.lines().count() <= 2, "revisions: {revisions}");
    extension::deleted(world).await?;
    world.kubectl(&["delete", "clustercatalog", CATALOG, installing::REMOVAL])?;
    installing::removed(world)
}

/// Images of the programs' Pods.
fn images(world: &World) -> Result<Vec<String>> {
    let image = |pod: &serde_json::Value| pod["spec"]["containers"][0]["image"].as_str().map(str::to_owned);
    world.pods(OPERATOR)?.iter().map(|pod| image(pod).context("a container has an image")).collect()
}
