//! Random runs: an extension whose spec and catalog change again and again is, whenever it has come to rest, like one
//! that was given only the last of them; while it is paused nothing new is made.
//!
//! `OLM_TEST_RUNS` says how many runs. Policy SelfCertified and no CRD upgrade checks: then history is not part of the
//! rules, and any version may follow any other.

use fastrand::Rng;
use olm_api::names::{DELETION_POLICY_ANNOTATION, PAUSED_ANNOTATION};
use olm_test::prelude::*;
use regex::Regex;

use crate::{
    extension::{is_unpaused, retains},
    lives::{STILL, State},
    snapshot::{Snapshot, difference, settled},
    world::{COLLECTED, PACKAGE, Sample, alone, everything, seed},
};

const NAME: &str = "run";
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "2.0.0"];
/// Ranges that a spec may ask for, beside single versions.
const RANGES: [&str; 3] = [">=1.0.0 <2.0.0", "<=1.1.0", "*"];
const STEPS: std::ops::Range<usize> = 3..8;
/// A second channel, which lacks one of the versions.
const OTHER_CHANNEL: &str = "other";
const NOT_IN_OTHER: &str = "1.1.0";
const CHANNELS: [&[&str]; 4] = [&[], &["stable"], &[OTHER_CHANNEL], &["stable", OTHER_CHANNEL]];
const POLICIES: [Option<&str>; 4] = [None, Some("Delete"), Some("RetainCRDs"), Some("Orphan")];
/// Most states of rest of a run that a sample compares; the last is always one of them.
const COMPARED_IN_A_SAMPLE: usize = 2;

/// What can change.
#[derive(Clone, Debug, Default, PartialEq)]
struct Target {
    /// Versions in the catalog.
    catalog: Vec<&'static str>,
    version: Option<&'static str>,
    channels: Vec<&'static str>,
    /// An environment variable of the configuration.
    environment: Option<u8>,
    deadline_minutes: Option<u8>,
    deletion_policy: Option<&'static str>,
    paused: bool,
}

impl Target {
    /// The version that an extension of this spec has, if there is one.
    fn answer(&self) -> Option<&'static str> {
        let wanted = |version: &&&str| match self.version {
            None | Some("*") => true,
            Some(">=1.0.0 <2.0.0" | "<=1.1.0") => **version != "2.0.0",
            Some(exact) => **version == exact,
        };
        let only_other = self.channels == [OTHER_CHANNEL];
        let offered = |version: &&&str| !only_other || **version != NOT_IN_OTHER;
        self.catalog.iter().filter(wanted).filter(offered).max().copied()
    }

    fn object(&self, extension: &Extension) -> Value {
        let mut filter = json!({"upgradeConstraintPolicy": "SelfCertified"});
        if let Some(version) = self.version {
            filter["version"] = version.into();
        }
        if !self.channels.is_empty() {
            filter["channels"] = self.channels.clone().into();
        }
        let mut object = extension.object(PACKAGE, &filter);
        let spec = &mut object["spec"];
        spec["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
        if let Some(value) = self.environment {
            let environment = json!([{"name": "CHANGED", "value": value.to_string()}]);
            spec["config"] =
                json!({"configType": "Inline", "inline": {"deploymentConfig": {"env": environment}}});
        }
        if let Some(minutes) = self.deadline_minutes {
            spec["progressDeadlineMinutes"] = minutes.into();
        }
        object
    }

    /// Changes one thing, and says which.
    fn change(&mut self, rng: &mut Rng) -> &'static str {
        match rng.usize(..8) {
            0 => {
                self.version = rng.choice(VERSIONS).filter(|_| rng.bool());
                "version"
            }
            1 => {
                self.version = rng.choice(RANGES);
                "range"
            }
            2 => {
                self.channels = rng.choice(CHANNELS).unwrap_or_default().to_vec();
                "channels"
            }
            3 => {
                self.environment = rng.bool().then(|| rng.u8(..3));
                "configuration"
            }
            4 => {
                self.deadline_minutes = rng.bool().then(|| rng.u8(10..13));
                "deadline"
            }
            5 => {
                self.deletion_policy = rng.choice(POLICIES).flatten();
                "deletion policy"
            }
            6 => {
                self.paused = !self.paused;
                "pause"
            }
            _ => {
                self.catalog = some_versions(rng);
                "catalog"
            }
        }
    }
}

