//! One life of an extension, with or without a blow.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use kube::{Client, api::DeleteParams};
use olm_test::{
    proxy::{Blow, WriteName},
    wait,
};
use serde_json::{Value, json};

use super::{WRITES_PER_OBJECT, decoys};
use crate::{
    chronicle::Chronicle,
    extension::Extension,
    snapshot::{Id, Snapshot, difference},
    world::{DEADLINE, Sample, World},
};

/// Without a request for so long the program is done.
const STILL: Duration = Duration::from_millis(300);
/// A program that sees nothing any more does all it can within this time.
const BLIND: Duration = Duration::from_millis(400);

/// What is asked for in a life, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Install,
    Upgrade,
    Delete,
}

const STAGES: [Stage; 3] = [Stage::Install, Stage::Upgrade, Stage::Delete];

/// What a life was like.
pub(crate) struct Life {
    pub(crate) writes: Vec<WriteName>,
    /// Writes by stage.
    pub(crate) counts: BTreeMap<Stage, usize>,
    pub(crate) struck: bool,
    pub(crate) kept_back: u64,
    pub(crate) states: usize,
    pub(crate) seconds: BTreeMap<Stage, f32>,
}

/// Where lives take place: a cluster with decoys, and the states in which the undisturbed life ended its stages.
pub(crate) struct Theatre<'a> {
    world: &'a World,
    client: Client,
    extension: Extension,
    before: Snapshot,
    ends: RefCell<BTreeMap<Stage, BTreeMap<Id, Value>>>,
    _sample: Sample,
    seconds: RefCell<BTreeMap<Stage, f32>>,
}

impl<'a> Theatre<'a> {
    pub(crate) async fn build(world: &'a World) -> Result<Self> {
        let name = "perturbed";
        let client = world.cluster.client().await?;
        let sample = Sample::new(world, name, &["1.0.0", "1.1.0"]).await?;
        decoys::create(&client, name, "decoys.example.com").await?;
        let extension = Extension::new(&client, name);
        let before = settled(&client).await?;
        let ends = RefCell::new(BTreeMap::from([(Stage::Delete, BTreeMap::new())]));
        Ok(Self { world, client, extension, before, ends, _sample: sample, seconds: RefCell::default() })
    }

    /// One life, from a fresh start of the program to an empty cluster.
    pub(crate) async fn live(&self, blow: Option<(WriteName, Blow)>) -> Result<Life> {
        let proxy = &self.world.proxy;
        proxy.reset();
        self.world.restart().await?;
        proxy.quiet(STILL, DEADLINE).await.context("after the start")?;
        let idle: Vec<_> = proxy.writes().iter().map(|write| write.name.to_string()).collect();
        ensure!(idle.is_empty(), "a start with nothing to do wrote {idle:?}");
        proxy.reset();
        let chronicle = Chronicle::start(&self.client);
        let kind = blow.as_ref().map(|(_, kind)| *kind);
        if let Some((name, kind)) = blow {
            proxy.strike(name, kind);
        }
        let over = tokio_util::sync::CancellationToken::new();
        let acted = AtomicBool::new(false);
        let act = async {
            tokio::select! {
                () = over.cancelled() => return Ok(()),
                () = proxy.struck() => {}
            }
            self.act(kind).await.inspect(|()| acted.store(true, Ordering::Release))
        };
        let stages = async {
            let mut counts = BTreeMap::new();
            let mut result = Ok(());
            for stage in STAGES {
                let from = proxy.writes().len();
                let started = Instant::now();
                result = self.stage(stage, from, &acted).await.with_context(|| format!("{stage:?}"));
                counts.insert(stage, proxy.writes().len() - from);
                self.seconds.borrow_mut().insert(stage, started.elapsed().as_secs_f32());
                if result.is_err() {
                    break;
                }
            }
            over.cancel();
            result.map(|()| counts)
        };
        let (acted, counts) = tokio::join!(act, stages);
        acted.context("while striking")?;
        let life = Life {
            writes: proxy.writes().into_iter().map(|write| write.name).collect(),
            counts: counts.with_context(|| self.world.operator.process().log_tail())?,
            struck: proxy.was_struck(),
            kept_back: proxy.kept_back(),
            states: chronicle.check()?,
            seconds: self.seconds.take(),
        };
        self.world.operator.process().check_running()?;
        Ok(life)
    }

