//! Objects that OLM Classic manages.

use olm_test::{bundle, prelude::*};

use super::{create, inline, map, scenario, shows, spec};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_a_csv_or_subscription_is_reported_with_its_owner() -> Result<()> {
    let scenario = scenario(World::shared().await?, "classic").await?;
    let labelled = |kind: &str| json!({"olm.owner": "op.v1", "olm.owner.kind": kind, "olm.owner.namespace": "operators", "olm.managed": "true"});
    let rows = [
        ("csv", labelled("ClusterServiceVersion"), "ClusterServiceVersion operators/op.v1"),
        ("subscription", labelled("Subscription"), "Subscription operators/op.v1"),
        ("component", json!({"operators.coreos.com/op.operators": ""}), "Subscription operators/op"),
    ];
    for (name, labels, owner) in rows {
        let mut found = map(&scenario, name);
        found["metadata"]["labels"] = labels;
        scenario.maps().make(found).await?;
        let set = create(&scenario, name, spec(&[("one", inline(&[map(&scenario, name)]))])).await?;
        let wanted = format!(
            "True/Retrying/revision object collisions in phase 0\nObject ConfigMap.v1 {}/{name}\nAction: \"Collision\"\nManaged by OLM Classic: {owner}",
            scenario.name
        );
        shows(&scenario, &set, Progressing, &wanted).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_of_classic_is_reported_on_the_extension() -> Result<()> {
    let scenario = Scenario::shared("classic-crd").await?;
    let group = scenario.group();
    scenario.offer(&[small("taken", "1.0.0").brings(&group, "Beacon")]).await?;
    let name = format!("beacons.{group}");
    let mut crd = bundle::crd_with_versions(&group, "Beacon", &[("v1", json!({"type": "object"}))]);
    crd["metadata"]["annotations"] =
        json!({"operatorframework.io/installed-alongside-1a2b": "operators/taken.v0.9.0"});
    scenario.crds().make(crd).await?;
    scenario.create_extension("taken", json!({})).await?;
    let wanted = "Managed by OLM Classic: ClusterServiceVersion operators/taken.v0.9.0";
    scenario.reports(Progressing, |told| told.starts_with("True/Retrying/") && told.contains(wanted)).await?;
    // Once it is gone there, the extension goes on.
    scenario.crds().remove(&name).await?;
    scenario.installed("1.0.0").await?;
    scenario.delete_extension().await
}
