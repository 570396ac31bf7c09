//! An install, upgrade, rollback and delete, repeated with each write of the undisturbed run struck in four ways; the
//! same for a deletion under a policy that keeps CRDs, and for what comes after it, and for an upgrade that fails and is replaced.
//!
//! Each run ends every step in the state in which the undisturbed one ended it, object by object.

use olm_test::{
    prelude::*,
    proxy::{Blow, WriteName},
};

use crate::{
    runner::{FAILING, Fault, KEEPING, Run, Runner, Step, Steps, WHOLE},
    world::{alone, everything, seed},
};

/// How the process and what it sees are struck.
const BLOWS: [Blow; 4] = [Blow::Before, Blow::After, Blow::Stale, Blow::Unobserved];
/// Undisturbed runs. A write that not all of them show depends on timing and is no write of the run.
const UNDISTURBED: usize = 5;
/// A write's number can shift when others come twice; a run in which it did not come is repeated.
const ATTEMPTS: usize = 6;
const ATTEMPTS_OF_A_SAMPLE: usize = 2;
/// Lives of a sample, each struck at another write.
const SAMPLE: usize = 4;
/// How often the way so far is told, in writes struck.
const TOLD_EVERY: usize = 25;
/// After so many failures there is enough to look at.
const FAILURES_MAX: usize = 5;

#[derive(Default)]
struct Tally {
    runs: usize,
    covered: BTreeMap<WriteName, BTreeSet<Blow>>,
    kept_back: u64,
    states: usize,
    most: BTreeMap<Step, usize>,
    spent: BTreeMap<Step, Duration>,
    failures: Vec<String>,
}

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

/// Strikes at the writes from a step on: at all of them in all ways, or at a few.
async fn perturb(name: &str, steps: Steps, from: Step) -> Result<()> {
    let world = alone().await?;
    let runner = Runner::build(&world, name, steps).await?;
    if from == steps[0] {
        runner.idle().await.context("at rest")?;
    }
    let started = Instant::now();
    let mut tally = Tally::default();
    let names = undisturbed(&runner, from, &mut tally).await?;
    println!("{} writes of an undisturbed run from {from:?} on:", names.len());
    for name in &names {
        println!("  {name}");
    }

    let mut targets: Vec<(WriteName, Blow)> =
        names.iter().flat_map(|name| BLOWS.map(|blow| (name.clone(), blow))).collect();
    if !everything() {
        fastrand::Rng::with_seed(seed()).shuffle(&mut targets);
        targets.truncate(SAMPLE);
    }
    for (index, (name, blow)) in targets.iter().enumerate() {
        if index % TOLD_EVERY == TOLD_EVERY - 1 {
            println!("{} of {} after {:.0} s", index + 1, targets.len(), started.elapsed().as_secs_f64());
        }
        if tally.failures.len() >= FAILURES_MAX {
            break;
        }
        struck(&runner, name, *blow, &mut tally).await?;
    }
    tally.print(&names, started.elapsed());
    ensure!(
        tally.failures.is_empty(),
        "{} runs failed:\n{}",
        tally.failures.len(),
        tally.failures.join("\n\n")
    );
    let is_missed = |(name, blow): &&(WriteName, Blow)| {
        tally.covered.get(name).is_none_or(|covered| !covered.contains(blow))
    };
    let missed: Vec<_> =
        targets.iter().filter(is_missed).map(|(name, blow)| format!("{blow:?} at {name}")).collect();
    // In a sample a write may have got another number each time.
    ensure!(missed.is_empty() || !everything(), "not tried: {missed:#?}");
    ensure!(!tally.covered.is_empty(), "no blow fell: {missed:#?}");
    Ok(())
}

/// The writes from a step on that every undisturbed run shows, in their order.
async fn undisturbed(runner: &Runner<'_>, from: Step, tally: &mut Tally) -> Result<Vec<WriteName>> {
    let mut names: Vec<WriteName> = Vec::new();
    let runs = if everything() { UNDISTURBED } else { 1 };
    for number in 0..runs {
        let run = runner.run(Fault::None).await.with_context(|| format!("undisturbed run {number}"))?;
        let earlier = run.counts.range(..from).map(|(_, count)| count).sum();
        let of_run = run.writes.get(earlier..).context("fewer writes than were counted")?.to_vec();
        tally.count(&run);
        if number == 0 {
            names = of_run;
        } else {
            names.retain(|name| of_run.contains(name));
        }
    }
    Ok(names)
}

async fn struck(runner: &Runner<'_>, name: &WriteName, blow: Blow, tally: &mut Tally) -> Result<()> {
    let attempts = if everything() { ATTEMPTS } else { ATTEMPTS_OF_A_SAMPLE };
    for _ in 0..attempts {
        match runner.run(Fault::Strike(name.clone(), blow)).await {
            Ok(run) => {
                tally.count(&run);
                tally.kept_back += run.kept_back;
                if run.struck {
                    tally.covered.entry(name.clone()).or_default().insert(blow);
                    return Ok(());
                }
            }
            Err(error) => {
                tally.failures.push(format!("{blow:?} at {name}: {error:#}"));
                println!("FAILED: {}", tally.failures.last().map(String::as_str).unwrap_or_default());
                return runner.clear().await.context("the cluster cannot be cleared after that");
            }
        }
    }
    println!("{blow:?} at {name} did not come in {attempts} runs");
    Ok(())
}

impl Tally {
    fn count(&mut self, run: &Run) {
        self.runs += 1;
        self.states += run.states;
        for (step, count) in &run.counts {
            let most = self.most.entry(*step).or_default();
            *most = (*most).max(*count);
        }
        for (step, spent) in &run.spent {
            *self.spent.entry(*step).or_default() += *spent;
        }
    }

    /// What was covered, beside the writes of the undisturbed run.
    fn print(&self, names: &[WriteName], elapsed: Duration) {
        println!("covered:");
        for name in names {
            println!("  {name}: {:?}", self.covered.get(name).cloned().unwrap_or_default());
        }
        for blow in BLOWS {
            let covered = self.covered.values().filter(|blows| blows.contains(&blow)).count();
            println!("{blow:?}: {covered} of {} writes", names.len());
        }
        println!(
            "{} runs in {:.0} s, {} states of extensions and revisions, {} events kept back or lost",
            self.runs,
            elapsed.as_secs_f64(),
            self.states,
            self.kept_back
        );
        println!("most writes of a step: {:?}", self.most);
        let runs = u32::try_from(self.runs).unwrap_or(u32::MAX).max(1);
        let mean: Vec<_> = self.spent.iter().map(|(step, spent)| (step, *spent / runs)).collect();
        println!("time of a step: {mean:.1?}");
    }
}
