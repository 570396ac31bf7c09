//! Waits for an extension, with one line for each object and obstacle that holds it up.

use std::{
    collections::BTreeSet,
    io::Write,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Args;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_api::{
    ConditionType::{Available, DeletionGuarded, Progressing, Ready, Stalled},
    Conditions,
    names::{OWNER_NAME_LABEL, PLAN_DIGEST_ANNOTATION},
    v1::{ClusterExtension, ClusterObjectSet},
};
use olm_runtime::{bounded, if_exists};
use olm_text::{counted, one_line};

use super::revisions::{bundle, extension, has_rolled_out, latest_active, revisions, rolled_back_to};
use crate::progress::Bar;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long an extension may be `Stalled` before that is believed: permissions that were just granted take a moment.
const STALLED: Duration = Duration::from_secs(30);
/// Lines that are printed of one look.
const LINES_MAX: usize = 20;

/// How long a command waits.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Patience {
    /// Return without waiting until it is done
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Minutes to wait until it is done
    #[arg(long, value_name = "MINUTES", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1440))]
    timeout: u32,
}

/// The state that is waited for.
#[derive(Debug, Clone)]
pub(crate) enum Goal {
    /// The bundle of this name is installed and healthy.
    Bundle(String),
    /// A revision with the objects of this earlier one is.
    RolledBackTo(i64),
}

impl Patience {
    /// Waits until the extension, which was just written, has come to its goal. A revision that is made meanwhile must
    /// be the one that was planned, where a plan was shown.
    pub(crate) async fn rolled_out(
        self,
        client: &Client,
        written: &ClusterExtension,
        (goal, plan): (&Goal, Option<&str>),
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let (name, mut lines) = (written.name_any(), Lines::new());
        let mut stalled: Option<Instant> = None;
        loop {
            let live = extension(client, &name).await.context("waiting for the roll-out")?;
            if live.metadata.uid != written.metadata.uid {
                bail!("ClusterExtension {name} was deleted and created again meanwhile");
            }
            let sets = revisions(client, &live).await?;
            let generation = written.metadata.generation;
            if is_reached(goal, &live, &sets, generation) {
                drop(lines);
                return check_plan(&name, plan, &sets);
            }
            lines.show(out, &waits(&live, &sets, generation))?;
            let conditions = live.status.unwrap_or_default().conditions;
            let is_stalled = current(&conditions, Stalled, generation).is_some_and(|c| c.status == "True");
            stalled = stalled.filter(|_| is_stalled).or_else(|| is_stalled.then(Instant::now));
            if stalled.is_some_and(|since| since.elapsed() > STALLED) {
                let why = conditions.find(Stalled).map_or("", |c| c.message.as_str());
                drop(lines);
                bail!("{name} is stalled: {why}");
            }
            self.pause(&lines, &name).await?;
        }
    }

