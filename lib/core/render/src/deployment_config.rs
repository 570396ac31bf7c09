//! The user's `deploymentConfig`, merged into a Deployment: OLM v0's SubscriptionConfig with OLM v1's rules.
//!
//! It reaches `containers` only, never init or ephemeral ones. The configuration is typed already.
//!
//! As `applyCustomConfigToDeployment` in operator-controller's
//! internal/operator-controller/rukpak/render/registryv1/generators/generators.go.

use std::collections::BTreeMap;

use olm_object::text;
use serde_json::{Map, Value};

use crate::{
    deployments::pod,
    fields::{each, list, map_at},
};

/// Applies the configuration, in upstream's order.
pub fn apply(deployment: &mut Value, configuration: &Map<String, Value>) {
    let items =
        |field| configuration.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if let Some(pod) = pod(deployment) {
        for container in each(pod, "containers") {
            merge_named(container, "env", items("env"));
            append_unequal(container, "envFrom", items("envFrom"));
            merge_named(container, "volumeMounts", items("volumeMounts"));
            if let Some(resources) = configuration.get("resources") {
                container.insert("resources".to_owned(), resources.clone());
            }
        }
        merge_named(pod, "volumes", items("volumes"));
        append_unequal(pod, "tolerations", items("tolerations"));
        match configuration.get("nodeSelector").and_then(Value::as_object) {
            Some(selector) if selector.is_empty() => {
                pod.remove("nodeSelector");
            }
            Some(selector) => {
                pod.insert("nodeSelector".to_owned(), selector.clone().into());
            }
            None => {}
        }
        if let Some(affinity) = configuration.get("affinity").and_then(Value::as_object) {
            merge_affinity(pod, affinity);
        }
    }
    let given = configuration.get("annotations").and_then(Value::as_object);
    if let Some(given) = given.filter(|annotations| !annotations.is_empty()) {
        for metadata in ["/metadata", "/spec/template/metadata"] {
            let metadata = deployment.pointer_mut(metadata);
            let Some(annotations) = metadata.and_then(|metadata| map_at(metadata, &["annotations"])) else {
                continue;
            };
            // Those of the bundle win.
            for (key, value) in given {
                annotations.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
}

/// Replaces items of the same name in place, as the bundle had them, and appends the others.
fn merge_named(object: &mut Map<String, Value>, field: &str, given: &[Value]) {
    if given.is_empty() {
        return;
    }
    let Some(items) = list(object, field) else { return };
    let name = |item: &Value| text(item, "/name").to_owned();
    // Of several with one name the last is replaced.
    let places: BTreeMap<String, usize> =
        items.iter().enumerate().map(|(place, item)| (name(item), place)).collect();
    for item in given {
        match places.get(&name(item)).and_then(|place| items.get_mut(*place)) {
            Some(old) => *old = item.clone(),
            None => items.push(item.clone()),
        }
    }
}

/// Appends items that are not there yet.
fn append_unequal(object: &mut Map<String, Value>, field: &str, given: &[Value]) {
    if given.is_empty() {
        return;
    }
    let Some(items) = list(object, field) else { return };
    for item in given {
        if !items.contains(item) {
            items.push(item.clone());
        }
    }
}

fn merge_affinity(pod: &mut Map<String, Value>, given: &Map<String, Value>) {
    let mut affinity = match pod.remove("affinity") {
        Some(Value::Object(affinity)) if !given.is_empty() => affinity,
        _ => Map::new(),
    };
    for (member, value) in given {
        if is_empty_affinity(member, value) {
            affinity.remove(member);
        } else {
            affinity.insert(member.clone(), value.clone());
        }
    }
    if !affinity.is_empty() {
        pod.insert("affinity".to_owned(), affinity.into());
    }
}

/// Whether a member has no terms, and so removes the bundle's.
fn is_empty_affinity(member: &str, value: &Value) -> bool {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let empty = |value: Option<&Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
    let required = value.get(REQUIRED);
    let required = if member == "nodeAffinity" {
        required.and_then(|required| required.get("nodeSelectorTerms"))
    } else {
        required
    };
    empty(required) && empty(value.get("preferredDuringSchedulingIgnoredDuringExecution"))
}
