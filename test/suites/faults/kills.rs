//! The program killed at random moments of a run.

use olm_test::prelude::*;

use crate::{
    lives::Fault,
    runner::{Runner, Step, WHOLE},
    world::{alone, everything, seed},
};

/// Kills, four in each run.
const KILLS: usize = 100;
/// In a sample; the scenario tests kill ten times more.
const KILLS_OF_A_SAMPLE: usize = 4;
/// A step of an undisturbed run takes less.
const MOMENTS_MILLISECONDS: u64 = 2000;

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_moments_the_end_is_the_same() -> Result<()> {
    let world = alone().await?;
    let runner = Runner::build(&world, "killed", WHOLE, WHOLE[0]).await?;
    let mut random = fastrand::Rng::with_seed(seed());
    let wanted = if everything() { KILLS } else { KILLS_OF_A_SAMPLE };
    let (mut kills, started) = (0, Instant::now());
    while kills < wanted {
        let mut moment = |most| Duration::from_millis(random.u64(..most));
        // A deletion is over sooner.
        let moments = [
            (Step::Install, moment(MOMENTS_MILLISECONDS)),
            (Step::Upgrade, moment(MOMENTS_MILLISECONDS)),
            (Step::Rollback, moment(MOMENTS_MILLISECONDS)),
            (Step::Delete, moment(MOMENTS_MILLISECONDS / 4)),
        ];
        kills += moments.len();
        runner.live(Fault::Kills(moments.into())).await.with_context(|| format!("kills at {moments:?}"))?;
    }
    println!("{kills} kills in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}
