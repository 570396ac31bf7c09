//! Operators of OLM Classic through install, upgrade, failure, recovery and deletion, with each write of the undisturbed
//! life struck in four ways. Each life ends every stage in the state in which the undisturbed one ended it.

mod place;

use olm_test::{
    prelude::*,
    proxy::{Blow, WriteName},
};
use tokio_util::sync::CancellationToken;

use crate::{
    snapshot::{Id, difference},
    world::{COLLECTED, everything, seed},
};
use place::Place;

const BLOWS: [Blow; 4] = [Blow::Before, Blow::After, Blow::Stale, Blow::Unobserved];
/// Without a request for so long the program is done.
const STILL: Duration = Duration::from_millis(300);
/// A program that sees nothing any more does all it can within this time.
const BLIND: Duration = Duration::from_millis(400);
/// Undisturbed lives. A write that not all of them show depends on timing and is no write of the life.
const UNDISTURBED: usize = 3;
/// A write's number can shift when others come twice; a life in which it did not come is repeated.
const ATTEMPTS: usize = 3;
/// Lives of a sample, each struck at another write.
const SAMPLE: usize = 6;
/// After so many failures there is enough to look at.
const FAILURES_MAX: usize = 5;

/// What is asked for in a life, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Install,
    Upgrade,
    /// The ServiceAccount loses its permission,
    Fail,
    /// and gets it back.
    Recover,
    Delete,
}

const LIFE: [Stage; 5] = [Stage::Install, Stage::Upgrade, Stage::Fail, Stage::Recover, Stage::Delete];

/// The states in which the undisturbed life ended its stages.
type Ends = BTreeMap<Stage, BTreeMap<Id, Value>>;

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_at_a_write_an_operator_of_classic_ends_the_same() -> Result<()> {
    let place = Place::start().await?;
    let begun = Instant::now();
    let mut ends = Ends::new();
    // Roles of the API stay, so that the first life writes more than the others.
    live(&place, &mut ends, None).await.context("the first life")?;
    let mut names: Vec<WriteName> = Vec::new();
    let runs = if everything() { UNDISTURBED } else { 1 };
    for run in 0..runs {
        live(&place, &mut ends, None).await.with_context(|| format!("undisturbed life {run}"))?;
        let written: Vec<_> = place.proxy.writes().into_iter().map(|write| write.name).collect();
        if run == 0 {
            names = written;
        } else {
            names.retain(|name| written.contains(name));
        }
    }
    println!("{} writes of an undisturbed life, {:.0} s so far", names.len(), begun.elapsed().as_secs_f64());
    for name in &names {
        println!("  {name}");
    }
    let mut targets: Vec<(WriteName, Blow)> =
        names.iter().flat_map(|name| BLOWS.map(|blow| (name.clone(), blow))).collect();
    if !everything() {
        fastrand::Rng::with_seed(seed()).shuffle(&mut targets);
        targets.truncate(SAMPLE);
    }
    let (mut failures, mut missed, mut fallen) = (Vec::new(), Vec::new(), 0);
    for (name, blow) in &targets {
        if failures.len() >= FAILURES_MAX {
            break;
        }
        match struck(&place, &mut ends, name, *blow).await {
            Ok(true) => fallen += 1,
            Ok(false) => missed.push(format!("{blow:?} at {name}")),
            Err(error) => {
                println!("FAILED: {blow:?} at {name}: {error:#}");
                failures.push(format!("{blow:?} at {name}: {error:#}"));
                clear(&place).await.context("the cluster cannot be cleared after that")?;
            }
        }
    }
    println!(
        "{fallen} of {} blows fell, in {:.0} s; not: {missed:#?}",
        targets.len(),
        begun.elapsed().as_secs_f64()
    );
    ensure!(failures.is_empty(), "{} lives failed:\n{}", failures.len(), failures.join("\n\n"));
    ensure!(fallen > 0, "no blow fell");
    Ok(())
}

/// Lives until the blow falls; whether it did.
async fn struck(place: &Place, ends: &mut Ends, name: &WriteName, blow: Blow) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        live(place, ends, Some((name.clone(), blow))).await?;
        if place.proxy.was_struck() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One life, from a fresh start of the program to an empty cluster.
