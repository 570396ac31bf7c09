//! Where an extension runs through install, upgrade, rollback and delete, or is deleted under a policy that keeps
//! its CRDs and comes back, with or without fault done to it.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, Ordering},
};

use olm_api::{
    names::{DELETION_POLICY_ANNOTATION, PLAN_DIGEST_ANNOTATION, ROLLBACK_TO_ANNOTATION},
    v1alpha1::UpdatePolicy,
};
use olm_objectset::DeletionPolicy;
use olm_test::{
    prelude::*,
    proxy::{Blow, Weather, WriteName},
};
use tokio_util::sync::CancellationToken;

use crate::{
    bystanders,
    extension::retains,
    history::History,
    snapshot::{Id, Snapshot, difference},
    user_objects::{Identity, UserObjects},
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
/// Most writes of a step for each object that is there at its end or was at its beginning. An undisturbed
/// install takes about two.
const WRITES_PER_OBJECT: usize = 6;

/// What is asked for in a run, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Install,
    Upgrade,
    /// An upgrade that misses its deadline at once: the first revision takes its place, as an update policy says.
    Fail,
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

/// What is shown: the steps of a run.
pub(crate) type Steps = &'static [Step];
pub(crate) const WHOLE: Steps = &[Step::Install, Step::Upgrade, Step::Rollback, Step::Delete];
pub(crate) const FAILING: Steps = &[Step::Install, Step::Fail, Step::Delete];
pub(crate) const KEEPING: Steps = &[Step::Install, Step::Retain, Step::Keep, Step::Return, Step::Delete];

/// What is done to a run.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    None,
    /// A blow at a write.
    Strike(WriteName, Blow),
    /// Requests that fail, in each step as many at most.
    Weather(Weather),
    /// The program is killed so long after the beginning of each step.
    Kills(BTreeMap<Step, Duration>),
    /// The API server is killed and started again so long after the beginning of each step; before that, etcd's
    /// history is thrown away if `compact`.
    ApiServer {
        after: Duration,
        compact: bool,
    },
}

impl Fault {
    /// For what should happen by itself.
    fn deadline(&self) -> Duration {
        if matches!(self, Self::ApiServer { .. }) { RECOVERED } else { DEADLINE }
    }
}

/// What a run was like.
pub(crate) struct Run {
    pub(crate) writes: Vec<WriteName>,
    /// Writes by step.
    pub(crate) counts: BTreeMap<Step, usize>,
    pub(crate) spent: BTreeMap<Step, Duration>,
    pub(crate) struck: bool,
    pub(crate) kept_back: u64,
    /// States of extensions and revisions that were looked at.
    pub(crate) states: usize,
    pub(crate) damage: Vec<String>,
}

/// A policy under which what fails is replaced, and deadlines as short as no cluster has them.
async fn replace_what_fails(client: &Client, name: &str) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for plural in ["clusterextensions", "clusterobjectsets"] {
        let crd_name = format!("{plural}.olm.operatorframework.io");
        let mut crd = serde_json::to_value(crds.get(&crd_name).await?)?;
        let minimum = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/progressDeadlineMinutes/minimum";
        *crd.pointer_mut(minimum).context("the deadline has no minimum")? = json!(0);
        crds.merge(&crd_name, &json!({"spec": {"versions": crd["spec"]["versions"]}})).await?;
    }
    let policy = json!({
        "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"fails": name}}, "onFailure": "Return"},
    });
    Api::<UpdatePolicy>::all(client.clone()).make(policy).await?;
    let extension = Extension::new(client, name);
    let mut short = extension.object(PACKAGE, &json!({}));
    short["spec"]["progressDeadlineMinutes"] = 0.into();
    let short: ClusterExtension = serde_json::from_value(short)?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("the short deadline to be accepted", DEADLINE, async || {
        extension.api.create(&dry_run, &short).await.map(drop).map_err(Into::into)
    })
    .await
}

/// Where runs take place: a cluster with bystanders, and the states in which the undisturbed run ended its steps.
pub(crate) struct Runner<'a> {
    world: &'a World,
    steps: Steps,
    client: Client,
    extension: Extension,
    user_objects: UserObjects,
    /// What the user of this run has.
    used: RefCell<Option<Identity>>,
    before: Snapshot,
    ends: RefCell<BTreeMap<Step, BTreeMap<Id, Value>>>,
    _sample: Sample,
}

