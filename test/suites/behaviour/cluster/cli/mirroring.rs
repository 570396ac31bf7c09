//! `olm catalog mirror`: a cluster that never reaches the registry that catalogs and bundles come from.

use anyhow::{Context as _, Result};
use olm_test::{
    bundle::small,
    catalog,
    cli::ended,
    cluster::{Cluster, Options},
    images::Images,
    instance::{Operator, Settings},
    kubectl::kubectl,
    operator::install,
    registry::Registry,
    scenario::Scenario,
    world::{DEADLINE, Site, World},
};
use serde_json::json;

use super::olm;

#[tokio::test(flavor = "multi_thread")]
async fn a_package_is_installed_from_the_mirror_when_its_registry_is_gone() -> Result<()> {
    let (from, to) = (Registry::start()?, Registry::start()?);
    let images = Images::new(&from)?;
    let mut listed = Vec::new();
    for version in ["1.0.0", "1.1.0"] {
        let bundle = small("lamp", version).edges(json!({"skipRange": format!("<{version}")}));
        listed.push((bundle.entry.clone(), images.push_made(&bundle, &format!("lamp:v{version}")).await?));
    }
    let other = small("radio", "1.0.0");
    listed.push((other.entry, format!("{}/gone:v1", from.address())));
    images.push_catalog(&catalog::text(&listed), "catalogs/home:latest").await?;

    let (results, cluster) = (tempfile::tempdir()?, Cluster::start(Options::default()).await?);
    let folder = results.path().to_str().context("a path")?.to_owned();
    install(&cluster)?;
    let conf = results.path().join("registries.conf");
    let settings = Settings::default().env("CONTAINERS_REGISTRIES_CONF", conf.display().to_string());
    let source = format!("{}/catalogs/home:latest", from.address());
    let place = format!("{}/olm", to.address());
    let mirror = [
        "catalog",
        "mirror",
        &source,
        "--package",
        "lamp",
        "--all-versions",
        "--push",
        &place,
        "--results",
        &folder,
        "--insecure-registry",
        &from.address(),
        "--insecure-registry",
        &to.address(),
    ];
    let mut command = std::process::Command::new(olm_test::process::cargo_program("olm-cli", "olm")?);
    command.args(mirror);
    let mirrored = ended(command).await?;
    anyhow::ensure!(mirrored.status.success(), "{mirrored:?}");
    println!("{}", String::from_utf8_lossy(&mirrored.stdout));
    from.stop();

    let operator = Operator::start_installed_with(&cluster, &settings).await?;
    let catalogs = results.path().join("catalogs.yaml");
    kubectl(&cluster, &["apply", "-f", &catalogs.display().to_string()])?;
    let images = Images::with_conf(&to, &conf)?;
    let world = World { operator, proxy: None, site: Site { images, cluster, registry: to } };
    let scenario = Scenario::new(&world, "cli-mirror").await?;
    catalog::serves(&scenario.client, "home", DEADLINE).await?;
    olm(&scenario, &["search", "radio"]).await?.ensure(2, &[])?;
    let name = scenario.name.clone();
    let install = ["install", "lamp", "--name", &name, "--version", "1.0.0", "--yes"];
    olm(&scenario, &install).await?.ensure(0, &["lamp.v1.0.0 is installed and healthy"])?;
    let upgraded = olm(&scenario, &["upgrade", &name, "--version", "1.1.0", "--yes"]).await?;
    upgraded.ensure(0, &["lamp.v1.1.0 is installed"])?;
    olm(&scenario, &["uninstall", &name, "--yes"]).await?.ensure(0, &["removed"])
}