async fn live(place: &Place, ends: &mut Ends, strike: Option<(WriteName, Blow)>) -> Result<()> {
    let proxy = &place.proxy;
    proxy.reset();
    place.restart().await?;
    proxy.quiet(STILL, DEADLINE).await.context("after the start")?;
    let idle: Vec<_> = proxy.writes().iter().map(|write| write.name.to_string()).collect();
    ensure!(idle.is_empty(), "a start with nothing to do wrote {idle:?}");
    proxy.reset();
    let blow = strike.map(|(name, blow)| {
        proxy.strike(name, blow);
        blow
    });
    let over = CancellationToken::new();
    let act = async {
        let Some(blow) = blow else { return Ok(()) };
        tokio::select! {
            () = over.cancelled() => Ok(()),
            () = proxy.struck() => follow_up(place, blow).await,
        }
    };
    let stages = async {
        for stage in LIFE {
            let ended = end(place, ends, stage).await.with_context(|| format!("{stage:?}"));
            if ended.is_err() {
                over.cancel();
            }
            ended?;
        }
        over.cancel();
        anyhow::Ok(())
    };
    let (acted, ended) = tokio::join!(act, stages);
    acted.context("while striking")?;
    ended.with_context(|| place.classic.process().log_tail())
}

/// What follows a blow.
async fn follow_up(place: &Place, blow: Blow) -> Result<()> {
    match blow {
        Blow::Before | Blow::After => place.restart().await?,
        Blow::Stale => {
            place.proxy.quiet(BLIND, DEADLINE).await?;
            place.proxy.release();
        }
        Blow::Unobserved => {
            place.proxy.quiet(BLIND, DEADLINE).await?;
            place.proxy.expire();
        }
    }
    Ok(())
}

/// Does what a person does, and waits for the state in which the undisturbed life ended the stage.
async fn end(place: &Place, ends: &mut Ends, stage: Stage) -> Result<()> {
    match stage {
        Stage::Install => {
            place.group().await?;
            place.operator(1, None).await?;
        }
        Stage::Upgrade => place.operator(2, Some("beacon.v1")).await?,
        Stage::Fail => place.unbind().await?,
        Stage::Recover => place.bind().await?,
        Stage::Delete => {
            place.csvs.remove("beacon.v2").await?;
            place.groups.remove("group").await?;
        }
    }
    let is_over = || async {
        match stage {
            Stage::Install => place.is(&["beacon.v1 Succeeded/InstallSucceeded"]).await,
            Stage::Upgrade | Stage::Recover => place.is(&["beacon.v2 Succeeded/InstallSucceeded"]).await,
            Stage::Fail => place.is(&["beacon.v2 Pending/RequirementsNotMet"]).await,
            Stage::Delete => place.is(&[]).await,
        }
    };
    wait::until("the stage's end", DEADLINE, is_over).await?;
    if let Some(wanted) = ends.get(&stage) {
        let deadline = if matches!(stage, Stage::Upgrade | Stage::Delete) { DEADLINE * 2 } else { DEADLINE };
        wait::until("the undisturbed state", deadline, async || {
            let lines = difference(wanted, &place.snapshot().await?);
            wait::check(lines.is_empty(), || lines.join("\n"))
        })
        .await?;
        return place.proxy.quiet(STILL, DEADLINE).await;
    }
    let gone: &[u32] = match stage {
        Stage::Install => &[],
        Stage::Upgrade | Stage::Fail | Stage::Recover => &[1],
        Stage::Delete => &[1, 2],
    };
    let collected = "what belonged to earlier versions to be collected";
    wait::until(collected, COLLECTED, || place.is_collected(gone)).await?;
    let mut before = place.snapshot().await?;
    let found = wait::until("the state to stay", COLLECTED, async || {
        place.proxy.quiet(STILL, DEADLINE).await?;
        tokio::time::sleep(STILL).await;
        let now = place.snapshot().await?;
        let lines = difference(&before, &now);
        before = now;
        wait::check(lines.is_empty(), || lines.join("\n"))?;
        Ok(before.clone())
    })
    .await?;
    ends.insert(stage, found);
    Ok(())
}

/// Removes what a life that failed left.
async fn clear(place: &Place) -> Result<()> {
    place.proxy.reset();
    place.restart().await?;
    // It may be gone.
    drop(place.unbind().await);
    place.bind().await?;
    wait::until("the operators to be gone", DEADLINE, async || {
        for csv in place.csvs.all().await? {
            drop(place.csvs.delete(&csv.name_any(), &DeleteParams::default()).await);
        }
        for group in place.groups.all().await? {
            drop(place.groups.delete(&group.name_any(), &DeleteParams::default()).await);
        }
        place.is(&[]).await
    })
    .await
}
