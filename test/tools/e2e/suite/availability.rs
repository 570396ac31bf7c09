//! Two replicas: what happens when one of them, or both, go.

use olm_test::prelude::*;

use crate::extension::{both_versions_readable, installed, operated};
use crate::sample::{self, CATALOG, PACKAGE};
use crate::watched::Watched;
use crate::world::{DEADLINE, OPERATOR, SYSTEM, World};

/// A lease that nobody gives back is waited for.
const LEASE_DEADLINE: Duration = Duration::from_mins(5);
/// Until a Service forgets a Pod that died without a word, somebody may be led there.
const GAP_MAX: Duration = Duration::from_secs(15);
/// A drain that the budget holds up is given up.
const BUDGET_TIMEOUT: &str = "--timeout=15s";

/// The leading Pod is deleted while an upgrade is under way.
pub(crate) async fn leader_deleted(world: &World) -> Result<()> {
    let watched = Watched::begin(world, CATALOG);
    let leader = world.leader()?;
    world.apply(&sample::extension("1.2.0").to_string())?;
    let started = Instant::now();
    world.kubectl(&["delete", "pod", &leader, "-n", SYSTEM, "--wait=false"])?;
    let other = wait::until("another Pod to lead", LEASE_DEADLINE, async || {
        let now = world.leader()?;
        wait::check(now != leader, || format!("{now} leads")).map(|()| now)
    })
    .await?;
    println!("BENCH e2e_failover_deleted {:.2} s", started.elapsed().as_secs_f64());
    installed(world, "1.2.0").await?;
    operated(world, "1.2.0").await?;
    println!("BENCH e2e_failover_to_upgraded {:.2} s", started.elapsed().as_secs_f64());
    world.deployed(SYSTEM, OPERATOR, 2).await?;
    let seen = watched.end();
    println!("   {other} goes on; catalog asked for {} times meanwhile", seen.answered);
    println!("BENCH e2e_failover_deleted_longest_gap {:.3} s", seen.longest.as_secs_f64());
    ensure!(
        seen.refused.is_empty(),
        "{} questions were not answered: {:?}",
        seen.refused.len(),
        seen.refused.first()
    );
    Ok(())
}

/// The leading process dies without a word while an upgrade is under way: the lease runs out, the container starts
/// again, and whoever leads then brings the upgrade to its end.
pub(crate) async fn leader_killed(world: &World) -> Result<()> {
    if !world.own_node {
        world.leave_out("processes are killed on a node of this machine's own only");
        return Ok(());
    }
    let watched = Watched::begin(world, CATALOG);
    let leader = world.leader()?;
    let before = holders(world)?;
    let process = crate::confinement::process(world, &leader)?;
    world.apply(&sample::extension("1.3.0").to_string())?;
    let started = Instant::now();
    ensure!(std::process::Command::new("kill").args(["-9", &process.to_string()]).status()?.success());
    wait::until("somebody to lead again", LEASE_DEADLINE, async || {
        let now = holders(world)?;
        let taken = |(now, before): (&String, &String)| !now.is_empty() && now != before;
        wait::check(now.iter().zip(&before).all(taken), || format!("the leases are held by {now:?}"))
    })
    .await?;
    println!("BENCH e2e_failover_killed {:.2} s", started.elapsed().as_secs_f64());
    world.deployed(SYSTEM, OPERATOR, 2).await?;
    let seen = watched.end();
    println!(
        "   {} leads now; {} answers, {} refusals meanwhile",
        world.leader()?,
        seen.answered,
        seen.refused.len()
    );
    println!("BENCH e2e_failover_killed_longest_gap {:.3} s", seen.longest.as_secs_f64());
    ensure!(seen.longest < GAP_MAX, "no catalog for {:?}: {:?}", seen.longest, seen.refused.first());
    installed(world, "1.3.0").await?;
    operated(world, "1.3.0").await
}

/// Who holds the leases of extensions and of catalogs.
fn holders(world: &World) -> Result<Vec<String>> {
    let mut holders = Vec::new();
    for name in ["9c4404e7.operatorframework.io", "catalogd-operator-lock"] {
        let lease = world.get(&["lease", name, "-n", SYSTEM])?;
        holders.push(lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned());
    }
    Ok(holders)
}

/// One node: the budget keeps one Pod on it as long as the other has no place; without the budget both go.
pub(crate) async fn drained(world: &World) -> Result<()> {
    let nodes = world.get(&["nodes"])?;
    let nodes = nodes["items"].as_array().context("items")?;
    let [node] = nodes.as_slice() else {
        world.leave_out(&format!("draining the only node: the cluster has {} nodes", nodes.len()));
        return Ok(());
    };
    let node = node["metadata"]["name"].as_str().context("a node has a name")?;
    let drain = ["drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force"];
    let selector = format!("--pod-selector=control-plane={OPERATOR}");
    let watched = Watched::begin(world, CATALOG);
    let held_up = world.kubectl(&[&drain[..], &[&selector, BUDGET_TIMEOUT]].concat());
    let held_up = format!("{:#}", held_up.err().context("the drain took both Pods of a budget of one")?);
    ensure!(held_up.contains("disruption budget"), "{held_up}");
    let seen = watched.end();
    ensure!(seen.refused.is_empty(), "while drained: {:?}", seen.refused.first());
    println!("   the budget kept one Pod: {} answers, none refused", seen.answered);

    let everybody = "--pod-selector=k8s-app!=kube-dns";
    world.kubectl(&[&drain[..], &["--disable-eviction", everybody, "--timeout=120s"]].concat())?;
    let running = world.pods(OPERATOR)?;
    ensure!(running.iter().all(|pod| pod["spec"]["nodeName"].is_null()), "a Pod is still on the node");
    let started = Instant::now();
    world.kubectl(&["uncordon", node])?;
    world.deployed(SYSTEM, OPERATOR, 2).await?;
    world.deployed(PACKAGE, PACKAGE, 1).await?;
    wait::until("catalogs to be served again", DEADLINE, async || {
        world.catalog_content(CATALOG).await.map(drop)
    })
    .await?;
    println!("BENCH e2e_uncordon_to_served {:.2} s", started.elapsed().as_secs_f64());
    installed(world, "1.3.0").await?;
    wait::until("the operator's webhooks", DEADLINE, async || both_versions_readable(world)).await
}
