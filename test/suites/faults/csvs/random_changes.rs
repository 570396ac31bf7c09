//! Random runs of an operator of OLM Classic: versions, groups, permissions and lost objects in any order. Once everything
//! that an operator needs is there again, it is as if it had been installed so at once.

use olm_test::prelude::*;

use super::place::Place;
use crate::{
    lives::{STILL, State, settled},
    snapshot::difference,
    world::{COLLECTED, everything, restart, seed},
};

/// Runs and their steps.
const RUNS: (usize, usize) = (20, 20);
/// Of a sample.
const SAMPLE: (usize, usize) = (2, 7);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A version comes, which replaces the one before.
    Newer,
    /// All versions are deleted.
    Remove,
    /// The group is for the operator's namespace alone,
    Narrow,
    /// or for another one, too,
    Widen,
    /// or gone,
    Ungroup,
    /// or one of two.
    Second,
    Unbind,
    Bind,
    /// Something that belongs to the operator is deleted.
    Lose,
    /// The program is killed and starts again.
    Restart,
}

const STEPS: [Step; 10] = [
    Step::Newer,
    Step::Remove,
    Step::Narrow,
    Step::Widen,
    Step::Ungroup,
    Step::Second,
    Step::Unbind,
    Step::Bind,
    Step::Lose,
    Step::Restart,
];

/// What has been asked for so far.
#[derive(Debug, Default)]
struct Asked {
    /// The newest version, and the one that it replaces.
    version: Option<(u32, Option<u32>)>,
    numbers: u32,
    /// Whether the group is for another namespace, too.
    group: Option<bool>,
    has_second: bool,
    is_unbound: bool,
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_was_done_to_an_operator_of_classic_it_ends_as_if_installed_so() -> Result<()> {
    let place = Place::start().await?;
    let (runs, steps) = if everything() { RUNS } else { SAMPLE };
    let mut random = fastrand::Rng::with_seed(seed());
    for number in 0..runs {
        let steps: Vec<Step> =
            (0..steps).map(|_| *random.choice(STEPS.iter()).expect("there are some")).collect();
        println!("run {number}: {steps:?}");
        run(&place, &mut random, &steps)
            .await
            .with_context(|| format!("run {number}: {steps:?}\n{}", place.classic.process().log_tail()))?;
    }
    Ok(())
}

async fn run(place: &Place, random: &mut fastrand::Rng, steps: &[Step]) -> Result<()> {
    let mut asked = Asked::default();
    for step in steps {
        take(place, &mut asked, *step, random).await.with_context(|| format!("{step:?}"))?;
        if random.bool() {
            place.proxy.quiet(STILL, DEADLINE).await?;
        }
    }
    for step in needed(&asked) {
        take(place, &mut asked, step, random).await?;
    }
    let (version, replaces) = asked.version.context("no version")?;
    let found = alone(place, version).await.context("the end of the run")?;
    remove_all(place, &mut asked).await?;
    let wide = asked.group.take() == Some(true);
    place.groups.remove("group").await?;
    place.is_empty().await?;
    place.group_for(wide).await?;
    create(place, version, replaces).await?;
    let fresh = alone(place, version).await.context("a fresh installation")?;
    let lines = difference(&fresh, &found);
    ensure!(lines.is_empty(), "other than a fresh installation:\n{}", lines.join("\n"));
    remove_all(place, &mut asked).await?;
    place.groups.remove("group").await?;
    place.is_empty().await
}

/// What is missing for an operator to run.
fn needed(asked: &Asked) -> Vec<Step> {
    let mut steps = Vec::new();
    steps.extend(asked.has_second.then_some(Step::Second));
    steps.extend(asked.group.is_none().then_some(Step::Widen));
    steps.extend(asked.is_unbound.then_some(Step::Bind));
    steps.extend(asked.version.is_none().then_some(Step::Newer));
    steps
}

async fn take(place: &Place, asked: &mut Asked, step: Step, random: &mut fastrand::Rng) -> Result<()> {
    match step {
        Step::Newer => {
            let replaces = asked.version.map(|(version, _)| version);
            asked.numbers += 1;
            create(place, asked.numbers, replaces).await?;
            asked.version = Some((asked.numbers, replaces));
        }
        Step::Remove => remove_all(place, asked).await?,
        Step::Narrow | Step::Widen => {
            let wide = matches!(step, Step::Widen);
            match asked.group {
                None => place.group_for(wide).await?,
                Some(_) => place.retarget(wide).await?,
            }
            asked.group = Some(wide);
        }
        Step::Ungroup if asked.group.take().is_some() => place.groups.remove("group").await?,
        Step::Second if asked.has_second => {
            place.groups.remove("second").await?;
            asked.has_second = false;
        }
        Step::Second => {
            place.second_group().await?;
            asked.has_second = true;
        }
        Step::Unbind if !asked.is_unbound => {
            place.unbind().await?;
            asked.is_unbound = true;
        }
        Step::Bind if asked.is_unbound => {
            place.bind().await?;
            asked.is_unbound = false;
        }
        Step::Lose => place.lose(random.usize(..)).await?,
        Step::Restart => restart(&place.classic, &place.proxy).await?,
        Step::Ungroup | Step::Unbind | Step::Bind => {}
    }
    Ok(())
}

async fn create(place: &Place, version: u32, replaces: Option<u32>) -> Result<()> {
    let replaces = replaces.map(|version| format!("beacon.v{version}"));
    place.operator(version, replaces.as_deref()).await
}

/// Deletes all versions, and waits until nothing of them is left.
async fn remove_all(place: &Place, asked: &mut Asked) -> Result<()> {
    asked.version = None;
    wait::until("the operators to be gone", COLLECTED, async || {
        for csv in place.csvs.all().await? {
            // It may go by itself.
            drop(place.csvs.delete(&csv.name_any(), &DeleteParams::default()).await);
        }
        place.is(&[]).await
    })
    .await?;
    let versions: Vec<u32> = (1..=asked.numbers).collect();
    wait::until("what belonged to them to be collected", COLLECTED, || place.are_collected(&versions)).await
}

/// The state in which nothing happens any more, with this version alone.
async fn alone(place: &Place, version: u32) -> Result<State> {
    let wanted = format!("beacon.v{version} Succeeded/InstallSucceeded");
    wait::until("the version to run alone", COLLECTED, async || place.is(&[&wanted]).await).await?;
    let earlier: Vec<u32> = (1..version).collect();
    wait::until("earlier versions to be collected", COLLECTED, || place.are_collected(&earlier)).await?;
    settled(&place.proxy, async || place.snapshot().await).await
}
