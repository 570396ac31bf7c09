//! An install, upgrade, rollback and delete, repeated with each write of the undisturbed run struck in four ways.
//!
//! Each run ends every stage in the state in which the undisturbed one ended it, object by object.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use olm_test::proxy::{Blow, WriteName};

use crate::{
    theatre::{Harm, Life, Stage, Theatre},
    world::{World, everything, seed},
};

/// How the process and what it sees are struck.
const BLOWS: [Blow; 4] = [Blow::Before, Blow::After, Blow::Stale, Blow::Unobserved];
/// Undisturbed runs. A write that not all of them show depends on timing and is no write of the life.
const UNDISTURBED: usize = 3;
/// A write's number can shift when others come twice; a run in which it did not come is repeated.
const ATTEMPTS: usize = 4;
/// How long the sample may take.
const SAMPLE: Duration = Duration::from_secs(40);
/// After so many failures there is enough to look at.
const FAILURES_MAX: usize = 5;

#[derive(Default)]
struct Tally {
    runs: usize,
    covered: BTreeMap<Blow, BTreeSet<WriteName>>,
    kept_back: u64,
    states: usize,
    most: BTreeMap<Stage, usize>,
    failures: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_at_a_write_the_end_is_the_same() -> Result<()> {
    if !olm_test::long::wanted() {
        return Ok(());
    }
    let world = World::alone().await?;
    let theatre = Theatre::build(&world, "perturbed").await?;
    let started = Instant::now();
    let mut tally = Tally::default();
    let names = undisturbed(&theatre, &mut tally).await?;
    println!("{} writes of an undisturbed life:", names.len());
    for name in &names {
        println!("  {name}");
    }

    let mut targets: Vec<(WriteName, Blow)> =
        names.iter().flat_map(|name| BLOWS.map(|blow| (name.clone(), blow))).collect();
    if !everything() {
        fastrand::Rng::with_seed(seed()).shuffle(&mut targets);
    }
    for (name, blow) in targets {
        let over = !everything() && started.elapsed() > SAMPLE;
        if over || tally.failures.len() >= FAILURES_MAX {
            break;
        }
        struck(&theatre, &name, blow, &mut tally).await?;
    }
    println!(
        "{} runs in {:.0} s, {} states of extensions and revisions, {} events kept back or lost",
        tally.runs,
        started.elapsed().as_secs_f64(),
        tally.states,
        tally.kept_back
    );
    println!("most writes of a stage: {:?}", tally.most);
    let wanted: BTreeSet<_> = names.into_iter().collect();
    for (blow, covered) in &tally.covered {
        println!("{blow:?}: {} of {} writes", covered.len(), wanted.len());
        if everything() && tally.failures.is_empty() {
            let missed: Vec<_> = wanted.difference(covered).map(ToString::to_string).collect();
            ensure!(missed.is_empty(), "{blow:?} was not tried at {missed:?}");
        }
    }
    ensure!(
        tally.failures.is_empty(),
        "{} runs failed:\n{}",
        tally.failures.len(),
        tally.failures.join("\n\n")
    );
    Ok(())
}

/// The writes that every undisturbed life shows, in their order.
async fn undisturbed(theatre: &Theatre<'_>, tally: &mut Tally) -> Result<Vec<WriteName>> {
    let mut names: Vec<WriteName> = Vec::new();
    let runs = if everything() { UNDISTURBED } else { 1 };
    for run in 0..runs {
        let life = theatre.live(Harm::None).await.with_context(|| format!("undisturbed run {run}"))?;
        let of_run = life.writes.clone();
        tally.count(&life);
        if run == 0 {
            names = of_run;
        } else {
            names.retain(|name| of_run.contains(name));
        }
    }
    Ok(names)
}

async fn struck(theatre: &Theatre<'_>, name: &WriteName, blow: Blow, tally: &mut Tally) -> Result<()> {
    for _ in 0..ATTEMPTS {
        match theatre.live(Harm::Strike(name.clone(), blow)).await {
            Ok(life) => {
                tally.count(&life);
                tally.kept_back += life.kept_back;
                if life.struck {
                    tally.covered.entry(blow).or_default().insert(name.clone());
                    return Ok(());
                }
            }
            Err(error) => {
                tally.failures.push(format!("{blow:?} at {name}: {error:#}"));
                println!("FAILED: {}", tally.failures.last().map(String::as_str).unwrap_or_default());
                tally.covered.entry(blow).or_default().insert(name.clone());
                return theatre.clear().await.context("the cluster cannot be cleared after that");
            }
        }
    }
    Ok(())
}

impl Tally {
    fn count(&mut self, life: &Life) {
        self.runs += 1;
        self.states += life.states;
        for (stage, count) in &life.counts {
            let most = self.most.entry(*stage).or_default();
            *most = (*most).max(*count);
        }
    }
}
