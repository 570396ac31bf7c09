//! Random walks: an extension whose spec and catalog change again and again ends like one that was given only
//! the last of them.
//!
//! `OLM_WALKS` says how many walks. Policy SelfCertified and no CRD upgrade checks: then history is not part of the
//! rules, and any version may follow any other.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use olm_api::{names::PAUSED_ANNOTATION, v1::ClusterCatalog};
use olm_test::wait;
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    extension::Extension,
    snapshot::{Id, Snapshot, difference},
    theatre::{STILL, settled},
    world::{COLLECTED, DEADLINE, Sample, World, everything, seed},
};

const NAME: &str = "walk";
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "2.0.0"];
/// Ranges that a spec may ask for, beside single versions.
const RANGES: [&str; 3] = [">=1.0.0 <2.0.0", "<=1.1.0", "*"];
const STEPS: std::ops::Range<usize> = 3..8;

/// What can change.
#[derive(Clone, Debug, Default)]
struct Wish {
    /// Versions in the catalog.
    catalog: Vec<&'static str>,
    version: Option<&'static str>,
    channels: Vec<&'static str>,
    /// An environment variable of the configuration.
    environment: Option<u8>,
    deadline_minutes: Option<u8>,
    paused: bool,
}

impl Wish {
    /// The version that an extension of this spec has, if there is one.
    fn answer(&self) -> Option<&'static str> {
        let wanted = |version: &&&str| match self.version {
            None | Some("*") => true,
            Some(">=1.0.0 <2.0.0" | "<=1.1.0") => **version != "2.0.0",
            Some(exact) => **version == exact,
        };
        self.catalog.iter().filter(wanted).max().copied()
    }

    fn spec(&self, extension: &Extension) -> Value {
        let mut filter = json!({"upgradeConstraintPolicy": "SelfCertified"});
        if let Some(version) = self.version {
            filter["version"] = version.into();
        }
        if !self.channels.is_empty() {
            filter["channels"] = self.channels.clone().into();
        }
        let mut spec = extension.spec(&filter);
        spec["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
        if let Some(value) = self.environment {
            let environment = json!([{"name": "WALKED", "value": value.to_string()}]);
            spec["config"] =
                json!({"configType": "Inline", "inline": {"deploymentConfig": {"env": environment}}});
        }
        if let Some(minutes) = self.deadline_minutes {
            spec["progressDeadlineMinutes"] = minutes.into();
        }
        spec
    }

    /// Changes one thing, and says which.
    fn change(&mut self, rng: &mut Rng) -> &'static str {
        match rng.usize(..7) {
            0 => {
                self.version = rng.choice(VERSIONS).filter(|_| rng.bool());
                "version"
            }
            1 => {
                self.version = rng.choice(RANGES);
                "range"
            }
            2 => {
                self.channels = if rng.bool() { vec!["stable"] } else { Vec::new() };
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

struct Walker<'a> {
    world: &'a World,
    client: Client,
    sample: Sample,
    extension: Extension,
    before: Snapshot,
}

impl Walker<'_> {
    /// Lets the catalog have these versions, and waits until it serves them.
    async fn serve(&self, versions: &[&str]) -> Result<()> {
        let reference = self.sample.publish(self.world, versions).await?;
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

    async fn set(&self, wish: &Wish) -> Result<()> {
        // Fields that are left out go away.
        let now = serde_json::to_value(self.extension.api.get(&self.extension.name).await?)?;
        let spec = wish.spec(&self.extension);
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

    async fn remove(&self) -> Result<()> {
        self.extension.delete().await?;
        wait::until("an empty cluster", COLLECTED, async || {
            self.extension.is_gone().await?;
            let left = Snapshot::take(&self.client).await?.since(&self.before)?;
            ensure!(left.len() == 0, "left: {:?}", left.objects().map(|(id, _)| id).collect::<Vec<_>>());
            Ok(())
        })
        .await
    }

    async fn installed(&self, wish: &Wish) -> Result<()> {
        let version = wish.answer().context("a wish without an answer")?;
        wait::until("the wish", DEADLINE, async || self.extension.is_installed(version).await).await
    }

    /// The objects at rest, without what tells of the way there.
    async fn end(&self) -> Result<BTreeMap<Id, Value>> {
        self.world.proxy.quiet(STILL, DEADLINE).await?;
        let found = settled(&self.client).await?.since(&self.before)?;
        found.check_owners()?;
        Ok(without_history(&found.normal()))
    }

    async fn walk(&self, rng: &mut Rng, path: &mut Vec<String>) -> Result<()> {
        let mut wish = Wish { catalog: VERSIONS.to_vec(), ..Wish::default() };
        self.serve(&wish.catalog).await?;
        self.extension.create(&wish.spec(&self.extension)).await?;
        let steps = rng.usize(STEPS);
        let mut step = 0;
        // The last wish must have an answer.
        while step < steps || wish.answer().is_none() {
            step += 1;
            if rng.usize(..8) == 0 {
                path.push("deleted and created again".to_owned());
                self.remove().await?;
                self.extension.create(&wish.spec(&self.extension)).await?;
                wish.paused = false;
                continue;
            }
            let what = wish.change(rng);
            path.push(format!("{what}: {wish:?}"));
            match what {
                "catalog" => self.serve(&wish.catalog).await?,
                "pause" => self.pause(wish.paused).await?,
                _ => self.set(&wish).await?,
            }
            // Often the next change comes while this one is being carried out.
            if rng.bool() && wish.answer().is_some() && !wish.paused {
                path.push("(installed)".to_owned());
                self.installed(&wish).await?;
            }
        }
        self.pause(false).await?;
        self.installed(&wish).await?;
        let walked = self.end().await?;
        self.remove().await?;
        self.extension.create(&wish.spec(&self.extension)).await?;
        self.installed(&wish).await?;
        let fresh = self.end().await?;
        let lines = difference(&fresh, &walked);
        ensure!(lines.is_empty(), "not as when fresh:\n{}", lines.join("\n"));
        self.remove().await
    }
}

/// Archived revisions are history; numbers of revisions and generations count it.
fn without_history(objects: &BTreeMap<Id, Value>) -> BTreeMap<Id, Value> {
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
async fn whatever_the_way_the_end_is_that_of_the_last_wish() -> Result<()> {
    let world = World::alone().await?;
    let client = world.cluster.client().await?;
    let sample = Sample::new(&world, NAME, &VERSIONS).await?;
    let extension = Extension::new(&client, NAME);
    let before = settled(&client).await?;
    let walker = Walker { world: &world, client, sample, extension, before };
    let walks = std::env::var("OLM_WALKS").ok().and_then(|text| text.parse().ok());
    let walks = walks.unwrap_or(if everything() { 30 } else { 1 });
    let first = seed();
    for walk in 0..walks {
        let seed = first.wrapping_add(walk);
        let mut path = Vec::new();
        let result = walker.walk(&mut Rng::with_seed(seed), &mut path).await;
        result.with_context(|| format!("OLM_TEST_SEED={seed} OLM_WALKS=1: {path:#?}"))?;
        println!("walk {walk} with seed {seed}: {} steps", path.len());
    }
    Ok(())
}
