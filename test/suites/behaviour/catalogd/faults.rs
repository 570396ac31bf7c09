//! Registries that fail: each failure is said with upstream's prefixes, and the catalog heals by itself.

use olm_test::{faults::Fault, prelude::*};

use crate::world::{Catalog, DEADLINE, Registries, World, all, content};

const COPYING: &str = "True/Retrying/source catalog content: error copying image: ";

/// Pushes a catalog with a layer large enough to be spoilt; answers its name in the registry and its digest.
async fn push(world: &World, name: &str, seed: u64) -> Result<(String, String)> {
    let pushed = world.registries.images.push_catalog(&content(seed, 200_000), &format!("{name}:v1")).await?;
    let digest = pushed.rsplit_once('@').map(|(_, digest)| digest.to_owned()).unwrap_or_default();
    Ok((format!("{}/{name}:v1", world.registries.faulty.address()), digest))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_registry_does_wrong_is_said_and_heals() -> Result<()> {
    let world = World::shared().await?;
    let faulty = &world.registries.faulty;
    let host = faulty.address();
    let mut broken = Vec::new();
    for (name, fault, wanted) in [
        ("wrong", Fault::WrongBytes, format!("{COPYING}digest mismatch: expected sha256:")),
        ("cut", Fault::CutOff, format!("{COPYING}reading blob sha256:")),
        ("endless", Fault::EndlessLayer, format!("{COPYING}reading blob sha256:")),
        ("endless-manifest", Fault::EndlessManifest, format!("{COPYING}reading manifest sha256:")),
        (
            "busy",
            Fault::Status(429),
            format!(
                "True/Retrying/source catalog content: error creating image source: reading manifest v1 in {host}/busy: too many requests (status 429)"
            ),
        ),
        (
            "failing",
            Fault::Status(503),
            format!(
                "True/Retrying/source catalog content: error creating image source: reading manifest v1 in {host}/failing: service unavailable (status 503)"
            ),
        ),
    ] {
        let (reference, digest) = push(world, name, 1).await?;
        faulty.set(name, Some(fault));
        broken.push((Catalog::create(&world.cluster, name, &reference).await?, name, wanted, digest));
    }
    for (catalog, name, wanted, _) in &broken {
        let text = catalog.shows(Progressing, wanted).await?;
        if *name == "endless" {
            ensure!(text.contains("size mismatch: the manifest says "), "{text}");
        }
        if *name == "endless-manifest" {
            ensure!(text.contains("the answer has more than 4194304 bytes"), "{text}");
        }
        ensure!(catalog.condition(Serving).await?.is_empty(), "nothing was served before");
        let ready = catalog.condition(Ready).await?;
        ensure!(ready.starts_with("False/Retrying/"), "{ready}");
        let events = catalog.events().await?;
        ensure!(events.iter().any(|e| e.starts_with("Retrying: source catalog content: ")), "{events:?}");
        // Mended at once: the wait for the next try grows with each failure.
        faulty.set(name, None);
    }
    for (catalog, _, _, digest) in &broken {
        catalog.serves(digest).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn old_content_stays_while_a_registry_fails() -> Result<()> {
    let world = World::shared().await?;
    let (reference, digest) = push(world, "stays", 2).await?;
    let catalog = Catalog::create(&world.cluster, "stays", &reference).await?;
    catalog.serves(&digest).await?;
    let before = all(&world.catalogd, &catalog.name).await?;
    world.registries.faulty.set("stays-next", Some(Fault::WrongBytes));
    let (next, next_digest) = push(world, "stays-next", 3).await?;
    catalog.set_reference(&next).await?;
    catalog.shows(Progressing, &format!("{COPYING}digest mismatch")).await?;
    catalog.shows(Serving, "True/Available/Serving desired content from resolved source").await?;
    ensure!(all(&world.catalogd, &catalog.name).await? == before, "old content");
    world.registries.faulty.set("stays-next", None);
    catalog.serves(&next_digest).await?;
    ensure!(all(&world.catalogd, &catalog.name).await? != before, "new content");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_names_the_pull_secret_and_a_rotated_one_counts_at_once() -> Result<()> {
    let world = World::shared().await?;
    let host = world.registries.faulty.address();
    world.registries.faulty.require("private", "me", "right");
    let (reference, digest) = push(world, "private", 4).await?;
    let catalog = Catalog::create(&world.cluster, "private", &reference).await?;
    let asked = format!(
        "True/Retrying/source catalog content: error creating image source: reading manifest v1 in {host}/private: unauthorized: authentication required (status 401); tried "
    );
    catalog.shows(Progressing, &asked).await?;

    world.set_credentials(&[(&format!("{host}/private"), "me", "wr0ng")]).await?;
    let text = format!("{asked}the credentials for {host}/private of pull secret olmv1-system/registries");
    catalog.shows(Progressing, &text).await?;
    world.set_credentials(&[(&format!("{host}/private"), "me", "right")]).await?;
    catalog.serves(&digest).await?;
    // What other catalogs do has not seen the password.
    let leaked = world.registries.other.seen("private").len();
    ensure!(leaked == 0, "{leaked} requests elsewhere");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_stay_behind_when_layers_are_elsewhere() -> Result<()> {
    let world = World::shared().await?;
    let Registries { faulty, other, .. } = &world.registries;
    faulty.require("moved", "me", "secret");
    world.set_credentials(&[(&format!("{}/moved", faulty.address()), "me", "secret")]).await?;
    faulty.set("moved", Some(Fault::Redirect(format!("http://{}", other.address()))));
    let (reference, digest) = push(world, "moved", 5).await?;
    let catalog = Catalog::create(&world.cluster, "moved", &reference).await?;
    catalog.serves(&digest).await?;
    let seen = other.seen("moved");
    ensure!(!seen.is_empty(), "the layer came from the other host");
    ensure!(seen.iter().all(|request| request.authorization.is_none()), "{seen:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_pull_says_how_far_it_is() -> Result<()> {
    let world = World::shared().await?;
    world.registries.faulty.set("slow", Some(Fault::Slow(16, Duration::from_millis(500))));
    let pushed = world.registries.images.push_catalog(&content(6, 3_000_000), "slow:v1").await?;
    let reference = format!("{}/slow:v1", world.registries.faulty.address());
    let catalog = Catalog::create(&world.cluster, "slow", &reference).await?;
    let digest = pushed.rsplit_once('@').map(|(_, digest)| digest.to_owned()).unwrap_or_default();
    let told = catalog.shows(Ready, "False/Reconciling/Pulling ").await?;
    ensure!(told.contains(&digest) && told.ends_with(" MB, 0 of 1 layers"), "{told}");
    catalog.shows(olm_api::ConditionType::Reconciling, "True/Reconciling/Pulling ").await?;
    ensure!(
        catalog.condition(Progressing).await?.is_empty(),
        "upstream's condition has upstream's words only"
    );
    catalog.serves(&pushed).await?;
    catalog.shows(Ready, "True/Succeeded/Serving desired content").await?;
    wait::until("the events of the pull", DEADLINE, || async {
        let events = catalog.events().await?;
        ensure!(events.iter().any(|e| e.starts_with("Pulling: Pulling ")), "{events:?}");
        ensure!(events.iter().any(|e| e.starts_with("Unpacked: Serving content of ")), "{events:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn mirrors_and_blocks_of_the_registries_configuration_count() -> Result<()> {
    let world = World::shared().await?;
    let registries = &world.registries;
    let pushed = registries.images.push_catalog(&content(7, 100_000), "mirrored/catalog:v1").await?;
    let conf = format!(
        "{}[[registry]]\nprefix = \"source.example/team\"\nlocation = \"source.example/team\"\n\
         [[registry.mirror]]\nlocation = \"{}/mirrored\"\ninsecure = true\n\
         [[registry]]\nlocation = \"forbidden.example\"\nblocked = true\n",
        registries.insecure(),
        registries.other.address()
    );
    // Read at every pull: no restart.
    std::fs::write(registries.conf(), conf)?;
    let blocked = Catalog::create(&world.cluster, "blocked", "forbidden.example/a/b:v1").await?;
    let text = blocked.shows(Progressing, "True/Retrying/source catalog content: ").await?;
    ensure!(text.contains("forbidden.example") && text.contains("blocked"), "{text}");

    let catalog = Catalog::create(&world.cluster, "mirrored", "source.example/team/catalog:v1").await?;
    catalog.serves(&pushed).await?;
    let resolved =
        catalog.status().await?.resolved_source.map(|source| source.image.ref_).unwrap_or_default();
    ensure!(resolved.starts_with("source.example/team/catalog@sha256:"), "never the mirror: {resolved}");
    Ok(())
}
