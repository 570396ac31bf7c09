//! Content in Secrets: what is refused, and what heals.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use olm_test::prelude::*;

use super::{begins, create, inline, map, rolled_out, scenario, shows, spec};

async fn secret(scenario: &Scenario<'_>, name: &str, immutable: bool, data: Value) -> Result<()> {
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": scenario.name},
        "immutable": immutable, "stringData": data,
    }))?;
    scenario.secrets().make(&secret).await?;
    Ok(())
}

fn reference(namespace: &str, name: &str, key: &str) -> Value {
    json!([{"ref": {"namespace": namespace, "name": name, "key": key}}])
}

/// Waits for the words of `Progressing`; where they end with a colon, the words of others follow.
async fn tells(scenario: &Scenario<'_>, set: &str, wanted: &str) -> Result<()> {
    if wanted.ends_with(": ") {
        begins(scenario, set, Progressing, wanted).await
    } else {
        shows(scenario, set, Progressing, wanted).await
    }
}

/// An object that is small only while it is compressed.
fn bomb(object: &str) -> Result<k8s_openapi::ByteString> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&vec![b' '; 10 << 20])?;
    packed.write_all(object.as_bytes())?;
    Ok(k8s_openapi::ByteString(packed.finish()?))
}

/// The Secret `content`, in which one object can be used; and `packed`, in which one is no gzip although it begins like
/// it, and one expands too far.
async fn contents(scenario: &Scenario<'_>) -> Result<()> {
    let good = map(scenario, "good").to_string();
    secret(scenario, "content", true, json!({"good": good, "garbage": "}{"})).await?;
    let broken = k8s_openapi::ByteString([b"\x1f\x8b", b"nonsense".as_slice()].concat());
    let secret = Secret {
        metadata: kube::api::ObjectMeta { name: Some("packed".into()), ..Default::default() },
        immutable: Some(true),
        data: Some([("broken".to_owned(), broken), ("bomb".to_owned(), bomb(&good)?)].into()),
        ..Secret::default()
    };
    scenario.secrets().make(&secret).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_cannot_be_used_is_told() -> Result<()> {
    let scenario = scenario(World::shared().await?, "refs").await?;
    let place = scenario.name.as_str();
    contents(&scenario).await?;
    let resolving = |cause: &str| format!("True/Retrying/resolving ref in phase \"one\": {cause}");
    let twice = format!("Object ConfigMap.v1 {place}/twice: Duplicate object also found in phases one");
    let rows = [
        (
            "missing",
            reference(place, "none", "good"),
            resolving(&format!("getting Secret {place}/none: secrets \"none\" not found")),
        ),
        (
            "key",
            reference(place, "content", "other"),
            resolving(&format!("key \"other\" not found in Secret {place}/content")),
        ),
        (
            "garbage",
            reference(place, "content", "garbage"),
            resolving(&format!("unmarshaling object from key \"garbage\" in Secret {place}/content: ")),
        ),
        (
            "gzip",
            reference(place, "packed", "broken"),
            resolving(&format!("decompressing key \"broken\" in Secret {place}/packed: ")),
        ),
        (
            "bomb",
            reference(place, "packed", "bomb"),
            resolving(&format!(
                "decompressed data for key \"bomb\" in Secret {place}/packed exceeds maximum size (10485760 bytes)"
            )),
        ),
        (
            "forbidden",
            reference("kube-public", "x", "y"),
            "False/Blocked/getting Secret kube-public/x: secrets \"x\" is forbidden: ".to_owned(),
        ),
        (
            "system",
            reference(SYSTEM_NAMESPACE, "none", "y"),
            resolving("getting Secret olmv1-system/none: secrets \"none\" not found"),
        ),
        (
            "twice",
            inline(&[map(&scenario, "twice"), map(&scenario, "once"), map(&scenario, "twice")]),
            format!("True/Retrying/revision validation error: {twice}"),
        ),
    ];
    for (suffix, objects, _) in &rows {
        create(&scenario, suffix, spec(&[("one", objects.clone())])).await?;
    }
    for (suffix, _, wanted) in &rows {
        let set = format!("{place}-{suffix}");
        tells(&scenario, &set, wanted).await?;
        // Nothing was touched, so nothing holds the set.
        scenario.sets().remove(&set).await?;
    }
    ensure!(scenario.maps().get_opt("twice").await?.is_none(), "one of two equals was written");
    scenario.event("ClusterObjectSet", &format!("{place}-forbidden"), "Blocked", "is forbidden").await?;

    let set = create(&scenario, "good", spec(&[("one", reference(place, "content", "good"))])).await?;
    rolled_out(&scenario, &set).await
}

/// Secrets of the system namespace are read with the controller's rights: only those made for this very revision are.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_others_in_the_system_namespace_are_not_used() -> Result<()> {
    let scenario = scenario(World::shared().await?, "foreign").await?;
    let system: Api<Secret> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let (revision_name, owner_name) =
        ("olm.operatorframework.io/revision-name", "olm.operatorframework.io/owner-name");
    let data = "olm.operatorframework.io/object-data";
    let named = |suffix: &str| format!("{}-{suffix}", scenario.name);
    let rows = [
        ("opaque", "Opaque", json!({revision_name: named("opaque")}), false),
        ("another", data, json!({revision_name: named("ours")}), false),
        ("owned", data, json!({revision_name: named("owned"), owner_name: "somebody"}), false),
        ("ours", data, json!({revision_name: named("ours")}), true),
    ];
    for (suffix, type_, labels, _) in &rows {
        let object = map(&scenario, suffix).to_string();
        let key = olm_objectset::content_key(object.as_bytes());
        let secret: Secret = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret", "type": type_, "immutable": true,
            "metadata": {"name": named(suffix), "namespace": SYSTEM_NAMESPACE, "labels": labels},
            "stringData": {&key: object},
        }))?;
        system.make(&secret).await?;
        let content = reference(SYSTEM_NAMESPACE, &named(suffix), &key);
        create(&scenario, suffix, spec(&[("one", content)])).await?;
    }
    for (suffix, _, _, ours) in rows {
        let set = named(suffix);
        if ours {
            rolled_out(&scenario, &set).await?;
        } else {
            let wanted = format!(
                "False/Blocked/Secret {SYSTEM_NAMESPACE}/{set} in the system namespace does not belong to this revision: it must be of type {data}, carry the label {revision_name}={set}, the same label {owner_name} as the revision, and have no other owner"
            );
            shows(&scenario, &set, Progressing, &wanted).await?;
            ensure!(scenario.maps().get_opt(suffix).await?.is_none(), "{suffix} was written");
        }
        system.remove(&set).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_comes_later_is_waited_for() -> Result<()> {
    let scenario = scenario(World::shared().await?, "later").await?;
    let place = scenario.name.as_str();
    let set = create(&scenario, "set", spec(&[("one", reference(place, "content", "k"))])).await?;
    let missing = format!(
        "True/Retrying/resolving ref in phase \"one\": getting Secret {place}/content: secrets \"content\" not found"
    );
    shows(&scenario, &set, Progressing, &missing).await?;
    secret(&scenario, "content", true, json!({"k": map(&scenario, "late").to_string()})).await?;
    scenario.maps().appears("late").await
}
