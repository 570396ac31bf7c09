//! `olm run bundle`: a bundle that no catalog has.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _};
use olm_api::v1::ClusterCatalog;
use olm_test::{bundle::small, scenario::Scenario, world::World};

use super::{Terminal, olm};

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_tried_without_a_catalog_and_leaves_nothing_behind() -> Result<()> {
    let scenario = Scenario::new(World::shared().await?, "cli-run").await?;
    let (package, name) = (format!("{}-lamp", scenario.name), format!("{}-lamp", scenario.name));
    let folder = tempfile::tempdir()?;
    small(&package, "1.0.0").write(folder.path())?;
    let bundle = folder.path().to_str().context("a path")?.to_owned();
    let push = format!("{}/{}/try", scenario.world.images.host(), scenario.name);
    let run = ["run", "bundle", &bundle, "--push", &push];
    let catalogs: Api<ClusterCatalog> = Api::all(scenario.client.clone());
    let catalog = format!("olm-run-{name}");

    let unasked = olm(&scenario, &run).await?;
    unasked.ensure_error(1, &["there is no terminal to ask on: pass --yes"])?;
    let planned = olm(&scenario, &[&run[..], &["--dry-run"]].concat()).await?;
    planned
        .ensure(0, &[&format!("Install {package}.v1.0.0"), &format!("removed: ClusterCatalog {catalog}")])?;
    ensure!(catalogs.get_opt(&catalog).await?.is_none(), "the catalog is left after a dry run");
    let mut declined = Terminal::run(&scenario, &run)?;
    let declined = tokio::task::spawn_blocking(move || {
        declined.until("? [y/N] ")?;
        declined.answer("n")?;
        declined.end()
    });
    let (code, shown) = declined.await??;
    ensure!(code == Some(1) && shown.contains("removed: ClusterCatalog"), "{code:?}\n{shown}");
    ensure!(scenario.extensions().get_opt(&name).await?.is_none());

    let installed = olm(&scenario, &[&run[..], &["--yes"]].concat()).await?;
    installed.ensure(0, &[&format!("{package}.v1.0.0 is installed and healthy")])?;
    let priority = catalogs.get(&catalog).await?.spec.priority;
    ensure!(priority == i32::MIN, "other catalogs come first: {priority}");
    let again = olm(&scenario, &[&run[..], &["--yes"]].concat()).await?;
    again.ensure_error(1, &["exists already: remove it with", "--cleanup"])?;
    catalogs.get(&catalog).await?;

    let cleanup = ["run", "bundle", &bundle, "--cleanup"];
    let shown = olm(&scenario, &[&cleanup[..], &["--dry-run"]].concat()).await?;
    shown.ensure(
        0,
        &[&format!("- ClusterCatalog {catalog}"), &format!("- Namespace {name} with everything")],
    )?;
    scenario.extensions().get(&name).await?;
    let cleaned = olm(&scenario, &[&cleanup[..], &["--yes"]].concat()).await?;
    cleaned.ensure(0, &[&format!("{name}: removed"), &format!("removed: Namespace {name}")])?;
    ensure!(scenario.extensions().get_opt(&name).await?.is_none());
    ensure!(catalogs.get_opt(&catalog).await?.is_none(), "the catalog is left");
    let namespaces: Api<Namespace> = Api::all(scenario.client.clone());
    let left = namespaces.get_opt(&name).await?;
    ensure!(left.is_none_or(|left| left.metadata.deletion_timestamp.is_some()), "the namespace is left");
    let nothing = olm(&scenario, &[&cleanup[..], &["--yes"]].concat()).await?;
    nothing.ensure_error(1, &["nothing is removed"])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_tried_from_where_it_is_and_catalogs_of_others_are_left_alone() -> Result<()> {
    let scenario = Scenario::new(World::shared().await?, "cli-run-image").await?;
    let package = format!("{}-lamp", scenario.name);
    let images = &scenario.world.images;
    let bundle = small(&package, "1.0.0");
    let digest = images.push_made(&bundle, &format!("{}/lamp:v1", scenario.name)).await?;
    let image = format!("{}/{}/lamp:v1", images.host(), scenario.name);
    let push = format!("{}/{}/try", images.host(), scenario.name);
    let name = scenario.name.clone();
    let run = ["run", "bundle", &image, "--push", &push, "--name", &name, "--yes"];
    // The namespace is the scenario's own.
    olm(&scenario, &run).await?.ensure(0, &["is installed and healthy"])?;
    let set = scenario.revisions().await?.pop().context("a revision")?;
    let used = serde_json::to_string(&set.metadata)?;
    ensure!(used.contains(&digest), "the image is not the one that was named: {used}");
    let cleanup = ["run", "bundle", &image, "--cleanup", "--name", &name, "--yes"];
    olm(&scenario, &cleanup).await?.ensure(0, &[&format!("removed: ClusterCatalog olm-run-{name}")])?;
    let namespaces: Api<Namespace> = Api::all(scenario.client.clone());
    let own = namespaces.get(&name).await?;
    ensure!(own.metadata.deletion_timestamp.is_none(), "a namespace that was there is removed");

    let catalogs: Api<ClusterCatalog> = Api::all(scenario.client.clone());
    let foreign =
        olm_test::catalog::cluster_catalog(&format!("olm-run-{name}"), &serde_json::json!({"ref": image}));
    let foreign = catalogs.create(&kube::api::PostParams::default(), &foreign).await?;
    let refused = olm(&scenario, &run).await?;
    refused.ensure_error(1, &["was not created by this command, and is left alone"])?;
    ensure!(catalogs.get(&foreign.name_any()).await?.metadata.generation == foreign.metadata.generation);
    // Nothing else could be resolved while a catalog is not served.
    catalogs.delete(&foreign.name_any(), &kube::api::DeleteParams::default()).await?;
    Ok(())
}
