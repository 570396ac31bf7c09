//! Credentials of CatalogSources.

use olm_test::{
    classic::Source,
    faults::{FaultyRegistry, basic},
    prelude::*,
};

use crate::world::World;

/// Failures until the wait for the next attempt is longer than the test waits.
const FAILURES: usize = 8;
/// How long a source may take that was woken.
const WOKEN: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_secret_that_comes_wakes_its_source() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("secret").await?;
    let repository = "classic-private";
    // Content that no other test has, which would be asked for first: an attempt is one request.
    let image = world.catalog("private", "1.0.0", &format!("{repository}:v1")).await?;
    let (_, digest) = image.rsplit_once('@').context("no digest")?;
    let private = FaultyRegistry::start(&world.registry.url(), None)?;
    private.require(repository, "user", "password");
    let conf = format!("[[registry]]\nlocation = {:?}\ninsecure = true\n", private.address());
    let path = world.images.registries_conf();
    fs::write(path, fs::read_to_string(path)? + &conf)?;
    let image = format!("{}/{repository}@{digest}", private.address());
    let spec = json!({"sourceType": "grpc", "image": image, "secrets": ["login"]});
    let source = Source::create(&world.cluster, &namespace, "private", json!({}), spec).await?;
    source.shows("TRANSIENT_FAILURE", "", "False/Failed").await?;
    let count = async || Ok(private.seen(repository).len());
    eventually("attempts without credentials", count, |count| *count >= FAILURES).await?;
    let secrets: Api<Secret> = Api::namespaced(source.client.clone(), &namespace);
    let login = basic("user", "password");
    let auth = login.strip_prefix("Basic ").context("no credentials")?;
    let config = json!({"auths": {private.address(): {"auth": auth}}}).to_string();
    let secret = json!({
        "metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": config},
    });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    let ready = async || -> Result<Option<String>> {
        let conditions = source.status().await?.conditions;
        Ok(conditions.into_iter().find(|one| one.type_ == "Ready").map(|one| one.message))
    };
    let serves = |message: &Option<String>| message.as_ref().is_some_and(|text| text.contains("Serving"));
    wait::eventually_within(WOKEN, "the source to be served", ready, serves).await
}
