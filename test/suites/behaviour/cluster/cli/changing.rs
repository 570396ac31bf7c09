//! Upgrades, roll-backs, pauses and removals.

use anyhow::{Result, ensure};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use olm_api::names::PAUSED_ANNOTATION;
use olm_test::{bundle::lighthouse, scenario::Scenario, world::World};
use serde_json::json;

use super::{SAMPLE, Terminal, olm};

const PACKAGE: &str = "lighthouse-operator";

/// An extension at 1.0.0 whose ServiceAccount may install every version.
async fn installed(base: &str) -> Result<Scenario<'static>> {
    let scenario = Scenario::new(World::shared().await?, base).await?;
    let bundles = ["1.0.0", "1.1.0", "2.0.0"].map(|version| (version, lighthouse(version)));
    scenario.prepare(PACKAGE, &bundles).await?;
    scenario.create_extension(PACKAGE, json!({"version": "1.0.0"})).await?;
    scenario.installed("1.0.0").await?;
    Ok(scenario)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_shown_asked_for_and_waited_for() -> Result<()> {
    let _alone = SAMPLE.lock().await;
    let scenario = installed("cli-upgrade").await?;
    let name = scenario.name.clone();
    let refused = olm(&scenario, &["upgrade", &name]).await?;
    refused.ensure_error(1, &["there is no terminal to ask on: pass --yes"])?;

    let args = ["upgrade", &name, "--version", "1.1.0"];
    let mut declined = Terminal::run(&scenario, &args)?;
    let declined = tokio::task::spawn_blocking(move || {
        declined.until("[y/N] ")?;
        declined.answer("n")?;
        declined.end()
    });
    let (code, shown) = declined.await??;
    ensure!(code == Some(1) && shown.contains("nothing was changed"), "{code:?}\n{shown}");
    let extension = scenario.extensions().get(&name).await?;
    let version = extension.spec.source.catalog.and_then(|catalog| catalog.version);
    ensure!(version.as_deref() == Some("1.0.0"), "{version:?}");

    let dry = olm(&scenario, &["upgrade", &name, "--dry-run"]).await?;
    dry.ensure(0, &["1.0.0 -> 1.1.0", &format!("{name} would become revision {name}-2")])?;

    let mut accepted = Terminal::run(&scenario, &args)?;
    let accepted = tokio::task::spawn_blocking(move || {
        accepted.until("? [y/N] ")?;
        accepted.answer("y")?;
        accepted.end()
    });
    let (code, shown) = accepted.await??;
    println!("{shown}");
    ensure!(code == Some(0), "{code:?}\n{shown}");
    ensure!(shown.contains("lighthouse-operator.v1.1.0 is installed"), "{shown}");
    scenario.installed("1.1.0").await?;

    let nothing = olm(&scenario, &["upgrade", &name, "--version", "1.1.0", "--yes"]).await?;
    nothing.ensure(0, &["nothing to upgrade: "])?;
    let back = olm(&scenario, &["rollback", &name, "--yes"]).await?;
    back.ensure(0, &["rolled back to revision 1"])?;
    scenario.installed("1.0.0").await?;
    // Nothing is resolved or pulled, so no registry is needed.
    olm(&scenario, &["diff", &name, "--offline"]).await?.ensure(0, &["no difference"])?;
    // An upgrade ends the roll-back.
    let again = olm(&scenario, &["upgrade", &name, "--yes"]).await?;
    again.ensure(0, &["the annotation rollback-to is removed", "v1.1.0 is installed"])?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_extension_is_not_upgraded() -> Result<()> {
    let _alone = SAMPLE.lock().await;
    let scenario = installed("cli-pause").await?;
    let name = scenario.name.clone();
    olm(&scenario, &["pause", &name, "--until", "2090-01-31T08:00:00Z"]).await?.ensure(0, &["2090-01-31"])?;
    let extension = scenario.extensions().get(&name).await?;
    let annotations = extension.metadata.annotations.unwrap_or_default();
    ensure!(annotations.get(PAUSED_ANNOTATION).is_some_and(|value| value == "2090-01-31T08:00:00Z"));
    let refused = olm(&scenario, &["upgrade", &name, "--yes"]).await?;
    refused.ensure_error(1, &[&format!("run \"olm resume {name}\" first")])?;
    olm(&scenario, &["resume", &name]).await?.ensure(0, &["upgrades continue"])?;
    let extension = scenario.extensions().get(&name).await?;
    ensure!(!extension.metadata.annotations.unwrap_or_default().contains_key(PAUSED_ANNOTATION));
    olm(&scenario, &["pause", "no-such-one"]).await?.ensure_error(1, &["there is no ClusterExtension"])?;
    scenario.delete_extension().await
}

/// The custom resources of the sample's CRD.
fn beacons(scenario: &Scenario<'_>) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(&scenario.group(), "v1", "Beacon");
    Api::namespaced_with(scenario.client.clone(), &scenario.name, &ApiResource::from_gvk(&gvk))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstall_counts_what_users_lose_and_can_keep_it() -> Result<()> {
    let _alone = SAMPLE.lock().await;
    let scenario = installed("cli-uninstall").await?;
    let name = scenario.name.clone();
    let beacon: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{}/v1", scenario.group()), "kind": "Beacon",
        "metadata": {"name": "one", "namespace": name},
        "spec": {"colour": "white"},
    }))?;
    beacons(&scenario).create(&PostParams::default(), &beacon).await?;
    let shown = olm(&scenario, &["uninstall", &name, "--dry-run"]).await?;
    shown.ensure(
        0,
        &[&format!("- CustomResourceDefinition beacons.{}: 1 custom resource", scenario.group())],
    )?;
    scenario.extensions().get(&name).await?;
    let mut declined = Terminal::run(&scenario, &["uninstall", &name])?;
    let declined = tokio::task::spawn_blocking(move || {
        declined.until("and delete 1 custom resource of all users? [y/N] ")?;
        declined.answer("")?;
        declined.end()
    });
    let (code, shown) = declined.await??;
    ensure!(code == Some(1), "{code:?}\n{shown}");
    scenario.extensions().get(&name).await?;

    let kept = olm(&scenario, &["uninstall", &name, "--keep-crds", "--yes"]).await?;
    kept.ensure(0, &["all custom resources stay", &format!("{name}: removed")])?;
    ensure!(scenario.extensions().get_opt(&name).await?.is_none());
    beacons(&scenario).get("one").await?;
    Ok(())
}
