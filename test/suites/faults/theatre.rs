//! Where an extension lives through install, upgrade, rollback and delete, or is deleted under a policy that keeps
//! its CRDs and comes back, with or without harm done to it.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, Ordering},
};

use olm_api::names::{DELETION_POLICY_ANNOTATION, PLAN_DIGEST_ANNOTATION, ROLLBACK_TO_ANNOTATION};
use olm_objectset::DeletionPolicy;
use olm_test::{
    prelude::*,
    proxy::{Blow, Weather, WriteName},
};
use tokio_util::sync::CancellationToken;

use crate::{
    belongings::{Belongings, Identity},
    chronicle::Chronicle,
    decoys,
    extension::retains,
    snapshot::{Id, Snapshot, difference},
    world::{COLLECTED, PACKAGE, Sample, everything, restart},
};

/// Without a request for so long the program is done.
pub(crate) const STILL: Duration = Duration::from_millis(300);
/// Longer than every fixed wait of the program after which it looks again by itself.
const IDLE: Duration = Duration::from_secs(65);
/// Longer than those that follow an event.
const IDLE_OF_A_SAMPLE: Duration = Duration::from_secs(16);
/// Without the API server everybody waits twice as long with each attempt, up to a minute, and some wait for others.
const RECOVERED: Duration = Duration::from_mins(4);
/// A program that sees nothing any more does all it can within this time.
const BLIND: Duration = Duration::from_millis(400);
/// Most writes of a stage for each object that is there at its end or was at its beginning. An undisturbed
/// install takes about two.
const WRITES_PER_OBJECT: usize = 6;

/// What is asked for in a life, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Install,
    Upgrade,
    /// Back to the first revision, by annotation.
    Rollback,
    /// The policy that leaves CRDs on deletion, after a user made use of the CRD.
    Retain,
    /// Deleted under that policy.
    Keep,
    /// Created again, without the policy, where the CRD was kept.
    Return,
    Delete,
}

/// What is shown: the stages of a life.
pub(crate) type Play = &'static [Stage];
pub(crate) const WHOLE: Play = &[Stage::Install, Stage::Upgrade, Stage::Rollback, Stage::Delete];
pub(crate) const KEEPING: Play = &[Stage::Install, Stage::Retain, Stage::Keep, Stage::Return, Stage::Delete];

/// What is done to a life.
#[derive(Clone, Debug)]
pub(crate) enum Harm {
    None,
    /// A blow at a write.
    Strike(WriteName, Blow),
    /// Requests that fail, in each stage as many at most.
    Weather(Weather),
    /// The program is killed so long after the beginning of each stage.
    Kills(BTreeMap<Stage, Duration>),
    /// The API server is killed and started again so long after the beginning of each stage; before that, etcd's
    /// history is thrown away if `compact`.
    ApiServer {
        after: Duration,
        compact: bool,
    },
}

impl Harm {
    /// For what should happen by itself.
    fn deadline(&self) -> Duration {
        if matches!(self, Self::ApiServer { .. }) { RECOVERED } else { DEADLINE }
    }
}

/// What a life was like.
pub(crate) struct Life {
    pub(crate) writes: Vec<WriteName>,
    /// Writes by stage.
    pub(crate) counts: BTreeMap<Stage, usize>,
    pub(crate) spent: BTreeMap<Stage, Duration>,
    pub(crate) struck: bool,
    pub(crate) kept_back: u64,
    /// States of extensions and revisions that were looked at.
    pub(crate) states: usize,
    pub(crate) damage: Vec<String>,
}

/// Where lives take place: a cluster with decoys, and the states in which the undisturbed life ended its stages.
pub(crate) struct Theatre<'a> {
    world: &'a World,
    play: Play,
    client: Client,
    extension: Extension,
    belongings: Belongings,
    /// What the user of this life has.
    used: RefCell<Option<Identity>>,
    before: Snapshot,
    ends: RefCell<BTreeMap<Stage, BTreeMap<Id, Value>>>,
    _sample: Sample,
}

