//! Lives of what users ask for: undisturbed ones, and ones in which something fails or a write is struck. Each ends every
//! stage in the state in which the first undisturbed one ended it.

use std::{
    cell::RefCell,
    fmt::Debug,
    sync::atomic::{AtomicBool, Ordering},
};

use olm_test::{
    instance::Instance,
    prelude::*,
    proxy::{Blow, Proxy, Weather, WriteName},
};
use tokio_util::sync::CancellationToken;

use crate::{
    snapshot::{Id, Kind, all_of, difference},
    world::{COLLECTED, everything, restart, seed},
};

/// Without a request for so long the program is done.
pub(crate) const STILL: Duration = Duration::from_millis(300);
/// A program that sees nothing any more does all it can within this time.
const BLIND: Duration = Duration::from_millis(400);
/// Without the API server everybody waits twice as long with each attempt, up to a minute, and some wait for others.
const RECOVERED: Duration = Duration::from_mins(4);
/// Most writes of a stage for each object that is there at its end or was at its beginning. An undisturbed
/// install takes about two.
const WRITES_PER_OBJECT: usize = 6;
/// Undisturbed lives. A write that not all of them show depends on timing and is no write of the life.
const UNDISTURBED: usize = 5;
/// A write's number can shift when others come twice; a life in which it did not come is repeated.
const ATTEMPTS: usize = 6;
const ATTEMPTS_OF_A_SAMPLE: usize = 2;
/// After so many failures there is enough to look at.
const FAILURES_MAX: usize = 5;

/// What there is, as it is compared.
pub(crate) type State = BTreeMap<Id, Value>;

/// What is done to a life whose stages are these.
#[derive(Clone, Debug)]
pub(crate) enum Fault<S> {
    None,
    /// A blow at a write.
    Strike(WriteName, Blow),
    /// Requests that fail, in each stage as many at most.
    Weather(Weather),
    /// The program is killed so long after the beginning of each stage.
    Kills(BTreeMap<S, Duration>),
    /// The API server is killed and started again so long after the beginning of each stage; before that, etcd's
    /// history is thrown away if `compact`.
    ApiServer {
        after: Duration,
        compact: bool,
    },
}

/// What is lived, and where.
pub(crate) trait Life {
    /// What is asked for, one after another.
    type Stage: Copy + Ord + Debug + 'static;
    /// How each write is struck.
    const BLOWS: &'static [Blow];
    /// Lives of a sample, each struck at another write.
    const SAMPLE: usize;
    /// Whether each write of the undisturbed life can be struck.
    const ALL_FALL: bool;

    fn stages(&self) -> &'static [Self::Stage];
    /// From this stage on writes are struck: those of the ones before it are struck in other lives.
    fn struck_from(&self) -> Self::Stage {
        self.stages()[0]
    }

    fn cluster(&self) -> &Cluster;
    fn proxy(&self) -> &Proxy;
    /// The program behind the proxy.
    fn program(&self) -> &Instance;
    /// Does what a person does.
    async fn ask(&self, stage: Self::Stage) -> Result<()>;
    /// One look whether a stage has come to its end.
    async fn is_over(&self, stage: Self::Stage) -> Result<()>;
    /// One look whether Kubernetes has collected what a stage leaves behind.
    async fn is_collected(&self, stage: Self::Stage) -> Result<()>;
    /// How long a stage may take.
    fn deadline(&self, _: Self::Stage) -> Duration {
        DEADLINE
    }
    /// How long it takes after that until nothing happens any more.
    fn rest_deadline(&self, stage: Self::Stage) -> Duration {
        self.deadline(stage)
    }
    async fn state(&self) -> Result<State>;
    /// Whether a difference from the undisturbed state counts.
    fn counts(&self, _: Self::Stage, _: &Fault<Self::Stage>, _: &str) -> bool {
        true
    }
    /// What must hold at rest beside the state.
    async fn check(&self, _: Self::Stage) -> Result<()> {
        Ok(())
    }
    /// Lives, and looks at it from aside.
    async fn watch<T>(&self, _: &Fault<Self::Stage>, life: impl Future<Output = Result<T>>) -> Result<T> {
        life.await
    }
    /// What objects say of themselves, for a stage that does not end.
    async fn statuses(&self) -> Result<String> {
        Ok(String::new())
    }
    /// Removes what a life that failed left.
    async fn clear(&self) -> Result<()>;
}

/// What a life was like.
pub(crate) struct Lived {
    /// The writes from [`Life::struck_from`] on.
    writes: Vec<WriteName>,
    was_struck: bool,
    pub(crate) damage: Vec<String>,
}

