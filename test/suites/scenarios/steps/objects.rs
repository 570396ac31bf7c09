//! Any objects: applied, changed, removed, looked at.

use cucumber::{gherkin::Step, given, then, when};
use k8s_openapi::api::core::v1::Pod;
use olm_test::{extension::allow_deadline, prelude::*};

use super::Outcome;
use crate::{
    bundles::READINESS_GATE,
    world::{DEADLINE, World, at_home},
};

#[given("the namespace of the scenario")]
async fn namespace(w: &mut World) -> Outcome {
    Ok(at_home(w).await?)
}

#[given("these objects")]
#[when("these objects are applied")]
async fn applied(w: &mut World, step: &Step) -> Outcome {
    let text = w.text(step.docstring.as_deref().context("the step has no text below it")?);
    for object in olm_yaml::documents(&text) {
        w.apply(&object?).await?;
    }
    Ok(())
}

#[when(expr = "the {word} {string} is changed to")]
async fn changed(w: &mut World, kind: String, name: String, step: &Step) -> Outcome {
    let patch = w.yaml(step)?;
    Ok(w.patch(&kind, &name, &patch).await?)
}

#[when(expr = "the {word} {string} is removed")]
#[given(expr = "the {word} {string} is removed")]
async fn removed(w: &mut World, kind: String, name: String) -> Outcome {
    Ok(w.delete(&kind, &name).await?)
}

#[then(expr = "the {word} {string} exists")]
async fn exists(w: &mut World, kind: String, name: String) -> Outcome {
    Ok(w.until("to exist", &kind, &name, |_| Ok(())).await?)
}

#[then(expr = "there is no {word} {string}")]
async fn absent(w: &mut World, kind: String, name: String) -> Outcome {
    let found = w.get(&kind, &name).await?;
    must!(found.is_none(), "there is: {}", found.unwrap_or_default()["metadata"]);
    Ok(())
}

#[then(expr = "the {word} {string} goes away")]
async fn goes(w: &mut World, kind: String, name: String) -> Outcome {
    Ok(w.gone(&kind, &name, crate::world::COLLECTED).await?)
}

#[then(expr = "the {word} {string} has")]
async fn has(w: &mut World, kind: String, name: String, step: &Step) -> Outcome {
    let parts = w.yaml(step)?;
    Ok(w.includes(&kind, &name, &parts).await?)
}

/// Makes the controller look at an object again, by a change that means nothing.
#[when(expr = "the {word} {string} is looked at again")]
async fn looked_at(w: &mut World, kind: String, name: String) -> Outcome {
    let patch = json!({"metadata": {"labels": {"looked-at": olm_test::cluster::unique_name("t")}}});
    Ok(w.patch(&kind, &name, &patch).await?)
}

/// Whatever the programs would change is changed when this has been restored.
#[when("the extension is worked on again")]
async fn worked_on(w: &mut World) -> Outcome {
    let name = "${ID}-settings";
    remembered(w, "ConfigMap".to_owned(), name.to_owned()).await?;
    removed(w, "ConfigMap".to_owned(), name.to_owned()).await?;
    another(w, "ConfigMap".to_owned(), name.to_owned()).await
}

/// The identity of an object is remembered, to be compared later.
#[given(expr = "the {word} {string} is remembered")]
#[when(expr = "the {word} {string} is remembered")]
async fn remembered(w: &mut World, kind: String, name: String) -> Outcome {
    let object = w.get_there(&kind, &name).await?;
    w.kept.insert(format!("{kind} {name}"), object);
    Ok(())
}

#[then(expr = "the {word} {string} is another one than before")]
async fn another(w: &mut World, kind: String, name: String) -> Outcome {
    let before = w.kept.get(&format!("{kind} {name}")).context("nothing is remembered")?;
    let before = before["metadata"]["uid"].clone();
    Ok(w.until("to be made anew", &kind, &name, |object| {
        must!(object["metadata"]["uid"] != before, "it is the one before");
        Ok(())
    })
    .await?)
}

#[then(expr = "the {word} {string} is the same as before")]
async fn same(w: &mut World, kind: String, name: String) -> Outcome {
    let before = w.kept.get(&format!("{kind} {name}")).context("nothing is remembered")?;
    let now = w.get_there(&kind, &name).await?;
    must!(before["metadata"]["uid"] == now["metadata"]["uid"], "it is another one");
    must!(before["spec"] == now["spec"] && before["data"] == now["data"], "it has changed: {now}");
    Ok(())
}

#[then(expr = "there are {int} ReplicaSets of {string}")]
async fn replica_sets(w: &mut World, wanted: usize, deployment: String) -> Outcome {
    let owner =
        json!({"metadata": {"ownerReferences": [{"kind": "Deployment", "name": w.text(&deployment)}]}});
    Ok(wait::until("the ReplicaSets", DEADLINE, async || {
        let list = w.api("ReplicaSet")?.list(&ListParams::default()).await?;
        let values: Vec<Value> = list.items.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let found = values.iter().filter(|set| crate::match_parts::missing(&owner, set).is_none()).count();
        wait::check(found == wanted, || format!("there are {found}"))
    })
    .await?)
}

/// Sets the condition that holds gated Pods back; where nobody plays kubelet, also what a kubelet makes of it.
async fn say(w: &World, ready: bool) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(w.client.clone(), &w.id);
    wait::until("Pods to say so", DEADLINE, async || {
        let all = pods.list(&ListParams::default().labels(&format!("app={}", w.id))).await?.items;
        let status = if ready { "True" } else { "False" };
        let mut types = vec![READINESS_GATE];
        if !w.place.facts().pods {
            types.extend(["Ready", "ContainersReady"]);
        }
        let conditions: Vec<Value> =
            types.into_iter().map(|type_| json!({"type": type_, "status": status})).collect();
        for pod in &all {
            let patch = json!({"status": {"conditions": conditions}});
            pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await?;
        }
        wait::check(!all.is_empty(), || "there is no Pod".to_owned())
    })
    .await
}

#[when("the operator's Pods say that they are not ready")]
async fn not_ready(w: &mut World) -> Outcome {
    Ok(say(w, false).await?)
}

#[when("the operator's Pods say that they are ready")]
#[given("the operator's Pods say that they are ready")]
async fn ready(w: &mut World) -> Outcome {
    Ok(say(w, true).await?)
}

#[given("progress deadlines may be as short as a minute")]
async fn short_deadlines(w: &mut World) -> Outcome {
    Ok(allow_deadline(&w.client, 1).await?)
}
