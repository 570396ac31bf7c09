//! One run: a cluster, an extension that is changed again and again, and the processes that work on it.

use std::path::Path;

use olm_api::names::{
    APPROVED_PLAN_ANNOTATION, DELETION_POLICY_ANNOTATION, PAUSED_ANNOTATION, RETRY_ANNOTATION,
};
use tokio::{task::JoinHandle, time::sleep};

use super::super::{
    Arc, CATALOG, CancellationToken, CatalogChanged, Content, DROPPED_CRD, Duration, Instant, Mutex,
    PoisonError, ROLLBACK_TO_ANNOTATION, VERSIONS, Value, broadcast, catalog, extension, json, of_kind,
};
use crate::{
    content,
    simulation::{ApiServer, FOREIGN_LABEL, Process, Rates, Since, condition, loops},
};

/// Changes that a user, an administrator or a catalog makes in a run.
const CHANGES: std::ops::RangeInclusive<usize> = 3..=8;
/// How long everything may take to settle once nothing fails any more: the longest backoff and the longest interval at
/// which something is observed lie below.
const SETTLES: Duration = Duration::from_hours(1);
/// How long requests may still fail after the last change.
const LAST_FAULTS_MILLISECONDS_MAX: u64 = 60_000;
/// How long nothing may be written then.
const QUIET: Duration = Duration::from_mins(40);
/// How long an installation takes, usually.
const SETTLED: Duration = Duration::from_mins(4);
/// The deadline of roll-outs, where there is one.
const MISSED_MILLISECONDS: u64 = 600_000;
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
pub(super) struct Run {
    pub(super) server: ApiServer,
    content: Arc<Content>,
    changes: broadcast::Sender<CatalogChanged>,
    folder: std::path::PathBuf,
    random: fastrand::Rng,
    /// Decides about policies and approvals: whatever a run does without them stays as it was.
    of_policies: fastrand::Rng,
    processes: Vec<(Process, JoinHandle<()>)>,
    pub(super) started: u64,
    pub(super) history: Vec<String>,
    /// An extension was deleted while the policy that retains its CRD was in force.
    is_retained: bool,
    /// That CRD was gone before the extension was made anew.
    is_lost: bool,
    /// A policy lets what was installed take the place of what misses its deadline.
    returns: bool,
    pub(super) began: Instant,
}

impl Run {
    pub(super) fn new(seed: u64, rates: Rates, folder: &Path) -> Self {
        let server = ApiServer::with_faults(seed, rates);
        server.slow_cluster();
        Self {
            server,
            content: Arc::new(Content(Mutex::new(1))),
            changes: broadcast::channel(64).0,
            folder: folder.to_owned(),
            random: fastrand::Rng::with_seed(seed),
            of_policies: fastrand::Rng::with_seed(!seed),
            processes: Vec::new(),
            started: 0,
            history: Vec::new(),
            is_retained: false,
            is_lost: false,
            returns: false,
            began: Instant::now(),
        }
    }