fn some_versions(rng: &mut Rng) -> Vec<&'static str> {
    let versions: Vec<_> = VERSIONS.into_iter().filter(|_| rng.bool()).collect();
    if versions.is_empty() { VERSIONS.to_vec() } else { versions }
}

struct Changer<'a> {
    world: &'a World,
    client: Client,
    sample: Sample,
    extension: Extension,
    before: Snapshot,
}

impl Changer<'_> {
    /// Lets the catalog have these versions, and waits until it serves them.
    async fn serve(&self, versions: &[&str]) -> Result<()> {
        let name = |version: &&str| format!("{PACKAGE}.v{version}");
        let offered: Vec<_> = versions.iter().filter(|version| **version != NOT_IN_OTHER).collect();
        let mut entries: Vec<Value> = offered.iter().map(|version| json!({"name": name(version)})).collect();
        for (entry, before) in entries.iter_mut().skip(1).zip(&offered) {
            entry["replaces"] = name(before).into();
        }
        let channel =
            json!({"schema": "olm.channel", "package": PACKAGE, "name": OTHER_CHANNEL, "entries": entries});
        // A channel without entries is none.
        let more = if entries.is_empty() { String::new() } else { channel.to_string() };
        let reference = self.sample.publish_with(self.world, versions, &more).await?;
        let api: Api<ClusterCatalog> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"spec": {"source": {"image": {
            "ref": reference, "pollIntervalMinutes": null,
        }}}}));
        api.patch(NAME, &PatchParams::default(), &patch).await?;
        wait::until("the catalog's new content", DEADLINE, async || {
            let status = api.get(NAME).await?.status.unwrap_or_default();
            let resolved = status.resolved_source.map(|source| source.image.ref_);
            wait::check(resolved.as_deref() == Some(reference.as_str()), || format!("{resolved:?} is served"))
        })
        .await
    }

    async fn set(&self, target: &Target) -> Result<()> {
        // Fields that are left out go away.
        let now = serde_json::to_value(self.extension.api.get(&self.extension.name).await?)?;
        let mut object = target.object(&self.extension);
        let spec = object["spec"].take();
        let mut operations = vec![json!({"op": "replace", "path": "/spec", "value": spec})];
        if now["spec"] == spec {
            operations.clear();
        }
        let patch = Patch::Json::<()>(serde_json::from_value(Value::Array(operations))?);
        self.extension.api.patch(&self.extension.name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn pause(&self, paused: bool) -> Result<()> {
        let value = paused.then_some("true");
        self.extension.patch(&json!({"metadata": {"annotations": {PAUSED_ANNOTATION: value}}})).await
    }

    async fn keep(&self, policy: Option<&str>) -> Result<()> {
        self.extension
            .patch(&json!({"metadata": {"annotations": {DELETION_POLICY_ANNOTATION: policy}}}))
            .await
    }

    /// Creates the extension as the target has it.
    async fn create(&self, target: &Target) -> Result<()> {
        let policy = target.deletion_policy.map(|policy| json!({DELETION_POLICY_ANNOTATION: policy}));
        let mut object = target.object(&self.extension);
        object["metadata"]["annotations"] = policy.unwrap_or_default();
        self.extension.create(object).await
    }

    /// The names of all revisions.
    async fn revisions(&self) -> Result<Vec<String>> {
        let sets: Api<ClusterObjectSet> = Api::all(self.client.clone());
        Ok(sets.all().await?.iter().map(ResourceExt::name_any).collect())
    }

    /// Deletes the extension under the policy that is in force, which leaves what it leaves.
    async fn leave(&self) -> Result<()> {
        self.extension.delete().await?;
        wait::until("the extension's end", COLLECTED, async || self.extension.is_gone().await).await
    }

    /// Deletes the extension and all it has: what a policy would keep would be in the way.
    async fn remove(&self) -> Result<()> {
        self.keep(None).await?;
        // Refused for as long as something of a policy is left.
        wait::until("a deletion that is let pass", DEADLINE, async || {
            let status = self.extension.api.get(&self.extension.name).await?.status.unwrap_or_default();
            let told = status.conditions.find(ConditionType::DeletionPolicy);
            ensure!(told.is_none(), "{told:?}");
            self.extension.delete().await
        })
        .await?;
        wait::until("an empty cluster", COLLECTED, async || {
            self.extension.is_gone().await?;
            Snapshot::take(&self.client).await?.since(&self.before)?.check_empty()
        })
        .await
    }

    /// Waits until what is wished for is there, and in force.
    async fn installed(&self, target: &Target) -> Result<()> {
        let version = target.answer().context("a target without an answer")?;
        wait::until("the target", COLLECTED, async || {
            self.extension.is_installed(version).await?;
            // What was asked for during a pause is begun after it.
            is_unpaused(&self.extension).await?;
            match target.deletion_policy.filter(|policy| *policy != "Delete") {
                Some(policy) => retains(&self.extension, policy).await,
                None => Ok(()),
            }
        })
        .await
    }

    /// The objects at rest, without what tells of the way there.
    async fn end(&self) -> Result<State> {
        self.world.proxy().quiet(STILL, DEADLINE).await?;
        let found = settled(&self.client).await?.since(&self.before)?;
        found.check_owners()?;
        Ok(without_history(&found.normal()))
    }

    /// One step of a run.
    async fn step(&self, target: &mut Target, rng: &mut Rng, path: &mut Vec<String>) -> Result<()> {
        if rng.usize(..8) == 0 {
            // Of what was not rolled out something could be left that nobody takes over.
            let keeps = target.answer().is_some() && !target.paused && rng.bool();
            path.push(format!("deleted and created again{}", if keeps { ", policy in force" } else { "" }));
            if keeps {
                self.installed(target).await?;
                self.leave().await?;
            } else {
                self.remove().await?;
            }
            target.paused = false;
            return self.create(target).await;
        }
        let what = target.change(rng);
        path.push(format!("{what}: {target:?}"));
        match what {
            "catalog" => self.serve(&target.catalog).await,
            "pause" => self.pause(target.paused).await,
            "deletion policy" => self.keep(target.deletion_policy).await,
            _ => self.set(target).await,
        }
    }

    /// Runs; gives out the states of rest on the way, each with the target that it answers.
    async fn change(&self, rng: &mut Rng, path: &mut Vec<String>) -> Result<Vec<Rest>> {
        let mut target = Target { catalog: VERSIONS.to_vec(), ..Target::default() };
        self.serve(&target.catalog).await?;
        self.create(&target).await?;
        let mut rests = Vec::new();
        let steps = rng.usize(STEPS);
        let mut step = 0;
        // What there was when the pause began.
        let mut held: Option<Vec<String>> = None;
        // The last target must have an answer.
        while step < steps || target.answer().is_none() {
            step += 1;
            self.step(&mut target, rng, path).await?;
            if target.paused {
                settled(&self.client).await?;
                let now = self.revisions().await?;
                let before = held.get_or_insert_with(|| now.clone());
                ensure!(*before == now, "while paused: {before:?} became {now:?}");
                continue;
            }
            held = None;
            // Often the next change comes while this one is being carried out.
            if rng.bool() && target.answer().is_some() {
                path.push("(installed)".to_owned());
                self.installed(&target).await?;
                rests.push(Rest { target: target.clone(), state: self.end().await? });
            }
        }
        self.pause(false).await?;
        target.paused = false;
        self.installed(&target).await?;
        rests.push(Rest { target, state: self.end().await? });
        Ok(rests)
    }

    async fn run(&self, rng: &mut Rng, path: &mut Vec<String>) -> Result<usize> {
        let mut rests = self.change(rng, path).await?;
        self.remove().await?;
        if !everything() {
            rests.drain(..rests.len().saturating_sub(COMPARED_IN_A_SAMPLE));
        }
        for Rest { target, state } in &rests {
            self.serve(&target.catalog).await?;
            self.create(target).await?;
            self.installed(target).await?;
            let fresh = self.end().await?;
            let lines = difference(&fresh, state);
            ensure!(lines.is_empty(), "{target:?} is not as when fresh:\n{}", lines.join("\n"));
            self.remove().await?;
        }
        Ok(rests.len())
    }
}

/// What a run came to while nothing more happened.
struct Rest {
    target: Target,
    state: State,
}

/// Archived revisions are history; numbers of revisions and generations count it.
fn without_history(objects: &State) -> State {
    let revision = Regex::new(&format!("\\b{NAME}-[0-9]+(-[0-9a-f]{{16}})?\\b")).expect("a pattern");
    let template = Regex::new("lighthouse-operator-[0-9a-f]{8,10}\\b").expect("a pattern");
    let archived: Vec<&str> = objects
        .values()
        .filter(|object| object["spec"]["lifecycleState"] == "Archived")
        .filter_map(|object| object["metadata"]["name"].as_str())
        .collect();
    let is_history = |object: &Value| {
        let of = &object["metadata"]["labels"]["olm.operatorframework.io/revision-name"];
        let name = of.as_str().or_else(|| object["metadata"]["name"].as_str()).unwrap_or_default();
        archived.contains(&name)
    };
    let plain = |text: &str| {
        let text = revision.replace_all(text, format!("{NAME}-N"));
        template.replace_all(&text, "lighthouse-operator-H").into_owned()
    };
    let mut after = BTreeMap::new();
    for (id, object) in objects.iter().filter(|(_, object)| !is_history(object)) {
        let mut object: Value = serde_json::from_str(&plain(&object.to_string())).expect("still JSON");
        forget_counters(&mut object);
        after.insert(plain(id), object);
    }
    after
}

fn forget_counters(value: &mut Value) {
    const COUNTERS: [&str; 7] = [
        "generation",
        "observedGeneration",
        "deployment.kubernetes.io/revision",
        "revision",
        "olm.operatorframework.io/revision",
        // What a revision did to what it found, CRDs above all.
        "olm.operatorframework.io/crd-changes",
        "extensions.olm.operatorframework.io/plan-digest",
    ];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !COUNTERS.contains(&name.as_str()));
            // Who creates an object has its defaults as well, who applies it later has not: managers are compared.
            if let Some(Value::Object(managers)) = fields.get_mut("managedFields") {
                managers.values_mut().for_each(|fields| *fields = Value::Null);
            }
            fields.values_mut().for_each(forget_counters);
        }
        Value::Array(list) => list.iter_mut().for_each(forget_counters),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_changes_end_as_the_last_one_alone() -> Result<()> {
    let world = alone().await?;
    let client = world.cluster.client().await?;
    let sample = Sample::new(&world, NAME, &VERSIONS).await?;
    let extension = Extension::new(&client, NAME);
    let before = settled(&client).await?;
    let changer = Changer { world: &world, client, sample, extension, before };
    let runs = std::env::var("OLM_TEST_RUNS").ok().and_then(|text| text.parse().ok());
    let runs = runs.unwrap_or(if everything() { 30 } else { 1 });
    let first = seed();
    for run in 0..runs {
        let seed = first.wrapping_add(run);
        let mut path = Vec::new();
        let result = changer.run(&mut Rng::with_seed(seed), &mut path).await;
        let compared = result.with_context(|| format!("OLM_TEST_SEED={seed} OLM_TEST_RUNS=1: {path:#?}"))?;
        println!("run {run} with seed {seed}: {} steps, {compared} states compared", path.len());
    }
    Ok(())
}
