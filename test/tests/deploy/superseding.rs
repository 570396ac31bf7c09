//! install.yaml over what upstream left, however that was applied.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use olm_test::cluster::Cluster;
use olm_test::operator::kubectl;
use serde_json::{Value, json};

use crate::installed::{catalogs_can_be_created, deployed, get, own_cluster, rights_are_those_of_the_table};
use crate::rendering::{ACCOUNT, config_arg};

/// The dump of a cluster with upstream on it, unless it is not here.
fn dump() -> Option<PathBuf> {
    olm_test::data::folder("takeover/boxcutter")
}

/// Upstream's own objects, the CRDs left out, so that they can be applied; the namespace comes first.
fn upstream(dump: &Path) -> Result<Vec<Value>> {
    let mut items = Vec::new();
    for entry in std::fs::read_dir(dump)? {
        let mut text = String::new();
        zstd::Decoder::new(std::fs::File::open(entry?.path())?)?.read_to_string(&mut text)?;
        let list: Value = serde_json::from_str(&text)?;
        for object in list["items"].as_array().context("items")? {
            let labels = &object["metadata"]["labels"];
            let made_by_others =
                ["Pod", "ReplicaSet", "CustomResourceDefinition"].iter().any(|kind| object["kind"] == *kind);
            if labels["app.kubernetes.io/part-of"] == "olm" && !made_by_others {
                items.push(applicable(object.clone())?);
            }
        }
    }
    items.sort_by_key(|object| object["kind"] != "Namespace");
    ensure!(items.len() > 20 && items[1]["kind"] != "Namespace", "the dump has {} of them", items.len());
    Ok(items)
}

fn list_file(items: &[Value]) -> Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new().suffix(".json").tempfile()?;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    file.write_all(list.to_string().as_bytes())?;
    Ok(file)
}

fn applicable(mut object: Value) -> Result<Value> {
    let metadata = object["metadata"].as_object_mut().context("metadata")?;
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        metadata.remove(field);
    }
    object.as_object_mut().context("an object")?.remove("status");
    if object["kind"] == "Service" {
        let spec = object["spec"].as_object_mut().context("spec")?;
        spec.retain(|field, _| !field.starts_with("clusterIP"));
    }
    if object["kind"] == "MutatingWebhookConfiguration" {
        // The dump's ran outside of the cluster.
        object["webhooks"][0]["clientConfig"] =
            json!({"service": {"name": "catalogd-service", "namespace": "olmv1-system", "port": 9443}});
    }
    Ok(object)
}

#[tokio::test]
async fn what_upstream_leaves_behind_does_no_harm() -> Result<()> {
    let Some(dump) = dump() else { return Ok(()) };
    let Some(cluster) = own_cluster().await? else { return Ok(()) };
    let upstream = upstream(&dump)?;
    let list = list_file(&upstream)?;
    let upstream_list = list.path().display().to_string();
    // CRDs and the namespace stay between two rounds: deleting them takes minutes and shows nothing.
    let without_namespace = list_file(&upstream[1..])?;
    let leftovers = without_namespace.path().display().to_string();
    let install = config_arg("install.yaml");
    let (client_side, server_side) =
        (&["apply", "-f"][..], &["apply", "--server-side", "--force-conflicts", "-f"][..]);
    let helm = &["apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f"][..];
    for theirs in [client_side, server_side, helm] {
        for ours in [client_side, server_side] {
            println!("upstream by {theirs:?}, ours by {ours:?}");
            kubectl(&cluster, &[theirs, &[&upstream_list]].concat())?;
            kubectl(&cluster, &[ours, &[&install]].concat())?;
            nothing_of_upstreams_is_in_force(&cluster).await?;
            for manifest in [&config_arg("default-catalogs.yaml"), &leftovers] {
                kubectl(&cluster, &["delete", "--ignore-not-found", "--timeout=120s", "-f", manifest])?;
            }
        }
    }
    Ok(())
}

async fn nothing_of_upstreams_is_in_force(cluster: &Cluster) -> Result<()> {
    // Upstream's webhook fails closed and nobody answers there.
    catalogs_can_be_created(cluster)?;
    rights_are_those_of_the_table(cluster);
    let bindings = get(cluster, &["clusterrolebindings,rolebindings", "-A"])?;
    let ours: Vec<&Value> = bindings["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|binding| {
            let subjects = binding["subjects"].as_array().into_iter().flatten();
            subjects
                .into_iter()
                .any(|subject| ACCOUNT.ends_with(&format!(":{}", subject["name"].as_str().unwrap_or("?"))))
        })
        .map(|binding| &binding["metadata"]["name"])
        .collect();
    assert_eq!(ours, ["operator-controller-manager-rolebinding"; 2], "no right but those of the table");
    let warning =
        get(cluster, &["validatingadmissionpolicybinding", "clusterextension-serviceaccount-deprecated"])?;
    assert_eq!(warning["spec"]["policyName"], "none.olm.operatorframework.io");
    deployed(cluster, "catalogd-controller-manager", 0).await?;
    deployed(cluster, "operator-controller-controller-manager", 2).await
}