impl<'a> Theatre<'a> {
    /// With decoys, a catalog, and one undisturbed life to learn from.
    pub(crate) async fn build(world: &'a World, name: &str, play: Play) -> Result<Self> {
        let client = world.cluster.client().await?;
        let sample = Sample::new(world, name, &["1.0.0", "1.1.0"]).await?;
        decoys::create(&client, name).await?;
        let theatre = Self {
            world,
            play,
            extension: Extension::new(&client, name),
            belongings: Belongings::of(&client, name),
            used: RefCell::default(),
            before: settled(&client).await?,
            ends: RefCell::new(BTreeMap::from([(Stage::Delete, BTreeMap::new())])),
            client,
            _sample: sample,
        };
        theatre.live(Harm::None).await.context("undisturbed")?;
        Ok(theatre)
    }

    /// A life that stops after the installation: nothing is written for longer than timers run, nor by a process that
    /// starts anew.
    pub(crate) async fn idle(&self) -> Result<()> {
        let proxy = self.world.proxy();
        proxy.reset();
        self.stage(Stage::Install, &Harm::None, 0, &AtomicBool::new(false)).await?;
        let before = proxy.writes().len();
        let nothing_since = |what: &str| {
            let since: Vec<_> =
                proxy.writes().iter().skip(before).map(|write| write.name.to_string()).collect();
            wait::check(since.is_empty(), || format!("{what} wrote {since:?}"))
        };
        // That nothing comes can only be waited for.
        tokio::time::sleep(if everything() { IDLE } else { IDLE_OF_A_SAMPLE }).await;
        nothing_since("an installed extension at rest")?;
        let asked_before = proxy.requests().len();
        restart(self.world).await?;
        wait::until("a look at the extension", DEADLINE, async || {
            let requests = proxy.requests();
            let mut since = requests.iter().skip(asked_before);
            let asked = since.any(|asked| asked.contains("serviceaccounts/token"));
            wait::check(asked, || format!("{:?}", requests.last()))
        })
        .await?;
        proxy.quiet(STILL, DEADLINE).await?;
        nothing_since("a start with an installed extension")?;
        self.clear().await
    }

    /// One life, from a fresh start of the program to an empty cluster.
    pub(crate) async fn live(&self, harm: Harm) -> Result<Life> {
        let proxy = self.world.proxy();
        proxy.reset();
        restart(self.world).await?;
        proxy.quiet(STILL, DEADLINE).await.context("after the start")?;
        let idle: Vec<_> = proxy.writes().iter().map(|write| write.name.to_string()).collect();
        ensure!(idle.is_empty(), "a start with nothing to do wrote {idle:?}");
        proxy.reset();
        let chronicle = Chronicle::start(&self.client).await?;
        match &harm {
            Harm::Strike(name, blow) => proxy.strike(name.clone(), *blow),
            Harm::Weather(weather) => proxy.weather(Some(weather.clone())),
            Harm::None | Harm::Kills(_) | Harm::ApiServer { .. } => {}
        }
        let (counts, spent) =
            self.stages(&harm).await.with_context(|| self.world.operator.process().log_tail())?;
        self.world.operator.process().check_running()?;
        // Without the API server nobody could take notes.
        let states = if matches!(harm, Harm::ApiServer { .. }) { 0 } else { chronicle.check().await? };
        Ok(Life {
            writes: proxy.writes().into_iter().map(|write| write.name).collect(),
            counts,
            spent,
            struck: proxy.was_struck(),
            kept_back: proxy.kept_back(),
            states,
            damage: proxy.damage(),
        })
    }

