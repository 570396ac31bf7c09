//! Two Deployments, as upstream has them, over the one; an extension's whole life under them; and back.

use olm_test::prelude::*;

use crate::confinement;
use crate::extension::{self, both_versions_readable, installed, operated};
use crate::installing::mount_registries;
use crate::sample::{self, CATALOG};
use crate::world::{CATALOGD, DEADLINE, OPERATOR, SYSTEM, World};

/// Where each program's metrics are.
const METRICS: [(&str, &str, u16); 2] =
    [(OPERATOR, "operator-controller", 8443), (CATALOGD, "catalogd", 7443)];

pub(crate) async fn there_and_back(world: &World) -> Result<()> {
    applied(world).await?;
    for (deployment, role, port) in METRICS {
        metrics(world, deployment, role, port).await?;
        confinement::written(world, deployment)?;
    }
    installed(world, "1.3.0").await?;
    both_versions_readable(world)?;
    // What is installed needs no catalog; what is to be installed is read from the other Deployment.
    extension::deleted(world).await?;
    extension::life(world, "split_").await?;

    world.apply(&world.manifests("install.yaml")?)?;
    world.deployed(SYSTEM, CATALOGD, 0).await?;
    mount_registries(world, SYSTEM, OPERATOR)?;
    world.deployed(SYSTEM, OPERATOR, 2).await?;
    served_by(world, OPERATOR).await?;
    world.apply(&sample::extension("1.2.0").to_string())?;
    installed(world, "1.2.0").await?;
    operated(world, "1.2.0").await
}

/// Two Deployments instead of the one; catalogs are served by catalogd's.
pub(crate) async fn applied(world: &World) -> Result<()> {
    world.apply(&world.manifests("overlays/split")?)?;
    for deployment in [OPERATOR, CATALOGD] {
        mount_registries(world, SYSTEM, deployment)?;
    }
    world.deployed(SYSTEM, CATALOGD, 2).await?;
    world.deployed(SYSTEM, OPERATOR, 2).await?;
    served_by(world, CATALOGD).await
}

/// Waits until the Pods of this Deployment, and no others, are behind the Service, and answer.
async fn served_by(world: &World, deployment: &str) -> Result<()> {
    wait::until(&format!("{deployment} to serve the catalog"), DEADLINE, async || {
        let label = "kubernetes.io/service-name=catalogd-service";
        let slices = world.get(&["endpointslices", "-n", SYSTEM, "-l", label])?;
        let slices = slices["items"].as_array().context("items")?;
        let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        let ready: Vec<_> = endpoints.filter(|one| one["conditions"]["ready"] == true).collect();
        let pods: Vec<_> = ready.iter().filter_map(|one| one["targetRef"]["name"].as_str()).collect();
        let right = pods.iter().all(|pod| pod.starts_with(deployment));
        wait::check(pods.len() == 2 && right, || format!("behind the Service: {pods:?}"))?;
        let content = world.catalog_content(CATALOG).await?;
        wait::check(!content.is_empty(), || "no content".to_owned())
    })
    .await
}

/// Every Pod shows its metrics to who may read them.
async fn metrics(world: &World, deployment: &str, role: &str, port: u16) -> Result<()> {
    let reader = format!("{role}-reader");
    let make = |args: &[&str]| world.kubectl(&[args, &["--dry-run=client", "-o=yaml"]].concat());
    world.apply(&make(&["create", "serviceaccount", &reader, "-n", SYSTEM])?)?;
    let role = format!("--clusterrole={role}-metrics-reader");
    let account = format!("--serviceaccount={SYSTEM}:{reader}");
    world.apply(&make(&["create", "clusterrolebinding", &reader, &role, &account])?)?;
    let token = world.kubectl(&["create", "token", &reader, "-n", SYSTEM])?;
    for pod in world.pods(deployment)? {
        let name = pod["metadata"]["name"].as_str().context("a Pod has a name")?;
        let path = format!("/api/v1/namespaces/{SYSTEM}/pods/https:{name}:{port}/proxy/metrics");
        // The API server's proxy keeps the token of who asks to itself: without one the program refuses.
        let refused = world.ask(&path).await;
        ensure!(refused.is_err(), "{name} shows its metrics to nobody in particular");
        let forwarded = crate::forward::get(world, name, port, token.trim()).await?;
        ensure!(forwarded.contains("# TYPE "), "{name}: {forwarded}");
    }
    println!("   {deployment}: every Pod shows its metrics to a reader, and to nobody else");
    Ok(())
}
