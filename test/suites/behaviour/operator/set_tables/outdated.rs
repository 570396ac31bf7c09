//! A status that is about an older generation of its object says nothing about it.

use kube::core::GroupVersionKind;
use olm_test::{bundle::open_crd, prelude::*};

use super::{condition, create, inline, patch, rolled_out, scenario, shows, spec};

#[tokio::test(flavor = "multi_thread")]
async fn a_status_of_an_older_generation_does_not_count() -> Result<()> {
    let scenario = scenario(World::shared().await?, "outdated").await?;
    let group = scenario.group();
    scenario.account_for(ACCOUNT, &[&group], &["beacons"]).await?;
    let mut kind = open_crd(&group, "Beacon");
    kind["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    scenario.crds().make(kind).await?;

    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Beacon"));
    let beacons: Api<DynamicObject> =
        Api::namespaced_with(scenario.client.clone(), &scenario.name, &resource);
    let beacon = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Beacon",
        "metadata": {"name": "mine", "namespace": scenario.name}, "spec": {"colour": "red"},
    });
    let mut content = spec(&[("one", inline(&[beacon]))]);
    content["progressionProbes"] = json!([{
        "selector": {"type": "GroupKind", "groupKind": {"group": group, "kind": "Beacon"}},
        "assertions": [{"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "True"}}],
    }]);
    let set = create(&scenario, "set", content).await?;
    let fails =
        |text: &str| format!("False/ProbeFailure/Object Beacon.{group}/v1 {}/mine: {text}", scenario.name);
    shows(&scenario, &set, Available, &fails("missing .status.conditions")).await?;

    let edit = async |note: &str| {
        let edit = Patch::Merge(json!({"spec": {"note": note}}));
        beacons.patch("mine", &PatchParams::default(), &edit).await?.metadata.generation.context("generation")
    };
    let tell = async |about: i64, condition: Value| -> Result<()> {
        let status = json!({"status": {"observedGeneration": about, "conditions": [condition]}});
        beacons.patch_status("mine", &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    };
    let ready =
        |status: &str, about: i64| json!({"type": "Ready", "status": status, "observedGeneration": about});
    ensure!(edit("a user's").await? == 2, "an edit is another generation");
    for (about, condition, text) in [
        (1, ready("True", 1), ".status outdated"),
        (1, ready("True", 2), ".status outdated"),
        (2, ready("True", 1), ".status.condition[\"Ready\"] outdated"),
        (2, ready("False", 2), ".status.condition[\"Ready\"] is False"),
    ] {
        tell(about, condition).await?;
        shows(&scenario, &set, Available, &fails(text)).await?;
        shows(&scenario, &set, Progressing, "True/RollingOut/Revision 7.0.0 is rolling out.").await?;
        ensure!(super::condition(&scenario, &set, Succeeded).await?.is_empty(), "{text}: it succeeded");
    }
    tell(2, ready("True", 2)).await?;
    rolled_out(&scenario, &set).await?;

    // What was true of the generation before is no longer known; that it rolled out once is.
    ensure!(edit("another").await? == 3);
    shows(&scenario, &set, Available, &fails(".status outdated")).await?;
    ensure!(condition(&scenario, &set, Succeeded).await?.starts_with("True/Succeeded/"), "taken back");
    tell(3, ready("True", 3)).await?;
    rolled_out(&scenario, &set).await?;
    patch(&scenario, &set, json!({"spec": {"lifecycleState": "Archived"}})).await?;
    shows(&scenario, &set, Progressing, "False/Archived/revision is archived").await?;
    scenario.crds().remove(&format!("beacons.{group}")).await?;
    Ok(())
}
