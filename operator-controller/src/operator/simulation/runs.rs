//! Whole lives of an extension under faults, each made of a seed: install, upgrade, edits, rollback, pause, deletion,
//! permissions that come and go, while requests fail, events are lost or late, processes crash and two of them work at
//! once. Each ends in the state that the last spec asks for, as one without faults does.

mod run;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use tokio::time::sleep;

use self::run::{Run, self_certified};
use super::{Duration, Mutex, catalog, keep_bundles};
use crate::simulation::{Rates, runtime};

/// Runs in `make test`, and those that one asks for with `OLM_TEST_RUNS`.
const RUNS: u64 = 2000;
/// The first seed, unless `OLM_TEST_SEED` names another.
const SEED: u64 = 1;
/// Writes of a run for each of its changes, crashes and faults, at most.
const WRITES_OF_ONE: u64 = 60;

/// What came of a run.
struct Ended {
    rest: Result<Vec<String>, String>,
    history: Vec<String>,
    time: Duration,
    faults: u64,
    started: u64,
    writes: u64,
    /// Updates that a policy was asked about.
    updates: u64,
    /// Revisions that took the place of one that failed.
    returns: u64,
}

fn run(seed: u64, rates: Rates, folder: &Path, quiet: bool) -> Ended {
    runtime().block_on(async {
        let mut run = Run::new(seed, rates, folder);
        let server = run.server.clone();
        let mut delays = fastrand::Rng::with_seed(seed ^ 1);
        let others = tokio::spawn(async move {
            loop {
                server.changed().await;
                sleep(Duration::from_millis(delays.u64(1..3000))).await;
                server.reconcile_cluster();
            }
        });
        if quiet {
            run.server.create(catalog());
            run.server.create(self_certified());
            run.start(0);
        } else {
            run.live().await;
        }
        let rest = run.settle().await;
        run.stop(0);
        others.abort();
        if let Some(file) = std::env::var_os("OLM_TEST_LOG") {
            std::fs::write(file, run.server.log().join("\n")).expect("a file for the requests");
        }
        Ended {
            rest,
            time: run.began.elapsed(),
            faults: run.server.faults(),
            started: run.started,
            writes: run.server.properties().writes,
            updates: run.server.properties().consent.updates,
            returns: run.server.properties().consent.returns,
            history: run.history,
        }
    })
}

/// The state that every run ends in.
fn expected(folder: &Path) -> &'static Vec<String> {
    static EXPECTED: OnceLock<Vec<String>> = OnceLock::new();
    EXPECTED.get_or_init(|| run(0, Rates::default(), folder, true).rest.expect("a run without faults"))
}

/// What is wrong with a run, if anything is.
fn failure(seed: u64, folder: &Path) -> (Ended, Option<String>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut rate = |most: u64| if random.bool() { random.u64(3..most) } else { 0 };
    let rates = Rates {
        errors: rate(60),
        lost_answers: rate(80),
        slow_answers: rate(60),
        lost_events: rate(60),
        late_events: rate(30),
    };
    let ended = run(seed, rates, folder, false);
    let wrong = match &ended.rest {
        Err(text) => Some(text.clone()),
        Ok(rest) => different(expected(folder), rest),
    };
    let bound = WRITES_OF_ONE * (ended.history.len() as u64 + ended.started + ended.faults);
    let wrong = wrong.or_else(|| {
        (ended.writes > bound).then(|| format!("{} writes, which is more than {bound}", ended.writes))
    });
    let wrong = wrong.map(|text| format!("{text}\n{rates:?}\n{:#?}", ended.history));
    (ended, wrong)
}

fn different(expected: &[String], rest: &[String]) -> Option<String> {
    let missing: Vec<_> = expected.iter().filter(|one| !rest.contains(one)).collect();
    let more: Vec<_> = rest.iter().filter(|one| !expected.contains(one)).collect();
    (missing.len() + more.len() > 0).then(|| format!("expected: {missing:#?}\nfound: {more:#?}"))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_run_ends_as_one_without_faults() {
    let (first, runs) = (number("OLM_TEST_SEED"), number("OLM_TEST_RUNS"));
    let runs = runs.unwrap_or(if first.is_some() { 1 } else { RUNS });
    let first = first.unwrap_or(SEED);
    let next = AtomicU64::new(first);
    let failures = Mutex::new(BTreeMap::new());
    let totals = Mutex::new((Duration::ZERO, 0, 0, 0, 0, 0));
    let began = std::time::Instant::now();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let folder = tempfile::tempdir().unwrap();
                keep_bundles(folder.path());
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= first + runs {
                        break;
                    }
                    let (ended, wrong) = failure(seed, folder.path());
                    let mut totals = totals.lock().unwrap();
                    totals.0 += ended.time;
                    totals.1 += ended.faults;
                    totals.2 += ended.started;
                    totals.3 += ended.writes;
                    totals.4 += ended.updates;
                    totals.5 += ended.returns;
                    if let Some(text) = wrong {
                        failures.lock().unwrap().insert(seed, text);
                    }
                }
            });
        }
    });
    let (time, faults, processes, writes, updates, returns) = totals.into_inner().unwrap();
    println!(
        "{runs} runs, {:.0} simulated hours, {faults} faults, {processes} processes, {writes} writes, {updates} updates under a policy, {returns} returns, {:.0} ms a run",
        time.as_secs_f64() / 3600.0,
        began.elapsed().as_secs_f64() * 1000.0 / u32::try_from(runs).map_or(f64::MAX, f64::from),
    );
    assert!(runs < 100 || updates > 0, "no policy was asked about an update");
    assert!(runs < 500 || returns > 0, "nothing took the place of what failed");
    let failures = failures.into_inner().unwrap();
    for (seed, text) in failures.iter().take(3) {
        println!(
            "seed {seed}: {text}\nrepeat with: OLM_TEST_SEED={seed} cargo test -p operator-controller --lib every_run_ends -- --nocapture"
        );
    }
    assert!(failures.is_empty(), "{} of {runs} runs failed: {:?}", failures.len(), failures.keys());
}
