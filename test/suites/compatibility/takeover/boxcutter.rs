//! What the newer runtime, whose revisions are like ours, installed.

use olm_api::names::{REVISION_OF_ANNOTATION, TAKEN_OVER_ANNOTATION};
use olm_test::{extension::object_set, prelude::*};

use crate::{
    seen::{nothing_stale, nothing_stray, taken_over},
    world::{DEADLINE, World},
};

const EXTENSIONS: [&str; 6] = ["argocd", "external-secrets", "flux", "grafana", "keda", "ndmspc"];
const INSTALLED: [&str; 4] = ["external-secrets", "flux", "grafana", "keda"];

#[tokio::test(flavor = "multi_thread")]
async fn revisions_go_on_under_their_numbers_and_leave() -> Result<()> {
    if !olm_test::long::wanted() {
        return Ok(());
    }
    // Without a free node, what was stuck stays stuck.
    let Some(mut world) = World::load("boxcutter", true, Ok).await? else { return Ok(()) };
    let numbers = world.revisions().await?;
    world.begin(&INSTALLED).await?;
    world.empty_leftovers()?;

    for (name, version) in [("external-secrets", "0.11.0"), ("grafana", "5.24.0")] {
        world.installed(name, version).await?;
    }
    let remedy = "False/Blocked/operation cannot proceed due to the following validation error(s): spec.serviceAccount is not set and the cluster has no default account";
    world.shows("keda", Progressing, remedy).await?;
    world.shows("keda", Installed, "True/Succeeded/").await?;
    world.shows("flux", Progressing, "True/RollingOut/Revision 2.3.0 is rolling out.").await?;
    world.shows("ndmspc", Progressing, "True/RollingOut/").await?;
    // Without cert-manager upstream could not; our certificates are a new revision.
    world.shows("argocd", Progressing, "True/RollingOut/").await?;
    let revisions = world.revisions().await?;
    let new: Vec<_> = revisions.iter().filter(|r| !numbers.contains(r)).collect();
    ensure!(new == ["argocd-2"], "{revisions:?}");
    ensure!(numbers.iter().all(|r| revisions.contains(r)), "{numbers:?}, then {revisions:?}");
    world.goes_on(41, &["external-secrets", "grafana"], &["keda"]).await?;

    comes_to_its_end(&world).await?;
    let after = world.inventory().await?;
    taken_over(&after, &EXTENSIONS)?;
    nothing_stale(&after, &[])?;
    world.end_watch()?;

    world.remove(&EXTENSIONS).await
}

/// A part of that cluster, which `make test` has the time for.
#[tokio::test(flavor = "multi_thread")]
async fn one_extension_goes_on_is_upgraded_and_leaves() -> Result<()> {
    let only = ["grafana"];
    let Some(mut world) = World::load("boxcutter", false, |dump| Ok(dump.only(&only))).await? else {
        return Ok(());
    };
    world.empty_leftovers()?;
    world.begin(&only).await?;

    world.installed("grafana", "5.24.0").await?;
    let revisions = world.revisions().await?;
    ensure!(revisions == ["grafana-1*", "grafana-2"], "{revisions:?}");
    nothing_stray(&world.before, &world.goes_on(20, &only, &[]).await?)?;
    world.upgraded(&["grafana-1*", "grafana-2*", "grafana-3"]).await?;
    taken_over(&world.inventory().await?, &only)?;
    world.end_watch()?;
    world.remove(&only).await
}

/// Sets that claim an extension and that upstream's status does not tell of are no revisions, whether they were there
/// before the takeover or come later; a takeover that was cut short is gone on with.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_the_status_tells_of_becomes_a_revision() -> Result<()> {
    let Some(mut world) = World::load("boxcutter", false, |dump| Ok(dump.only(&["grafana"]))).await? else {
        return Ok(());
    };
    world.empty_leftovers()?;
    let uid = world.extensions().get("grafana").await?.uid().context("no UID")?;
    // As a process left it that died after the first of two.
    let marked = json!({"metadata": {"annotations": {REVISION_OF_ANNOTATION: uid}}});
    world.sets().merge("grafana-1", &marked).await?;
    plant(&world, &uid, 3).await?;
    world.begin(&["grafana"]).await?;
    world.installed("grafana", "5.24.0").await?;
    plant(&world, &uid, 1000).await?;
    wait::until("both to be reported", DEADLINE, async || {
        let ready = world.condition("grafana", Ready).await?;
        wait::check(ready.contains("they are ignored: \"grafana-1000\", \"grafana-3\"."), || ready)
    })
    .await?;
    // Neither is the latest, and the next number is free.
    world.upgraded(&["grafana-1*", "grafana-1000", "grafana-2*", "grafana-3", "grafana-4"]).await?;
    for (name, is_revision) in [
        ("grafana-1", true),
        ("grafana-2", true),
        ("grafana-3", false),
        ("grafana-4", true),
        ("grafana-1000", false),
    ] {
        let set = world.sets().get(name).await?;
        let mark = set.annotations().get(REVISION_OF_ANNOTATION);
        ensure!((mark == Some(&uid)) == is_revision, "{name}: {mark:?}");
        let account = set.annotations().get(SERVICE_ACCOUNT_NAME_ANNOTATION);
        ensure!(is_revision || account.is_none(), "{name} was given {account:?}");
    }
    let extension = world.extensions().get("grafana").await?;
    ensure!(
        extension.annotations().get(TAKEN_OVER_ANNOTATION) == Some(&uid),
        "{:?}",
        extension.annotations()
    );
    Ok(())
}

/// Creates a set that claims to be a revision of grafana in every way but the mark, and names no account.
async fn plant(world: &World, uid: &str, number: i64) -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                     "metadata": {"name": format!("loot-{number}"), "namespace": "grafana-system"}});
    let metadata = json!({
        "name": format!("grafana-{number}"),
        "labels": {OWNER_NAME_LABEL: "grafana", OWNER_KIND_LABEL: "ClusterExtension"},
        "ownerReferences": [{
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "grafana", "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    world.sets().make(object_set(&metadata, number, &json!([{"object": map}]))).await?;
    Ok(())
}

/// Nodes come back: what was stuck and half rolled out goes on to its end; then there are updates.
async fn comes_to_its_end(world: &World) -> Result<()> {
    world.cordon(false).await?;
    for (name, version) in [("ndmspc", "0.20250209.0"), ("flux", "2.3.0"), ("argocd", "0.16.0")] {
        world.installed(name, version).await?;
    }
    // Its update is held up by a CRD, as before, once it may be worked on.
    let settings: Api<ConfigMap> = Api::namespaced(world.client.clone(), SYSTEM_NAMESPACE);
    let patch = json!({"data": {"default-service-account": "grafana-system/installer"}});
    settings.merge("olmv1-settings", &patch).await?;
    let held = "True/Retrying/error for resolved bundle \"keda.v2.7.1\" with version \"2.7.1\": validating upgrade for CRD \"scaledjobs.keda.sh\"";
    world.shows("keda", Progressing, held).await?;
    let none = json!({"spec": {"install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}}});
    world.patch_extension("keda", none).await?;
    world.installed("keda", "2.7.1").await?;
    let wanted = [
        "argocd-1*",
        "argocd-2",
        "external-secrets-1",
        "flux-1*",
        "flux-2",
        "grafana-1*",
        "grafana-2*",
        "grafana-3",
        "keda-1*",
        "keda-2",
        "ndmspc-1",
    ];
    world.upgraded(&wanted).await
}