/// Lives of one kind, which are compared with the first.
pub(crate) struct Lives<L: Life> {
    pub(crate) place: L,
    /// The states in which the undisturbed life ended its stages.
    ends: RefCell<BTreeMap<L::Stage, State>>,
}

impl<L: Life> Lives<L> {
    /// Lives undisturbed, to learn from it.
    pub(crate) async fn of(place: L) -> Result<Self> {
        let lives = Self { place, ends: RefCell::default() };
        // Roles of an API can stay, so that the first life writes more than the others.
        Box::pin(lives.live(Fault::None)).await.context("the first life")?;
        Ok(lives)
    }

    /// Lives with each of the writes struck in each way, or with a few of them.
    pub(crate) async fn strike(&self) -> Result<()> {
        let begun = Instant::now();
        let names = self.undisturbed().await?;
        println!("{} writes of an undisturbed life from {:?} on:", names.len(), self.place.struck_from());
        for name in &names {
            println!("  {name}");
        }
        let mut targets: Vec<(WriteName, Blow)> =
            names.iter().flat_map(|name| L::BLOWS.iter().map(|blow| (name.clone(), *blow))).collect();
        if !everything() {
            fastrand::Rng::with_seed(seed()).shuffle(&mut targets);
            targets.truncate(L::SAMPLE);
        }
        let (mut failures, mut missed) = (Vec::new(), Vec::new());
        for (name, blow) in &targets {
            let target = format!("{blow:?} at {name}");
            let struck = self.struck(name, *blow).await;
            println!("{:.0} s: {target}: {struck:?}", begun.elapsed().as_secs_f64());
            match struck {
                Ok(true) => {}
                Ok(false) => missed.push(target),
                Err(error) => {
                    failures.push(format!("{target}: {error:#}"));
                    self.place.proxy().reset();
                    restart(self.place.program(), self.place.proxy()).await?;
                    self.place.clear().await.context("the cluster cannot be cleared after that")?;
                }
            }
            ensure!(failures.len() < FAILURES_MAX, "{}", failures.join("\n\n"));
        }
        ensure!(failures.is_empty(), "{} lives failed:\n{}", failures.len(), failures.join("\n\n"));
        // In a sample a write may have got another number each time.
        ensure!(missed.is_empty() || !everything() || !L::ALL_FALL, "not tried: {missed:#?}");
        ensure!(missed.len() < targets.len(), "no blow fell");
        Ok(())
    }

    /// The writes that every undisturbed life shows, in their order.
    async fn undisturbed(&self) -> Result<Vec<WriteName>> {
        let mut names = self.live(Fault::None).await?.writes;
        for _ in 1..if everything() { UNDISTURBED } else { 1 } {
            let written = self.live(Fault::None).await?.writes;
            names.retain(|name| written.contains(name));
        }
        Ok(names)
    }

