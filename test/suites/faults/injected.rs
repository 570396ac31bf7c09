//! Requests that fail, and an API server that goes away.

use olm_test::{
    prelude::*,
    proxy::{self, Weather},
};

use crate::{
    lives::Fault,
    runner::{Runner, Step, WHOLE},
    world::{PACKAGE, Sample, alone, everything, seed},
};

/// Faults in one step of a run, at most: the wait for the next attempt doubles with each in a row, and must end
/// within the step's deadline.
const FAULTS_MAX: usize = 5;
/// One request of so many fails; the more, the later in a step.
const ONE_IN: std::ops::Range<usize> = 2..40;
const RUNS: usize = 40;
const RUNS_OF_A_SAMPLE: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_fail_do_not_change_the_end() -> Result<()> {
    let world = alone().await?;
    let runner = Runner::build(&world, "injected", WHOLE, WHOLE[0]).await?;
    let faults = [409, 410, 429, 500, 503].map(proxy::Fault::Status);
    let faults: Vec<_> = faults.into_iter().chain([proxy::Fault::Drop, proxy::Fault::Lose]).collect();
    let (first, started) = (seed(), Instant::now());
    let runs = if everything() { RUNS } else { RUNS_OF_A_SAMPLE };
    let mut damage = 0;
    for run in 0..runs {
        let seed = first.wrapping_add(run as u64);
        let one_in = fastrand::Rng::with_seed(seed).usize(ONE_IN);
        let weather = Weather::new(seed, one_in, &faults, FAULTS_MAX);
        let run = runner.live(Fault::Weather(weather)).await;
        let run = run.with_context(|| format!("seed {seed}, so far: {:#?}", world.proxy().damage()))?;
        ensure!(!run.damage.is_empty(), "nothing failed with seed {seed}");
        damage += run.damage.len();
    }
    println!("{runs} runs with {damage} faults in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_restarts_does_not_change_the_end() -> Result<()> {
    let world = alone().await?;
    let runner = Runner::build(&world, "restarted", WHOLE, WHOLE[0]).await?;
    let mut random = fastrand::Rng::with_seed(seed());
    let runs = if everything() { 6 } else { 1 };
    for run in 0..runs {
        // A watch goes on from a version that etcd no longer has, and that a new API server does not remember.
        let fault: Fault<Step> =
            Fault::ApiServer { after: Duration::from_millis(random.u64(..1500)), compact: run % 2 == 0 };
        runner.live(fault.clone()).await.with_context(|| format!("{fault:?}"))?;
    }
    Ok(())
}

/// What the program is to write again it has to read before, with the permissions that it has.
#[tokio::test(flavor = "multi_thread")]
async fn conflicts_over_metadata_are_settled_at_once() -> Result<()> {
    let world = alone().await?;
    let (client, proxy) = (world.cluster.client().await?, world.proxy());
    let logged_before = world.operator.process().log().len();
    let strike = |kind: &str| {
        let conflict = Weather::new(1, 1, &[proxy::Fault::Status(409)], 1);
        proxy.weather(Some(conflict.only(&format!("patch {kind}."))));
    };
    let is_settled = |kind: &str| {
        let (damage, requests) = (proxy.damage(), proxy.requests());
        ensure!(damage.len() == 1, "{kind}: {damage:?} of {requests:#?}");
        let about = |request: &&String| request.split(['.', ' ']).nth(1) == Some(kind);
        let verbs: Vec<_> = requests.iter().filter(about).filter_map(|one| one.split(' ').next()).collect();
        let first = verbs.iter().position(|verb| *verb == "patch").context("no patch")?;
        ensure!(verbs[first..].starts_with(&["patch", "list", "patch"]), "{kind}: {verbs:?}");
        let log = world.operator.process().log();
        ensure!(!log.get(logged_before..).unwrap_or(&log).contains("forbidden"), "a request was forbidden");
        proxy.reset();
        Ok(())
    };
    strike("clustercatalogs");
    let _sample = Sample::new(&world, "conflicts", &["1.0.0"]).await?;
    is_settled("clustercatalogs")?;
    strike("clusterextensions");
    let extension = Extension::new(&client, "conflicts");
    extension.create(extension.object(PACKAGE, &json!({}))).await?;
    wait::until("the installation", DEADLINE, async || extension.is_installed("1.0.0").await).await?;
    is_settled("clusterextensions")?;
    strike("clusterobjectsets");
    extension.delete().await?;
    Api::<ClusterObjectSet>::all(client).gone("conflicts-1").await?;
    is_settled("clusterobjectsets")
}
