//! Lives of what users ask of OLM Classic: undisturbed ones, and ones in which a write is struck. Each ends every stage in
//! the state in which the first undisturbed one ended it.

use std::fmt::Debug;

use olm_test::{
    classic::Classic,
    prelude::*,
    proxy::{Blow, Proxy, WriteName},
};
use tokio_util::sync::CancellationToken;

use crate::{
    snapshot::{Id, Kind, all_of, difference},
    world::{COLLECTED, everything, seed},
};

/// Without a request for so long the program is done.
pub(crate) const STILL: Duration = Duration::from_millis(300);
/// A program that sees nothing any more does all it can within this time.
const BLIND: Duration = Duration::from_millis(400);
/// Undisturbed lives. A write that not all of them show depends on timing and is no write of the life.
const UNDISTURBED: usize = 3;
/// A write's number can shift when others come twice; a life in which it did not come is repeated.
const ATTEMPTS: usize = 3;
/// After so many failures there is enough to look at.
const FAILURES_MAX: usize = 5;

/// What there is, as it is compared.
pub(crate) type State = BTreeMap<Id, Value>;

/// What is lived, and where.
pub(crate) trait Life {
    /// What is asked for, one after another.
    type Stage: Copy + Ord + Debug + 'static;
    const STAGES: &'static [Self::Stage];
    /// How each write is struck.
    const BLOWS: &'static [Blow];
    /// Lives of a sample, each struck at another write.
    const SAMPLE: usize;

    fn classic(&self) -> &Classic;
    fn proxy(&self) -> &Proxy;
    /// Does what a person does.
    async fn ask(&self, stage: Self::Stage) -> Result<()>;
    /// One look whether a stage has come to its end.
    async fn is_over(&self, stage: Self::Stage) -> Result<()>;
    /// One look whether Kubernetes has collected what a stage leaves behind.
    async fn is_collected(&self, stage: Self::Stage) -> Result<()>;
    /// How long a stage may take, and its known state after that.
    fn deadline(&self, stage: Self::Stage) -> Duration;
    async fn state(&self) -> Result<State>;
    /// Removes what a life that failed left.
    async fn clear(&self) -> Result<()>;
}

/// The states in which the undisturbed life ended its stages.
type Ends<L> = BTreeMap<<L as Life>::Stage, State>;

