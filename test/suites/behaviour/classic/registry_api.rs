//! The registry API, asked by clients that know nothing of it but what it says of itself.

use std::io::{BufRead, BufReader};

use olm_test::{
    catalog::{self, Entry},
    catalog_server::CatalogServer,
    classic::Source,
    grpc::{Grpcurl, probe},
    prelude::*,
};
use tokio::task::block_in_place;

use crate::world::World;

const KIND: &str = "api.Registry";
const REPLACED: &str = "lamp.v1.0.0";
const HEAD: &str = "lamp.v1.1.0";

/// Two versions of a package that provide a kind, and a document of a schema of its own.
fn content() -> String {
    let mut entries: Vec<(Entry, String)> = Vec::new();
    for version in ["1.0.0", "1.1.0"] {
        let mut entry = Entry::new("lamp", version);
        if let Some((before, _)) = entries.last() {
            entry.edges = json!({"replaces": before.name});
        }
        let kind = json!({"group": "example.com", "version": "v1", "kind": "Lamp"});
        entry.properties.push(json!({"type": "olm.gvk", "value": kind}));
        entry.properties.push(json!({"type": "olm.csv.metadata", "value": {"displayName": "Lamp"}}));
        entries.push((entry, format!("r/lamp:v{version}")));
    }
    catalog::text(&entries) + "{\"schema\": \"example.note\", \"package\": \"lamp\", \"text\": \"bright\"}\n"
}

/// Each method with a request, and part of its answer.
fn calls() -> Vec<(&'static str, Value, Value)> {
    let kind = json!({"group": "example.com", "version": "v1", "kind": "Lamp"});
    let entry = json!({"packageName": "lamp", "channelName": "stable", "bundleName": HEAD});
    let channel = json!({"pkgName": "lamp", "channelName": "stable"});
    let bundle = json!({"pkgName": "lamp", "channelName": "stable", "csvName": REPLACED});
    vec![
        ("ListPackages", json!({}), json!({"name": "lamp"})),
        ("GetPackage", json!({"name": "lamp"}), json!({"name": "lamp", "defaultChannelName": "stable"})),
        ("GetBundle", bundle.clone(), json!({"csvName": REPLACED, "bundlePath": "r/lamp:v1.0.0"})),
        ("GetBundleForChannel", channel, json!({"csvName": HEAD, "version": "1.1.0"})),
        ("GetChannelEntriesThatReplace", json!({"csvName": REPLACED}), entry.clone()),
        ("GetBundleThatReplaces", bundle, json!({"csvName": HEAD, "version": "1.1.0"})),
        ("GetChannelEntriesThatProvide", kind.clone(), entry.clone()),
        ("GetLatestChannelEntriesThatProvide", kind.clone(), entry),
        ("GetDefaultBundleThatProvides", kind, json!({"csvName": HEAD})),
        ("ListBundles", json!({}), json!({"csvName": HEAD, "channelName": "stable"})),
    ]
}

fn has(found: &[Value], part: &Value) -> bool {
    let fields = part.as_object().expect("fields");
    found.iter().any(|one| fields.iter().all(|(name, value)| one[name] == *value))
}

/// Finds every method of a server by reflection and calls it.
fn check(grpcurl: &Grpcurl) -> Result<()> {
    let services = grpcurl.lines(&["list"])?;
    for service in [KIND, "api.ExperimentalRegistry", "grpc.health.v1.Health"] {
        ensure!(services.iter().any(|one| one == service), "no {service}: {services:?}");
    }
    let mut methods: BTreeSet<String> = grpcurl.lines(&["list", KIND])?.into_iter().collect();
    for (name, asked, part) in calls() {
        let method = format!("{KIND}.{name}");
        ensure!(methods.remove(&method), "no {method}: {methods:?}");
        let found = grpcurl.call(&method, &asked).with_context(|| method.clone())?;
        ensure!(has(&found, &part), "{method} {asked}: {found:?}");
    }
    ensure!(methods.is_empty(), "methods that nobody asked: {methods:?}");
    let asked = json!({"schema": "example.note", "packageName": "lamp"});
    let method = "api.ExperimentalRegistry.ExperimentalListPackageCustomSchemas";
    ensure!(has(&grpcurl.call(method, &asked)?, &json!({"text": "bright"})), "no document");
    let absent = grpcurl.call("api.Registry.GetPackage", &json!({"name": "bulb"}));
    let text = format!("{absent:?}");
    ensure!(text.contains("bulb") && text.contains("not found"), "{text}");
    let health = grpcurl.call("grpc.health.v1.Health.Check", &json!({}))?;
    ensure!(health == [json!({"status": "SERVING"})], "{health:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_client_finds_and_asks_every_method_of_a_catalog_by_its_service() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("grpc").await?;
    let image = world.images.push_catalog(&content(), "classic-grpc:v1").await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    let source = Source::create(&world.cluster, &namespace, "lamps.catalog", json!({}), spec).await?;
    source.shows("READY", "", "True/Serving").await?;
    let address = format!("127.0.0.1:{}", world.classic.registry_port());
    let host = format!("lamps-catalog.{namespace}");
    let full = format!("{host}.svc:50051");
    let grpcurl = block_in_place(|| Grpcurl::new(&address, &full))?;
    // The content is served a moment after it is reported.
    wait::until("the answers", DEADLINE, || async { block_in_place(|| check(&grpcurl)) }).await?;
    for name in [host.clone(), format!("{host}:50051"), format!("{host}.svc.cluster.local")] {
        let packages =
            block_in_place(|| Grpcurl::new(&address, &name)?.call("api.Registry.ListPackages", &json!({})))?;
        ensure!(packages == [json!({"name": "lamp"})], "{name}: {packages:?}");
    }
    block_in_place(|| probe(&address))?;

    // Who watches the health of the catalog is informed of its end.
    let mut watch = grpcurl.watch("grpc.health.v1.Health.Watch")?;
    let mut lines = BufReader::new(watch.stdout.take().context("no output")?).lines();
    let mut states = move || -> Result<String> {
        let mut wanted =
            lines.by_ref().map_while(std::result::Result::ok).filter(|line| line.contains("status"));
        wanted.next().context("the watch ended")
    };
    ensure!(block_in_place(&mut states)?.contains("\"SERVING\""));
    source.api.delete(&source.name, &DeleteParams::default()).await?;
    ensure!(block_in_place(&mut states)?.contains("\"NOT_SERVING\""));
    watch.kill()?;
    watch.wait()?;
    let health = block_in_place(|| grpcurl.call("grpc.health.v1.Health.Check", &json!({})))?;
    ensure!(health == [json!({"status": "NOT_SERVING"})], "{health:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_client_finds_and_asks_every_method_of_olm_catalog_serve() -> Result<()> {
    let server = CatalogServer::start(&content()).await?;
    let grpcurl = block_in_place(|| Grpcurl::new(&server.address(), "whatever.example"))?;
    block_in_place(|| check(&grpcurl))?;
    block_in_place(|| probe(&server.address()))
}