    /// Begins a process, which crashes at its n-th request when `crash_at` is not 0.
    pub(super) fn start(&mut self, crash_at: u64) {
        self.started += 1;
        let process = Process::crashing_at(crash_at);
        let client = self.server.client_of(process.clone());
        let run = (self.random.u64(..), self.random.u16(1..=3));
        let content = content::Content::Given(self.content.clone(), self.changes.clone());
        let clock = Arc::new(Since(self.began));
        let loops = loops(client, run, clock, (content, self.folder.clone()));
        let work = async move { Box::pin(loops.run(CancellationToken::new())).await };
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
        let now = self.began.elapsed();
        self.server.consent(|consent| consent.change(now));
        // Without a process there is no listener.
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
                self.server.create(self.made());
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

    /// Approves the plan that waits, or one that there is none of, where a policy may ask for that.
    fn approve(&mut self) {
        if self.server.get("updatepolicies", "", "prod").is_none() {
            return;
        }
        let is_wrong = self.of_policies.u8(..4) == 0;
        let plan = self.server.plans().pop().filter(|_| !is_wrong);
        let digest = plan.unwrap_or_else(|| format!("sha256:{:0>64}", 0));
        self.history.push(format!("{:.3} s: approve {digest}", self.began.elapsed().as_secs_f64()));
        self.server.consent(|consent| consent.approve(&digest));
        self.annotate(APPROVED_PLAN_ANNOTATION, Some(&digest));
    }

    /// Lets the second version fail or not, where a policy lets the first take its place.
    fn fail(&mut self) {
        if !self.returns {
            return;
        }
        let is_broken = self.of_policies.u8(..4) != 0;
        self.history.push(format!("{:.3} s: broken: {is_broken}", self.began.elapsed().as_secs_f64()));
        self.server.break_version(is_broken.then_some(VERSIONS[1]));
        if self.of_policies.bool() {
            let retry = self.of_policies.u8(..3).to_string();
            self.history.push(format!("{:.3} s: retry {retry}", self.began.elapsed().as_secs_f64()));
            self.annotate(RETRY_ANNOTATION, Some(&retry));
        }
    }

    /// An extension as the policy needs it.
    fn made(&self) -> Value {
        let mut extension = self_certified();
        if self.returns {
            extension["spec"]["progressDeadlineMinutes"] = 10.into();
        }
        extension
    }

    /// The policy that is in force from the beginning, if one is.
    fn begin_policy(&mut self) {
        let windows = json!([{"kind": "Allow", "schedule": "0 * * * *", "duration": "20m"}]);
        let spec = match self.of_policies.u8(..12) {
            0 | 1 => json!({"selector": {}, "approval": "Manual"}),
            2 => {
                json!({"selector": {}, "windows": windows, "concurrency": {"max": 1, "haltOnFailure": true}})
            }
            3 => json!({"selector": {}, "approval": "OnRisk", "minimumAge": "10m"}),
            4 | 5 => json!({"selector": {}, "onFailure": "Return"}),
            6 => json!({"selector": {}, "onFailure": "Return", "approval": "Manual", "windows": windows}),
            _ => return,
        };
        self.returns = !spec["onFailure"].is_null();
        self.history.push(format!("policy {spec}"));
        self.server.consent(|consent| consent.set_policy(Some(&spec)));
        self.server.create(json!({
            "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
            "metadata": {"name": "prod"}, "spec": spec,
        }));
    }

    fn end_policy(&self) {
        self.server.consent(|consent| consent.set_policy(None));
        if self.server.get("updatepolicies", "", "prod").is_some() {
            self.server.remove("updatepolicies", "", "prod");
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

    /// Only where nothing has the name: a foreign object is never made of one of the program's.
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

    /// Whether a deletion policy is asked for that is not reported as in force.
    fn lacks_policy(&self) -> bool {
        self.server.get("clusterextensions", "", "ext").is_some_and(|extension| {
            !extension["metadata"]["annotations"][DELETION_POLICY_ANNOTATION].is_null()
                && condition(&extension, "DeletionPolicy") != Some("True")
        })
    }

    fn has_crd(&self) -> bool {
        self.server.get("customresourcedefinitions", "", "beacons.lighthouse.example.com").is_some()
    }

    /// Ends all processes but the last `left` of them at once.
    pub(super) fn stop(&mut self, left: usize) {
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

    pub(super) async fn live(&mut self) {
        self.begin_policy();
        self.server.create(catalog());
        self.server.create(self.made());
        self.start(0);
        if self.returns {
            self.pass(SETTLED).await;
            self.publish(VERSIONS.len());
            self.fail();
            let time = Duration::from_millis(self.of_policies.u64(1..2 * MISSED_MILLISECONDS));
            self.pass(time).await;
        }
        for _ in 0..self.random.usize(CHANGES) {
            let seconds = *self.random.choice(&[1, 40, 1200]).unwrap_or(&1);
            let time = Duration::from_millis(self.random.u64(1..=1000 * seconds));
            self.pass(time).await;
            if self.of_policies.bool() {
                self.approve();
            }
            if self.of_policies.u8(..3) == 0 {
                self.fail();
            }
            let change = Change::any(&mut self.random);
            self.apply(change);
        }
        self.approve();
        let time = Duration::from_millis(self.random.u64(1..600_000));
        self.pass(time).await;
    }

    /// The spec asks for the latest version, once what is left of a deletion has ended. Then nothing fails any more, and
    /// nothing else changes: what has failed before has to be tried again by the program itself.
    pub(super) async fn settle(&mut self) -> Result<Vec<String>, String> {
        self.end_policy();
        self.server.break_version(None);
        self.returns = false;
        self.server.grant(true);
        self.occupy(false);
        self.publish(2);
        self.pass(SETTLES).await;
        for change in [Change::Create, Change::Pause(false), Change::RollBack(false), Change::Pin(None)] {
            self.apply(change);
        }
        // What has failed is tried again, and has no deadline any more.
        self.edit(&json!({"spec": {"progressDeadlineMinutes": null}}));
        let time = Duration::from_millis(self.random.u64(1..LAST_FAULTS_MILLISECONDS_MAX));
        self.pass(time).await;
        self.server.calm();
        self.stop(1);
        if !self.exists() {
            self.pass(SETTLES).await;
            self.apply(Change::Create);
        }
        self.pass(SETTLES).await;
        if self.lacks_policy() {
            return Err("the deletion policy that is asked for is not in force".to_owned());
        }
        self.apply(Change::Retain(None));
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
            // Revisions and their content count history, and the binding of the installer is the test's.
            let is_grant =
                object["kind"] == "ClusterRoleBinding" && object["metadata"]["name"] == "installer";
            // Whether the CRD that the second version drops is still there depends on the deletion policy of that time.
            let is_dropped = object["metadata"]["name"] == DROPPED_CRD;
            if is_grant || is_dropped || object["kind"] == "ClusterObjectSet" || object["kind"] == "Secret" {
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
pub(super) fn self_certified() -> Value {
    let mut extension = extension();
    extension["spec"]["source"]["catalog"]["upgradeConstraintPolicy"] = "SelfCertified".into();
    extension
}
