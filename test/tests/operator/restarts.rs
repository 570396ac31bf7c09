//! The program killed in the middle of its work.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::{Api, ResourceExt, api::ListParams};
use olm_api::v1::{ClusterObjectSet, LifecycleState};
use serde_json::json;

use crate::world::{Scenario, World, sample_bundle};

const PACKAGE: &str = "lighthouse-operator";
const KILLS: u64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_moments_it_always_ends_installed() -> Result<()> {
    // A world of its own: the other tests need a program that lives.
    let world = World::start().await?;
    let seed =
        std::env::var("OLM_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..KILLS {
        one_life(&world, &mut random)
            .await
            .with_context(|| format!("round {round}, OLM_TEST_SEED={seed}"))?;
    }
    Ok(())
}

async fn one_life(world: &World, random: &mut fastrand::Rng) -> Result<()> {
    let scenario = Scenario::new(world, "killed").await?;
    scenario.prepare(PACKAGE, &[("1.0.0", sample_bundle("1.0.0"))]).await?;
    scenario.create_extension(PACKAGE, json!({})).await?;
    tokio::time::sleep(Duration::from_millis(random.u64(0..1200))).await;
    world.operator.process().restart()?;
    world.operator.ready().await?;
    scenario.installed("1.0.0").await?;

    let sets: Api<ClusterObjectSet> = Api::all(scenario.client.clone());
    let label = format!("olm.operatorframework.io/owner-name={}", scenario.name);
    let listed = sets.list(&ListParams::default().labels(&label)).await?;
    let active: Vec<_> = listed
        .items
        .iter()
        .filter(|set| set.spec.lifecycle_state == LifecycleState::Active)
        .map(ResourceExt::name_any)
        .collect();
    ensure!(active.len() == 1, "active revisions: {active:?}");
    let secrets: Vec<_> = scenario.owned().await?.into_iter().filter(|o| o.starts_with("Secret ")).collect();
    ensure!(secrets.len() == 1, "stray Secrets: {secrets:?}");
    scenario.delete_extension().await?;
    scenario.nothing_left().await
}
