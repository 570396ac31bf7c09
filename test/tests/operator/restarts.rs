//! The program killed in the middle of its work.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use olm_api::{
    names::{OBJECT_DATA_SECRET_TYPE, OWNER_NAME_LABEL, REVISION_NAME_LABEL},
    v1::{ClusterObjectSet, LifecycleState},
};
use olm_test::{operator::SYSTEM_NAMESPACE, wait};
use serde_json::json;

use crate::world::{COLLECTED, Scenario, World, sample_bundle};

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

/// Content as a process leaves it that dies between its writes: of a revision that was made, and of one that was not.
#[tokio::test(flavor = "multi_thread")]
async fn content_without_an_owner_goes_when_its_extension_goes() -> Result<()> {
    let scenario = Scenario::new(World::shared().await?, "strays").await?;
    scenario.prepare(PACKAGE, &[("1.0.0", sample_bundle("1.0.0"))]).await?;
    scenario.create_extension(PACKAGE, json!({})).await?;
    scenario.installed("1.0.0").await?;
    let secrets: Api<Secret> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let (name, other) = (&scenario.name, format!("{}-other", scenario.name));
    for (secret, type_, revision) in [
        (format!("{name}-1-stray"), OBJECT_DATA_SECRET_TYPE, format!("{name}-1")),
        (format!("{name}-9-stray"), OBJECT_DATA_SECRET_TYPE, format!("{name}-9")),
        // No content: an object of a bundle, installed into this namespace, that a deletion policy keeps.
        (other.clone(), "Opaque", "none".to_owned()),
    ] {
        let secret = serde_json::from_value(json!({
            "metadata": {"name": secret, "labels": {OWNER_NAME_LABEL: name, REVISION_NAME_LABEL: revision}},
            "type": type_, "immutable": true,
        }))?;
        secrets.create(&PostParams::default(), &secret).await?;
    }
    scenario.delete_extension().await?;
    let left = [format!("Secret {SYSTEM_NAMESPACE}/{other}")];
    wait::until("content to be gone", COLLECTED, || async {
        let owned = scenario.owned().await?;
        wait::check(owned == left, || format!("left: {owned:?}"))
    })
    .await?;
    secrets.delete(&other, &DeleteParams::default()).await?;
    Ok(())
}
