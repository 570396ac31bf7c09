//! Whole lives of an extension under faults, each made of a seed: install, upgrade, edits, rollback, pause, deletion,
//! permissions that come and go, while requests fail, events are lost or late, processes crash and two of them work at
//! once. Each ends in the state that the last spec asks for, as one without faults does.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use olm_api::names::{DELETION_POLICY_ANNOTATION, PAUSED_ANNOTATION};
use tokio::{task::JoinHandle, time::sleep};

use super::{
    Arc, CATALOG, CancellationToken, CatalogChanged, Content, Duration, Instant, Mutex, PoisonError,
    ROLLBACK_TO_ANNOTATION, Value, broadcast, catalog, extension, json, keep_bundles, of_kind,
};
use crate::{
    content,
    simulation::{ApiServer, FOREIGN_LABEL, Process, Rates, Since, condition, loops, runtime},
};

/// Runs in `make test`, and those that one asks for with `OLM_TEST_RUNS`.
const RUNS: u64 = 2000;
/// The first seed, unless `OLM_TEST_SEED` names another.
const SEED: u64 = 1;
/// Changes that a user, an administrator or a catalog makes in a run.
const CHANGES: std::ops::RangeInclusive<usize> = 3..=8;
/// Writes of a run for each of its changes, crashes and faults, at most.
const WRITES_OF_ONE: u64 = 60;
/// How long everything may take to settle once nothing fails any more: the longest backoff and the longest interval at
/// which something is observed lie below.
const SETTLES: Duration = Duration::from_hours(1);
/// How long requests may still fail after the last change.
const LAST_FAULTS_MILLISECONDS_MAX: u64 = 60_000;
/// How long nothing may be written then.
const QUIET: Duration = Duration::from_mins(40);

/// How long a process that does not lead any more may still write, at most: it was stopped, and has not noticed.
const OVERLAP_MILLISECONDS_MAX: u64 = 30_000;

