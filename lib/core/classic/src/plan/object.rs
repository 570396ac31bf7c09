//! The object of a step as it is written: its kind, namespace, labels and owners.

use olm_api_classic::{Step, names::MANAGED_LABEL};
use olm_bundle::CSV_KIND;
use serde_json::{Map, Value, json};

use super::texts;

/// The kinds that plans may hold, by name, as upstream has them.
const SUPPORTED: [&str; 22] = [
    CSV_KIND,
    "CustomResourceDefinition",
    "Subscription",
    texts::BUNDLE_SECRET,
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "Service",
    "ConfigMap",
    "PrometheusRule",
    "ServiceMonitor",
    "PodDisruptionBudget",
    "PriorityClass",
    "VerticalPodAutoscaler",
    "NetworkPolicy",
    "ConsoleYAMLSample",
    "ConsoleQuickStart",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
];
/// Kinds whose objects grant permissions, and are made again when they are lost.
const PERMISSIONS: [&str; 5] = ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];
/// Kinds whose objects are left alone when they exist.
const CREATED_ONLY: [&str; 2] = [CSV_KIND, "Subscription"];
/// The fields of a Secret.
const SECRET_FIELDS: [&str; 7] =
    ["apiVersion", "kind", "metadata", "type", "immutable", "data", "stringData"];

/// Whether plans may hold the kind of a step.
pub fn is_supported(step: &Step) -> bool {
    SUPPORTED.contains(&step.resource.kind.as_str())
}

/// Whether a step's object grants permissions.
pub fn is_permission(step: &Step) -> bool {
    PERMISSIONS.contains(&step.resource.kind.as_str())
}

/// Whether a step's object is left alone when it exists.
pub fn is_created_only(step: &Step) -> bool {
    CREATED_ONLY.contains(&step.resource.kind.as_str())
}

/// The `apiVersion` and kind of a step's object. What a bundle ships as a Secret is written as one of the core API, even
/// if it is a custom resource of a kind with that name: upstream reads its kind, and not its group.
pub fn kind(step: &Step) -> (String, &str) {
    let resource = &step.resource;
    if resource.kind == texts::BUNDLE_SECRET {
        return ("v1".to_owned(), "Secret");
    }
    let group = if resource.kind == CSV_KIND { "operators.coreos.com" } else { &resource.group };
    let version =
        if group.is_empty() { resource.version.clone() } else { format!("{group}/{}", resource.version) };
    (version, &resource.kind)
}

/// Where an object of a plan belongs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The name of the plan.
    pub plan: &'a str,
    /// The namespace of the plan.
    pub namespace: &'a str,
    /// Whether the object has a namespace.
    pub is_namespaced: bool,
    /// The UID of the ClusterServiceVersion that needs it, if that exists.
    pub csv_uid: Option<&'a str>,
}

/// An object as it is written. What only the API server or a person may decide is dropped: UIDs, versions, owners, states.
pub fn prepared(step: &Step, object: &Value, place: Place<'_>) -> Value {
    let mut object = object.clone();
    let (api_version, kind) = kind(step);
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    let is_csv_or_subscription = is_created_only(step);
    if let Some(map) = object.as_object_mut() {
        if kind == "Secret" {
            map.retain(|field, _| SECRET_FIELDS.contains(&field.as_str()));
        } else if kind != CSV_KIND {
            map.remove("status");
        }
    }
    let mut metadata = object["metadata"].as_object().cloned().unwrap_or_default();
    metadata.retain(|field, _| ["name", "labels", "annotations"].contains(&field.as_str()));
    metadata.entry("name").or_insert_with(|| step.resource.name.as_str().into());
    insert(&mut metadata, "labels", MANAGED_LABEL, "true");
    if kind == "Subscription" {
        insert(&mut metadata, "annotations", texts::GENERATED_BY_ANNOTATION, place.plan);
    }
    if place.is_namespaced {
        metadata.insert("namespace".to_owned(), place.namespace.into());
        if let Some(uid) = place.csv_uid.filter(|_| !is_csv_or_subscription) {
            metadata.insert("ownerReferences".to_owned(), json!([owner(&step.resolving, uid)]));
        }
    } else if kind != "CustomResourceDefinition" {
        insert(&mut metadata, "labels", "olm.owner", &step.resolving);
        insert(&mut metadata, "labels", "olm.owner.namespace", place.namespace);
        insert(&mut metadata, "labels", "olm.owner.kind", CSV_KIND);
    }
    object["metadata"] = metadata.into();
    object
}

fn owner(csv: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": CSV_KIND,
        "name": csv,
        "uid": uid,
        "controller": false,
        "blockOwnerDeletion": false,
    })
}

/// Sets a label or an annotation.
fn insert(metadata: &mut Map<String, Value>, field: &str, key: &str, value: &str) {
    let map = metadata.entry(field).or_insert(Value::Null);
    if !map.is_object() {
        *map = Value::Object(Map::new());
    }
    map[key] = value.into();
}

/// A live object with the fields of the wanted one; none if it has them already. Labels, annotations and owners of others
/// stay, as do the Secrets of a ServiceAccount and what the API server has chosen for a Service.
pub fn updated(live: &Value, wanted: &Value) -> Option<Value> {
    let mut after = live.clone();
    let merges_spec = wanted["kind"] == "Service";
    for (field, value) in wanted.as_object().into_iter().flatten() {
        match field.as_str() {
            "metadata" => {
                merge(&mut after["metadata"]["labels"], &value["labels"]);
                merge(&mut after["metadata"]["annotations"], &value["annotations"]);
                add_owners(&mut after["metadata"], &value["ownerReferences"]);
            }
            "spec" if merges_spec => merge(&mut after["spec"], value),
            // Their lists are filled by others, too.
            "secrets" | "imagePullSecrets" if wanted["kind"] == "ServiceAccount" => {
                union(&mut after[field], value);
            }
            _ => after[field] = value.clone(),
        }
    }
    if olm_object::is_secret(&after) {
        olm_object::encode_string_data(&mut after);
    }
    (after != *live).then_some(after)
}

fn merge(into: &mut Value, from: &Value) {
    let Some(from) = from.as_object() else { return };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    for (key, value) in from {
        into[key] = value.clone();
    }
}

fn union(into: &mut Value, from: &Value) {
    let mut all = into.as_array().cloned().unwrap_or_default();
    let new: Vec<Value> =
        from.as_array().into_iter().flatten().filter(|one| !all.contains(one)).cloned().collect();
    all.extend(new);
    *into = all.into();
}

fn add_owners(metadata: &mut Value, owners: &Value) {
    let Some(owners) = owners.as_array() else { return };
    let mut all = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
    for owner in owners {
        // An owner of that name and another UID is gone.
        all.retain(|one| {
            one["uid"] == owner["uid"] || one["name"] != owner["name"] || one["kind"] != owner["kind"]
        });
        if !all.iter().any(|one| one["uid"] == owner["uid"]) {
            all.push(owner.clone());
        }
    }
    metadata["ownerReferences"] = all.into();
}
