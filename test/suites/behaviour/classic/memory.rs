//! The memory that the catalogs of one namespace may take.

use olm_test::{catalog::Entry, classic::Source, prelude::*};

use crate::world::World;

/// Packages of a catalog that takes more than half of what a namespace may have.
const PACKAGES: usize = 2_200;

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_does_not_take_the_memory_of_all() -> Result<()> {
    let world = World::shared().await?;
    let entries: Vec<_> = (0..PACKAGES)
        .map(|number| (Entry::new(&format!("lamp-{number}"), "1.0.0"), "r/bundle:v1".to_owned()))
        .collect();
    let image = world.images.push_catalog(&olm_test::catalog::text(&entries), "classic-many:v1").await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    let create = async |namespace: &str, name: &str| {
        Source::create(&world.cluster, namespace, name, json!({}), spec.clone()).await
    };
    let (greedy, modest) = (world.namespace("greedy").await?, world.namespace("modest").await?);
    let first = create(&greedy, "first").await?;
    first.shows("READY", "", "True/Serving").await?;
    let second = create(&greedy, "second").await?;
    let message = second.shows("TRANSIENT_FAILURE", "", "False/Failed").await?;
    let expected = format!("the catalogs of namespace {greedy} hold ");
    ensure!(message.contains(&expected) && message.contains(" of the 32.0 MiB of memory"), "{message}");
    ensure!(message.contains("delete catalogs of this namespace"), "{message}");
    // Others are not affected, and what is deleted makes room.
    create(&modest, "first").await?.shows("READY", "", "True/Serving").await?;
    first.shows("READY", "", "True/Serving").await?;
    first.api.remove("first").await?;
    second.shows("READY", "", "True/Serving").await.map(drop)
}
