//! `olm install`, and the way from there to `olm uninstall`.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    core::v1::{Namespace, ServiceAccount},
    rbac::v1::ClusterRole,
};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use olm_test::{
    bundle::{Bundle, lighthouse, small},
    catalog,
    scenario::Scenario,
    world::World,
};
use serde_json::{Value, json};

use super::{SAMPLE, Terminal, olm};

const PACKAGE: &str = "lighthouse-operator";

/// A catalog of the sample that serves; nothing else is prepared.
async fn catalog_of_sample(base: &str) -> Result<Scenario<'static>> {
    let scenario = Scenario::new(World::shared().await?, base).await?;
    let bundles = ["1.0.0", "1.1.0", "2.0.0"].map(|version| (version, lighthouse(version)));
    let reference = scenario.push(PACKAGE, &bundles, "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    scenario.catalog_serves().await?;
    Ok(scenario)
}

/// A catalog of these bundles that serves.
pub(super) async fn catalog_of(base: &str, bundles: &[Bundle]) -> Result<Scenario<'static>> {
    let scenario = Scenario::new(World::shared().await?, base).await?;
    let mut listed = Vec::new();
    for bundle in bundles {
        let name = format!("{}/{}:v{}", scenario.name, bundle.entry.package, bundle.entry.version);
        listed.push((bundle.entry.clone(), scenario.world.images.push_made(bundle, &name).await?));
    }
    let reference = scenario.push_catalog(&catalog::text(&listed), "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    scenario.catalog_serves().await?;
    Ok(scenario)
}

fn documents(yaml: &str) -> Result<Vec<Value>> {
    Ok(olm_yaml::documents(yaml).collect::<Result<_, _>>()?)
}

