//! Operators that upstream installed: their Pods stay when this program takes over.

use k8s_openapi::api::core::v1::Pod;
use olm_test::prelude::*;

use crate::operators::Operators;

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_with_upstreams_hash_keeps_its_pods() -> Result<()> {
    let world = Operators::alone().await?;
    let place = world.place("adopted").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    place
        .operator("a.v1", json!({"webhookdefinitions": [crate::registered::webhook("one", "CREATE")]}))
        .await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let pods: Api<Pod> = Api::namespaced(place.client.clone(), &place.namespace);
    let running = async || -> Result<BTreeSet<String>> {
        let found = pods.list(&ListParams::default().labels("app=a-v1")).await?.items;
        Ok(found.iter().filter_map(ResourceExt::uid).collect())
    };
    let before = (running().await?, place.deployments.get("a-v1").await?.spec);
    ensure!(before.0.len() == 1, "{before:?}");
    let ours = place.deployments.get("a-v1").await?.labels().get("olm.deployment-spec-hash").cloned();
    // While no program runs, the Deployment becomes what upstream leaves: written by another one, with its own hash.
    world.classic.process().kill()?;
    let upstream = "3TMmBJ5P5jlhFhsYNXd0HuAY5ubqJUWkhqEuSP";
    let patch = json!({"metadata": {
        "managedFields": [{}], "labels": {"olm.deployment-spec-hash": upstream},
    }});
    place.deployments.patch("a-v1", &PatchParams::default(), &Patch::Merge(patch)).await?;
    world.classic.process().restart()?;
    world.classic.ready().await?;
    wait::until("the hash to be this program's", DEADLINE, || async {
        let found = place.deployments.get("a-v1").await?.labels().get("olm.deployment-spec-hash").cloned();
        wait::check(found == ours, || format!("{found:?}"))
    })
    .await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let after = (running().await?, place.deployments.get("a-v1").await?.spec);
    ensure!(after == before, "before {before:?}\nafter {after:?}");
    Ok(())
}
