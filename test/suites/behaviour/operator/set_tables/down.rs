//! An aggregated API server that is down.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use olm_test::prelude::*;

use super::{begins, create, inline, map, rolled_out, scenario, shows, spec};

const GROUP: &str = "absent.example.com";

/// In a cluster of its own: a broken API stops the deletion of namespaces for everybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_api_hurts_only_who_needs_it() -> Result<()> {
    let world = World::start().await?;
    let scenario = scenario(&world, "down").await?;
    let services: Api<APIService> = Api::all(scenario.client.clone());
    let name = format!("v1.{GROUP}");
    let service: APIService = serde_json::from_value(json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": {"name": "nobody", "namespace": "kube-system"},
        },
    }))?;
    services.make(&service).await?;
    wait::until("the API to be unavailable", DEADLINE, || async {
        let conditions = services.get(&name).await?.status.unwrap_or_default().conditions.unwrap_or_default();
        wait::check(conditions.iter().any(|c| c.type_ == "Available" && c.status == "False"), || {
            format!("{conditions:?}")
        })
    })
    .await?;

    let needs = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Thing", "metadata": {"name": "x", "namespace": scenario.name}});
    let needing =
        create(&scenario, "needs", spec(&[("one", inline(&[map(&scenario, "first"), needs]))])).await?;
    let fine = create(&scenario, "fine", spec(&[("one", inline(&[map(&scenario, "second")]))])).await?;
    rolled_out(&scenario, &fine).await?;
    let text =
        format!("True/Retrying/Object Thing.{GROUP}/v1 {}/x: discovering \"{GROUP}/v1\": ", scenario.name);
    begins(&scenario, &needing, Progressing, &text).await?;

    // A whole extension: discovery, preflight, dry-run, watches.
    let extension = Scenario::new(&world, "fine").await?;
    let bundle = small("lamp", "1.0.0").brings(&extension.group(), "Lamp");
    extension.offer(&[bundle]).await?;
    extension.install("lamp", json!({}), "1.0.0").await?;

    // Without the broken API the kind is simply not known, and who needs it hears so.
    services.remove(&name).await?;
    let text = format!(
        "True/Retrying/Object Thing.{GROUP}/v1 {}/x: no matches for kind \"Thing\" in version \"{GROUP}/v1\"",
        scenario.name
    );
    begins(&scenario, &needing, Progressing, &text).await?;
    shows(&scenario, &fine, Succeeded, "True/Succeeded/Revision succeeded rolling out.").await
}
