//! Real operators: installed with exactly the rights they need, upgraded, repaired, removed.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use olm_test::{cluster::Cluster, operator, wait};
use serde_json::json;

use crate::world::{DEADLINE, Scenario, World, real_bundles};

/// Package, the version to begin with, and the next one.
const OPERATORS: [(&str, &str, &str); 5] = [
    ("grafana-operator", "5.22.0", "5.22.2"),
    ("keda", "2.6.0", "2.6.1"),
    ("strimzi-kafka-operator", "1.0.1", "1.1.0"),
    ("external-secrets-operator", "0.10.6", "0.10.7"),
    ("flux", "2.2.0", "2.2.2"),
];

// Shows S002-1: an extension is installed from a catalog, as its ServiceAccount, and reports what is installed.
#[tokio::test(flavor = "multi_thread")]
async fn real_operators_live_from_installation_to_removal() -> Result<()> {
    let Some(folder) = real_bundles() else { return Ok(()) };
    let world = World::shared().await?;
    let lives = OPERATORS.map(|(package, first, next)| {
        let folder = folder.clone();
        async move { life(world, &folder, package, first, next).await.with_context(|| package.to_owned()) }
    });
    // One after another would take five times as long as the cluster needs.
    futures::future::try_join_all(lives).await?;
    Ok(())
}

async fn life(world: &World, folder: &Path, package: &str, first: &str, next: &str) -> Result<()> {
    let scenario = Scenario::new(world, package).await?;
    let bundles = [first, next].map(|version| (version, folder.join(package).join(version)));
    scenario.prepare(package, &bundles).await?;
    let mark = world.cluster.audit_mark()?;

    scenario.create_extension(package, json!({"version": first})).await?;
    scenario.installed(first).await?;

    scenario.set_version(next).await?;
    scenario.installed(next).await?;

    deployment_comes_back(&scenario).await?;
    written_by_the_account(&world.cluster, &scenario, mark)?;

    scenario.delete_extension().await?;
    scenario.nothing_left().await
}

async fn deployment_comes_back(scenario: &Scenario<'_>) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(scenario.client.clone(), &scenario.name);
    let listed = api.list(&ListParams::default()).await?;
    let deployment = listed.items.first().context("no deployment")?;
    let (name, uid) = (deployment.name_any(), deployment.uid());
    api.delete(&name, &DeleteParams::default()).await?;
    wait::until("the deployment to be back", DEADLINE, || async {
        let found = api.get_opt(&name).await?;
        wait::check(found.is_some_and(|d| d.uid() != uid), || "it is not there".into())
    })
    .await
}

/// The audit log: every create, and every patch by our field manager, came from the ServiceAccount; the
/// program's own identity wrote none of the revision's objects.
fn written_by_the_account(cluster: &Cluster, scenario: &Scenario<'_>, mark: u64) -> Result<()> {
    let account = format!("system:serviceaccount:{}:{}", scenario.name, crate::world::ACCOUNT);
    let kinds = [
        "customresourcedefinitions",
        "deployments",
        "services",
        "serviceaccounts",
        "configmaps",
        "clusterroles",
        "clusterrolebindings",
        "roles",
        "rolebindings",
    ];
    let events = cluster.audit_events_since(mark)?;
    let writes = events.iter().filter(|e| {
        kinds.contains(&e.resource.as_str()) && e.subresource.is_empty() && !e.is_dry_run() && e.code < 400
    });
    let mut by_account = 0;
    for write in writes {
        ensure!(write.user != operator::USER, "the program itself wrote: {write:?}");
        if write.uri.contains("fieldManager=olm.operatorframework.io") {
            ensure!(
                write.user.starts_with("system:serviceaccount:") && write.user.ends_with(":installer"),
                "{write:?}"
            );
        }
        by_account += usize::from(write.user == account);
    }
    ensure!(by_account > 0, "the account wrote nothing");
    Ok(())
}