/// Something that changes in a run.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// The catalog has so many of the versions.
    Publish(usize),
    Pin(Option<&'static str>),
    RollBack(bool),
    Pause(bool),
    Retain(Option<&'static str>),
    Grant(bool),
    /// An object of the revision is deleted or edited.
    Damage,
    /// An object that is not the program's has the name of one of the bundle's.
    Occupy(bool),
    Delete,
    Create,
    /// The process ends at one of its next requests, and another begins later.
    Crash,
    /// Another process begins while the first has not noticed that it does not lead any more.
    SecondLeader,
}

impl Change {
    fn any(random: &mut fastrand::Rng) -> Self {
        match random.u8(..15) {
            0 | 1 => Self::Publish(random.usize(1..=2)),
            2 => Self::Pin(random.bool().then_some("1.0.0")),
            3 => Self::RollBack(random.bool()),
            4 => Self::Pause(random.bool()),
            5 => Self::Retain(*random.choice(&[None, Some("RetainCRDs"), Some("Orphan")]).unwrap_or(&None)),
            6 => Self::Grant(random.bool()),
            7 | 8 => Self::Damage,
            9 => Self::Occupy(random.bool()),
            10 => Self::Delete,
            11 | 12 => Self::Create,
            13 => Self::Crash,
            _ => Self::SecondLeader,
        }
    }
}

/// One run: the cluster, the processes, and what is to be seen of them.
struct Run {
    server: ApiServer,
    content: Arc<Content>,
    changes: broadcast::Sender<CatalogChanged>,
    folder: std::path::PathBuf,
    random: fastrand::Rng,
    processes: Vec<(Process, JoinHandle<()>)>,
    started: u64,
    history: Vec<String>,
    /// An extension was deleted while the policy that retains its CRD was in force.
    is_retained: bool,
    /// That CRD was gone before the extension was made anew.
    is_lost: bool,
    began: Instant,
}

impl Run {
    fn new(seed: u64, rates: Rates, folder: &Path) -> Self {
        let server = ApiServer::with_faults(seed, rates);
        server.slow_cluster();
        Self {
            server,
            content: Arc::new(Content(Mutex::new(1))),
            changes: broadcast::channel(64).0,
            folder: folder.to_owned(),
            random: fastrand::Rng::with_seed(seed),
            processes: Vec::new(),
            started: 0,
            history: Vec::new(),
            is_retained: false,
            is_lost: false,
            began: Instant::now(),
        }
    }

    /// Begins a process, which crashes at its n-th request when `crash_at` is not 0.
    fn start(&mut self, crash_at: u64) {
        self.started += 1;
        let process = Process::crashing_at(crash_at);
        let client = self.server.client_of(process.clone());
        let run = (self.random.u64(..), self.random.u16(1..=3));
        let content = content::Content::Given(self.content.clone(), self.changes.clone());
        let clock = Arc::new(Since(self.began));
        let work = loops(client, run, clock, (content, self.folder.clone())).run(CancellationToken::new());
        self.processes.push((process, tokio::spawn(work)));
    }

    fn exists(&self) -> bool {
        let extension = self.server.get("clusterextensions", "", "ext");
        extension.is_some_and(|extension| extension["metadata"]["deletionTimestamp"].is_null())
    }

    fn edit(&self, patch: &Value) {
        if self.exists() {
            self.server.edit("clusterextensions", "", "ext", patch);
        }
    }

    fn annotate(&self, name: &str, value: Option<&str>) {
        self.edit(&json!({"metadata": {"annotations": {name: value}}}));
    }

    fn publish(&self, versions: usize) {
        *self.content.0.lock().unwrap_or_else(PoisonError::into_inner) = versions;
        // Without a process nobody listens.
        let _ = self.changes.send(CatalogChanged { catalog: CATALOG.to_owned(), reference: None });
    }

    fn apply(&mut self, change: Change) {
        self.history.push(format!("{:.3} s: {change:?}", self.began.elapsed().as_secs_f64()));
        self.is_lost |= self.is_retained && !self.has_crd();
        match change {
            Change::Publish(versions) => self.publish(versions),
            Change::Pin(version) => {
                self.edit(&json!({"spec": {"source": {"catalog": {"version": version}}}}));
            }
            Change::RollBack(back) => self.annotate(ROLLBACK_TO_ANNOTATION, back.then_some("1")),
            Change::Pause(pause) => self.annotate(PAUSED_ANNOTATION, pause.then_some("true")),
            Change::Retain(policy) => self.annotate(DELETION_POLICY_ANNOTATION, policy),
            Change::Grant(granted) => self.server.grant(granted),
            Change::Damage => self.damage(),
            Change::Occupy(occupy) => self.occupy(occupy),
            Change::Delete => self.delete(),
            Change::Create if self.server.get("clusterextensions", "", "ext").is_none() => {
                self.server.create(self_certified());
            }
            Change::Create => {}
            Change::Crash => {
                self.stop(0);
                let crash_at = self.random.u64(1..80);
                self.start(crash_at);
            }
            Change::SecondLeader => {
                let overlap = Duration::from_millis(self.random.u64(1..OVERLAP_MILLISECONDS_MAX));
                for (_, work) in self.processes.drain(..) {
                    tokio::spawn(async move {
                        sleep(overlap).await;
                        work.abort();
                    });
                }
                self.start(0);
            }
        }
    }

    fn damage(&mut self) {
        let controlled = self.server.controlled();
        let Some((resource, namespace, name)) = self.random.choice(&controlled) else { return };
        // The CRD's deletion would take the users' objects along, and is another story.
        if self.random.bool() && resource != "customresourcedefinitions" {
            self.server.remove(resource, namespace, name);
        } else {
            let edit = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "nobody"}}});
            self.server.edit(resource, namespace, name, &edit);
        }
    }

    /// Only where nothing has the name: somebody else's object is never made of one of the program's.
    fn occupy(&self, occupy: bool) {
        let name = "lighthouse-operator-settings";
        let found = self.server.get("configmaps", "n", name);
        let is_foreign = |object: &Value| !object["metadata"]["labels"][FOREIGN_LABEL].is_null();
        if occupy && found.is_none() {
            self.server.create(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "n", "labels": {FOREIGN_LABEL: "true"}},
            }));
        } else if !occupy && found.is_some_and(|object| is_foreign(&object)) {
            self.server.remove("configmaps", "n", name);
        }
    }

    /// Admission lets an extension with a policy go only while the policy is reported as in force.
    fn delete(&mut self) {
        let Some(extension) = self.server.get("clusterextensions", "", "ext") else { return };
        let has_policy = !extension["metadata"]["annotations"][DELETION_POLICY_ANNOTATION].is_null();
        let is_in_force = condition(&extension, "DeletionPolicy") == Some("True");
        if self.exists() && (!has_policy || is_in_force) {
            self.is_retained = has_policy && self.has_crd();
            self.server.remove("clusterextensions", "", "ext");
        }
    }

    fn has_crd(&self) -> bool {
        self.server.get("customresourcedefinitions", "", "beacons.lighthouse.example.com").is_some()
    }

    /// Ends all processes but the last `left` of them at once.
    fn stop(&mut self, left: usize) {
        let ended = self.processes.len().saturating_sub(left);
        for (_, work) in self.processes.drain(..ended) {
            work.abort();
        }
    }

    /// Lets time pass; a process that crashes meanwhile is followed by another one some seconds later.
    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let Some((process, _)) = self.processes.last() else { break };
            let process = process.clone();
            tokio::select! {
                () = process.crashed() => {
                    self.stop(0);
                    sleep(Duration::from_millis(self.random.u64(1..30_000))).await;
                    self.start(0);
                }
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    async fn live(&mut self) {
        self.server.create(catalog());
        self.server.create(self_certified());
        self.start(0);
        for _ in 0..self.random.usize(CHANGES) {
            let seconds = *self.random.choice(&[1, 40, 1200]).unwrap_or(&1);
            let time = Duration::from_millis(self.random.u64(1..=1000 * seconds));
            self.pass(time).await;
            let change = Change::any(&mut self.random);
            self.apply(change);
        }
        let time = Duration::from_millis(self.random.u64(1..600_000));
        self.pass(time).await;
    }

    /// The spec asks for the latest version, once what is left of a deletion has ended. Then nothing fails any more, and
    /// nothing else changes: what has failed before has to be tried again by the program itself.
    async fn settle(&mut self) -> Result<Vec<String>, String> {
        self.server.grant(true);
        self.occupy(false);
        self.publish(2);
        self.pass(SETTLES).await;
        for change in [
            Change::Create,
            Change::Pause(false),
            Change::RollBack(false),
            Change::Pin(None),
            Change::Retain(None),
        ] {
            self.apply(change);
        }
        let time = Duration::from_millis(self.random.u64(1..LAST_FAULTS_MILLISECONDS_MAX));
        self.pass(time).await;
        self.server.calm();
        self.stop(1);
        if !self.exists() {
            self.pass(SETTLES).await;
            self.apply(Change::Create);
        }
        self.pass(SETTLES).await;
        let before = self.server.properties().writes;
        self.pass(QUIET).await;
        let after = self.server.properties();
        if after.writes != before {
            let log = self.server.log();
            let last: Vec<String> =
                log.iter().filter(|line| !line.contains(" GET ")).rev().take(6).map(|l| cut(l)).collect();
            return Err(format!("{} writes at rest: {last:#?}", after.writes - before));
        }
        if !after.violations.is_empty() {
            return Err(format!("{:#?}", after.violations));
        }
        if self.is_lost {
            return Err("a CRD that the deletion policy retains was deleted with its extension".to_owned());
        }
        self.at_rest()
    }

    /// What a run without faults ends in, too: all but what counts history.
    fn at_rest(&self) -> Result<Vec<String>, String> {
        let objects: Vec<Value> =
            self.server.objects().iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let sets = of_kind(&objects, "ClusterObjectSet");
        let active: Vec<_> = sets.iter().filter(|set| set["spec"]["lifecycleState"] == "Active").collect();
        if active.len() != 1 {
            return Err(format!("{} active revisions", active.len()));
        }
        let owner = active[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let number = revision_of(active[0]);
        let mut rest: Vec<String> = Vec::new();
        for mut object in objects {
            // Revisions count history, and whose permissions came and went is no matter.
            if ["ClusterObjectSet", "Secret", "ClusterRoleBinding"].iter().any(|kind| object["kind"] == *kind)
                && object["metadata"]["labels"]["olm.operatorframework.io/owner-kind"] != "ClusterExtension"
                || object["kind"] == "ClusterObjectSet"
                || object["kind"] == "Secret"
            {
                continue;
            }
            if object["kind"] == "ClusterExtension" {
                object["status"]["activeRevisions"] = Value::Null;
                object["metadata"]["annotations"] = Value::Null;
                // Those that were reported later come later.
                if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
                    conditions.sort_by_key(|condition| condition["type"].to_string());
                }
            }
            rest.push(object.to_string().replace(&owner, "ext-N").replace(&number, "N"));
        }
        Ok(rest)
    }
}

