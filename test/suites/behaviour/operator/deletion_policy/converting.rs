//! A kept CRD with webhook conversion is left without its webhook, or the deletion is held.

use kube::api::PropagationPolicy;
use olm_api::ConditionType::DeletionPolicy;
use olm_test::prelude::*;
use tempfile::TempDir;

use super::{by, gone, objection, remove_rights};
use crate::webhooks::bundle;

async fn converting(base: &str) -> Result<(Scenario<'static>, TempDir)> {
    let scenario = Scenario::shared(base).await?;
    let folder = tempfile::tempdir()?;
    bundle::with_webhooks(&scenario.name).write(folder.path())?;
    scenario.prepare(&scenario.name, &[("1.0.0", folder.path().to_owned())]).await?;
    scenario.install(&scenario.name, json!({}), "1.0.0").await?;
    bundle::create_as_v1(&scenario).await?;
    scenario.annotate("deletion-policy", "RetainCRDs".into()).await?;
    scenario.shows(DeletionPolicy, "True/RetainCRDs/").await?;
    Ok((scenario, folder))
}

async fn crd(scenario: &Scenario<'_>) -> Result<Value> {
    Ok(serde_json::to_value(scenario.crds().get(&bundle::crd_name(&scenario.name)).await?)?)
}

/// It serves the storage version alone, without a webhook, and the user's object can be read.
async fn stands_alone(scenario: &Scenario<'_>) -> Result<()> {
    let crd = crd(scenario).await?;
    ensure!(crd["spec"]["conversion"] == json!({"strategy": "None"}), "{}", crd["spec"]["conversion"]);
    let served = |index: usize| crd["spec"]["versions"][index]["served"] == json!(true);
    ensure!(served(0) && !served(1), "{}", crd["spec"]["versions"]);
    let widget = async || bundle::read_as_v1(scenario).await;
    eventually("the user's object to be readable", widget, |widget| widget["metadata"]["name"] == "w").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_crd_serves_its_storage_version_without_its_webhook() -> Result<()> {
    for propagation in [PropagationPolicy::Background, PropagationPolicy::Foreground] {
        let (scenario, _) = converting("convert").await?;
        scenario.extensions().delete(&scenario.name, &by(propagation)).await?;
        gone(&scenario).await?;
        stands_alone(&scenario).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_is_held_while_objects_could_not_be_read_afterwards() -> Result<()> {
    let (scenario, folder) = converting("mixed").await?;
    let stored = |versions: Value| {
        let patch = Patch::Merge(json!({"status": {"storedVersions": versions}}));
        let (crds, name) = (scenario.crds(), bundle::crd_name(&scenario.name));
        async move { crds.patch_status(&name, &PatchParams::default(), &patch).await }
    };
    stored(json!(["v1", "v2"])).await?;
    scenario.shows(DeletionPolicy, "False/RetainCRDs/").await?;
    let told = scenario.shown().await?.condition(DeletionPolicy);
    ensure!(told.contains("objects may be stored in v2, not only in its storage version \"v1\""), "{told}");
    let told = objection(&scenario).await?;
    ensure!(told.is_some_and(|text| text.contains("remove the others from status.storedVersions")));
    stored(json!(["v1"])).await?;
    scenario.shows(DeletionPolicy, "True/RetainCRDs/").await?;

    // Without the account nobody may change the CRD: the extension waits, and its program is left alone.
    remove_rights(&scenario, &bundle::crd_name(&scenario.name)).await?;
    scenario.accounts().remove(ACCOUNT).await?;
    scenario.extensions().delete(&scenario.name, &by(PropagationPolicy::Background)).await?;
    scenario.shows(Ready, "False/Blocked/The deletion is held: ").await?;
    let told = scenario.shown().await?.condition(Ready);
    ensure!(told.contains("set spec.conversion of the CRD to {\"strategy\": \"None\"} by hand"), "{told}");
    ensure!(crd(&scenario).await?["spec"]["conversion"]["strategy"] == "Webhook");
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.grant(&[("1.0.0", folder.path().to_owned())]).await?;
    gone(&scenario).await?;
    stands_alone(&scenario).await
}
