//! What an administrator does, on a cluster whose Pods really run. `make e2e` brings the cluster.
//!
//! One story of several chapters: what a manifest installs has fixed names in the whole cluster. A chapter that fails
//! does not keep the next from being told. At the end the programs are installed, for the tests that come after.

mod availability;
mod classic;
mod confinement;
mod extension;
mod figures;
mod forward;
mod installing;
mod sample;
mod split;
mod upgrading;
mod watched;
mod world;

use olm_test::prelude::*;
use world::{OPERATOR, World};

/// Told only when it is asked for by its name: what the scenarios are run on after the others.
const LAYOUT_FOR_SCENARIOS: &str = "two Deployments for the scenarios";

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_installs_uses_disturbs_and_measures_it() -> Result<()> {
    if !olm_test::long::wanted() {
        return Ok(());
    }
    let Some(world) = World::of_the_environment().await? else { return Ok(()) };
    let mut told = Told::default();
    if asked_for(LAYOUT_FOR_SCENARIOS) {
        told.tell(LAYOUT_FOR_SCENARIOS, split::applied(&world)).await;
        return told.end(&world);
    }
    told.tell("install.yaml over what upstream left", installing::over_upstream(&world)).await;
    told.tell("install.yaml of another commit, upgraded under load", upgrading::under_load(&world)).await;
    told.tell("install.yaml on a cluster that has nothing", installing::on_nothing(&world)).await;
    told.tell("registries of one's own", installing::registries(&world)).await;
    told.tell("a catalog is served", installing::catalog(&world)).await;
    let confined = async { confinement::written(&world, OPERATOR) };
    told.tell("Pods write nowhere but into their cache", confined).await;
    told.tell("an extension with webhooks, from its installation on", extension::life(&world, "")).await;
    told.tell("the leading Pod is deleted in the middle", availability::leader_deleted(&world)).await;
    told.tell("the leading process is killed", availability::leader_killed(&world)).await;
    told.tell("the node is drained and back", availability::drained(&world)).await;
    told.tell("figures", figures::taken(&world)).await;
    told.tell("the split installation, and back", split::there_and_back(&world)).await;
    told.tell("an extension is deleted", extension::deleted(&world)).await;
    told.tell("an operator of OLM Classic by Subscription", classic::life(&world)).await;
    told.end(&world)
}

/// Whether `OLM_E2E_ONLY` names this chapter.
fn asked_for(name: &str) -> bool {
    std::env::var("OLM_E2E_ONLY")
        .unwrap_or_default()
        .split(',')
        .any(|part| !part.is_empty() && name.contains(part))
}

/// Chapters and how they ended.
#[derive(Default)]
struct Told {
    ended: Vec<(&'static str, bool)>,
}

impl Told {
    async fn tell(&mut self, name: &'static str, chapter: impl Future<Output = Result<()>>) {
        // The chapters asked for; those before them are taken as told.
        let all = std::env::var("OLM_E2E_ONLY").unwrap_or_default().is_empty();
        if !all && !asked_for(name) {
            return;
        }
        let started = Instant::now();
        println!("-- {name}");
        let ended = chapter.await;
        let seconds = started.elapsed().as_secs_f64();
        match &ended {
            Ok(()) => println!("ok {name} ({seconds:.1} s)"),
            Err(error) => println!("FAILED {name} ({seconds:.1} s): {error:#}"),
        }
        self.ended.push((name, ended.is_ok()));
    }

    fn end(self, world: &World) -> Result<()> {
        let failed: Vec<_> = self.ended.iter().filter(|(_, ok)| !ok).map(|(name, _)| *name).collect();
        let left_out = world.parts_left_out();
        println!(
            "{} of {} chapters of make e2e passed; left out in them: {}",
            self.ended.len() - failed.len(),
            self.ended.len(),
            if left_out.is_empty() { "nothing".to_owned() } else { left_out.join("; ") },
        );
        anyhow::ensure!(failed.is_empty(), "failed: {failed:?}");
        Ok(())
    }
}
