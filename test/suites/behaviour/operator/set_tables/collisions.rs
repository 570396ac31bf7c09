//! The collision table at its three levels.

use olm_test::prelude::*;
use std::fmt::Write as _;

use super::{begins, condition, controller, create, inline, map, patch, rolled_out, scenario, shows, spec};

/// Puts the protection that counts at one of the levels (spec, phase, object), and others above it.
fn protected(level: usize, protection: &str, object: &Value) -> Value {
    let other = if protection == "None" { "Prevent" } else { "None" };
    let mut spec = spec(&[("one", json!([{"object": object}]))]);
    match level {
        0 => spec["collisionProtection"] = protection.into(),
        1 => {
            spec["collisionProtection"] = other.into();
            spec["phases"][0]["collisionProtection"] = protection.into();
        }
        _ => {
            spec["collisionProtection"] = other.into();
            spec["phases"][0]["collisionProtection"] = other.into();
            spec["phases"][0]["objects"][0]["collisionProtection"] = protection.into();
        }
    }
    spec
}

/// Creates a ConfigMap as somebody else left it, with other data.
async fn leave(scenario: &Scenario<'_>, name: &str, metadata: Value) -> Result<()> {
    let mut found = map(scenario, name);
    found["data"]["a"] = "theirs".into();
    for (key, value) in metadata.as_object().context("metadata")? {
        found["metadata"][key] = value.clone();
    }
    scenario.maps().make(found).await?;
    Ok(())
}

/// Metadata of an object that another one controls.
async fn controlled(scenario: &Scenario<'_>) -> Result<Value> {
    let boss = scenario.maps().make(map(scenario, "boss")).await?;
    Ok(json!({"ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": boss.uid(), "controller": true,
    }]}))
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_and_innermost_protection_decide() -> Result<()> {
    let scenario = scenario(World::shared().await?, "collide").await?;
    let controlled = controlled(&scenario).await?;
    let orphaned = json!({"annotations": {"olm.operatorframework.io/revision": "1"}});
    // Who has it, and whether it is adopted under Prevent, IfNoController and None.
    let table = [
        ("nobody", json!({}), [false, true, true]),
        ("orphan", orphaned, [false, false, false]),
        ("foreign", controlled, [false, false, true]),
    ];
    let mut rows = Vec::new();
    for (who, metadata, adopted) in &table {
        for (protection, adopted) in ["Prevent", "IfNoController", "None"].into_iter().zip(adopted) {
            for level in 0..3 {
                let name = format!("{who}-{}-{level}", protection.to_lowercase());
                leave(&scenario, &name, metadata.clone()).await?;
                let spec = protected(level, protection, &map(&scenario, &name));
                let set = create(&scenario, &name, spec).await?;
                rows.push((*who, name, set, *adopted));
            }
        }
    }
    for (who, name, set, adopted) in rows {
        let data =
            || async { Ok::<_, anyhow::Error>(scenario.maps().get(&name).await?.data.unwrap_or_default()) };
        if adopted {
            rolled_out(&scenario, &set).await.with_context(|| name.clone())?;
            let uid = scenario.sets().get(&set).await?.uid();
            ensure!(controller(&scenario, &name).await? == uid, "{name} was not taken over");
            ensure!(data().await?["a"] == "b", "{name} was not written");
        } else {
            let mut report = format!(
                "True/Retrying/revision object collisions in phase 0\nObject ConfigMap.v1 {}/{name}\nAction: \"Collision\"",
                scenario.name
            );
            if who == "foreign" {
                let owner = &serde_json::to_value(scenario.maps().get(&name).await?)?["metadata"]["ownerReferences"]
                    [0];
                write!(report, "\nConflicting Owner: {owner}")?;
            }
            shows(&scenario, &set, Progressing, &report).await?;
            // An error never creates the condition.
            ensure!(condition(&scenario, &set, Available).await?.is_empty(), "{name}: Available appeared");
            ensure!(data().await?["a"] == "theirs", "{name} was written");
        }
    }
    let set = format!("{}-foreign-prevent-0", scenario.name);
    scenario.event("ClusterObjectSet", &set, "Collision", "foreign-prevent-0").await
}

/// Whichever way a collision ends: the object is deleted, loses its controller, or goes with the revision that had it.
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_rolls_out_once_what_it_collided_with_is_gone() -> Result<()> {
    let scenario = scenario(World::shared().await?, "freed").await?;
    let controlled = controlled(&scenario).await?;
    leave(&scenario, "deleted", controlled.clone()).await?;
    leave(&scenario, "released", controlled).await?;
    let first = create(&scenario, "first", spec(&[("one", inline(&[map(&scenario, "archived")]))])).await?;
    rolled_out(&scenario, &first).await?;
    let mut sets = Vec::new();
    for name in ["deleted", "released", "archived"] {
        let set = create(&scenario, name, protected(0, "IfNoController", &map(&scenario, name))).await?;
        begins(&scenario, &set, Progressing, "True/Retrying/revision object collisions in phase 0\n").await?;
        begins(&scenario, &set, Stalled, "True/Blocked/revision object collisions in phase 0").await?;
        sets.push((name, set));
    }
    scenario.maps().remove("deleted").await?;
    scenario.maps().merge("released", &json!({"metadata": {"ownerReferences": null}})).await?;
    patch(&scenario, &first, json!({"spec": {"lifecycleState": "Archived"}})).await?;
    for (name, set) in sets {
        rolled_out(&scenario, &set).await?;
        ensure!(condition(&scenario, &set, Stalled).await?.is_empty(), "{name}: somebody should still act");
        ensure!(controller(&scenario, name).await? == scenario.sets().get(&set).await?.uid(), "{name}");
        let data = scenario.maps().get(name).await?.data.unwrap_or_default();
        ensure!(data["a"] == "b", "{name} was not written: {data:?}");
    }
    Ok(())
}
