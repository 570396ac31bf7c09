//! Two processes that want to lead, one of which stands still.

use k8s_openapi::api::coordination::v1::Lease;
use olm_test::{
    operator,
    prelude::*,
    proxy::{Blow, Proxy, WriteName},
    supervisor::State,
};

use crate::{
    lives::STILL,
    world::{PACKAGE, Sample, alone},
};

const LEASE: &str = "9c4404e7.operatorframework.io";
/// The status of an answer to a write of an object that has changed since it was read.
const CONFLICT: u16 = 409;
/// Short, so that nobody waits for minutes; long enough for a machine that has other things to do.
const TERMS: [&str; 4] = [
    "--leader-elect",
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=12s",
    "--leader-elect-retry-period=1s",
];

/// A write in the middle of an upgrade.
fn middle(extension: &str) -> WriteName {
    WriteName {
        verb: "apply".to_owned(),
        resource: "configmaps".to_owned(),
        object: format!("{extension}/lighthouse-operator-settings"),
        nth: 1,
    }
}

struct Candidate {
    operator: Operator,
    proxy: Proxy,
}

impl Candidate {
    async fn start(world: &World) -> Result<Self> {
        let proxy = Proxy::start(&operator::kubeconfig(&world.cluster)?).await?;
        let operator = Operator::start_as(world, proxy.kubeconfig(), &TERMS).await?;
        Ok(Self { operator, proxy })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_writes_nothing_when_it_goes_on() -> Result<()> {
    let world = alone().await?;
    let client = world.cluster.client().await?;
    let sample = Sample::new(&world, "frozen", &["1.0.0", "1.1.0"]).await?;
    // The program of the other tests must not do the work.
    world.operator.process().kill()?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let holder = async || -> Result<String> {
        let lease = leases.get(LEASE).await?;
        Ok(lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default())
    };
    let first = Candidate::start(&world).await?;
    let extension = Extension::new(&client, &sample.name);
    extension.create(extension.object(PACKAGE, &json!({"version": "1.0.0"}))).await?;
    wait::until("the installation", DEADLINE, async || extension.is_installed("1.0.0").await).await?;
    let led = holder().await?;
    let second = Candidate::start(&world).await?;

    // It stands still in the middle of a roll-out, with a write that it has no answer to and others to come.
    first.proxy.reset();
    first.proxy.strike(middle(&sample.name), Blow::After);
    extension.set_version("1.1.0").await?;
    tokio::time::timeout(DEADLINE, first.proxy.struck()).await.context("a roll-out")?;
    first.operator.process().freeze()?;
    first.proxy.thaw();
    let frozen = Instant::now();
    let holder = async || holder().await;
    eventually("the second to lead", holder, |holder| *holder != led && !holder.is_empty()).await?;
    wait::until("the second to finish the upgrade", DEADLINE, async || extension.is_installed("1.1.0").await)
        .await?;
    second.proxy.quiet(STILL, DEADLINE).await?;
    ensure!(!second.proxy.writes().is_empty(), "the roll-out was over before the freeze");
    println!("taken over and upgraded {:.1} s after the freeze", frozen.elapsed().as_secs_f64());

    // A user wants something else meanwhile, which the first would like to do as well.
    let before = first.proxy.writes().len();
    first.operator.process().resume()?;
    extension.patch(&json!({"metadata": {"labels": {"touched": "yes"}}})).await?;
    wait::until("the end of the first", DEADLINE, async || match first.operator.process().state()? {
        State::Running => anyhow::bail!("it runs"),
        State::Exited(code) => wait::check(code != 0, || "it ended as if all were well".to_owned()),
        State::Killed(signal) => anyhow::bail!("killed by {signal}"),
    })
    .await?;
    // A request that had been half sent is finished; the API server refuses it, as the object has changed since.
    let late = first.proxy.writes().split_off(before);
    let late: Vec<_> = late.iter().filter(|write| write.status != Some(CONFLICT)).collect();
    ensure!(late.is_empty(), "written by a process that no longer led: {late:#?}");
    ensure!(
        first.operator.process().log().contains("leadership lost"),
        "{}",
        first.operator.process().log_tail()
    );
    extension.is_installed("1.1.0").await?;

    extension.delete().await?;
    wait::until("the extension's end", DEADLINE, async || extension.is_gone().await).await?;
    second.operator.process().terminate(DEADLINE).await?;
    Ok(())
}