/// Lives undisturbed, then with each of the writes struck, or with a sample of them.
pub(crate) async fn live_and_strike<L: Life>(place: &L) -> Result<()> {
    let begun = Instant::now();
    let mut ends = Ends::<L>::new();
    // Roles of the API stay, so that the first life writes more than the others.
    live(place, &mut ends, None).await.context("the first life")?;
    let mut names: Vec<WriteName> = Vec::new();
    let runs = if everything() { UNDISTURBED } else { 1 };
    for run in 0..runs {
        live(place, &mut ends, None).await.with_context(|| format!("undisturbed life {run}"))?;
        let written: Vec<_> = place.proxy().writes().into_iter().map(|write| write.name).collect();
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
        names.iter().flat_map(|name| L::BLOWS.iter().map(|blow| (name.clone(), *blow))).collect();
    if !everything() {
        fastrand::Rng::with_seed(seed()).shuffle(&mut targets);
        targets.truncate(L::SAMPLE);
    }
    let (mut failures, mut missed, mut fallen) = (Vec::new(), Vec::new(), 0);
    for (name, blow) in &targets {
        if failures.len() >= FAILURES_MAX {
            break;
        }
        match struck(place, &mut ends, name, *blow).await {
            Ok(true) => fallen += 1,
            Ok(false) => missed.push(format!("{blow:?} at {name}")),
            Err(error) => {
                println!("FAILED: {blow:?} at {name}: {error:#}");
                failures.push(format!("{blow:?} at {name}: {error:#}"));
                place.proxy().reset();
                restart(place).await?;
                place.clear().await.context("the cluster cannot be cleared after that")?;
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

/// Kills the program and starts it again.
pub(crate) async fn restart<L: Life>(place: &L) -> Result<()> {
    let process = place.classic().process();
    process.kill()?;
    // What was stopped shall not reach the cluster after the death of who sent it.
    place.proxy().thaw();
    process.restart()?;
    place.classic().ready().await
}

/// Lives until the blow falls; whether it did.
async fn struck<L: Life>(place: &L, ends: &mut Ends<L>, name: &WriteName, blow: Blow) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        live(place, ends, Some((name.clone(), blow))).await?;
        if place.proxy().was_struck() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One life, from a fresh start of the program to an empty cluster.
async fn live<L: Life>(place: &L, ends: &mut Ends<L>, strike: Option<(WriteName, Blow)>) -> Result<()> {
    let proxy = place.proxy();
    proxy.reset();
    restart(place).await?;
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
        for stage in L::STAGES {
            let ended = end(place, ends, *stage).await.with_context(|| format!("{stage:?}"));
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
    ended.with_context(|| place.classic().process().log_tail())
}

/// What follows a blow.
async fn follow_up<L: Life>(place: &L, blow: Blow) -> Result<()> {
    match blow {
        Blow::Before | Blow::After => restart(place).await?,
        Blow::Stale => {
            place.proxy().quiet(BLIND, DEADLINE).await?;
            place.proxy().release();
        }
        Blow::Unobserved => {
            place.proxy().quiet(BLIND, DEADLINE).await?;
            place.proxy().expire();
        }
    }
    Ok(())
}

/// Asks for a stage, and waits for the state in which the undisturbed life ended it.
async fn end<L: Life>(place: &L, ends: &mut Ends<L>, stage: L::Stage) -> Result<()> {
    place.ask(stage).await?;
    wait::until("the stage's end", place.deadline(stage).max(DEADLINE), || place.is_over(stage)).await?;
    if let Some(wanted) = ends.get(&stage) {
        wait::until("the undisturbed state", place.deadline(stage), async || {
            let lines = difference(wanted, &place.state().await?);
            wait::check(lines.is_empty(), || lines.join("\n"))
        })
        .await?;
        return place.proxy().quiet(STILL, DEADLINE).await;
    }
    let collected = "what belonged to earlier stages to be collected";
    wait::until(collected, COLLECTED, || place.is_collected(stage)).await?;
    let mut before = place.state().await?;
    let found = wait::until("the state to stay", COLLECTED, async || {
        place.proxy().quiet(STILL, DEADLINE).await?;
        tokio::time::sleep(STILL).await;
        let now = place.state().await?;
        let lines = difference(&before, &now);
        before = now;
        wait::check(lines.is_empty(), || lines.join("\n"))?;
        Ok(before.clone())
    })
    .await?;
    ends.insert(stage, found);
    Ok(())
}

/// The objects of these kinds, as far as they count, each in the form in which it is compared.
pub(crate) async fn objects(
    client: &Client,
    kinds: &[Kind],
    counts: impl Fn(&DynamicObject) -> bool,
    normal: impl Fn(&Value) -> Value,
) -> Result<State> {
    let mut objects = State::new();
    for (kind, object) in all_of(client, kinds).await?.into_iter().filter(|(_, object)| counts(object)) {
        let namespace = object.namespace().unwrap_or_default();
        let object = normal(&serde_json::to_value(&object)?);
        let meta = &object["metadata"];
        // Another webhook configuration in each life.
        let name = meta["generateName"].as_str().or_else(|| meta["name"].as_str()).unwrap_or_default();
        let mut id = format!("{kind} {namespace}/{name}");
        while objects.contains_key(&id) {
            id.push('+');
        }
        objects.insert(id, object);
    }
    Ok(objects)
}

/// An object without UIDs, and without these fields, labels and annotations.
pub(crate) fn without(object: &Value, fleeting: &[&str]) -> Value {
    let uid = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").expect("a pattern");
    let text = uid.replace_all(&object.to_string(), "UID").into_owned();
    let mut object: Value = serde_json::from_str(&text).expect("JSON in which only texts changed");
    strip(&mut object, fleeting);
    object
}

fn strip(value: &mut Value, fleeting: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !fleeting.contains(&name.as_str()));
            fields.values_mut().for_each(|value| strip(value, fleeting));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| strip(value, fleeting)),
        _ => {}
    }
}
