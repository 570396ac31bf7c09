//! `olm` asks the catalogs that a cluster serves, with the permissions of its user.

use olm_test::{cli::olm, prelude::*};

const PACKAGE: &str = "lighthouse-operator";
const SERVICE: &str = "catalogd-service";

/// A catalog with two versions that is served.
async fn serving(scenario: &Scenario<'_>) -> Result<()> {
    let bundles = [("1.0.0", lighthouse("1.0.0")), ("1.1.0", lighthouse("1.1.0"))];
    scenario.publish(PACKAGE, &bundles).await
}

/// Searches, and resolves as the controller would.
async fn finds(cluster: &Cluster, catalog: &str) -> Result<()> {
    let kubeconfig = cluster.kubeconfig_admin();
    let found =
        olm(&kubeconfig, &["search", "lighthouse", "--catalog", catalog, "-o", "json"]).await?.json()?;
    ensure!(found[0]["name"] == PACKAGE && found[0]["catalog"] == catalog, "{found}");
    ensure!(found[0]["version"] == "1.1.0", "{found}");
    let resolved = ["resolve", "--package", PACKAGE, "--catalog", catalog, "-o", "json"];
    let resolved = olm(&kubeconfig, &resolved).await?.json()?;
    ensure!(resolved["resolution"]["bundle"] == format!("{PACKAGE}.v1.1.0"), "{resolved}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_outside_the_cluster_is_asked_itself() -> Result<()> {
    let world = World::shared().await?;
    let scenario = Scenario::new(world, "direct").await?;
    serving(&scenario).await?;
    finds(&world.cluster, &scenario.name).await?;
    let missing = olm(&world.cluster.kubeconfig_admin(), &["search", "x", "--catalog", "nothere"]).await?;
    ensure!(missing.code == Some(1) && missing.errors.contains(&scenario.name), "{}", missing.errors);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_asked_through_the_api_server_with_the_permissions_of_the_user() -> Result<()> {
    let world = World::start_with(&[&format!("--external-address={SERVICE}.{SYSTEM_NAMESPACE}.svc")]).await?;
    let scenario = Scenario::new(&world, "proxied").await?;
    serving(&scenario).await?;
    let unreachable = olm(&world.cluster.kubeconfig_admin(), &["search", "lighthouse", "--offline"]).await?;
    ensure!(unreachable.code == Some(1), "{}\n{}", unreachable.text, unreachable.errors);
    ensure!(unreachable.errors.contains(SERVICE), "{}", unreachable.errors);

    world.cluster.serve_from_here(SYSTEM_NAMESPACE, SERVICE, world.operator.catalogs_port()).await?;
    finds(&world.cluster, &scenario.name).await?;

    let rules = json!([{"apiGroups": ["olm.operatorframework.io"], "resources": ["clustercatalogs"], "verbs": ["list"]}]);
    let (user, _) = scenario.user("reader", rules).await?;
    let kubeconfig = world.cluster.kubeconfig_for(&user, &["system:authenticated"])?;
    let forbidden = olm(&kubeconfig, &["search", "lighthouse", "--offline"]).await?;
    ensure!(forbidden.code == Some(1), "{}\n{}", forbidden.text, forbidden.errors);
    ensure!(forbidden.errors.contains("services/proxy"), "{}", forbidden.errors);
    ensure!(forbidden.errors.contains(&user), "{}", forbidden.errors);
    Ok(())
}
