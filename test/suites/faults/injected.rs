//! Requests that fail, and an API server that goes away.

use olm_test::{
    prelude::*,
    proxy::{Fault, Weather},
};

use crate::{
    theatre::{Harm, Theatre, WHOLE},
    world::{alone, everything, seed},
};

/// Faults in one stage of a life, at most: the wait for the next attempt doubles with each in a row, and must end
/// within the stage's deadline.
const FAULTS_MAX: usize = 5;
/// One request of so many fails; the more, the later in a stage.
const ONE_IN: std::ops::Range<usize> = 2..40;
const LIVES: usize = 40;
const LIVES_OF_A_SAMPLE: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_fail_do_not_change_the_end() -> Result<()> {
    let world = alone().await?;
    let theatre = Theatre::build(&world, "injected", WHOLE).await?;
    let faults = [409, 410, 429, 500, 503].map(Fault::Status);
    let faults: Vec<_> = faults.into_iter().chain([Fault::Drop, Fault::Lose]).collect();
    let (first, started) = (seed(), Instant::now());
    let lives = if everything() { LIVES } else { LIVES_OF_A_SAMPLE };
    let mut damage = 0;
    for life in 0..lives {
        let seed = first.wrapping_add(life as u64);
        let one_in = fastrand::Rng::with_seed(seed).usize(ONE_IN);
        let weather = Weather::new(seed, one_in, &faults, FAULTS_MAX);
        let life = theatre.live(Harm::Weather(weather)).await;
        let life = life.with_context(|| format!("seed {seed}, so far: {:#?}", world.proxy().damage()))?;
        ensure!(!life.damage.is_empty(), "nothing failed with seed {seed}");
        damage += life.damage.len();
    }
    println!("{lives} lives with {damage} faults in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_restarts_does_not_change_the_end() -> Result<()> {
    let world = alone().await?;
    let theatre = Theatre::build(&world, "restarted", WHOLE).await?;
    let mut random = fastrand::Rng::with_seed(seed());
    let lives = if everything() { 6 } else { 1 };
    for life in 0..lives {
        // A watch goes on from a version that etcd no longer has, and that a new API server does not remember.
        let harm =
            Harm::ApiServer { after: Duration::from_millis(random.u64(..1500)), compact: life % 2 == 0 };
        let life = theatre.live(harm.clone()).await.with_context(|| format!("{harm:?}"))?;
        println!("{harm:?}: {:.1?}", life.spent);
    }
    Ok(())
}