/// The annotation that tells the number of a revision, as it is written.
fn revision_of(set: &Value) -> String {
    format!("\"olm.operatorframework.io/revision\":\"{}\"", set["spec"]["revision"])
}

fn cut(line: &str) -> String {
    line.chars().take(300).collect()
}

/// An extension that may go to any version.
fn self_certified() -> Value {
    let mut extension = extension();
    extension["spec"]["source"]["catalog"]["upgradeConstraintPolicy"] = "SelfCertified".into();
    extension
}

/// What came of a run.
struct Ended {
    rest: Result<Vec<String>, String>,
    history: Vec<String>,
    time: Duration,
    faults: u64,
    started: u64,
    writes: u64,
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
    let totals = Mutex::new((Duration::ZERO, 0, 0, 0));
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
                    if let Some(text) = wrong {
                        failures.lock().unwrap().insert(seed, text);
                    }
                }
            });
        }
    });
    let (time, faults, processes, writes) = totals.into_inner().unwrap();
    println!(
        "{runs} runs, {:.0} simulated hours, {faults} faults, {processes} processes, {writes} writes, {:.0} ms a run",
        time.as_secs_f64() / 3600.0,
        began.elapsed().as_secs_f64() * 1000.0 / u32::try_from(runs).map_or(f64::MAX, f64::from),
    );
    let failures = failures.into_inner().unwrap();
    for (seed, text) in failures.iter().take(3) {
        println!(
            "seed {seed}: {text}\nrepeat with: OLM_TEST_SEED={seed} cargo test -p operator-controller --lib every_run_ends -- --nocapture"
        );
    }
    assert!(failures.is_empty(), "{} of {runs} runs failed: {:?}", failures.len(), failures.keys());
}