    /// What follows a blow.
    async fn act(&self, kind: Option<Blow>) -> Result<()> {
        let proxy = &self.world.proxy;
        match kind {
            None => Ok(()),
            Some(Blow::Before | Blow::After) => self.world.restart().await,
            Some(Blow::Stale) => {
                proxy.quiet(BLIND, DEADLINE).await?;
                proxy.release();
                Ok(())
            }
            Some(Blow::Unobserved) => {
                proxy.quiet(BLIND, DEADLINE).await?;
                proxy.expire();
                Ok(())
            }
        }
    }

    async fn stage(&self, stage: Stage, from: usize, acted: &AtomicBool) -> Result<()> {
        let (extension, proxy) = (&self.extension, &self.world.proxy);
        match stage {
            Stage::Install => extension.create(&extension.spec(&json!({"version": "1.0.0"}))).await?,
            Stage::Upgrade => extension.set_version("1.1.0").await?,
            Stage::Delete => extension.delete().await?,
        }
        wait::until("the stage's end", DEADLINE, async || {
            ensure!(!proxy.was_struck() || acted.load(Ordering::Acquire), "the blow is not over");
            match stage {
                Stage::Install => extension.is_installed("1.0.0").await,
                Stage::Upgrade => extension.is_installed("1.1.0").await,
                Stage::Delete => extension.is_gone().await,
            }
        })
        .await?;
        let wanted = self.ends.borrow().get(&stage).cloned();
        let found = match wanted {
            None => self.rest(proxy).await?,
            Some(wanted) => {
                wait::until("the undisturbed state", DEADLINE, async || {
                    let found = Snapshot::take(&self.client).await?.since(&self.before)?;
                    let lines = difference(&wanted, &found.normal());
                    ensure!(lines.is_empty(), "{}", lines.join("\n"));
                    Ok(found)
                })
                .await?
            }
        };
        proxy.quiet(STILL, DEADLINE).await?;
        found.check_owners()?;
        let count = proxy.writes().len();
        let objects =
            found.len().max(self.ends.borrow().values().map(BTreeMap::len).max().unwrap_or_default());
        ensure!(count - from <= WRITES_PER_OBJECT * objects, "{} writes for {objects} objects", count - from);
        if stage == Stage::Delete {
            ensure!(found.len() == 0, "left: {:?}", found.objects().map(|(id, _)| id).collect::<Vec<_>>());
        }
        self.ends.borrow_mut().entry(stage).or_insert_with(|| found.normal());
        Ok(())
    }

    /// The state in which nothing happens any more.
    async fn rest(&self, proxy: &olm_test::proxy::Proxy) -> Result<Snapshot> {
        proxy.quiet(STILL, DEADLINE).await?;
        settled(&self.client).await?.since(&self.before)
    }

    /// Removes what a failed life left, as an administrator would.
    pub(crate) async fn clear(&self) -> Result<()> {
        self.world.proxy.reset();
        self.world.restart().await?;
        // It may be gone already.
        let _ = self.extension.api.delete(&self.extension.name, &DeleteParams::default()).await;
        wait::until("an empty cluster", DEADLINE, async || {
            let left = Snapshot::take(&self.client).await?.since(&self.before)?;
            ensure!(left.len() == 0, "left: {:?}", left.objects().map(|(id, _)| id).collect::<Vec<_>>());
            Ok(())
        })
        .await
    }
}

/// The state that does not change for a while.
async fn settled(client: &Client) -> Result<Snapshot> {
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
