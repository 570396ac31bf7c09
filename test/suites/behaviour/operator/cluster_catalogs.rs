//! `olm` asks the catalogs that a cluster serves, with the permissions of its user.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use olm_test::{
    bundle::lighthouse, cluster::Cluster, operator::SYSTEM_NAMESPACE, process::cargo_program,
    scenario::Scenario, world::World,
};
use serde_json::{Value, json};

const PACKAGE: &str = "lighthouse-operator";
const SERVICE: &str = "catalogd-service";

/// What `olm` answered.
struct Answer {
    code: Option<i32>,
    text: String,
    errors: String,
}

impl Answer {
    fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| format!("{}\n{}", self.text, self.errors))
    }
}

async fn olm(kubeconfig: &Path, args: &[&str]) -> Result<Answer> {
    let mut command = Command::new(cargo_program("olm-cli", "olm")?);
    command.args(args).arg("--kubeconfig").arg(kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output()).await?.context("running olm")?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("olm writes UTF-8");
    Ok(Answer { code: output.status.code(), text: text(output.stdout)?, errors: text(output.stderr)? })
}

/// A catalog with two versions that is served.
async fn serving(scenario: &Scenario<'_>) -> Result<()> {
    let bundles = [("1.0.0", lighthouse("1.0.0")), ("1.1.0", lighthouse("1.1.0"))];
    let reference = scenario.push(PACKAGE, &bundles, "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    scenario.catalog_serves().await
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
