//! Commands that go on, commands that do not wait, and what they refuse.

use anyhow::{Result, ensure};
use k8s_openapi::api::{
    core::v1::{ConfigMap, ServiceAccount},
    rbac::v1::{ClusterRole, Role},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use olm_test::{bundle::small, cluster::unique_name, scenario::Scenario};
use serde_json::json;

use super::{Terminal, installing::catalog_of, olm};

/// Runs what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await?
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_shows_what_changes_and_states_are_coloured() -> Result<()> {
    let scenario = catalog_of("cli-watch", &[small("lamp", "1.0.0")]).await?;
    let name = scenario.name.clone();
    let install = ["install", "lamp", "--name", &name, "--catalog", &name, "--yes", "--no-wait"];
    let begun = olm(&scenario, &install).await?;
    begun.ensure(0, &[&format!("created: ClusterExtension {name}")])?;
    ensure!(!begun.text.contains("is installed"), "it waited\n{}", begun.text);
    scenario.installed("1.0.0").await?;

    let mut status = Terminal::run(&scenario, &["status", "-n", &name, "-w"])?;
    let mut events = Terminal::run(&scenario, &["events", &name, "-w"])?;
    let (status, events) = blocking(move || {
        status.until("\u{1b}[32mReady")?;
        events.until(" ClusterExtension/")?;
        Ok((status, events))
    })
    .await?;
    olm(&scenario, &["pause", &name]).await?.ensure(0, &[])?;
    let maps: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), &name);
    maps.delete("lamp-data", &DeleteParams::default()).await?;
    let (mut status, mut events) = (status, events);
    let shown = blocking(move || {
        status.until("\u{1b}[33mPaused")?;
        events.until("DriftRepaired")?;
        events.kill()?;
        status.kill()
    })
    .await?;
    ensure!(shown.matches("EXTENSION").count() >= 2, "it was not printed again\n{shown}");
    olm(&scenario, &["resume", &name]).await?.ensure(0, &[])?;
    olm(&scenario, &["uninstall", &name, "--yes"]).await?.ensure(0, &["removed"])
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_after_its_time_and_names_the_obstacle() -> Result<()> {
    let bundle = small("lamp", "1.0.0").deployment(false);
    let scenario = catalog_of("cli-timeout", &[bundle]).await?;
    let name = scenario.name.clone();
    let install = ["install", "lamp", "--name", &name, "--catalog", &name, "--yes", "--timeout", "1"];
    let late = olm(&scenario, &install).await?;
    late.ensure_error(1, &["is not done after 1 minute (--timeout)", &format!("olm status {name}")])?;
    scenario.extensions().get(&name).await?;
    olm(&scenario, &["uninstall", &name, "--yes"]).await?.ensure(0, &["removed"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_an_extension_whose_account_is_gone() -> Result<()> {
    let scenario = catalog_of("cli-wrong", &[small("lamp", "1.0.0")]).await?;
    let name = scenario.name.clone();
    let install = ["install", "lamp", "--name", &name, "--catalog", &name, "--yes"];
    olm(&scenario, &install).await?.ensure(0, &["is installed and healthy"])?;
    let well = olm(&scenario, &["check"]).await?;
    well.ensure(2, &["STATE", &format!("ok     ClusterExtension {name}")])?;
    let accounts: Api<ServiceAccount> = Api::namespaced(scenario.client.clone(), &name);
    accounts.delete(&format!("{name}-installer"), &DeleteParams::default()).await?;
    let wrong = olm(&scenario, &["check"]).await?;
    wrong.ensure(
        2,
        &[
            &format!("WRONG  ClusterExtension {name}"),
            &format!("ServiceAccount {name}/{name}-installer does not exist: create it"),
        ],
    )?;
    olm(&scenario, &["uninstall", &name, "--yes"]).await?.ensure(0, &["removed"])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_adds_the_permissions_that_it_needs_and_keeps_the_others() -> Result<()> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "added"}, "stringData": {"a": "b"}});
    let newer = small("lamp", "1.1.0").edges(json!({"skipRange": "<1.1.0"})).ships(secret);
    let scenario = catalog_of("cli-union", &[small("lamp", "1.0.0"), newer]).await?;
    let name = scenario.name.clone();
    let install = ["install", "lamp", "--name", &name, "--catalog", &name, "--version", "1.0.0", "--yes"];
    olm(&scenario, &install).await?.ensure(0, &["is installed and healthy"])?;
    let upgraded = olm(&scenario, &["upgrade", &name, "--version", "1.1.0", "--yes"]).await?;
    upgraded.ensure(
        0,
        &[&format!("Permissions added to ServiceAccount {name}-installer"), "lamp.v1.1.0 is installed"],
    )?;
    let roles = kinds_in_roles(&scenario).await?;
    ensure!(roles.contains("configmaps") && roles.contains("secrets"), "{roles}");
    // What the older version needs is still granted.
    olm(&scenario, &["rollback", &name, "--yes"]).await?.ensure(0, &["rolled back"])?;
    olm(&scenario, &["uninstall", &name, "--yes"]).await?.ensure(0, &["removed"])
}