impl<'a> Runner<'a> {
    /// With bystanders, a catalog, and one undisturbed run to learn from.
    pub(crate) async fn build(world: &'a World, name: &str, steps: Steps) -> Result<Self> {
        let client = world.cluster.client().await?;
        let fails = steps.contains(&Step::Fail);
        let broken = fails.then_some("1.1.0");
        let sample = Sample::with_broken(world, name, &["1.0.0", "1.1.0"], broken).await?;
        if fails {
            replace_what_fails(&client, name).await?;
        }
        bystanders::create(&client, name).await?;
        let runner = Self {
            world,
            steps,
            extension: Extension::new(&client, name),
            user_objects: UserObjects::of(&client, name),
            used: RefCell::default(),
            before: settled(&client).await?,
            ends: RefCell::new(BTreeMap::from([(Step::Delete, BTreeMap::new())])),
            client,
            _sample: sample,
        };
        runner.run(Fault::None).await.context("undisturbed")?;
        Ok(runner)
    }

    /// A run that stops after the installation: nothing is written for longer than timers run, nor by a process that
    /// starts anew.
    pub(crate) async fn idle(&self) -> Result<()> {
        let proxy = self.world.proxy();
        proxy.reset();
        self.step(Step::Install, &Fault::None, 0, &AtomicBool::new(false)).await?;
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

    /// One run, from a fresh start of the program to an empty cluster.
    pub(crate) async fn run(&self, fault: Fault) -> Result<Run> {
        // How many extensions a policy selects is reported within seconds, longer than the program is still.
        let policies = Api::<UpdatePolicy>::all(self.client.clone());
        wait::until("update policies to select nothing", DEADLINE, async || {
            let all = policies.all().await?;
            let selected: i32 = all
                .iter()
                .filter_map(|policy| policy.status.as_ref().and_then(|status| status.selected))
                .sum();
            wait::check(selected == 0, || format!("{selected} extensions"))
        })
        .await?;
        let proxy = self.world.proxy();
        proxy.reset();
        restart(self.world).await?;
        proxy.quiet(STILL, DEADLINE).await.context("after the start")?;
        let idle: Vec<_> = proxy.writes().iter().map(|write| write.name.to_string()).collect();
        ensure!(idle.is_empty(), "a start with nothing to do wrote {idle:?}");
        proxy.reset();
        let history = History::start(&self.client).await?;
        match &fault {
            Fault::Strike(name, blow) => proxy.strike(name.clone(), *blow),
            Fault::Weather(weather) => proxy.weather(Some(weather.clone())),
            Fault::None | Fault::Kills(_) | Fault::ApiServer { .. } => {}
        }
        let (counts, spent) =
            self.steps(&fault).await.with_context(|| self.world.operator.process().log_tail())?;
        self.world.operator.process().check_running()?;
        // Without the API server nobody could take notes.
        let states = if matches!(fault, Fault::ApiServer { .. }) { 0 } else { history.check().await? };
        Ok(Run {
            writes: proxy.writes().into_iter().map(|write| write.name).collect(),
            counts,
            spent,
            struck: proxy.was_struck(),
            kept_back: proxy.kept_back(),
            states,
            damage: proxy.damage(),
        })
    }

    async fn steps(&self, fault: &Fault) -> Result<(BTreeMap<Step, usize>, BTreeMap<Step, Duration>)> {
        let proxy = self.world.proxy();
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
        let steps = async {
            let (mut counts, mut spent) = (BTreeMap::new(), BTreeMap::new());
            for &step in self.steps {
                let (from, started) = (proxy.writes().len(), Instant::now());
                let result = self.step(step, fault, from, &acted).await;
                if result.is_err() {
                    over.cancel();
                    println!("{step:?} ends with:\n{}", Snapshot::take(&self.client).await?.told());
                }
                result.with_context(|| format!("{step:?}"))?;
                counts.insert(step, proxy.writes().len() - from);
                spent.insert(step, started.elapsed());
            }
            over.cancel();
            Ok((counts, spent))
        };
        let (acted, told) = tokio::join!(act, steps);
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

    async fn step(&self, step: Step, fault: &Fault, from: usize, acted: &AtomicBool) -> Result<()> {
        let proxy = self.world.proxy();
        self.begin(step).await?;
        match fault {
            Fault::Kills(moments) => {
                if let Some(moment) = moments.get(&step) {
                    // Chosen at random: what is going on then is what is tested.
                    tokio::time::sleep(*moment).await;
                    restart(self.world).await?;
                }
            }
            Fault::ApiServer { after, compact } => {
                tokio::time::sleep(*after).await;
                if *compact {
                    self.world.cluster.compact().await?;
                }
                self.world.cluster.restart_api_server().await?;
                // The collector tries again after minutes what failed meanwhile, and it is not what is tested.
                self.world.cluster.show_kinds_to_collector()?;
            }
            Fault::Weather(_) => proxy.renew_weather(),
            Fault::None | Fault::Strike(..) => {}
        }
        wait::until("the step's end", fault.deadline(), async || {
            ensure!(!proxy.was_struck() || acted.load(Ordering::Acquire), "the blow is not over");
            self.is_over(step).await
        })
        .await?;
        let found = self.rest(step, fault).await?;
        proxy.quiet(STILL, DEADLINE).await?;
        found.check_owners()?;
        let used = self.used.borrow().clone();
        if let (Some(used), Step::Retain | Step::Keep | Step::Return) = (used, step) {
            self.user_objects.check(&used).await?;
        }
        let count = proxy.writes().len() - from;
        let objects =
            self.ends.borrow().values().map(BTreeMap::len).max().unwrap_or_default().max(found.len());
        ensure!(count <= WRITES_PER_OBJECT * objects, "{count} writes for {objects} objects");
        self.ends.borrow_mut().entry(step).or_insert_with(|| found.normal());
        Ok(())
    }

    /// What a person does.
    async fn begin(&self, step: Step) -> Result<()> {
        let extension = &self.extension;
        let annotate = async |annotation: &str, value: &str| {
            extension.patch(&json!({"metadata": {"annotations": {annotation: value}}})).await
        };
        match step {
            Step::Install | Step::Return => {
                let mut object = extension.object(PACKAGE, &json!({"version": "1.0.0"}));
                if self.steps.contains(&Step::Fail) {
                    object["metadata"]["labels"] = json!({"fails": extension.name});
                    object["spec"]["progressDeadlineMinutes"] = 0.into();
                }
                extension.create(object).await
            }
            Step::Upgrade | Step::Fail => extension.set_version("1.1.0").await,
            Step::Rollback => annotate(ROLLBACK_TO_ANNOTATION, "1").await,
            Step::Retain => {
                let used = self.user_objects.create().await?;
                self.used.replace(Some(used));
                annotate(DELETION_POLICY_ANNOTATION, DeletionPolicy::RetainCrds.as_str()).await
            }
            Step::Keep | Step::Delete => extension.delete().await,
        }
    }

    /// One look whether the extension says what the step is about.
    async fn is_over(&self, step: Step) -> Result<()> {
        let extension = &self.extension;
        match step {
            Step::Install | Step::Rollback | Step::Return => extension.is_installed("1.0.0").await,
            Step::Upgrade => extension.is_installed("1.1.0").await,
            Step::Fail => {
                extension.shows(ConditionType::Ready, "True/Succeeded/1.1.0 missed its deadline").await?;
                extension.is_installed("1.0.0").await?;
                // What never became available has not succeeded, whoever has its objects now.
                let sets: Api<ClusterObjectSet> = Api::all(self.client.clone());
                let failed = sets.get(&format!("{}-2", extension.name)).await?;
                let conditions = failed.status.unwrap_or_default().conditions;
                ensure!(!conditions.is_true(ConditionType::Succeeded), "{conditions:?}");
                Ok(())
            }
            Step::Retain => retains(extension, DeletionPolicy::RetainCrds.as_str()).await,
            Step::Keep | Step::Delete => extension.is_gone().await,
        }
    }

    /// The state in which nothing happens any more: that in which the undisturbed run ended the step.
    async fn rest(&self, step: Step, fault: &Fault) -> Result<Snapshot> {
        let wanted = self.ends.borrow().get(&step).cloned();
        let Some(wanted) = wanted else {
            self.world.proxy().quiet(STILL, DEADLINE).await?;
            return settled(&self.client).await?.since(&self.before);
        };
        let deadline = if matches!(step, Step::Keep | Step::Delete) { COLLECTED } else { fault.deadline() };
        wait::until("the undisturbed state", deadline, async || {
            let found = Snapshot::take(&self.client).await?.since(&self.before)?;
            let mut lines = difference(&wanted, &found.normal());
            // A plan says of what it could not read or try that it could not, and its digest covers that.
            if matches!(fault, Fault::Weather(_) | Fault::ApiServer { .. }) {
                lines.retain(|line| !line.contains(PLAN_DIGEST_ANNOTATION));
            }
            // Other controllers do not know whether a request arrived whose answer was lost: the one of Deployments then
            // takes its own ReplicaSet for somebody else's and counts that.
            if matches!(fault, Fault::ApiServer { .. }) {
                lines.retain(|line| !of_lost_replica_set(line));
            }
            // Whether the controller of Deployments saw what failed before it was replaced.
            if step == Step::Fail {
                lines.retain(|line| !line.contains("deployment.kubernetes.io/revision"));
            }
            ensure!(lines.is_empty(), "{}", lines.join("\n"));
            Ok(found)
        })
        .await
    }

    /// Removes what a failed run left, as an administrator would.
    pub(crate) async fn clear(&self) -> Result<()> {
        self.world.proxy().reset();
        restart(self.world).await?;
        // It may be gone already.
        let _ = self.extension.api.delete(&self.extension.name, &DeleteParams::default()).await;
        wait::until("the extension's end", DEADLINE, async || self.extension.is_gone().await).await?;
        self.user_objects.clear().await?;
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
