//! Bad input gets one clear text, and the rest of the cluster goes on.

use olm_api::{ConditionType::Reconciling, names::REINSTALL_ANNOTATION};
use olm_test::{catalog::chain, prelude::*};

const PACKAGE: &str = "lighthouse-operator";

#[tokio::test(flavor = "multi_thread")]
async fn bundle_images_that_cannot_be_used() -> Result<()> {
    let scenario = Scenario::shared("unusable").await?;
    let empty = tempfile::tempdir()?;
    std::fs::create_dir_all(empty.path().join("manifests"))?;
    std::fs::create_dir_all(empty.path().join("metadata"))?;
    std::fs::write(
        empty.path().join("manifests/map.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
    )?;
    std::fs::write(
        empty.path().join("metadata/annotations.yaml"),
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: p\n",
    )?;
    let without_csv =
        scenario.world.images.push_bundle(empty.path(), &format!("{}/without-csv:v1", scenario.name)).await?;
    let missing =
        format!("{}/{}/missing@sha256:{}", scenario.world.images.host(), scenario.name, "0".repeat(64));
    let content =
        [chain("without-csv", &[("1.0.0", &without_csv)]), chain("missing", &[("1.0.0", &missing)])];
    let reference = scenario.push_catalog(&content.concat(), "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.catalog_serves().await?;

    scenario.create_extension("without-csv", json!({})).await?;
    let wrapped = "error for resolved bundle \"without-csv.v1.0.0\" with version \"1.0.0\": ";
    scenario
        .shows(
            Progressing,
            &format!("False/Blocked/{wrapped}no ClusterServiceVersion found in \"manifests\""),
        )
        .await?;
    scenario.shows(Stalled, "True/Blocked/").await?;
    scenario.delete_extension().await?;

    scenario.create_extension("missing", json!({})).await?;
    let wrapped = "error for resolved bundle \"missing.v1.0.0\" with version \"1.0.0\": ";
    scenario.shows(Progressing, &format!("True/Retrying/{wrapped}error ")).await?;
    scenario.uninstall().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_down_stops_only_what_needs_it() -> Result<()> {
    // A world of its own: the other tests need their registry.
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "down").await?;
    scenario.prepare(PACKAGE, &[("1.0.0", lighthouse("1.0.0")), ("1.1.0", lighthouse("1.1.0"))]).await?;
    scenario.install(PACKAGE, json!({"version": "1.0.0"}), "1.0.0").await?;
    world.registry.stop();
    scenario.set_version("1.1.0").await?;
    let wrapped = "error for resolved bundle \"lighthouse-operator.v1.1.0\" with version \"1.1.0\": ";
    scenario.shows(Progressing, &format!("True/Retrying/{wrapped}")).await?;
    scenario.shows(Installed, "True/Succeeded/").await?;
    world.registry.start_again()?;
    scenario.installed("1.1.0").await?;

    // An edit that needs the bundle again is not lost: it is told, tried again, and rolled out.
    let config = json!({"configType": "Inline", "inline": {"deploymentConfig": {"env": [{"name": "A", "value": "b"}]}}});
    edited_while_the_registry_is_down(&scenario, json!({"spec": {"config": config}})).await?;
    let deployments: kube::Api<Deployment> = kube::Api::namespaced(scenario.client.clone(), &scenario.name);
    let found = serde_json::to_value(deployments.all().await?)?.to_string();
    ensure!(found.contains(r#"{"name":"A","value":"b"}"#), "{found}");
    let again = json!({"metadata": {"annotations": {REINSTALL_ANNOTATION: "once"}}});
    edited_while_the_registry_is_down(&scenario, again).await?;
    restarted_while_the_registry_is_down(&scenario).await
}

/// Forgets the bundles that were pulled.
fn empty_the_bundle_store(world: &World) -> Result<()> {
    let kept: Vec<_> =
        std::fs::read_dir(world.operator.cache().join("bundles/bundles"))?.collect::<Result<_, _>>()?;
    ensure!(!kept.is_empty(), "no bundle was kept");
    kept.iter().try_for_each(|bundle| std::fs::remove_file(bundle.path()))?;
    Ok(())
}

/// Another process, as an upgrade of the program starts it, has no bundle and gets none: what is installed needs none.
async fn restarted_while_the_registry_is_down(scenario: &Scenario<'_>) -> Result<()> {
    let world = scenario.world;
    let extensions = scenario.extensions();
    let ready = async || {
        let conditions = extensions.get(&scenario.name).await?.status.context("no status")?.conditions;
        let ready = conditions.find(Ready).context("no Ready")?;
        anyhow::Ok((ready.status.clone(), ready.last_transition_time.clone()))
    };
    let before = ready().await?;
    ensure!(before.0 == "True", "{before:?}");
    world.operator.process().kill()?;
    world.registry.stop();
    empty_the_bundle_store(world)?;
    world.operator.process().restart()?;
    world.operator.ready().await?;
    // The deadline is passed on to the revision, which shows that the new process has reconciled the extension.
    scenario.patch_extension(json!({"spec": {"progressDeadlineMinutes": 77}})).await?;
    let has_deadline = |set: &ClusterObjectSet| set.spec.progress_deadline_minutes == Some(77);
    eventually("the new deadline", async || scenario.revisions().await, |sets| sets.iter().any(has_deadline))
        .await?;
    let after = ready().await?;
    ensure!(after == before, "{before:?}, then {after:?}");
    world.registry.start_again()?;
    Ok(())
}

/// Edits the extension while its bundle cannot be had, and sees what is told, and a revision once it can.
async fn edited_while_the_registry_is_down(scenario: &Scenario<'_>, edit: Value) -> Result<()> {
    let world = scenario.world;
    let sets: kube::Api<ClusterObjectSet> = kube::Api::all(scenario.client.clone());
    let latest = async || {
        let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", scenario.name));
        anyhow::Ok(sets.list(&mine).await?.items.iter().map(|set| set.spec.revision).max())
    };
    let before = latest().await?;
    world.registry.stop();
    empty_the_bundle_store(world)?;
    scenario.patch_extension(edit).await?;
    let why = "Bundle \"lighthouse-operator.v1.1.0\" with version \"1.1.0\" is installed with other settings than the spec asks for, and cannot be fetched again to apply them. What is installed keeps running; the fetch is retried: ";
    let progressing = "Revision 1.1.0 has rolled out.";
    scenario.shows(Ready, &format!("False/Retrying/{why}")).await?;
    scenario.shows(Reconciling, &format!("True/Retrying/{why}")).await?;
    // The words of upstream, which tells nothing of it.
    scenario.shows(Progressing, &format!("True/Succeeded/{progressing}")).await?;
    scenario.shows(Installed, "True/Succeeded/").await?;
    ensure!(latest().await? == before, "a revision was made of nothing");
    world.registry.start_again()?;
    scenario.installed("1.1.0").await?;
    ensure!(latest().await? > before, "the edit was not rolled out");
    Ok(())
}
