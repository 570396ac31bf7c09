//! What the newer runtime, whose revisions are like ours, installed.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use olm_test::{
    operator::{Operator, SYSTEM_NAMESPACE},
    takeover,
};
use serde_json::json;

use crate::{
    ALONE,
    seen::{Watched, inventory, nothing_left, nothing_stale, nothing_stray, taken_over, unchanged},
    world::World,
};

const EXTENSIONS: [&str; 6] = ["argocd", "external-secrets", "flux", "grafana", "keda", "ndmspc"];
const INSTALLED: [&str; 4] = ["external-secrets", "flux", "grafana", "keda"];

#[tokio::test(flavor = "multi_thread")]
async fn revisions_go_on_under_their_numbers_and_leave() -> Result<()> {
    if !olm_test::long::wanted() {
        return Ok(());
    }
    let Some(folder) = takeover::folder("boxcutter") else { return Ok(()) };
    let _alone = ALONE.lock().await;
    // Without a free node, what was stuck stays stuck.
    let world = World::load(&folder, true, Ok).await?;
    let before = inventory(&world.client).await?;
    let numbers = world.revisions().await?;
    let watched = Watched::start(&world.client, &INSTALLED);
    let operator = world.operator().await?;
    world.empty_leftovers()?;

    for (name, version) in [("external-secrets", "0.11.0"), ("grafana", "5.24.0")] {
        world.installed(&operator, name, version).await?;
    }
    let remedy = "False/Blocked/operation cannot proceed due to the following validation error(s): spec.serviceAccount is not set and the cluster has no default account";
    world.shows(&operator, "keda", "Progressing", remedy).await?;
    world.shows(&operator, "keda", "Installed", "True/Succeeded/").await?;
    world.shows(&operator, "flux", "Progressing", "True/RollingOut/Revision 2.3.0 is rolling out.").await?;
    world.shows(&operator, "ndmspc", "Progressing", "True/RollingOut/").await?;
    // Without cert-manager the original could not; our certificates are a new revision.
    world.shows(&operator, "argocd", "Progressing", "True/RollingOut/").await?;
    let revisions = world.revisions().await?;
    let new: Vec<_> = revisions.iter().filter(|r| !numbers.contains(r)).collect();
    ensure!(new == ["argocd-2"], "{revisions:?}");
    ensure!(numbers.iter().all(|r| revisions.contains(r)), "{numbers:?}, then {revisions:?}");
    let after = inventory(&world.client).await?;
    unchanged(&before, &after, 41)?;
    taken_over(&after, &["external-secrets", "grafana"])?;
    nothing_stale(&after, &["keda"])?;

    goes_on(&world, &operator).await?;
    let after = inventory(&world.client).await?;
    taken_over(&after, &EXTENSIONS)?;
    nothing_stale(&after, &[])?;
    watched.end(&operator)?;

    for name in EXTENSIONS {
        world.extensions().delete(name, &DeleteParams::default()).await?;
    }
    nothing_left(&world.client, &EXTENSIONS).await
}

/// A part of that cluster, which `make test` has the time for.
#[tokio::test(flavor = "multi_thread")]
async fn one_extension_goes_on_is_upgraded_and_leaves() -> Result<()> {
    let Some(folder) = takeover::folder("boxcutter") else { return Ok(()) };
    let _alone = ALONE.lock().await;
    let only = ["grafana"];
    let world = World::load(&folder, false, |dump| Ok(dump.only(&only))).await?;
    world.empty_leftovers()?;
    let before = inventory(&world.client).await?;
    let watched = Watched::start(&world.client, &only);
    let operator = world.operator().await?;

    world.installed(&operator, "grafana", "5.24.0").await?;
    let revisions = world.revisions().await?;
    ensure!(revisions == ["grafana-1*", "grafana-2"], "{revisions:?}");
    let after = inventory(&world.client).await?;
    unchanged(&before, &after, 20)?;
    nothing_stray(&before, &after)?;
    taken_over(&after, &only)?;
    nothing_stale(&after, &[])?;
    world.upgraded(&operator, &["grafana-1*", "grafana-2*", "grafana-3"]).await?;
    taken_over(&inventory(&world.client).await?, &only)?;
    watched.end(&operator)?;
    world.extensions().delete("grafana", &DeleteParams::default()).await?;
    nothing_left(&world.client, &only).await
}

/// Nodes come back: what was stuck and half rolled out goes on to its end; then there are updates.
async fn goes_on(world: &World, operator: &Operator) -> Result<()> {
    world.cordon(false).await?;
    for (name, version) in [("ndmspc", "0.20250209.0"), ("flux", "2.3.0"), ("argocd", "0.16.0")] {
        world.installed(operator, name, version).await?;
    }
    // Its update is held up by a CRD, as before, once it may be worked on.
    let settings: Api<ConfigMap> = Api::namespaced(world.client.clone(), SYSTEM_NAMESPACE);
    let patch = json!({"data": {"default-service-account": "grafana-system/installer"}});
    settings.patch("olmv1-settings", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    let held = "True/Retrying/error for resolved bundle \"keda.v2.7.1\" with version \"2.7.1\": validating upgrade for CRD \"scaledjobs.keda.sh\"";
    world.shows(operator, "keda", "Progressing", held).await?;
    let none = json!({"spec": {"install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}}});
    world.patch_extension("keda", none).await?;
    world.installed(operator, "keda", "2.7.1").await?;
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
    world.upgraded(operator, &wanted).await
}
