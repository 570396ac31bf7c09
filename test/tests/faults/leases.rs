//! Two processes that want to lead, one of which stands still.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use olm_test::{
    operator::{self, Operator, SYSTEM_NAMESPACE},
    proxy::Proxy,
    supervisor::State,
    wait,
};
use serde_json::json;

use crate::{
    extension::Extension,
    theatre::STILL,
    world::{DEADLINE, Sample, World},
};

const LEASE: &str = "9c4404e7.operatorframework.io";
/// Short, so that nobody waits for minutes; long enough for a machine that has other things to do.
const TERMS: [&str; 4] = [
    "--leader-elect",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=1s",
];

struct Candidate {
    operator: Operator,
    proxy: Proxy,
}

impl Candidate {
    async fn start(world: &World) -> Result<Self> {
        let proxy = Proxy::start(&operator::kubeconfig(&world.cluster)?).await?;
        let operator = Operator::start_as(&world.cluster, proxy.kubeconfig(), &world.images, &TERMS).await?;
        Ok(Self { operator, proxy })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_writes_nothing_when_it_goes_on() -> Result<()> {
    let world = World::alone().await?;
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
    extension.create(&extension.spec(&json!({"version": "1.0.0"}))).await?;
    wait::until("the installation", DEADLINE, async || extension.is_installed("1.0.0").await).await?;
    let led = holder().await?;
    let second = Candidate::start(&world).await?;

    // It stands still in the middle of a roll-out, with a write on its way and others to come.
    first.proxy.reset();
    extension.set_version("1.1.0").await?;
    wait::until("a roll-out", DEADLINE, async || {
        wait::check(first.proxy.writes().len() > 5, || "nothing is written yet".to_owned())
    })
    .await?;
    first.operator.process().freeze()?;
    let frozen = Instant::now();
    wait::until("the second to lead", DEADLINE, async || {
        let holder = holder().await?;
        wait::check(holder != led && !holder.is_empty(), || format!("{holder} leads"))
    })
    .await?;
    wait::until("the second to finish the upgrade", DEADLINE, async || extension.is_installed("1.1.0").await)
        .await?;
    second.proxy.quiet(STILL, DEADLINE).await?;
    ensure!(!second.proxy.writes().is_empty(), "the roll-out was over before the freeze");
    println!("taken over and upgraded {:.1} s after the freeze", frozen.elapsed().as_secs_f64());

    // A user wants something else meanwhile, which the first would like to do as well.
    let before = first.proxy.writes().len();
    first.operator.process().resume()?;
    extension.patch(&json!({"metadata": {"labels": {"touched": "yes"}}})).await?;
    wait::until("the end of the first", Duration::from_secs(30), async || {
        match first.operator.process().state()? {
            State::Running => anyhow::bail!("it runs"),
            State::Exited(code) => wait::check(code != 0, || "it ended as if all were well".to_owned()),
            State::Killed(signal) => anyhow::bail!("killed by {signal}"),
        }
    })
    .await?;
    let late: Vec<_> = first.proxy.writes()[before..].iter().map(|write| write.name.to_string()).collect();
    ensure!(late.is_empty(), "written by a process that no longer led: {late:?}");
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