fn one<'a>(manifests: &'a [Value], kind: &str) -> Result<&'a Value> {
    manifests.iter().find(|one| one["kind"] == kind).with_context(|| format!("no {kind}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_is_installed_looked_at_upgraded_and_removed() -> Result<()> {
    let _alone = SAMPLE.lock().await;
    let scenario = catalog_of_sample("cli-install").await?;
    let (catalog, name) = (scenario.name.clone(), format!("{}-own", scenario.name));
    let install = ["install", PACKAGE, "--name", &name, "--catalog", &catalog, "--version", "1.0.x"];
    olm(&scenario, &install).await?.ensure_error(1, &["there is no terminal to ask on: pass --yes"])?;
    let printed = olm(&scenario, &[&install[..], &["-o", "yaml"]].concat()).await?;
    printed.ensure(0, &[])?;
    let manifests = documents(&printed.text)?;
    ensure!(one(&manifests, "ClusterExtension")?["spec"]["source"]["catalog"]["version"] == "1.0.0");
    let namespaces: Api<Namespace> = Api::all(scenario.client.clone());
    ensure!(namespaces.get_opt(&name).await?.is_none(), "printing created something");

    let shown = installed(&scenario, &install).await?;
    let namespace = format!("+ Namespace {name}");
    for wanted in [namespace.as_str(), "is installed and healthy", "kubectl explain beacons."] {
        ensure!(shown.contains(wanted), "{wanted:?} is not in\n{shown}");
    }
    let role = one(&manifests, "ClusterRole")?;
    let roles: Api<ClusterRole> = Api::all(scenario.client.clone());
    let role_name = role["metadata"]["name"].as_str().context("a name")?;
    let live = serde_json::to_value(roles.get(role_name).await?)?;
    ensure!(live["rules"] == role["rules"], "not the printed permissions:\n{live:#}");

    let again = olm(&scenario, &[&install[..], &["--yes"]].concat()).await?;
    again.ensure_error(1, &[&format!("ClusterExtension {name} exists already")])?;
    let outdated = olm(&scenario, &["outdated"]).await?;
    let row = outdated.text.lines().find(|line| line.starts_with(&name)).context("a row")?;
    ensure!(outdated.code == Some(2) && row.contains(&format!("olm upgrade {name}")), "{row}");
    olm(&scenario, &["outdated", "-n", &name]).await?.ensure(2, &[&name])?;
    olm(&scenario, &["outdated", "-n", "nowhere"]).await?.ensure(0, &["everything is up to date"])?;
    let diff = olm(&scenario, &["diff", &name, "--version", "1.1.0"]).await?;
    diff.ensure(2, &["lighthouse-operator.v1.1.0", "\"1.0.0\" -> \"1.1.0\""])?;
    olm(&scenario, &["diff", &name]).await?.ensure(0, &["no difference"])?;
    let upgraded = olm(&scenario, &["upgrade", &name, "--version", "1.1.0", "--yes"]).await?;
    upgraded.ensure(0, &["version   1.0.0 -> 1.1.0", "lighthouse-operator.v1.1.0 is installed"])?;
    let here = olm(&scenario, &["status", "-n", &name]).await?;
    let rows: Vec<&str> = here.text.lines().filter(|line| line.contains(" Ready ")).collect();
    ensure!(rows.len() == 1 && rows[0].starts_with(&name), "{}", here.text);
    olm(&scenario, &["history", &name]).await?.ensure(0, &["Archived", "Active"])?;
    let explained = olm(&scenario, &["explain", &name]).await?;
    let workload = format!("Deployment {name}/lighthouse-operator: 1 of 1 ready");
    explained.ensure(0, &["Resolution", "not chosen: ", &workload, "    Pod lighthouse-operator-"])?;
    olm(&scenario, &["events", &name]).await?.ensure(0, &[&format!("ClusterExtension/{name}")])?;

    let removed = olm(&scenario, &["uninstall", &name, "--yes"]).await?;
    removed
        .ensure(0, &[&format!("- ServiceAccount {name}/{name}-installer"), &format!("{name}: removed")])?;
    ensure!(roles.get_opt(role_name).await?.is_none(), "the role is left");
    let accounts: Api<ServiceAccount> = Api::namespaced(scenario.client.clone(), &name);
    ensure!(accounts.get_opt(&format!("{name}-installer")).await?.is_none(), "the ServiceAccount is left");
    namespaces.get(&name).await?;
    Ok(())
}

/// A catalog of two real bundles that serves.
async fn catalog_of_real(
    base: &str,
    package: &str,
    versions: [&str; 2],
) -> Result<Option<Scenario<'static>>> {
    let Some(folder) = olm_test::data::find("bundles") else { return Ok(None) };
    let scenario = Scenario::new(World::shared().await?, base).await?;
    let bundles = versions.map(|version| (version, folder.join(package).join(version)));
    let reference = scenario.push(package, &bundles, "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    scenario.catalog_serves().await?;
    Ok(Some(scenario))
}

/// Installs on a terminal, where the question is answered with yes; all that was shown.
async fn installed(scenario: &Scenario<'_>, args: &[&str]) -> Result<String> {
    let (begun, mut terminal) = (Instant::now(), Terminal::run(scenario, args)?);
    let answered = tokio::task::spawn_blocking(move || {
        terminal.until("? [y/N] ")?;
        terminal.answer("y")?;
        terminal.end()
    });
    let (code, shown) = answered.await??;
    let seconds = begun.elapsed().as_secs_f64();
    println!("$ olm {}\n{shown}\n[{seconds:.1} s from olm install to healthy]", args.join(" "));
    ensure!(code == Some(0), "{code:?}\n{shown}");
    Ok(shown)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_operator_is_found_installed_upgraded_and_removed() -> Result<()> {
    let package = "grafana-operator";
    let Some(scenario) = catalog_of_real("cli-grafana", package, ["5.22.2", "5.24.0"]).await? else {
        return Ok(());
    };
    let name = scenario.name.clone();
    olm(&scenario, &["search", "grafana"]).await?.ensure(0, &[package])?;
    let install = ["install", package, "--name", &name, "--catalog", &name, "--version", "5.22.2"];
    let shown = installed(&scenario, &install).await?;
    ensure!(shown.contains("is installed and healthy after"), "{shown}");
    let (dangers, objects) = (shown.find("DANGEROUS"), shown.find("Done by the controller"));
    ensure!(dangers.is_some() && dangers < objects, "dangers are not on top\n{shown}");
    olm(&scenario, &["outdated"]).await?.ensure(2, &[&name])?;
    let diff = olm(&scenario, &["diff", &name, "--version", "5.24.0"]).await?;
    diff.ensure(2, &["grafana-operator.v5.24.0"])?;
    let upgraded = olm(&scenario, &["upgrade", &name, "--yes"]).await?;
    upgraded.ensure(0, &["grafana-operator.v5.24.0 is installed"])?;
    olm(&scenario, &["uninstall", &name, "--yes"]).await?.ensure(0, &["removed"])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_harms_stored_objects_is_not_begun() -> Result<()> {
    let package = "argocd-operator";
    let Some(scenario) = catalog_of_real("cli-argocd", package, ["0.16.0", "0.17.0"]).await? else {
        return Ok(());
    };
    let name = scenario.name.clone();
    let install = ["install", package, "--name", &name, "--catalog", &name, "--version", "0.16.0"];
    installed(&scenario, &install).await?;
    let refused = olm(&scenario, &["upgrade", &name, "--version", "0.17.0", "--yes"]).await?;
    refused
        .ensure_error(2, &["nothing was changed", "CRD \"argocds.argoproj.io\" cannot be replaced safely"])?;
    let extension = scenario.extensions().get(&name).await?;
    let version = extension.spec.source.catalog.and_then(|catalog| catalog.version);
    ensure!(version.as_deref() == Some("0.16.0"), "{version:?}");
    olm(&scenario, &["uninstall", &name, "--yes"]).await?.ensure(0, &["removed"])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_created_is_left_alone() -> Result<()> {
    let scenario = catalog_of("cli-foreign", &[small("lamp", "1.0.0")]).await?;
    let name = scenario.name.clone();
    let account = ServiceAccount {
        metadata: ObjectMeta { name: Some(format!("{name}-installer")), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(scenario.client.clone(), &name);
    accounts.create(&PostParams::default(), &account).await?;
    let install = ["install", "lamp", "--name", &name, "--catalog", &name, "--yes"];
    let refused = olm(&scenario, &install).await?;
    refused.ensure_error(1, &["exists already and was not created for extension"])?;
    // One that is named is used as it is, and it may do nothing.
    let named = format!("{name}-installer");
    let blocked = olm(&scenario, &[&install[..], &["--service-account", &named]].concat()).await?;
    blocked.ensure_error(2, &["nothing was changed", "is missing permissions"])?;
    blocked.ensure(2, &["exists and keeps the permissions it has"])?;
    ensure!(scenario.extensions().get_opt(&name).await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_for_its_own_namespace_is_configured() -> Result<()> {
    let scenario = catalog_of("cli-modes", &[small("lamp", "1.0.0").modes(&["OwnNamespace"])]).await?;
    let name = scenario.name.clone();
    let install = ["install", "lamp", "--name", &name, "--catalog", &name];
    let printed = olm(&scenario, &[&install[..], &["-o", "yaml"]].concat()).await?;
    let manifests = documents(&printed.text)?;
    let spec = &one(&manifests, "ClusterExtension")?["spec"];
    ensure!(spec["config"]["inline"] == json!({"watchNamespace": name}), "{spec:#}");
    olm(&scenario, &[&install[..], &["--yes"]].concat()).await?.ensure(0, &["is installed and healthy"])?;
    scenario.installed("1.0.0").await?;
    olm(&scenario, &["uninstall", &name, "--yes"]).await?.ensure(0, &["removed"])
}

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_are_installed_first_when_wanted() -> Result<()> {
    let scenario = Scenario::new(World::shared().await?, "cli-needs").await?;
    let base = format!("{}-base", scenario.name);
    let needs = json!({"packageName": base, "versionRange": ">=1.0.0 <2.0.0"});
    let bundles = [small(&base, "1.2.0"), small("needy", "1.0.0").property("olm.package.required", needs)];
    let scenario = {
        drop(scenario);
        catalog_of("cli-needs", &bundles).await?
    };
    let name = scenario.name.clone();
    let install = ["install", "needy", "--name", &name, "--catalog", &name, "--yes"];
    let refused = olm(&scenario, &install).await?;
    refused.ensure_error(2, &["requires package", "Pass --with-dependencies"])?;
    ensure!(scenario.extensions().get_opt(&name).await?.is_none());
    let both = olm(&scenario, &[&install[..], &["--with-dependencies"]].concat()).await?;
    both.ensure(0, &[&format!("{base}.v1.2.0 is installed"), "needy.v1.0.0 is installed"])?;
    ensure!(both.text.find(&format!("Install {base}")) < both.text.find("Install needy"), "{}", both.text);
    olm(&scenario, &["uninstall", &base, "--dry-run"])
        .await?
        .ensure(0, &[&format!("These extensions require it or its CRDs: {name}")])?;
    olm(&scenario, &["uninstall", &name, "--yes"]).await?.ensure(0, &["removed"])?;
    olm(&scenario, &["uninstall", &base, "--yes"]).await?.ensure(0, &["removed"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_compared_before_it_is_applied() -> Result<()> {
    let scenario = catalog_of("cli-file", &[small("lamp", "1.0.0")]).await?;
    let name = scenario.name.clone();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("extension.yaml");
    let install = ["install", "lamp", "--name", &name, "--catalog", &name, "-o", "yaml"];
    std::fs::write(&file, olm(&scenario, &install).await?.text)?;
    let path = file.to_str().context("a path")?;
    let diff = olm(&scenario, &["diff", "-f", path]).await?;
    diff.ensure(
        2,
        &[&format!("{name} would become revision {name}-1"), "+ ConfigMap.v1", "which does not exist yet"],
    )?;
    ensure!(scenario.extensions().get_opt(&name).await?.is_none());
    let applied = olm(&scenario, &["install", "lamp", "--name", &name, "--catalog", &name, "--yes"]).await?;
    applied.ensure(0, &["is installed and healthy"])?;
    olm(&scenario, &["uninstall", &name, "--yes"]).await?.ensure(0, &["removed"])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_installation_is_an_exit_code() -> Result<()> {
    let scenario = catalog_of("cli-check", &[small("lamp", "1.0.0")]).await?;
    // The tests' controller runs as a process, so its Deployment is missing.
    let checked = olm(&scenario, &["check"]).await?;
    checked
        .ensure(2, &["WRONG  controller", "ok     Lease", &format!("ClusterCatalog {}", scenario.name)])?;
    let versions = olm(&scenario, &["version"]).await?;
    versions.ensure(0, &["olm ", "Kubernetes ", "none are installed"])?;
    let client = olm(&scenario, &["version", "--client", "-o", "json"]).await?;
    let client: Value = serde_json::from_str(&client.text)?;
    ensure!(client["client"] == env!("CARGO_PKG_VERSION") && client["kubernetes"].is_null(), "{client}");
    let nobody = olm(&scenario, &["status", "--as", "nobody"]).await?;
    nobody.ensure_error(1, &["User \"nobody\" cannot list"])?;
    ensure!(!nobody.errors.contains("Status {"), "not for people: {}", nobody.errors);
    let stranger = olm(&scenario, &["status", "--token", "nonsense"]).await?;
    stranger.ensure_error(1, &["Unauthorized"])?;
    let logged = olm(&scenario, &["status", "-v"]).await?;
    logged.ensure_error(0, &["/apis/olm.operatorframework.io/v1/clusterextensions"])?;
    ensure!(olm(&scenario, &["status"]).await?.errors.is_empty(), "it logs unasked");
    let nowhere = olm(&scenario, &["status", "--server", "https://127.0.0.1:1"]).await?;
    nowhere.ensure_error(1, &["127.0.0.1:1"]).or_else(|_| nowhere.ensure_error(1, &["error"]))?;
    Ok(())
}
