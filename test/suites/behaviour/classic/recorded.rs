//! What was done to operators on a cluster of upstream, done again here: their histories of phases, reasons and messages are
//! those that were recorded.
//!
//! What Deployments passed through depends on when it was observed: the reason `InstallWaiting` is left out, and a
//! moment in which a Deployment that runs was not up to date. So are failures that upstream comes back to without an end.

use std::io::{BufRead as _, BufReader};

use olm_test::prelude::*;
use regex::Regex;

use crate::{
    operators::{Operators, Place, define},
    registered::webhook,
};

/// Phase, reason and message.
type State = [String; 3];

/// The longest history of an operator that was recorded last.
fn recorded(folder: &Path, namespace: &str, name: &str, which: usize) -> Result<Vec<State>> {
    let file = fs::File::open(folder.join("states.jsonl.zst"))?;
    let mut histories: Vec<(String, Value)> = Vec::new();
    for line in BufReader::new(zstd::Decoder::new(file)?).lines() {
        let event: Value = serde_json::from_str(&line?)?;
        let is_it =
            event["kind"] == "clusterserviceversions" && event["ns"] == namespace && event["name"] == name;
        if !is_it || !event["labels"]["olm.copiedFrom"].is_null() || !event["status"]["conditions"].is_array()
        {
            continue;
        }
        let uid = event["uid"].as_str().unwrap_or_default().to_owned();
        let conditions = event["status"]["conditions"].clone();
        match histories.iter_mut().find(|(known, _)| *known == uid) {
            Some(known) => known.1 = conditions,
            None => histories.push((uid, conditions)),
        }
    }
    let (_, conditions) = histories.get(which).with_context(|| format!("no {namespace}/{name}"))?;
    Ok(normal(conditions, namespace))
}

/// The history of an operator here.
async fn lived(place: &Place, name: &str) -> Result<Vec<State>> {
    let status = place.csvs.get(name).await?.status.unwrap_or_default();
    Ok(normal(&json!(status.conditions), &place.namespace))
}

fn normal(conditions: &Value, namespace: &str) -> Vec<State> {
    let hash = Regex::new("new hash=[0-9A-Za-z]+").expect("a pattern");
    let mut states: Vec<State> = Vec::new();
    for condition in conditions.as_array().into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let state = [text("phase"), text("reason"), text("message").replace(namespace, "NS")];
        let [phase, reason, message] = &state;
        let is_passing =
            reason == "InstallWaiting" || phase == "Failed" && message.contains("waiting for deployment");
        let state = [phase.clone(), reason.clone(), hash.replace(message, "new hash=H").into_owned()];
        // Upstream leaves this failure for the certificate that was never made, and comes back.
        let is_endless = message == "owned APIServices need cert refresh";
        if !is_passing && !is_endless && states.last() != Some(&state) {
            states.push(state);
        }
    }
    states
}

/// Checks that an operator has lived as upstream's did, and counts it.
async fn compare(place: &Place, name: &str, wanted: &[State]) -> Result<()> {
    let found = lived(place, name).await?;
    ensure!(found == wanted, "{name}: upstream {wanted:#?}\nhere {found:#?}");
    olm_test::data::report(&format!("recorded life of an operator: {} states equal", found.len()));
    Ok(())
}

const RUNS: &str = "Succeeded/InstallSucceeded";

