//! Registries that drip or hang: who waits for them, and who does not.

use std::fmt::Write as _;

use olm_test::{
    catalog::{chain, cluster_catalog},
    extension::extension,
    faults::{Fault, FaultyRegistry},
    instance::Settings,
    operator::install,
    prelude::*,
};

const LIGHTHOUSE: &str = "lighthouse-operator";
/// More registries than the pulls that the process used to have a place for.
const REGISTRIES: usize = 20;

/// A world with a registry beside the honest one; both are spoken to without TLS.
async fn world() -> Result<(World, FaultyRegistry, StateDirectory)> {
    let (world, mut hostile, directory) = world_with(1).await?;
    Ok((world, hostile.remove(0), directory))
}

/// A world with so many registries beside the honest one.
async fn world_with(count: usize) -> Result<(World, Vec<FaultyRegistry>, StateDirectory)> {
    let site = Site::start().await?;
    let started = std::iter::repeat_with(|| FaultyRegistry::start(&site.registry.url(), None)).take(count);
    let hostile = started.collect::<Result<Vec<_>>>()?;
    let directory = StateDirectory::new("registries")?;
    let conf = directory.path().join("registries.conf");
    let mut text = String::new();
    for host in hostile.iter().map(FaultyRegistry::address).chain([site.registry.address()]) {
        writeln!(text, "[[registry]]\nlocation = {host:?}\ninsecure = true")?;
    }
    std::fs::write(&conf, text)?;
    install(&site.cluster)?;
    let settings = Settings::default().env("CONTAINERS_REGISTRIES_CONF", conf.display().to_string());
    let operator = Operator::start_installed_with(&site.cluster, &settings).await?;
    Ok((World { operator, proxy: None, site }, hostile, directory))
}

/// Requests an extension of a package whose bundle is a tag that the hostile registry never answers for.
async fn create_hanging(scenario: &Scenario<'_>, number: usize) -> Result<String> {
    let name = format!("{}-{number}", scenario.name);
    let package = format!("hanging-{number}");
    let extension = extension(&name, &scenario.name, &package, &scenario.name, &Value::Null);
    let extension: ClusterExtension = serde_json::from_value(extension)?;
    scenario.extensions().make(&extension).await?;
    Ok(name)
}

async fn ready(scenario: &Scenario<'_>, name: &str) -> Result<String> {
    let status = scenario.extensions().get(name).await?.status.unwrap_or_default();
    Ok(condition_text(&status.conditions, Ready))
}

async fn create_dripping(scenario: &Scenario<'_>, name: &str, reference: &str) -> Result<()> {
    let catalog = cluster_catalog(name, &json!({"ref": reference}));
    Api::all(scenario.client.clone()).create(&PostParams::default(), &catalog).await?;
    Ok(())
}

/// Catalogs whose layers drip and bundles that never come, each of them two pulls of a registry of its own.
#[tokio::test(flavor = "multi_thread")]
async fn many_registries_that_hang_delay_no_other_catalog_and_no_other_extension() -> Result<()> {
    let (world, hostile, _directory) = world_with(REGISTRIES).await?;
    let traps = Scenario::new(&world, "traps").await?;
    let mut content = String::new();
    let noise: String = std::iter::repeat_with(fastrand::alphanumeric).take(100_000).collect();
    let blob = json!({"schema": "olm.package", "name": "drip", "description": noise}).to_string();
    world.images.push_catalog(&blob, "drip:v1").await?;
    for (number, registry) in hostile.iter().enumerate() {
        let repository = format!("hanging-{number}");
        registry.set(&repository, Some(Fault::Hang));
        registry.set("drip", Some(Fault::Drip(Duration::from_millis(500))));
        content += &chain(&repository, &[("1.0.0", &format!("{}/{repository}:v1", registry.address()))]);
    }
    let reference = traps.push_catalog(&content, "latest").await?;
    traps.create_catalog(&reference, None).await?;
    create_account(&traps.client, &traps.name, ACCOUNT).await?;
    traps.catalog_serves().await?;
    let mut hanging = Vec::new();
    for (number, registry) in hostile.iter().enumerate() {
        hanging.push(create_hanging(&traps, number).await?);
        create_dripping(&traps, &format!("drip-{number}"), &format!("{}/drip:v1", registry.address()))
            .await?;
    }
    // The first attempt of each, which no other one follows.
    let waits = async |number: usize| -> Result<()> {
        let name = format!("drip-{number}");
        let conditions = traps.catalogs().get(&name).await?.status.unwrap_or_default().conditions;
        let catalog = conditions.find(Ready).map(|ready| ready.message.clone()).unwrap_or_default();
        ensure!(catalog.starts_with("Pulling "), "{name} is {catalog:?}");
        let bundle = ready(&traps, &hanging[number]).await?;
        ensure!(bundle.starts_with("False/Reconciling/Pulling bundle hanging-"), "{number} is {bundle:?}");
        Ok(())
    };
    for number in 0..REGISTRIES {
        wait::until(&format!("{number} to be pulled"), DEADLINE, async || waits(number).await).await?;
    }
    let honest = Scenario::new(&world, "honest").await?;
    let start = Instant::now();
    honest.prepare(LIGHTHOUSE, &[("1.0.0", lighthouse("1.0.0"))]).await?;
    println!(
        "beside {} pulls that hang: a catalog is packed, pushed and served in {:.1?}",
        2 * REGISTRIES,
        start.elapsed()
    );
    let start = Instant::now();
    honest.install(LIGHTHOUSE, json!({}), "1.0.0").await?;
    println!("its extension is installed in {:.1?}", start.elapsed());
    for (number, registry) in hostile.iter().enumerate() {
        // Each has what it asked for, and none has come to an end meanwhile.
        waits(number).await?;
        ensure!(!registry.seen(&format!("hanging-{number}")).is_empty(), "bundle {number} was not asked for");
        ensure!(
            registry.seen("drip").iter().any(|seen| seen.request.contains("/blobs/")),
            "catalog {number} was not asked for"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hung_is_installed_when_the_registry_answers_again() -> Result<()> {
    let (world, hostile, _directory) = world().await?;
    let scenario = Scenario::new(&world, "recovers").await?;
    let bundle = lighthouse("1.0.0");
    world.images.push_bundle(&scenario.own(&bundle)?, "recovers:v1").await?;
    let image = format!("{}/recovers:v1", hostile.address());
    let reference = scenario.push_catalog(&chain(LIGHTHOUSE, &[("1.0.0", &image)]), "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.grant(&[("1.0.0", bundle)]).await?;
    scenario.catalog_serves().await?;
    hostile.set("recovers", Some(Fault::Status(503)));
    scenario.create_extension(LIGHTHOUSE, json!({})).await?;
    let failed = format!(
        "True/Retrying/error for resolved bundle \"{LIGHTHOUSE}.v1.0.0\" with version \"1.0.0\": error creating image source: reading manifest v1 in {}/recovers: service unavailable (status 503)",
        hostile.address()
    );
    scenario.shows(olm_api::ConditionType::Progressing, &failed).await?;
    // It is tried again and again, and the news stay the same meanwhile.
    let before = hostile.seen("recovers").len();
    wait::until("another attempt", DEADLINE, async || {
        let shown = scenario.shown().await?;
        ensure!(shown.condition(olm_api::ConditionType::Progressing) == failed, "{shown:?}");
        wait::check(hostile.seen("recovers").len() > before, || "not yet".into())
    })
    .await?;
    scenario.shows(Installed, "False/").await?;
    hostile.set("recovers", None);
    scenario.installed("1.0.0").await?;
    scenario.delete_extension().await
}