/// The rules that were created for the scenario's extension, as text.
async fn kinds_in_roles(scenario: &Scenario<'_>) -> Result<String> {
    let cluster: Api<ClusterRole> = Api::all(scenario.client.clone());
    let own: Api<Role> = Api::namespaced(scenario.client.clone(), &scenario.name);
    let labelled = ListParams::default().labels("app.kubernetes.io/managed-by=olm");
    let is_own = |text: &str| text.contains(&scenario.name);
    let mut text = String::new();
    for role in cluster.list(&labelled).await? {
        text += &Some(serde_json::to_string(&role)?).filter(|role| is_own(role)).unwrap_or_default();
    }
    for role in own.list(&labelled).await? {
        text += &serde_json::to_string(&role)?;
    }
    Ok(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_that_require_each_other_are_installed_together() -> Result<()> {
    let base = unique_name("cycle");
    let (one, other) = (format!("{base}-one"), format!("{base}-other"));
    let needs = |package: &str| json!({"packageName": package, "versionRange": ">=1.0.0"});
    let bundles = [
        small(&one, "1.0.0").property("olm.package.required", needs(&other)),
        small(&other, "1.0.0").property("olm.package.required", needs(&one)),
    ];
    let scenario = catalog_of("cli-cycle", &bundles).await?;
    let catalog = scenario.name.clone();
    let install = ["install", &one, "--catalog", &catalog, "--yes"];
    olm(&scenario, &install).await?.ensure_error(2, &["Pass --with-dependencies"])?;
    let both = olm(&scenario, &[&install[..], &["--with-dependencies"]].concat()).await?;
    both.ensure(0, &[&format!("{one}.v1.0.0 is installed"), &format!("{other}.v1.0.0 is installed")])?;
    for name in [&one, &other] {
        olm(&scenario, &["uninstall", name, "--yes"]).await?.ensure(0, &["removed"])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_misspelt_is_corrected_in_the_error() -> Result<()> {
    let base = unique_name("spelt");
    let package = format!("{base}-lamp");
    let scenario = catalog_of("cli-meant", &[small(&package, "1.0.0")]).await?;
    let misspelt = format!("{base}-lmap");
    let meant = format!("Did you mean {package}?");
    // Other catalogs of the cluster come and go.
    let from = ["--catalog", &scenario.name];
    olm(&scenario, &[&["show", &misspelt, "--offline"][..], &from].concat())
        .await?
        .ensure_error(1, &[&meant])?;
    olm(&scenario, &[&["install", &misspelt, "--yes"][..], &from].concat())
        .await?
        .ensure_error(1, &[&meant])?;
    let of_catalog = ["resolve", "--catalog", &scenario.name, "--package", &package, "--channel", "stabel"];
    let channel = olm(&scenario, &of_catalog).await?;
    channel.ensure(2, &["Did you mean stable?"])
}
