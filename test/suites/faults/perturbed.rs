//! An install, upgrade, rollback and delete, repeated with each write of the undisturbed run struck in four ways; the
//! same for a deletion under a policy that keeps CRDs, and for what comes after it, and for an upgrade that fails and is replaced.

use olm_test::prelude::*;

use crate::{
    runner::{FAILING, KEEPING, Runner, Step, Steps, WHOLE, idle},
    world::alone,
};

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_at_a_write_the_end_is_the_same() -> Result<()> {
    perturb("perturbed", WHOLE, WHOLE[0]).await
}

// The writes of the installation are those of the other steps.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_at_a_write_a_crd_that_is_to_be_kept_is_kept() -> Result<()> {
    perturb("keeping", KEEPING, Step::Retain).await
}

// An upgrade that fails is replaced by what was installed, and not tried again.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_at_a_write_what_fails_is_replaced() -> Result<()> {
    perturb("failing", FAILING, Step::Fail).await
}

/// Strikes at the writes from a step on.
async fn perturb(name: &str, steps: Steps, from: Step) -> Result<()> {
    let world = alone().await?;
    let lives = Runner::build(&world, name, steps, from).await?;
    if from == steps[0] {
        idle(&lives).await.context("at rest")?;
    }
    lives.strike().await
}