async fn target(place: &Place, spec: Value) -> Result<()> {
    place.groups.patch("g", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_are_missing_too_many_or_of_other_modes() -> Result<()> {
    let Some(folder) = olm_test::data::find("classic") else { return Ok(()) };
    let world = Operators::shared().await?;
    let place = world.place("st-nogroup").await?;
    place.operator("a.v1", json!({"minKubeVersion": "1.20.0"})).await?;
    place.shows("a.v1", "Failed/NoOperatorGroup").await?;
    place.group(json!({})).await?;
    place.shows("a.v1", RUNS).await?;
    let second = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "g2"}, "spec": {},
    });
    place.groups.create(&PostParams::default(), &serde_json::from_value(second)?).await?;
    place.shows("a.v1", "Failed/TooManyOperatorGroups").await?;
    place.groups.delete("g2", &DeleteParams::default()).await?;
    place.shows("a.v1", RUNS).await?;
    compare(&place, "a.v1", &recorded(&folder, "st-nogroup", "a.v1", 0)?).await?;

    let place = world.place("st-modes").await?;
    let other = unique_name("other");
    world.cluster.create_namespace(&other).await?;
    place.group(json!({})).await?;
    let mode = |name: &str, supported: bool| json!({"type": name, "supported": supported});
    let own = [mode("OwnNamespace", true), mode("AllNamespaces", false)];
    place.operator("a.v1", json!({"minKubeVersion": "1.20.0", "installModes": own})).await?;
    place.shows("a.v1", "Failed/UnsupportedOperatorGroup").await?;
    target(&place, json!({"targetNamespaces": [place.namespace]})).await?;
    place.shows("a.v1", RUNS).await?;
    target(&place, json!({"targetNamespaces": [other]})).await?;
    place.shows("a.v1", "Failed/UnsupportedOperatorGroup").await?;
    target(&place, json!({"targetNamespaces": null, "selector": {"matchLabels": {"no": "where"}}})).await?;
    place.shows("a.v1", "Failed/NoTargetNamespaces").await?;
    compare(&place, "a.v1", &recorded(&folder, "st-modes", "a.v1", 0)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn requirements_and_permissions_that_come_and_go() -> Result<()> {
    let Some(folder) = olm_test::data::find("classic") else { return Ok(()) };
    let world = Operators::shared().await?;
    let place = world.place("st-requirements").await?;
    place.group(json!({})).await?;
    let plural = format!("needs{}", place.namespace.replace('-', ""));
    let crd = |plural: &str| format!("{plural}.operators.example.com");
    let needed = json!({"required": [{"name": crd(&plural), "version": "v1", "kind": "Need"}]});
    place.operator("a.v1", json!({"customresourcedefinitions": needed})).await?;
    place.shows("a.v1", "Pending/RequirementsNotMet").await?;
    define(&world.cluster, &plural, "Need")?;
    place.shows("a.v1", RUNS).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(place.client.clone());
    crds.delete(&crd(&plural), &DeleteParams::default()).await?;
    place.shows("a.v1", "Pending/RequirementsNotMet").await?;
    crds.gone(&crd(&plural)).await?;
    define(&world.cluster, &plural, "Need")?;
    place.shows("a.v1", RUNS).await?;
    compare(&place, "a.v1", &recorded(&folder, "st-requirements", "a.v1", 0)?).await?;

    let place = world.place("st-rights").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let install = json!({"strategy": "deployment", "spec": {
        "deployments": [crate::operators::deployment("a-v1")],
        "permissions": [{"serviceAccountName": "runner", "rules": [rule]}],
    }});
    place.operator("a.v1", json!({"install": install})).await?;
    place.shows("a.v1", "Pending/RequirementsNotMet").await?;
    crate::operators::create_runner(&world.cluster, &place, &rule)?;
    place.shows("a.v1", RUNS).await?;
    compare(&place, "a.v1", &recorded(&folder, "st-rights", "a.v1", 0)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_is_lost_or_changed_and_a_certificate_that_is_lost() -> Result<()> {
    let Some(folder) = olm_test::data::find("classic") else { return Ok(()) };
    let world = Operators::shared().await?;
    let place = world.place("st-drift").await?;
    place.group(json!({})).await?;
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", RUNS).await?;
    place.deployments.delete("a-v1", &DeleteParams::default()).await?;
    let history = async |count: usize| {
        wait::until("the next installation", DEADLINE, || async {
            let found = lived(&place, "a.v1").await?;
            let runs = found.iter().filter(|state| state[0] == "Succeeded").count();
            wait::check(runs == count && found.last().is_some_and(|last| last[0] == "Succeeded"), || {
                format!("{found:#?}")
            })
        })
        .await
    };
    history(2).await?;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"olm.deployment-spec-hash": "x"}}}));
    place.deployments.patch("a-v1", &PatchParams::default(), &patch).await?;
    history(3).await?;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"added": "later"}}}));
    place.csvs.patch("a.v1", &PatchParams::default(), &patch).await?;
    history(4).await?;
    compare(&place, "a.v1", &recorded(&folder, "st-drift", "a.v1", 0)?).await?;

    let place = world.place("st-webhooks").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    place.operator("a.v1", json!({"webhookdefinitions": [webhook("one", "CREATE")]})).await?;
    place.shows("a.v1", RUNS).await?;
    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), &place.namespace);
    secrets.delete("a-v1-service-cert", &DeleteParams::default()).await?;
    secrets.appears("a-v1-service-cert").await?;
    place.shows("a.v1", RUNS).await?;
    compare(&place, "a.v1", &recorded(&folder, "st-webhooks", "a.v1", 0)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_is_denied_until_permissions_change() -> Result<()> {
    let Some(folder) = olm_test::data::find("classic") else { return Ok(()) };
    let world = Operators::shared().await?;
    let place = world.place("st-scoped").await?;
    let name = json!({"name": "weak", "namespace": place.namespace});
    let create = |object: &Value| {
        olm_test::kubectl::kubectl_with(&world.cluster, &["create", "-f", "-"], object.to_string().as_bytes())
    };
    create(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name}))?;
    place.group(json!({"serviceAccountName": "weak"})).await?;
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Failed/InstallComponentFailedNoRetry").await?;
    // What is granted in all namespaces counts, too.
    create(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": place.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "weak", "namespace": place.namespace}],
    }))?;
    place.shows("a.v1", RUNS).await?;
    compare(&place, "a.v1", &recorded(&folder, "st-scoped", "a.v1", 1)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_version_that_is_replaced_and_one_that_is_in_conflict() -> Result<()> {
    let Some(folder) = olm_test::data::find("classic") else { return Ok(()) };
    let world = Operators::shared().await?;
    let place = world.place("st-failforward").await?;
    place.group(json!({"upgradeStrategy": "TechPreviewUnsafeFailForward"})).await?;
    let twice = json!([webhook("one", "CREATE"), webhook("one", "CREATE")]);
    place.operator("a.v1", json!({"webhookdefinitions": twice})).await?;
    place.shows("a.v1", "Failed/InvalidWebhookDescription").await?;
    // The newer version cannot run yet, so that the older one can be looked at before it goes.
    let missing =
        json!({"required": [{"name": "none.operators.example.com", "version": "v1", "kind": "None"}]});
    place.operator("a.v2", json!({"replaces": "a.v1", "customresourcedefinitions": missing})).await?;
    place.shows("a.v1", "Replacing/BeingReplaced").await?;
    let wanted = recorded(&folder, "st-failforward", "a.v1", 0)?;
    let (last, before) = wanted.split_last().context("no history")?;
    ensure!(last[1] == "Replaced", "{last:?}");
    compare(&place, "a.v1", before).await?;
    let free = Patch::Merge(json!({"spec": {"customresourcedefinitions": null}}));
    place.csvs.patch("a.v2", &PatchParams::default(), &free).await?;
    place.shows("a.v2", RUNS).await?;
    place.gone("a.v1").await?;

    let place = world.place("st-upgrade").await?;
    place.group(json!({})).await?;
    let plural = format!("owns{}", place.namespace.replace('-', ""));
    define(&world.cluster, &plural, "Own")?;
    place.operator("a.v1", crate::operators::provides(&plural, "Own")).await?;
    place.shows("a.v1", RUNS).await?;
    place.operator("x.v1", crate::operators::provides(&plural, "Own")).await?;
    place.shows("x.v1", "Failed/OwnerConflict").await?;
    // Upstream's history is full of the same two states: the first failure is what it shares with this one.
    let upstream = recorded(&folder, "st-upgrade", "x.v1", 0)?;
    let found = lived(&place, "x.v1").await?;
    let last = found.last().context("no history")?;
    ensure!(upstream.contains(last), "{upstream:#?}\nhere {found:#?}");
    ensure!(found.len() == 2, "{found:#?}");
    Ok(())
}