    /// Lives until the blow falls; whether it did.
    async fn struck(&self, name: &WriteName, blow: Blow) -> Result<bool> {
        for _ in 0..if everything() { ATTEMPTS } else { ATTEMPTS_OF_A_SAMPLE } {
            if self.live(Fault::Strike(name.clone(), blow)).await?.was_struck {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One life, from a fresh start of the program to an empty cluster.
    pub(crate) async fn live(&self, fault: Fault<L::Stage>) -> Result<Lived> {
        self.place.watch(&fault, Box::pin(self.live_unwatched(&fault))).await
    }

    async fn live_unwatched(&self, fault: &Fault<L::Stage>) -> Result<Lived> {
        let (place, proxy) = (&self.place, self.place.proxy());
        proxy.reset();
        restart(place.program(), proxy).await?;
        proxy.quiet(STILL, DEADLINE).await.context("after the start")?;
        let idle: Vec<_> = proxy.writes().iter().map(|write| write.name.to_string()).collect();
        ensure!(idle.is_empty(), "a start with nothing to do wrote {idle:?}");
        proxy.reset();
        match fault {
            Fault::Strike(name, blow) => proxy.strike(name.clone(), *blow),
            Fault::Weather(weather) => proxy.weather(Some(weather.clone())),
            Fault::None | Fault::Kills(_) | Fault::ApiServer { .. } => {}
        }
        let earlier = self.stages(fault).await.with_context(|| place.program().process().log_tail())?;
        place.program().process().check_running()?;
        Ok(Lived {
            writes: proxy.writes().into_iter().skip(earlier).map(|write| write.name).collect(),
            was_struck: proxy.was_struck(),
            damage: proxy.damage(),
        })
    }

    /// Goes through the stages; returns how many writes came before those that are struck.
    async fn stages(&self, fault: &Fault<L::Stage>) -> Result<usize> {
        let (place, proxy) = (&self.place, self.place.proxy());
        let over = CancellationToken::new();
        let acted = AtomicBool::new(false);
        let act = async {
            let Fault::Strike(_, blow) = fault else { return Ok(()) };
            tokio::select! {
                () = over.cancelled() => return Ok(()),
                () = proxy.struck() => {}
            }
            self.follow_up(*blow).await.inspect(|()| acted.store(true, Ordering::Release))
        };
        let stages = async {
            let _over = over.clone().drop_guard();
            let mut earlier = 0;
            for &stage in place.stages() {
                if stage == place.struck_from() {
                    earlier = proxy.writes().len();
                }
                let result = self.end(stage, fault, &acted).await;
                if result.is_err() {
                    println!("{stage:?} ends with:\n{}", place.statuses().await?);
                }
                result.with_context(|| format!("{stage:?}"))?;
            }
            Ok(earlier)
        };
        let (acted, earlier) = tokio::join!(act, stages);
        acted.context("while striking")?;
        earlier
    }

    /// What follows a blow.
    async fn follow_up(&self, blow: Blow) -> Result<()> {
        let proxy = self.place.proxy();
        match blow {
            Blow::Before | Blow::After => restart(self.place.program(), proxy).await?,
            Blow::Stale => {
                proxy.quiet(BLIND, DEADLINE).await?;
                proxy.release();
            }
            Blow::Unobserved => {
                proxy.quiet(BLIND, DEADLINE).await?;
                proxy.expire();
            }
        }
        Ok(())
    }

    /// Asks for a stage, and waits for the state in which the undisturbed life ended it.
    pub(crate) async fn end(
        &self,
        stage: L::Stage,
        fault: &Fault<L::Stage>,
        acted: &AtomicBool,
    ) -> Result<()> {
        let (place, proxy) = (&self.place, self.place.proxy());
        let from = proxy.writes().len();
        place.ask(stage).await?;
        self.disturb(stage, fault).await?;
        let longest = if matches!(fault, Fault::ApiServer { .. }) { RECOVERED } else { Duration::ZERO };
        wait::until("the stage's end", place.deadline(stage).max(longest), async || {
            ensure!(!proxy.was_struck() || acted.load(Ordering::Acquire), "the blow is not over");
            place.is_over(stage).await
        })
        .await?;
        let known = self.ends.borrow().get(&stage).cloned();
        if let Some(wanted) = known {
            wait::until("the undisturbed state", place.rest_deadline(stage).max(longest), async || {
                let mut lines = difference(&wanted, &place.state().await?);
                lines.retain(|line| place.counts(stage, fault, line));
                wait::check(lines.is_empty(), || lines.join("\n"))
            })
            .await?;
            proxy.quiet(STILL, DEADLINE).await?;
        } else {
            let collected = "what belonged to earlier stages to be collected";
            wait::until(collected, COLLECTED, || place.is_collected(stage)).await?;
            let rest = settled(proxy, async || place.state().await).await?;
            self.ends.borrow_mut().insert(stage, rest);
        }
        place.check(stage).await?;
        let count = proxy.writes().len() - from;
        let objects = self.ends.borrow().values().map(BTreeMap::len).max().unwrap_or_default();
        ensure!(count <= WRITES_PER_OBJECT * objects, "{count} writes for {objects} objects");
        Ok(())
    }

    async fn disturb(&self, stage: L::Stage, fault: &Fault<L::Stage>) -> Result<()> {
        match fault {
            Fault::Kills(moments) => {
                if let Some(moment) = moments.get(&stage) {
                    // Chosen at random: what is going on then is what is tested.
                    tokio::time::sleep(*moment).await;
                    restart(self.place.program(), self.place.proxy()).await?;
                }
            }
            Fault::ApiServer { after, compact } => {
                let cluster = self.place.cluster();
                tokio::time::sleep(*after).await;
                if *compact {
                    cluster.compact().await?;
                }
                cluster.restart_api_server().await?;
                // The collector tries again after minutes what failed meanwhile, and it is not what is tested.
                cluster.show_kinds_to_collector()?;
            }
            Fault::Weather(_) => self.place.proxy().renew_weather(),
            Fault::None | Fault::Strike(..) => {}
        }
        Ok(())
    }
}

/// The state that does not change while the program is still.
pub(crate) async fn settled(proxy: &Proxy, state: impl AsyncFn() -> Result<State>) -> Result<State> {
    let mut before = state().await?;
    wait::until("the state to stay", COLLECTED, async || {
        proxy.quiet(STILL, DEADLINE).await?;
        tokio::time::sleep(STILL).await;
        let now = state().await?;
        let lines = difference(&before, &now);
        before = now;
        wait::check(lines.is_empty(), || lines.join("\n"))?;
        Ok(before.clone())
    })
    .await
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
