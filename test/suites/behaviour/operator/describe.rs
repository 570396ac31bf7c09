//! What `kubectl describe clusterextension` shows a person, at each stage of a failing and of a good installation.

use k8s_openapi::api::core::v1::Node;
use olm_test::{operator, prelude::*};

const PACKAGE: &str = "lighthouse-operator";
/// The ConfigMap that the sample brings.
const SETTINGS: &str = "lighthouse-operator-settings";
/// Longer lines are cut, for a person to see the whole.
const LINE_LENGTH: usize = 260;

/// Prints what kubectl shows from the status on, and checks that it says so much.
fn described(scenario: &Scenario<'_>, stage: &str, parts: &[&str]) -> Result<()> {
    let shown =
        operator::kubectl(&scenario.world.cluster, &["describe", "clusterextension", &scenario.name])?;
    let from = shown.find("\nStatus:").or_else(|| shown.find("\nEvents:")).unwrap_or_default();
    println!("\n--- {stage}");
    for line in shown[from..].lines().filter(|line| !line.trim().is_empty()) {
        let cut: String = line.chars().take(LINE_LENGTH).collect();
        println!("{cut}{}", if cut.len() < line.len() { "…" } else { "" });
    }
    for part in parts {
        ensure!(shown.contains(part), "{stage}: no {part:?} in\n{shown}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stage_is_told_to_a_person() -> Result<()> {
    let scenario = Scenario::shared("describe").await?;
    let world = scenario.world;
    // The first version waits for a node that there is not yet.
    let first = scenario.own(&lighthouse("1.0.0"))?;
    let csv = first.join("manifests/lighthouse-operator.clusterserviceversion.yaml");
    let pod = "                containers:\n";
    let held = format!("                nodeSelector: {{{}: here}}\n{pod}", scenario.name);
    fs::write(&csv, fs::read_to_string(&csv)?.replacen(pod, &held, 1))?;
    // The third one asks more of the users' objects.
    let third = scenario.own(&lighthouse("2.0.0"))?;
    let crd = third.join("manifests/beacons.lighthouse.example.com.crd.yaml");
    let stricter =
        fs::read_to_string(&crd)?.replace("required: [colour]", "required: [colour, intervalSeconds]");
    fs::write(&crd, stricter)?;
    let bundles = [("1.0.0", first), ("1.1.0", lighthouse("1.1.0")), ("2.0.0", third)];
    scenario.publish(PACKAGE, &bundles).await?;

    scenario.create_extension(PACKAGE, json!({"version": "1.0.0"})).await?;
    scenario.shows(Progressing, "True/Retrying/operation cannot proceed").await?;
    described(&scenario, "created, without an account", &["service account \"installer\" not found"])?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.shows(Progressing, "True/Retrying/error for resolved bundle").await?;
    described(&scenario, "an account without rights", &["pre-authorization failed", "Verbs:[create]"])?;

    let foreign: ConfigMap = serde_json::from_value(json!({"metadata": {"name": SETTINGS}}))?;
    scenario.maps().make(&foreign).await?;
    scenario.grant(&bundles).await?;
    scenario.shows(Progressing, "True/Retrying/revision object collisions").await?;
    described(&scenario, "an object that is somebody else's", &["Action: \"Collision\"", SETTINGS])?;

    scenario.maps().remove(SETTINGS).await?;
    scenario.shows(Progressing, "True/RollingOut/Revision 1.0.0 is rolling out.").await?;
    wait::until("the Deployment to be waited for", DEADLINE, async || {
        let shown = operator::kubectl(&world.cluster, &["describe", "clusterextension", &scenario.name])?;
        wait::check(shown.contains("Object Deployment.apps/v1"), || shown.clone())
    })
    .await?;
    described(&scenario, "rolling out", &["Revision 1.0.0 is rolling out."])?;
    label_a_node(&scenario, json!("here")).await?;
    scenario.installed("1.0.0").await?;
    described(&scenario, "installed", &["Revision 1.0.0 has rolled out.", "Installed"])?;
    scenario.upgrade("1.1.0").await?;
    described(&scenario, "upgraded", &["Revision 1.1.0 has rolled out.", "Upgraded"])?;

    scenario.set_version("9.9.9").await?;
    scenario.shows(Stalled, "True/Blocked/").await?;
    described(&scenario, "a range that no bundle is in", &["9.9.9"])?;
    let refused = scenario.set_version("one or two").await;
    println!(
        "\n--- a range that is none (refused)\n{:#}",
        refused.err().unwrap_or_else(|| anyhow::anyhow!("taken"))
    );
    scenario.set_version("2.0.0").await?;
    scenario.shows(Progressing, "True/Retrying/error for resolved bundle").await?;
    scenario.shows(Stalled, "True/").await?;
    let finding = "v1: ^.spec: required: new required fields: [intervalSeconds]";
    described(&scenario, "a CRD that changes unsafely", &["validating upgrade for CRD", finding, "Stalled"])?;
    let none = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    scenario.patch_extension(json!({"spec": {"install": none}})).await?;
    scenario.installed("2.0.0").await?;
    described(&scenario, "that check turned off", &["Revision 2.0.0 has rolled out."])?;

    scenario.delete_extension().await?;
    label_a_node(&scenario, Value::Null).await
}

/// Gives one node the label that the first version's Pod asks for, or takes it away.
async fn label_a_node(scenario: &Scenario<'_>, value: Value) -> Result<()> {
    let nodes: Api<Node> = Api::all(scenario.client.clone());
    let first = nodes.list_metadata(&ListParams::default()).await?.items.first().map(ResourceExt::name_any);
    let patch = json!({"metadata": {"labels": {&scenario.name: value}}});
    nodes.merge(&first.unwrap_or_default(), &patch).await?;
    Ok(())
}
