//! What upstream's own installation consists of, from the dump of a cluster that it ran on.

use crate::prelude::*;
use std::io::{Read, Write};

/// The dump of a cluster with upstream on it, unless it is not here.
pub fn dump() -> Option<PathBuf> {
    crate::data::find("takeover/boxcutter")
}

/// Upstream's own objects, the CRDs left out, so that they can be applied; the namespace comes first.
pub fn objects(dump: &Path) -> Result<Vec<Value>> {
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

/// A file that kubectl applies.
pub fn list_file(items: &[Value]) -> Result<tempfile::NamedTempFile> {
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
