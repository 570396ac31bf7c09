//! Registries that fail: each failure is said with upstream's prefixes, and the catalog heals by itself.

use olm_test::{faults::Fault, prelude::*};

use crate::world::{Catalog, World, content};

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
        // A manifest without end does not become another one by waiting.
        let reason = if *name == "endless-manifest" { "Blocked" } else { "Retrying" };
        ensure!(ready.starts_with(&format!("False/{reason}/")), "{ready}");
        let events = catalog.events().await?;
        ensure!(events.iter().any(|e| e.starts_with("Retrying: source catalog content: ")), "{events:?}");
        // Mended at once: the wait for the next try grows with each failure.
        faulty.set(name, None);
    }
    for (catalog, _, _, digest) in &broken {
        catalog.serves(digest).await?;
    }
    // The same failure once more is counted on the Event that there is.
    let Some((catalog, name, wanted, _)) = broken.last() else { bail!("no catalogs") };
    let (elsewhere, other) = push(world, "elsewhere", 2).await?;
    catalog.set_reference(&elsewhere).await?;
    catalog.serves(&other).await?;
    faulty.set(name, Some(Fault::Status(503)));
    catalog.set_reference(&format!("{host}/{name}:v1")).await?;
    catalog.shows(Progressing, wanted).await?;
    faulty.set(name, None);
    let events = catalog.events().await?;
    let of_fault = events.iter().filter(|event| event.contains("(status 503)")).count();
    ensure!(of_fault == 1, "{events:?}");
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