    /// Waits until the deletion guard has counted no custom resources, for half a minute at most.
    ///
    /// Returns whether the controller can count them.
    pub(crate) async fn counted(self, client: &Client, seen: &ClusterExtension) -> anyhow::Result<bool> {
        let begun = Instant::now();
        loop {
            let live = extension(client, &seen.name_any()).await?;
            let generation = live.metadata.generation;
            let conditions = live.status.unwrap_or_default().conditions;
            let status = current(&conditions, DeletionGuarded, generation).map(|c| c.status.as_str());
            if status == Some("Unknown") {
                return Ok(false);
            }
            if status == Some("False") || conditions.is_empty() || begun.elapsed() > STALLED {
                return Ok(true);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Waits until the extension and its revisions are gone.
    pub(crate) async fn gone(
        self,
        client: &Client,
        removed: &ClusterExtension,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let (name, mut lines) = (removed.name_any(), Lines::new());
        let extensions: Api<ClusterExtension> = Api::all(client.clone());
        let sets: Api<ClusterObjectSet> = Api::all(client.clone());
        let labelled = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={name}"));
        loop {
            let live = if_exists(extensions.get(&name)).await.context("reading the extension")?;
            let live = live.filter(|live| live.metadata.uid == removed.metadata.uid);
            let left = bounded(sets.list(&labelled)).await.context("listing ClusterObjectSets")?.items;
            let left: Vec<ClusterObjectSet> = left
                .into_iter()
                .filter(|set| super::revisions::is_revision(&removed.metadata, set))
                .collect();
            if live.is_none() && left.is_empty() {
                return Ok(());
            }
            let mut waits: Vec<String> = left
                .iter()
                .map(|set| format!("ClusterObjectSet {} is being removed", set.name_any()))
                .collect();
            let status = live.and_then(|live| live.status).unwrap_or_default();
            let ready = status.conditions.find(Ready).filter(|c| c.status != "True");
            waits.extend(ready.map(|c| one_line(&c.message).into_owned()));
            lines.show(out, &waits)?;
            self.pause(&lines, &name).await?;
        }
    }

    /// Waits until a deletion policy is in force.
    pub(crate) async fn keeps(
        self,
        client: &Client,
        written: &ClusterExtension,
        policy: &str,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let (name, mut lines) = (written.name_any(), Lines::new());
        loop {
            let live = extension(client, &name).await?;
            let conditions = live.status.unwrap_or_default().conditions;
            let found = conditions.find(olm_api::ConditionType::DeletionPolicy);
            if found.is_some_and(|c| c.status == "True" && c.reason == policy) {
                return Ok(());
            }
            let waits: Vec<String> = match found {
                Some(condition) => vec![one_line(&condition.message).into_owned()],
                None => vec![format!("the deletion policy {policy} is not in force yet")],
            };
            lines.show(out, &waits)?;
            self.pause(&lines, &name).await?;
        }
    }

    /// Fails when the time is up.
    async fn pause(self, lines: &Lines, name: &str) -> anyhow::Result<()> {
        let limit = Duration::from_secs(u64::from(self.timeout) * 60);
        if lines.begun.elapsed() > limit {
            let last = lines.last.as_deref().unwrap_or("nothing was reported");
            bail!(
                "{name} is not done after {} (--timeout): {last}. It continues on the cluster: \"olm status {name}\" shows how far it is",
                counted(self.timeout as usize, "minute")
            );
        }
        lines.bar.note(format!("{name} ({} s)", lines.begun.elapsed().as_secs()));
        tokio::time::sleep(INTERVAL).await;
        Ok(())
    }
}

/// The lines that were printed, each once.
struct Lines {
    bar: Bar,
    begun: Instant,
    printed: BTreeSet<String>,
    last: Option<String>,
}

impl Lines {
    fn new() -> Self {
        Self { bar: Bar::new("waiting for", 1), begun: Instant::now(), printed: BTreeSet::new(), last: None }
    }

    fn show(&mut self, out: &mut dyn Write, waits: &[String]) -> anyhow::Result<()> {
        for wait in waits.iter().take(LINES_MAX) {
            if self.printed.insert(wait.clone()) {
                self.bar.write(out, &format!("  waiting: {wait}"))?;
            }
        }
        self.last = waits.first().cloned().or_else(|| self.last.take());
        Ok(())
    }
}

/// A condition that was written for this generation of the spec, or a later one.
fn current(
    conditions: &Conditions,
    type_: olm_api::ConditionType,
    generation: Option<i64>,
) -> Option<&Condition> {
    conditions.find(type_).filter(|c| c.observed_generation >= generation)
}

fn is_reached(
    goal: &Goal,
    live: &ClusterExtension,
    sets: &[ClusterObjectSet],
    generation: Option<i64>,
) -> bool {
    let status = live.status.clone().unwrap_or_default();
    let is_ready = current(&status.conditions, Ready, generation).is_some_and(|c| c.status == "True");
    let latest = latest_active(sets).filter(|set| has_rolled_out(set));
    let is_there = match goal {
        Goal::Bundle(name) => {
            status.install.is_some_and(|install| install.bundle.name == *name)
                && latest.is_some_and(|set| bundle(set).0 == name)
        }
        Goal::RolledBackTo(number) => latest.is_some_and(|set| rolled_back_to(set) == Some(*number)),
    };
    is_ready && is_there
}

/// What the extension reports that it waits for, each on one line; before it has reported anything, what the revision
/// that is rolling out reports of its objects.
fn waits(live: &ClusterExtension, sets: &[ClusterObjectSet], generation: Option<i64>) -> Vec<String> {
    let conditions = live.status.clone().unwrap_or_default().conditions;
    // What a person has to do belongs together, however long it is.
    if let Some(stalled) = current(&conditions, Stalled, generation).filter(|c| c.status == "True") {
        return vec![one_line(&stalled.message).into_owned()];
    }
    if let Some(ready) = current(&conditions, Ready, generation).filter(|c| c.status != "True") {
        return waits_in(&ready.message);
    }
    let rolling = latest_active(sets).filter(|set| !has_rolled_out(set));
    let of_set = rolling.and_then(|set| set.status.as_ref()).map(|status| &status.conditions);
    let of_objects = of_set.and_then(|all| all.find(Available).filter(|c| c.status != "True"));
    of_objects.or_else(|| of_set?.find(Progressing)).map(|c| waits_in(&c.message)).unwrap_or_default()
}

/// The lines of a message, each of which is about an object or a reason of its own; where some name what is waited for,
/// the others are remarks.
fn waits_in(message: &str) -> Vec<String> {
    let lines = || message.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut waits: Vec<&str> = lines().filter_map(|line| line.strip_prefix("Waiting for ")).collect();
    if waits.is_empty() {
        waits.extend(lines());
    }
    waits.into_iter().map(str::to_owned).collect()
}

/// Fails if the revision that rolled out is not the one that was shown.
fn check_plan(name: &str, plan: Option<&str>, sets: &[ClusterObjectSet]) -> anyhow::Result<()> {
    let Some((plan, latest)) = plan.zip(latest_active(sets)) else { return Ok(()) };
    let made = super::revisions::annotation(latest, PLAN_DIGEST_ANNOTATION);
    if made != plan {
        bail!(
            "revision {} of {name} was made by the plan {made}, and {plan} was shown: its bundle or configuration changed meanwhile. \"olm explain {name}\" shows what is installed",
            latest.name_any()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn each_object_that_is_waited_for_and_each_remedy_is_one_line() {
        let waits = |conditions: &[(&str, &str, &str)]| {
            let conditions: Vec<_> = conditions
                .iter()
                .map(|(type_, status, message)| {
                    json!({"type": type_, "status": status, "reason": "R", "message": message,
                        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
                })
                .collect();
            let live = serde_json::from_value(json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "e"},
                "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
                "status": {"conditions": conditions},
            }));
            super::waits(&live.unwrap(), &[], Some(1))
        };
        let rolling =
            "Waiting for Deployment n/a: Starting: x\nWaiting for Deployment n/b: FailedScheduling: y";
        let lines = ["Deployment n/a: Starting: x", "Deployment n/b: FailedScheduling: y"];
        assert_eq!(waits(&[("Ready", "False", rolling)]), lines);
        let with_remark = format!("{rolling}\nUpdates are approved by a person.");
        assert_eq!(waits(&[("Ready", "False", &with_remark)]), lines);
        assert_eq!(waits(&[("Ready", "False", "one\ntwo")]), ["one", "two"]);
        let stuck = "no bundles found. Choose one.\nRejected: a\nmore";
        let lines = ["no bundles found. Choose one. Rejected: a more"];
        assert_eq!(waits(&[("Ready", "False", stuck), ("Stalled", "True", stuck)]), lines);
        assert_eq!(waits(&[("Ready", "True", "fine")]), [""; 0]);
    }
}
