//! CustomResourceDefinitions of plans: what must hold before one is replaced, and when one is served.

use std::collections::BTreeSet;

use olm_object::text;
use serde_json::{Map, Value};

use super::texts;

/// Most ClusterServiceVersions that the annotations of a CRD name.
const ALONGSIDE_MAX: usize = 100;

/// The annotation of a CRD for a ClusterServiceVersion that brings it: key and value.
pub fn alongside(namespace: &str, csv: &str) -> (String, String) {
    let value = format!("{namespace}/{csv}");
    // FNV-1a of 64 bits.
    let hash = value.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (format!("{}{hash:x}", texts::ALONGSIDE_PREFIX), value)
}

/// ClusterServiceVersions, as namespace and name, that the annotations of a CRD name.
pub fn named_alongside(crd: &Value) -> Vec<(String, String)> {
    let annotations = crd["metadata"]["annotations"].as_object().into_iter().flatten();
    annotations
        .filter(|(key, _)| key.starts_with(texts::ALONGSIDE_PREFIX))
        .filter_map(|(_, value)| value.as_str()?.split_once('/'))
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
        .take(ALONGSIDE_MAX)
        .collect()
}

/// The versions that a definition serves.
pub fn served(crd: &Value) -> BTreeSet<&str> {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions.filter(|version| version["served"] == true).map(|version| text(version, "/name")).collect()
}

/// Whether a new definition has all versions at which objects are stored.
///
/// # Errors
/// The text is upstream's.
pub fn keeps_stored_versions(live: &Value, new: &Value) -> Result<(), String> {
    let name = text(live, "/metadata/name");
    let versions: BTreeSet<&str> = new["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|version| text(version, "/name"))
        .collect();
    if versions.is_empty() {
        return Err(texts::no_versions(name));
    }
    let mut stored =
        live["status"]["storedVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match stored.find(|stored| !versions.contains(stored)) {
        Some(removed) => Err(texts::stored_version_removed(name, removed)),
        None => Ok(()),
    }
}

/// Whether the API server serves a definition: Established and NamesAccepted.
pub fn is_served(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    ["Established", "NamesAccepted"].iter().all(|kind| {
        conditions.into_iter().flatten().any(|one| one["type"] == *kind && one["status"] == "True")
    })
}

/// Whether a definition converts objects by a webhook.
pub fn converts_by_webhook(crd: &Value) -> bool {
    crd["spec"]["conversion"]["strategy"] == "Webhook"
}

/// A live definition with the content of the new one. Labels and annotations of others stay, except those that name
/// ClusterServiceVersions which do not exist any more; the conversion that is installed stays until the new
/// ClusterServiceVersion sets another, unless the new definition has one. None if nothing changes.
pub fn replaced(live: &Value, new: &Value, exists: impl Fn(&str, &str) -> bool) -> Option<Value> {
    let mut after = live.clone();
    after["spec"] = new["spec"].clone();
    if let Some(conversion) = live["spec"].get("conversion")
        && !converts_by_webhook(new)
    {
        after["spec"]["conversion"] = conversion.clone();
    }
    for field in ["labels", "annotations"] {
        let mut all = live["metadata"][field].as_object().cloned().unwrap_or_default();
        all.retain(|key, value| {
            let gone = || {
                let named = value.as_str().and_then(|value| value.split_once('/'));
                named.is_none_or(|(namespace, name)| !exists(namespace, name))
            };
            !key.starts_with(texts::ALONGSIDE_PREFIX) || !gone()
        });
        let empty = Map::new();
        let wanted = new["metadata"][field].as_object().unwrap_or(&empty);
        all.extend(wanted.iter().map(|(key, value)| (key.clone(), value.clone())));
        if !all.is_empty() || !live["metadata"][field].is_null() {
            after["metadata"][field] = all.into();
        }
    }
    (after != *live).then_some(after)
}
