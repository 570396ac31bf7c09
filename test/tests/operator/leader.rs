//! Leader election: one leads, a clean stop hands over at once.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use olm_test::{
    cluster::{Cluster, Options},
    images::Images,
    operator::{Operator, SYSTEM_NAMESPACE},
    registry::Registry,
    wait,
};

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
    wait::until("both leases to be held", Duration::from_mins(1), async || {
        let holders = holders(leases).await?;
        ensure!(holders.iter().all(|h| !h.is_empty()), "{holders:?}");
        Ok(holders)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leases_of_a_leader_that_died_run_out_together() -> Result<()> {
    let lease = Duration::from_secs(20);
    let terms = [
        "--leader-elect",
        "--leader-elect-lease-duration=20s",
        "--leader-elect-renew-deadline=15s",
        "--leader-elect-retry-period=2s",
    ];
    let (cluster, registry) = tokio::try_join!(Cluster::start(Options::default()), Registry::start())?;
    let images = Images::new(&registry)?;
    let first = Operator::start(&cluster, &images, &terms).await?;
    let leases: Api<Lease> = Api::namespaced(cluster.client().await?, SYSTEM_NAMESPACE);
    let before = held(&leases).await?;
    let second = Operator::start(&cluster, &images, &terms).await?;
    first.process().kill()?;
    let killed = Instant::now();
    wait::until("the second to lead", 4 * lease, async || {
        second.process().check_running()?;
        let holders = holders(&leases).await?;
        ensure!(holders.iter().all(|h| !h.is_empty() && *h != before[0]), "{holders:?}");
        Ok(())
    })
    .await?;
    let taken = killed.elapsed();
    ensure!(taken < lease * 9 / 5, "one lease was waited for after the other: {taken:?} for {lease:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_hands_the_leases_over() -> Result<()> {
    let (cluster, registry) = tokio::try_join!(Cluster::start(Options::default()), Registry::start())?;
    let images = Images::new(&registry)?;
    let first = Operator::start(&cluster, &images, &["--leader-elect"]).await?;
    let leases: Api<Lease> = Api::namespaced(cluster.client().await?, SYSTEM_NAMESPACE);
    let holders = async || holders(&leases).await;
    let first_holders = held(&leases).await?;
    ensure!(first_holders[0] == first_holders[1], "{first_holders:?}");

    let second = Operator::start(&cluster, &images, &["--leader-elect"]).await?;
    ensure!(holders().await? == first_holders, "the second took over from a leader that lives");
    let stopped = Instant::now();
    first.process().terminate(Duration::from_secs(20)).await?;
    wait::until("the second to lead", Duration::from_secs(30), async || {
        second.process().check_running()?;
        let holders = holders().await?;
        ensure!(holders.iter().all(|h| !h.is_empty() && *h != first_holders[0]), "{holders:?}");
        Ok(())
    })
    .await?;
    println!("handed over {:.1} s after the stop", stopped.elapsed().as_secs_f64());
    Ok(())
}
