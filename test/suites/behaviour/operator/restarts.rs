//! The program killed in the middle of its work.

use olm_api::names::{OBJECT_DATA_SECRET_TYPE, REVISION_NAME_LABEL};
use olm_test::prelude::*;

const PACKAGE: &str = "lighthouse-operator";
/// Shown by a note as a process leaves it that is killed while it reads a bundle.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_being_read_when_it_was_killed_is_tried_after_the_others() -> Result<()> {
    let world = World::start().await?;
    let scenarios = [Scenario::new(&world, "suspect").await?, Scenario::new(&world, "innocent").await?];
    let bundles = [("1.0.0", lighthouse("1.0.0"))];
    let [suspect, innocent] = &scenarios;
    suspect.prepare(PACKAGE, &bundles).await?;
    innocent.offer(&[small("innocent", "1.0.0")]).await?;
    let image = format!("{}/{PACKAGE}:v1.0.0", suspect.name);
    let reference = world.images.push_bundle(&suspect.own(&bundles[0].1)?, &image).await?;
    let (_, digest) = reference.rsplit_once('@').context("no digest")?;
    world.operator.process().kill()?;
    let notes = world.operator.cache().join("bundles/reading");
    std::fs::write(notes.join(digest.replace(':', "-")), "1")?;
    world.operator.process().restart()?;
    world.operator.ready().await?;

    suspect.create_extension(PACKAGE, json!({})).await?;
    innocent.create_extension("innocent", json!({})).await?;
    let wrapped = format!("error for resolved bundle \"{PACKAGE}.v1.0.0\" with version \"1.0.0\": ");
    let text = format!("{wrapped}the controller crashed while it read this bundle");
    suspect.shows(Progressing, &format!("True/Retrying/{text}")).await?;
    innocent.installed("1.0.0").await?;
    suspect.installed("1.0.0").await?;
    eventually("the note to be gone", async || Ok(std::fs::read_dir(&notes)?.count()), |left| *left == 0)
        .await
}

/// Content as a process leaves it that dies between its writes: of a revision that was made, and of one that was not.
#[tokio::test(flavor = "multi_thread")]
async fn content_without_an_owner_goes_when_its_extension_goes() -> Result<()> {
    let scenario = Scenario::shared("strays").await?;
    scenario.prepare(PACKAGE, &[("1.0.0", lighthouse("1.0.0"))]).await?;
    scenario.install(PACKAGE, json!({}), "1.0.0").await?;
    let secrets: Api<Secret> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let (name, other) = (&scenario.name, format!("{}-other", scenario.name));
    for (secret, type_, revision) in [
        (format!("{name}-1-stray"), OBJECT_DATA_SECRET_TYPE, format!("{name}-1")),
        (format!("{name}-9-stray"), OBJECT_DATA_SECRET_TYPE, format!("{name}-9")),
        // No content: an object of a bundle, installed into this namespace, that a deletion policy keeps.
        (other.clone(), "Opaque", "none".to_owned()),
    ] {
        let secret = json!({
            "metadata": {"name": secret, "labels": {OWNER_NAME_LABEL: name, REVISION_NAME_LABEL: revision}},
            "type": type_, "immutable": true,
        });
        secrets.make(secret).await?;
    }
    scenario.delete_extension().await?;
    let left = [format!("Secret {SYSTEM_NAMESPACE}/{other}")];
    wait::until("content to be gone", COLLECTED, || async {
        let owned = scenario.owned().await?;
        wait::check(owned == left, || format!("left: {owned:?}"))
    })
    .await?;
    secrets.remove(&other).await?;
    Ok(())
}

/// The Secret of a revision that was deleted is there for a while yet, under the name that the new one's is to have.
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_made_anew_does_not_take_content_that_goes() -> Result<()> {
    let scenario = Scenario::shared("anew").await?;
    scenario.prepare(PACKAGE, &[("1.0.0", lighthouse("1.0.0"))]).await?;
    scenario.install(PACKAGE, json!({}), "1.0.0").await?;
    let secrets: Api<Secret> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let revision = format!("{}-1", scenario.name);
    let of_revision = ListParams::default().labels(&format!("{REVISION_NAME_LABEL}={revision}"));
    let secret = secrets.list(&of_revision).await?.items.pop().context("no content")?.name_any();
    let held = |by: serde_json::Value| Patch::Merge(json!({"metadata": {"finalizers": by}}));
    secrets.patch(&secret, &PatchParams::default(), &held(json!(["example.com/slow"]))).await?;

    // While the old one is there, the new one gets another number.
    scenario.annotate("paused", json!("true")).await?;
    wait::until("the pause", COLLECTED, || async {
        let told = scenario.shown().await?.condition(Ready);
        wait::check(told.contains("Paused by the annotation"), || told)
    })
    .await?;
    scenario.sets().delete(&revision, &DeleteParams::background()).await?;
    scenario.sets().gone(&revision).await?;
    scenario.annotate("paused", json!(null)).await?;
    wait::until("the new revision to wait", COLLECTED, || async {
        let told = scenario.shown().await?.condition(Progressing);
        let waits = format!("creating ref Secret {secret:?}: it belongs to a deleted revision");
        wait::check(told.starts_with("True/Retrying/") && told.contains(&waits), || told)
    })
    .await?;
    secrets.patch(&secret, &PatchParams::default(), &held(json!(null))).await?;
    scenario.installed("1.0.0").await?;
    let (set, found) = (scenario.sets().get(&revision).await?, secrets.get(&secret).await?);
    let owners: Vec<_> = found.owner_references().iter().map(|owner| Some(owner.uid.clone())).collect();
    ensure!(owners == [set.uid()] && found.metadata.deletion_timestamp.is_none(), "{owners:?}");
    scenario.uninstall().await
}
