//! Revisions, made by extensions or by hand.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use cucumber::{gherkin::Step, given, then, when};
use olm_api::names::{OBJECT_DATA_SECRET_TYPE, REVISION_NAME_LABEL};
use olm_test::prelude::*;

use super::Outcome;
use crate::world::{ACCOUNT, World, at_home};

#[given(expr = "the account {string} may do everything in the namespace")]
async fn everything(w: &mut World, account: String) -> Outcome {
    must!(account == ACCOUNT, "there is no account {account:?}");
    at_home(w).await?;
    let (id, group) = (w.id.clone(), "rbac.authorization.k8s.io");
    w.apply(&json!({
        "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": ACCOUNT, "namespace": id},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    }))
    .await?;
    w.apply(&json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": ACCOUNT, "namespace": id},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": id}],
    }))
    .await?;
    // Only cluster-wide rules cover revisions' finalizers.
    let name = format!("{id}-finalizers");
    w.apply(&json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterobjectsets/finalizers"], "verbs": ["update"]}],
    }))
    .await?;
    Ok(w.apply(&json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": id}],
    }))
    .await?)
}

#[when("a revision is made by hand with")]
async fn made(w: &mut World, step: &Step) -> Outcome {
    let mut spec = w.yaml(step)?;
    for (name, value) in [
        ("revision", json!(1)),
        ("lifecycleState", json!("Active")),
        ("collisionProtection", json!("Prevent")),
    ] {
        spec[name] = value;
    }
    let object = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": w.id, "annotations": {
            SERVICE_ACCOUNT_NAME_ANNOTATION: ACCOUNT, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: w.id,
        }},
        "spec": spec,
    });
    Ok(w.create(&object).await?)
}

/// A Secret with an object under the key `object`, compressed or not.
async fn secret(w: &mut World, name: &str, object: &Value, compressed: bool, immutable: bool) -> Result<()> {
    let mut data = object.to_string().into_bytes();
    if compressed {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&data)?;
        data = encoder.finish()?;
    }
    let namespace = w.id.clone();
    w.create(&json!({
        "apiVersion": "v1", "kind": "Secret", "type": OBJECT_DATA_SECRET_TYPE, "immutable": immutable,
        "metadata": {"name": w.text(name), "namespace": namespace},
        "data": {"object": STANDARD.encode(data)},
    }))
    .await
}

#[given(expr = "the immutable Secret {string} holds the object")]
#[when(expr = "the immutable Secret {string} holds the object")]
async fn immutable(w: &mut World, name: String, step: &Step) -> Outcome {
    let object = w.yaml(step)?;
    Ok(secret(w, &name, &object, false, true).await?)
}

#[given(expr = "the immutable Secret {string} holds, compressed, the object")]
async fn compressed(w: &mut World, name: String, step: &Step) -> Outcome {
    let object = w.yaml(step)?;
    Ok(secret(w, &name, &object, true, true).await?)
}

#[given(expr = "the mutable Secret {string} holds the object")]
async fn mutable(w: &mut World, name: String, step: &Step) -> Outcome {
    let object = w.yaml(step)?;
    Ok(secret(w, &name, &object, false, false).await?)
}

#[then(expr = "all objects of the revision {string} lie in immutable Secrets of the system namespace")]
async fn externalized(w: &mut World, name: String) -> Outcome {
    let name = w.text(&name);
    let set = w.get_there("ClusterObjectSet", &name).await?;
    let phases = set["spec"]["phases"].as_array().context("no phases")?;
    let objects: Vec<&Value> =
        phases.iter().filter_map(|phase| phase["objects"].as_array()).flatten().collect();
    must!(!objects.is_empty(), "the revision has no objects");
    let system = &w.place.facts().system_namespace;
    let secrets = w.api_in(&w.client, "Secret", system)?;
    for object in objects {
        let reference = &object["ref"];
        must!(object["object"].is_null() && reference["namespace"] == system.as_str(), "it has {object}");
        let name = reference["name"].as_str().context("no name")?;
        let secret = serde_json::to_value(secrets.get(name).await?)?;
        let key = reference["key"].as_str().context("no key")?;
        must!(secret["data"][key].is_string(), "the Secret {name} has no key {key}");
    }
    let mine = ListParams::default().labels(&format!("{REVISION_NAME_LABEL}={name}"));
    let of_revision = secrets.list(&mine).await?.items;
    must!(!of_revision.is_empty(), "no Secret is labelled with the revision");
    for secret in of_revision {
        let secret = serde_json::to_value(secret)?;
        let parts = json!({
            "type": OBJECT_DATA_SECRET_TYPE, "immutable": true,
            "metadata": {
                "labels": {REVISION_NAME_LABEL: name, "olm.operatorframework.io/owner-name": w.id},
                "ownerReferences": [{"kind": "ClusterObjectSet", "name": name, "controller": true}],
            },
        });
        if let Some(missing) = crate::match_parts::missing(&parts, &secret) {
            fail!("the Secret: {missing}");
        }
    }
    Ok(())
}

#[then(expr = "a Secret of the revision {string} holds a compressed object")]
async fn holds_compressed(w: &mut World, name: String) -> Outcome {
    let secrets = w.api_in(&w.client, "Secret", &w.place.facts().system_namespace)?;
    let mine = ListParams::default().labels(&format!("{REVISION_NAME_LABEL}={}", w.text(&name)));
    for secret in secrets.list(&mine).await?.items {
        for value in secret.data["data"].as_object().into_iter().flatten().map(|(_, value)| value) {
            if STANDARD.decode(value.as_str().unwrap_or_default())?.starts_with(&[0x1f, 0x8b]) {
                return Ok(());
            }
        }
    }
    fail!("no value is compressed")
}
