//! What GitOps tools make of extensions and catalogs, at every change of their state.

use std::sync::{Mutex, PoisonError};

use futures::StreamExt;
use kube::{
    Resource,
    api::{WatchEvent, WatchParams},
};
use olm_object::text;
use olm_test::{
    kstatus::{Status, find, is_about_this_generation, judge},
    prelude::*,
};

const PACKAGE: &str = "lighthouse-operator";

/// Every state of one object, from before it is created until it is gone.
struct History {
    states: Arc<Mutex<Vec<Value>>>,
    task: tokio::task::JoinHandle<Result<()>>,
}

impl History {
    async fn of<K: Resource<DynamicType = ()>>(scenario: &Scenario<'_>) -> Result<Self> {
        let resource = kube::api::ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = Api::all_with(scenario.client.clone(), &resource);
        let now = api.list_metadata(&ListParams::default().limit(1)).await?;
        let version = now.metadata.resource_version.context("a list without resource version")?;
        let only = format!("metadata.name={}", scenario.name);
        let events = api.watch(&WatchParams::default().fields(&only).timeout(290), &version).await?;
        let mut events = Box::pin(events);
        let states = Arc::new(Mutex::new(Vec::new()));
        let kept = states.clone();
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match event? {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        let state = serde_json::to_value(object)?;
                        kept.lock().unwrap_or_else(PoisonError::into_inner).push(state);
                    }
                    WatchEvent::Deleted(_) => return Ok(()),
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(error) => anyhow::bail!("watching: {error}"),
                }
            }
            anyhow::bail!("the watch ended")
        });
        Ok(Self { states, task })
    }

    /// The states since the last call.
    fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.states.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The states until it was gone.
    async fn end(self) -> Result<Vec<Value>> {
        tokio::time::timeout(DEADLINE, self.task).await.context("the object does not go")???;
        Ok(std::mem::take(&mut *self.states.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The verdict of a tool that does not believe conditions about an older spec.
fn careful(state: &Value) -> Status {
    match judge(state) {
        Status::Terminating => Status::Terminating,
        _ if !is_about_this_generation(state) => Status::InProgress,
        verdict => verdict,
    }
}

/// The verdicts, each once in a row.
fn verdicts(states: &[Value]) -> Vec<Status> {
    let mut verdicts: Vec<Status> = states.iter().map(careful).collect();
    verdicts.dedup();
    verdicts
}

/// What must hold of an extension's verdict at any time.
fn extension_is_judged_rightly(state: &Value) -> Result<()> {
    let verdict = careful(state);
    let says = |type_: &str, key: &str| {
        find(state, type_).and_then(|c| c[key].as_str()).unwrap_or_default().to_owned()
    };
    let wanted = text(state, "/spec/source/catalog/version");
    let installed = text(state, "/status/install/bundle/version");
    let progressing = (says("Progressing", "status"), says("Progressing", "reason"));
    match verdict {
        Status::Current => {
            ensure!(installed == wanted, "Current with {installed:?} installed instead of {wanted:?}");
            ensure!(says("Available", "status") == "True", "Current, but not available");
            ensure!(progressing == ("True".into(), "Succeeded".into()), "Current, but {progressing:?}");
        }
        Status::Failed => {
            let blocked = progressing.0 == "False";
            // A choice that cannot be made is tried again, and explained.
            let explained = progressing.1 == "Retrying" && says("Stalled", "message").contains(". ");
            ensure!(blocked || explained, "Failed, but {progressing:?}: {}", says("Stalled", "message"));
        }
        Status::InProgress if is_about_this_generation(state) => {
            ensure!(progressing.0 == "True", "InProgress, but {progressing:?}");
        }
        Status::InProgress | Status::Terminating => {}
    }
    // A tool that does not look at generations sees no more than the state before the edit, never a mixture.
    ensure!(find(state, "Reconciling").is_none() || find(state, "Stalled").is_none(), "both at once");
    let generations: Vec<i64> = ["Ready", "Reconciling", "Stalled"]
        .iter()
        .filter_map(|type_| find(state, type_)?["observedGeneration"].as_i64())
        .collect();
    ensure!(generations.windows(2).all(|pair| pair[0] == pair[1]), "of several specs: {generations:?}");
    Ok(())
}

fn judged(step: &str, states: &[Value], end: Status) -> Result<()> {
    println!("[{step}] {} states: {:?}", states.len(), verdicts(states));
    for state in states {
        extension_is_judged_rightly(state).with_context(|| format!("{step}: {:#}", state["status"]))?;
    }
    ensure!(states.last().map(careful) == Some(end), "{step} ends otherwise: {:?}", verdicts(states));
    Ok(())
}

/// Waits until the history has a state of this verdict that is about the present spec, and gives it out.
async fn until(step: &str, history: &History, generation: i64, end: Status) -> Result<Vec<Value>> {
    let mut states = Vec::new();
    wait::until(&format!("{step} to be {end}"), DEADLINE, || {
        states.extend(history.take());
        let there = states.last().is_some_and(|state| {
            state.pointer("/metadata/generation").and_then(Value::as_i64) >= Some(generation)
                && careful(state) == end
        });
        let seen = verdicts(&states);
        async move { wait::check(there, || format!("{seen:?}")) }
    })
    .await?;
    judged(step, &states, end)?;
    Ok(states)
}

#[tokio::test(flavor = "multi_thread")]
async fn extensions_are_judged_rightly_at_every_state() -> Result<()> {
    let scenario = Scenario::shared("kstatus").await?;
    let bundles = [("1.0.0", lighthouse("1.0.0")), ("1.1.0", lighthouse("1.1.0"))];
    scenario.publish(PACKAGE, &bundles).await?;
    let history = History::of::<ClusterExtension>(&scenario).await?;

    // Without its ServiceAccount, or without permissions, somebody has to act; it continues by itself then.
    scenario.create_extension(PACKAGE, json!({"version": "1.0.0"})).await?;
    scenario.shows(Progressing, "True/Retrying/operation cannot proceed").await?;
    until("no account", &history, 1, Status::Failed).await?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.shows(Progressing, "True/Retrying/error for resolved bundle").await?;
    until("no rights", &history, 1, Status::Failed).await?;

    scenario.grant(&bundles).await?;
    scenario.installed("1.0.0").await?;
    until("installation", &history, 1, Status::Current).await?;

    // The edit itself is a state: its conditions are still about the spec before.
    scenario.upgrade("1.1.0").await?;
    let states = until("upgrade", &history, 2, Status::Current).await?;
    ensure!(verdicts(&states) == [Status::InProgress, Status::Current], "{:?}", verdicts(&states));

    scenario.set_version("9.9.9").await?;
    scenario.shows(Stalled, "True/Blocked/").await?;
    let states = until("version that nobody has", &history, 3, Status::Failed).await?;
    ensure!(verdicts(&states) == [Status::InProgress, Status::Failed], "{:?}", verdicts(&states));

    let config = json!({"configType": "Inline", "inline": {"unknown": true}});
    scenario
        .patch_extension(json!({"spec": {"config": config, "source": {"catalog": {"version": "1.1.0"}}}}))
        .await?;
    scenario.shows(Stalled, "True/InvalidConfiguration/").await?;
    until("configuration that is wrong", &history, 4, Status::Failed).await?;

    scenario.patch_extension(json!({"spec": {"config": null}})).await?;
    scenario.installed("1.1.0").await?;
    until("put right", &history, 5, Status::Current).await?;

    scenario.delete_extension().await?;
    let states = history.end().await?;
    judged("deletion", &states, Status::Terminating)?;
    scenario.nothing_left().await
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_are_judged_rightly_at_every_state() -> Result<()> {
    let scenario = Scenario::shared("kstatus-catalog").await?;
    let bundles = [("1.0.0", lighthouse("1.0.0"))];
    let reference = scenario.push(PACKAGE, &bundles, "latest").await?;
    let history = History::of::<ClusterCatalog>(&scenario).await?;
    scenario.create_catalog(&reference, None).await?;
    scenario.catalog_serves().await?;

    let api: Api<ClusterCatalog> = Api::all(scenario.client.clone());
    let edit = async |patch: Value| -> Result<()> {
        let (params, patch) = (kube::api::PatchParams::default(), kube::api::Patch::Merge(patch));
        api.patch(&scenario.name, &params, &patch).await?;
        Ok(())
    };
    let image = |reference: &str| json!({"spec": {"source": {"image": {"ref": reference}}}});
    let nowhere = scenario.catalog_image("no-such-tag");
    edit(image(&nowhere)).await?;
    wait::until("the catalog to fail", DEADLINE, || async {
        let status = api.get(&scenario.name).await?.status.unwrap_or_default();
        let told = status.conditions.find(Progressing).map(|c| c.message.clone()).unwrap_or_default();
        wait::check(told.contains("no-such-tag"), || told.clone())
    })
    .await?;
    edit(json!({"spec": {"availabilityMode": "Unavailable"}})).await?;
    let found = async || Ok(api.get(&scenario.name).await?.status.unwrap_or_default());
    eventually("the catalog to be unavailable", found, |status| status.urls.is_none()).await?;
    api.delete(&scenario.name, &kube::api::DeleteParams::default()).await?;
    let states = history.end().await?;
    println!("[catalog] {} states: {:?}", states.len(), verdicts(&states));
    for state in &states {
        let says = |type_: &str| find(state, type_).and_then(|c| c["status"].as_str()).unwrap_or_default();
        let unavailable = text(state, "/spec/availabilityMode") == "Unavailable";
        match careful(state) {
            Status::Current => {
                ensure!(says("Progressing") == "True", "Current: {state:#}");
                ensure!(unavailable || says("Serving") == "True", "Current and not serving: {state:#}");
                // What is served is what the spec names.
                let wanted = text(state, "/spec/source/image/ref");
                ensure!(unavailable || wanted != nowhere, "Current with nothing of the spec: {state:#}");
            }
            Status::Failed => ensure!(says("Stalled") == "True", "Failed: {state:#}"),
            Status::InProgress | Status::Terminating => {}
        }
    }
    ensure!(verdicts(&states).contains(&Status::Current), "never Current: {:?}", verdicts(&states));
    Ok(())
}
