//! CatalogSources whose content is read from a registry server.

use olm_test::{catalog, catalog_server::CatalogServer, classic::Source, prelude::*};

use crate::world::World;

fn content(package: &str) -> String {
    catalog::chain(package, &[("1.0.0", "r/bundle:v1")])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_read_and_its_content_stays_while_nothing_answers() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("address").await?;
    let server = CatalogServer::start(&content("lamp")).await?;
    let spec = json!({"sourceType": "grpc", "address": server.address()});
    let source = Source::create(&world.cluster, &namespace, "remote", json!({}), spec).await?;
    let message = source.shows("READY", "", "True/Serving").await?;
    ensure!(message.contains(&server.address()), "{message}");
    let status = source.status().await?;
    let connection = status.connection_state.context("no connectionState")?;
    ensure!(connection.address == Some(server.address()), "{connection:?}");
    let registry = status.registry_service.context("no registryService")?;
    ensure!(registry.service_name.is_none() && registry.created_at.is_some(), "{registry:?}");
    server.process().kill()?;
    let other = CatalogServer::start(&content("bulb")).await?;
    // Another address is visited at once.
    other.process().kill()?;
    source.patch(json!({"spec": {"address": other.address()}})).await?;
    // Before that, a visit of the first server may have been interrupted by its end.
    let visited = [other.address(), "Connection refused".to_owned(), "Still serving".to_owned()];
    let message = async || source.shows("TRANSIENT_FAILURE", "", "True/ServingEarlierContent").await;
    eventually("the visit", message, |message| visited.iter().all(|part| message.contains(part))).await?;
    other.serve(&content("bulb")).await?;
    source.shows("READY", "", "True/Serving").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_catalog_replaces_nothing() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("empty").await?;
    let server = CatalogServer::start("{\"schema\": \"example.none\"}").await?;
    let spec = json!({"sourceType": "grpc", "address": server.address()});
    let source = Source::create(&world.cluster, &namespace, "empty", json!({}), spec).await?;
    let message = source.shows("READY", "", "False/Failed").await?;
    ensure!(message.contains("the registry server has no packages"), "{message}");
    server.serve(&content("lamp")).await?;
    source.shows("READY", "", "True/Serving").await?;
    Ok(())
}
