//! Content in Secrets: what is refused, and what heals.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use olm_api::ConditionType::Progressing;
use olm_test::wait;
use serde_json::{Value, json};

use super::{create, event, inline, map, maps, rolled_out, scenario, sets, shows, spec};
use crate::world::{DEADLINE, Scenario, World};

fn secrets(scenario: &Scenario<'_>) -> Api<Secret> {
    Api::namespaced(scenario.client.clone(), &scenario.name)
}

async fn secret(scenario: &Scenario<'_>, name: &str, immutable: bool, data: Value) -> Result<()> {
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": scenario.name},
        "immutable": immutable, "stringData": data,
    }))?;
    secrets(scenario).create(&PostParams::default(), &secret).await?;
    Ok(())
}

fn reference(namespace: &str, name: &str, key: &str) -> Value {
    json!([{"ref": {"namespace": namespace, "name": name, "key": key}}])
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_cannot_be_used_is_told() -> Result<()> {
    let scenario = scenario(World::shared().await?, "refs").await?;
    let place = scenario.name.as_str();
    let good = map(&scenario, "good").to_string();
    secret(&scenario, "content", true, json!({"good": good, "garbage": "}{"})).await?;
    let mut packed = secrets(&scenario).get("content").await?;
    packed.metadata = kube::api::ObjectMeta { name: Some("packed".into()), ..Default::default() };
    let broken = k8s_openapi::ByteString([b"\x1f\x8b", b"nonsense".as_slice()].concat());
    packed.data = Some([("broken".to_owned(), broken)].into());
    secrets(&scenario).create(&PostParams::default(), &packed).await?;
    let rows = [
        (
            "missing",
            reference(place, "none", "good"),
            format!(
                "True/Retrying/resolving ref in phase \"one\": getting Secret {place}/none: secrets \"none\" not found"
            ),
        ),
        (
            "key",
            reference(place, "content", "other"),
            format!(
                "True/Retrying/resolving ref in phase \"one\": key \"other\" not found in Secret {place}/content"
            ),
        ),
        (
            "garbage",
            reference(place, "content", "garbage"),
            format!(
                "True/Retrying/resolving ref in phase \"one\": unmarshaling object from key \"garbage\" in Secret {place}/content: "
            ),
        ),
        (
            "gzip",
            reference(place, "packed", "broken"),
            format!(
                "True/Retrying/resolving ref in phase \"one\": decompressing key \"broken\" in Secret {place}/packed: "
            ),
        ),
        (
            "forbidden",
            reference("kube-public", "x", "y"),
            "False/Blocked/getting Secret kube-public/x: secrets \"x\" is forbidden: ".to_owned(),
        ),
        (
            "foreign",
            reference("olmv1-system", "none", "y"),
            "True/Retrying/resolving ref in phase \"one\": getting Secret olmv1-system/none: ".to_owned(),
        ),
        (
            "twice",
            inline(&[map(&scenario, "twice"), map(&scenario, "once"), map(&scenario, "twice")]),
            format!(
                "True/Retrying/revision validation error: Object ConfigMap.v1 {place}/twice: Duplicate object also found in phases one"
            ),
        ),
    ];
    for (suffix, objects, _) in &rows {
        create(&scenario, suffix, spec(&[("one", objects.clone())])).await?;
    }
    for (suffix, _, wanted) in &rows {
        let set = format!("{place}-{suffix}");
        shows(&scenario, &set, Progressing, wanted).await?;
        // Nothing was touched, so nothing holds the set.
        sets(&scenario).delete(&set, &DeleteParams::default()).await?;
    }
    ensure!(maps(&scenario).get_opt("twice").await?.is_none(), "one of two equals was written");
    event(&scenario, "ClusterObjectSet", &format!("{place}-forbidden"), "Blocked", "is forbidden").await?;

    let set = create(&scenario, "good", spec(&[("one", reference(place, "content", "good"))])).await?;
    rolled_out(&scenario, &set).await
}

#[tokio::test(flavor = "multi_thread")]
async fn mutable_and_changed_content_blocks_until_it_is_put_right() -> Result<()> {
    let scenario = scenario(World::shared().await?, "changed").await?;
    let place = scenario.name.as_str();
    secret(&scenario, "mutable", false, json!({"k": map(&scenario, "mutable").to_string()})).await?;
    let set = create(&scenario, "mutable", spec(&[("one", reference(place, "mutable", "k"))])).await?;
    let wanted = format!(
        "False/Blocked/the following secrets are not immutable (referenced secrets must have immutable set to true): {place}/mutable"
    );
    shows(&scenario, &set, Progressing, &wanted).await?;
    let immutable = Patch::Merge(json!({"immutable": true}));
    secrets(&scenario).patch("mutable", &PatchParams::default(), &immutable).await?;
    rolled_out(&scenario, &set).await?;

    let content = map(&scenario, "kept").to_string();
    secret(&scenario, "content", true, json!({"k": content})).await?;
    let set = create(&scenario, "content", spec(&[("one", reference(place, "content", "k"))])).await?;
    rolled_out(&scenario, &set).await?;
    let digest =
        sets(&scenario).get(&set).await?.status.unwrap_or_default().observed_phases[0].digest.clone();
    let again = async |data: &str| {
        secrets(&scenario).delete("content", &DeleteParams::default()).await?;
        secret(&scenario, "content", true, json!({"k": data})).await?;
        // An event of the set's own: Secrets of others are not watched.
        let touch = json!({"metadata": {"annotations": {"touched": data.len().to_string()}}});
        super::patch(&scenario, &set, touch).await
    };
    let mut other = map(&scenario, "kept");
    other["data"]["a"] = "another".into();
    again(&other.to_string()).await?;
    let wanted = format!(
        "False/Blocked/resolved content of 1 phase(s) has changed: phase \"one\" (expected digest {digest}, got sha256:"
    );
    shows(&scenario, &set, Progressing, &wanted).await?;
    let told = super::condition(&scenario, &set, Progressing).await?;
    ensure!(
        told.ends_with(
            "; a referenced object source may have been deleted and recreated with different content"
        ),
        "{told}"
    );
    let data = maps(&scenario).get("kept").await?.data.unwrap_or_default();
    ensure!(data["a"] == "b", "the changed content was written");
    again(&content).await?;
    rolled_out(&scenario, &set).await?;
    // The API refuses a change of the content itself.
    let refused = super::patch(&scenario, &set, json!({"spec": {"phases": []}})).await;
    ensure!(refused.is_err_and(|e| e.to_string().contains("phases is immutable")), "phases were changed");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_comes_later_is_waited_for() -> Result<()> {
    let scenario = scenario(World::shared().await?, "later").await?;
    let place = scenario.name.as_str();
    let set = create(&scenario, "set", spec(&[("one", reference(place, "content", "k"))])).await?;
    shows(&scenario, &set, Progressing, "True/Retrying/resolving ref in phase \"one\": ").await?;
    secret(&scenario, "content", true, json!({"k": map(&scenario, "late").to_string()})).await?;
    wait::until("the object of the Secret", DEADLINE, || async {
        wait::check(maps(&scenario).get_opt("late").await?.is_some(), || "not there".into())
    })
    .await
}