    async fn stages(&self, harm: &Harm) -> Result<(BTreeMap<Stage, usize>, BTreeMap<Stage, Duration>)> {
        let proxy = self.world.proxy();
        let over = CancellationToken::new();
        let acted = AtomicBool::new(false);
        let act = async {
            let Harm::Strike(_, blow) = harm else { return Ok(()) };
            tokio::select! {
                () = over.cancelled() => return Ok(()),
                () = proxy.struck() => {}
            }
            self.follow_up(*blow).await.inspect(|()| acted.store(true, Ordering::Release))
        };
        let stages = async {
            let (mut counts, mut spent) = (BTreeMap::new(), BTreeMap::new());
            for &stage in self.play {
                let (from, started) = (proxy.writes().len(), Instant::now());
                let result = self.stage(stage, harm, from, &acted).await;
                if result.is_err() {
                    over.cancel();
                    println!("{stage:?} ends with:\n{}", Snapshot::take(&self.client).await?.told());
                }
                result.with_context(|| format!("{stage:?}"))?;
                counts.insert(stage, proxy.writes().len() - from);
                spent.insert(stage, started.elapsed());
            }
            over.cancel();
            Ok((counts, spent))
        };
        let (acted, told) = tokio::join!(act, stages);
        acted.context("while striking")?;
        told
    }

