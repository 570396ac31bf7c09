//! The parts of the program in processes of their own.

use olm_test::{
    catalog,
    classic::{Classic, Source, install, listed_packages, packages_available},
    instance::Settings,
    prelude::*,
};

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_and_packages_are_served_by_processes_of_their_own() -> Result<()> {
    let cluster = Cluster::start(Options { nodes: 0, ..Options::default() }).await?;
    let registry = Registry::start()?;
    let images = Images::new(&registry)?;
    install(&cluster)?;
    let start = async |role: &str| {
        let conf = images.registries_conf().display().to_string();
        let settings =
            Settings::default().arg(format!("--role={role}")).env("CONTAINERS_REGISTRIES_CONF", conf);
        Classic::start(&cluster, &settings).await
    };
    let (catalogs, packages) = (start("catalog").await?, start("packages").await?);
    packages.serve_packages(&cluster).await?;
    packages_available(&cluster).await?;
    let offer = async |name: &str| {
        let mut entry = catalog::Entry::new(name, "1.0.0");
        entry.properties.push(json!({"type": "olm.csv.metadata", "value": {"displayName": name}}));
        let text = catalog::text(&[(entry, "r/bundle:v1".to_owned())]);
        let image = images.push_catalog(&text, &format!("roles-{name}:v1")).await?;
        let spec = json!({"sourceType": "grpc", "image": image});
        Source::create(&cluster, "default", name, json!({}), spec).await
    };
    let shown = async |name: &str| {
        wait::until(&format!("the package {name}"), DEADLINE, || async {
            kubectl(&cluster, &["get", "packagemanifest", name, "-n", "default"]).map(drop)
        })
        .await
    };
    let lamps = offer("lamp").await?;
    lamps.shows("READY", "", "True/Serving").await?;
    let listed = async || listed_packages(&cluster, "default", "lamp").await;
    eventually("the registry API", listed, |listed| *listed == ["lamp"]).await?;
    shown("lamp").await?;
    ensure!(catalogs.packages(&cluster).await.is_err(), "the catalogs show packages");
    let dialled = tokio::net::TcpStream::connect(("127.0.0.1", packages.registry_port())).await;
    ensure!(dialled.is_err(), "the packages serve the registry API");

    // Packages are shown without the other process, which alone writes.
    catalogs.process().kill()?;
    let bulbs = offer("bulb").await?;
    shown("bulb").await?;
    ensure!(bulbs.api.get("bulb").await?.status.is_none(), "the packages wrote a status");
    catalogs.process().restart()?;
    bulbs.shows("READY", "", "True/Serving").await.map(drop)
}
