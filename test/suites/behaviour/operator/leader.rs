//! Leader election: one leads, a clean stop hands over at once.

use k8s_openapi::api::coordination::v1::Lease;
use olm_test::{operator::GRACE, prelude::*, supervisor::State};

const LEASES: [&str; 2] = ["9c4404e7.operatorframework.io", "catalogd-operator-lock"];

async fn holders(leases: &Api<Lease>) -> Result<Vec<String>> {
    let mut holders = Vec::new();
    for name in LEASES {
        let spec = leases.get(name).await?.spec.unwrap_or_default();
        holders.push(spec.holder_identity.unwrap_or_default());
    }
    Ok(holders)
}

async fn held(leases: &Api<Lease>) -> Result<Vec<String>> {
    wait::until("both leases to be held", DEADLINE, async || {
        let holders = holders(leases).await?;
        ensure!(holders.iter().all(|h| !h.is_empty()), "{holders:?}");
        Ok(holders)
    })
    .await
}

/// What somebody else's record of a lease looks like.
fn held_by(holder: &str) -> Patch<serde_json::Value> {
    Patch::Merge(json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 3600}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn losing_either_lease_releases_the_other_and_ends_the_process() -> Result<()> {
    let terms = ["--leader-elect", "--leader-elect-retry-period=1s"];
    let World { operator, site, .. } = World::start_with(&terms).await?;
    let leases: Api<Lease> = Api::namespaced(site.cluster.client().await?, SYSTEM_NAMESPACE);
    for (lost, other) in [(LEASES[0], LEASES[1]), (LEASES[1], LEASES[0])] {
        held(&leases).await?;
        leases.patch(lost, &PatchParams::default(), &held_by("thief")).await?;
        let ended =
            wait::until("the end of the process", GRACE, async || match operator.process().state()? {
                State::Running => anyhow::bail!("it runs"),
                ended => Ok(ended),
            })
            .await?;
        let log = operator.process().log();
        ensure!(
            matches!(ended, State::Exited(code) if code != 0),
            "{ended:?}\n{}",
            operator.process().log_tail()
        );
        ensure!(!log.contains("panicked"), "{}", operator.process().log_tail());
        let record = async |name| -> Result<String> {
            Ok(leases.get(name).await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default())
        };
        let holders = [record(lost).await?, record(other).await?];
        ensure!(holders == ["thief", ""], "{lost} was lost: {holders:?}");
        ensure!(
            log.contains(&format!("leadership lost: Lease {lost:?}")),
            "{}",
            operator.process().log_tail()
        );
        leases.remove(lost).await?;
        operator.process().restart()?;
        operator.ready().await?;
    }
    held(&leases).await?;
    Ok(())
}

/// Upstream's catalogd, for instance, or the one of an installation with two programs.
#[tokio::test(flavor = "multi_thread")]
async fn extensions_are_worked_on_while_another_process_looks_after_the_catalogs() -> Result<()> {
    let world = World::start_with(&["--leader-elect", "--leader-elect-retry-period=1s"]).await?;
    let scenario = Scenario::new(&world, "beside").await?;
    let bundles = [small("lamp", "1.0.0"), small("lamp", "1.1.0").replaces("1.0.0")];
    scenario.offer(&bundles).await?;
    let leases: Api<Lease> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    held(&leases).await?;
    world.operator.process().terminate(GRACE).await?;
    leases.patch(LEASES[1], &PatchParams::default(), &held_by("another catalogd")).await?;
    world.operator.process().restart()?;
    world.operator.ready().await?;

    let catalogs = scenario.catalogs();
    let before = catalogs.get(&scenario.name).await?.resource_version();
    scenario.install("lamp", json!({"version": "1.0.0"}), "1.0.0").await?;
    scenario.upgrade("1.1.0").await?;
    let of_extension = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", scenario.name));
    let map = scenario.maps().list(&of_extension).await?.items.pop().context("no ConfigMap")?;
    scenario.maps().remove(&map.name_any()).await?;
    let found = async || Ok(scenario.maps().get_opt(&map.name_any()).await?);
    eventually("the repair", found, |found| found.as_ref().is_some_and(|found| found.uid() != map.uid()))
        .await?;
    // The catalogs are somebody else's.
    scenario.patch_catalog(&scenario.name, json!({"spec": {"priority": 7}})).await?;
    scenario.annotate("paused", json!("true")).await?;
    scenario.shows(Ready, "True/Succeeded/Revision 1.1.0 has rolled out.\nPaused").await?;
    let after = catalogs.get(&scenario.name).await?;
    ensure!(
        leases.get(LEASES[1]).await?.spec.and_then(|s| s.holder_identity).as_deref()
            == Some("another catalogd")
    );
    ensure!(after.metadata.generation != Some(1) && before != after.resource_version(), "nothing to look at");
    let observed = |catalog: &ClusterCatalog| {
        catalog.status.as_ref().and_then(|s| s.conditions.find(Serving).and_then(|c| c.observed_generation))
    };
    ensure!(observed(&after) != after.metadata.generation, "a follower wrote the status of a catalog");

    // It goes, and they are looked after here.
    leases.patch(LEASES[1], &PatchParams::default(), &held_by("")).await?;
    wait::until("the catalog to be looked at", DEADLINE, async || {
        world.operator.process().check_running()?;
        let catalog = catalogs.get(&scenario.name).await?;
        wait::check(observed(&catalog) == catalog.metadata.generation, || format!("{:?}", catalog.status))
    })
    .await
}