    /// What follows a blow.
    async fn follow_up(&self, blow: Blow) -> Result<()> {
        let proxy = self.world.proxy();
        match blow {
            Blow::Before | Blow::After => restart(self.world).await?,
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

    async fn stage(&self, stage: Stage, harm: &Harm, from: usize, acted: &AtomicBool) -> Result<()> {
        let proxy = self.world.proxy();
        self.begin(stage).await?;
        match harm {
            Harm::Kills(moments) => {
                if let Some(moment) = moments.get(&stage) {
                    // Chosen at random: what is going on then is what is tested.
                    tokio::time::sleep(*moment).await;
                    restart(self.world).await?;
                }
            }
            Harm::ApiServer { after, compact } => {
                tokio::time::sleep(*after).await;
                if *compact {
                    self.world.cluster.compact().await?;
                }
                self.world.cluster.restart_api_server().await?;
                // The collector tries again after minutes what failed meanwhile, and it is not what is tested.
                self.world.cluster.show_kinds_to_collector()?;
            }
            Harm::Weather(_) => proxy.renew_weather(),
            Harm::None | Harm::Strike(..) => {}
        }
        wait::until("the stage's end", harm.deadline(), async || {
            ensure!(!proxy.was_struck() || acted.load(Ordering::Acquire), "the blow is not over");
            self.is_over(stage).await
        })
        .await?;
        let found = self.rest(stage, harm).await?;
        proxy.quiet(STILL, DEADLINE).await?;
        found.check_owners()?;
        let used = self.used.borrow().clone();
        if let (Some(used), Stage::Retain | Stage::Keep | Stage::Return) = (used, stage) {
            self.belongings.check(&used).await?;
        }
        let count = proxy.writes().len() - from;
        let objects =
            self.ends.borrow().values().map(BTreeMap::len).max().unwrap_or_default().max(found.len());
        ensure!(count <= WRITES_PER_OBJECT * objects, "{count} writes for {objects} objects");
        self.ends.borrow_mut().entry(stage).or_insert_with(|| found.normal());
        Ok(())
    }

    /// What a person does.
    async fn begin(&self, stage: Stage) -> Result<()> {
        let extension = &self.extension;
        let annotate = async |annotation: &str, value: &str| {
            extension.patch(&json!({"metadata": {"annotations": {annotation: value}}})).await
        };
        match stage {
            Stage::Install | Stage::Return => {
                extension.create(extension.object(PACKAGE, &json!({"version": "1.0.0"}))).await
            }
            Stage::Upgrade => extension.set_version("1.1.0").await,
            Stage::Rollback => annotate(ROLLBACK_TO_ANNOTATION, "1").await,
            Stage::Retain => {
                let used = self.belongings.create().await?;
                self.used.replace(Some(used));
                annotate(DELETION_POLICY_ANNOTATION, DeletionPolicy::RetainCrds.as_str()).await
            }
            Stage::Keep | Stage::Delete => extension.delete().await,
        }
    }

    /// One look whether the extension says what the stage is about.
    async fn is_over(&self, stage: Stage) -> Result<()> {
        let extension = &self.extension;
        match stage {
            Stage::Install | Stage::Rollback | Stage::Return => extension.is_installed("1.0.0").await,
            Stage::Upgrade => extension.is_installed("1.1.0").await,
            Stage::Retain => retains(extension, DeletionPolicy::RetainCrds.as_str()).await,
            Stage::Keep | Stage::Delete => extension.is_gone().await,
        }
    }

    /// The state in which nothing happens any more: that in which the undisturbed life ended the stage.
    async fn rest(&self, stage: Stage, harm: &Harm) -> Result<Snapshot> {
        let wanted = self.ends.borrow().get(&stage).cloned();
        let Some(wanted) = wanted else {
            self.world.proxy().quiet(STILL, DEADLINE).await?;
            return settled(&self.client).await?.since(&self.before);
        };
        let deadline = if matches!(stage, Stage::Keep | Stage::Delete) { COLLECTED } else { harm.deadline() };
        wait::until("the undisturbed state", deadline, async || {
            let found = Snapshot::take(&self.client).await?.since(&self.before)?;
            let mut lines = difference(&wanted, &found.normal());
            // A plan says of what it could not read or try that it could not, and its digest covers that.
            if matches!(harm, Harm::Weather(_) | Harm::ApiServer { .. }) {
                lines.retain(|line| !line.contains(PLAN_DIGEST_ANNOTATION));
            }
            // Other controllers do not know whether a request arrived whose answer was lost: the one of Deployments then
            // takes its own ReplicaSet for somebody else's and counts that.
            if matches!(harm, Harm::ApiServer { .. }) {
                lines.retain(|line| !of_lost_replica_set(line));
            }
            ensure!(lines.is_empty(), "{}", lines.join("\n"));
            Ok(found)
        })
        .await
    }

    /// Removes what a failed life left, as an administrator would.
    pub(crate) async fn clear(&self) -> Result<()> {
        self.world.proxy().reset();
        restart(self.world).await?;
        // It may be gone already.
        let _ = self.extension.api.delete(&self.extension.name, &DeleteParams::default()).await;
        wait::until("the extension's end", DEADLINE, async || self.extension.is_gone().await).await?;
        self.belongings.clear().await?;
        wait::until("an empty cluster", COLLECTED, async || {
            let left = Snapshot::take(&self.client).await?.since(&self.before)?;
            ensure!(left.len() == 0, "left: {:?}", left.objects().map(|(id, _)| id).collect::<Vec<_>>());
            Ok(())
        })
        .await
    }
}

fn of_lost_replica_set(line: &str) -> bool {
    let told = line.split(": wanted ").next().unwrap_or_default();
    let is_counted = told.ends_with("ollisionCount") || told.ends_with(".deployment.kubernetes.io/revision");
    let is_named = told.contains(".status.conditions[") && told.ends_with("].message");
    line.starts_with("Deployment ") && (is_counted || is_named && line.contains("ReplicaSet"))
}

/// The state that does not change for a while.
pub(crate) async fn settled(client: &Client) -> Result<Snapshot> {
    let mut last = Snapshot::take(client).await?;
    let mut since = Instant::now();
    wait::until("a cluster in which nothing happens", DEADLINE, async || {
        let now = Snapshot::take(client).await?;
        let lines = difference(&last.normal(), &now.normal());
        if !lines.is_empty() {
            (last, since) = (now, Instant::now());
        }
        ensure!(lines.is_empty() && since.elapsed() >= STILL, "{}", lines.join("\n"));
        Ok(last.clone())
    })
    .await
}
