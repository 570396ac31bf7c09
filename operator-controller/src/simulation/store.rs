//! What the API server keeps: objects under versions, the history of their changes, and what becomes of those whose
//! owners are gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::names::BUNDLE_VERSION;
use olm_runtime::Clock;
use serde_json::{Value, json};

use super::{answers::cluster_status, request::Selection};

/// Resource, namespace, name.
pub(crate) type Key = (String, String, String);

struct Event {
    version: u64,
    key: Key,
    before: Option<Arc<Value>>,
    after: Option<Arc<Value>>,
}

pub(super) struct Store {
    clock: Box<dyn Clock>,
    pub(super) version: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    history: Vec<Event>,
    /// Watches from an earlier version are refused.
    oldest: u64,
    /// Whether other controllers take their time, see [`Store::reconcile_cluster`].
    pub(super) others_are_slow: bool,
    /// The bundle version whose Deployments never become available.
    pub(super) broken: Option<String>,
}

impl Store {
    pub(super) fn new(clock: impl Clock + 'static) -> Self {
        Self {
            clock: Box::new(clock),
            version: 1,
            objects: BTreeMap::new(),
            history: Vec::new(),
            oldest: 0,
            others_are_slow: false,
            broken: None,
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    pub(super) fn objects(&self) -> &BTreeMap<Key, Arc<Value>> {
        &self.objects
    }

    pub(super) fn list(&self, selection: &Selection) -> Value {
        let objects = self.objects.iter().filter(|(key, object)| selection.has(key, object));
        let items: Vec<&Value> = objects.map(|(_, object)| &**object).collect();
        json!({
            "kind": "List", "apiVersion": "v1", "items": items,
            "metadata": {"resourceVersion": self.version.to_string()},
        })
    }

    /// Stores an object under a new version, unless it is as it was.
    pub(super) fn put(&mut self, key: &Key, mut object: Value) -> Value {
        let before = self.objects.get(key).cloned();
        if before.as_deref() == Some(&object) {
            return object;
        }
        self.version += 1;
        let generation =
            before.as_ref().map_or(0, |b| b["metadata"]["generation"].as_i64().unwrap_or_default());
        let edited = before.as_ref().is_none_or(|before| before["spec"] != object["spec"]);
        object["metadata"]["generation"] = (generation + i64::from(edited)).into();
        if !self.others_are_slow
            && let Some(status) = self.status(&key.0, &object)
        {
            object["status"] = status;
        }
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if before.is_none() {
            object["metadata"]["uid"] = format!("uid-{}", self.version).into();
            object["metadata"]["creationTimestamp"] = json!(Time(self.clock.now()));
        }
        let is_released = object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if is_released && !object["metadata"]["deletionTimestamp"].is_null() {
            self.end(key);
            return object;
        }
        let stored = Arc::new(object.clone());
        let after = Some(stored.clone());
        self.history.push(Event { version: self.version, key: key.clone(), before, after });
        self.objects.insert(key.clone(), stored);
        object
    }

    /// The status that controllers of the cluster give an object.
    fn status(&self, resource: &str, object: &Value) -> Option<Value> {
        let mut status = cluster_status(resource, object)?;
        let version = object["metadata"]["annotations"][BUNDLE_VERSION].as_str();
        if resource == "deployments" && version.is_some() && version == self.broken.as_deref() {
            status["availableReplicas"] = 0.into();
            status["conditions"][0]["status"] = "False".into();
        }
        Some(status)
    }

    /// Deletes an object; one with finalizers goes when the last of them does.
    pub(super) fn delete(&mut self, key: &Key) {
        let Some(object) = self.objects.get(key) else { return };
        if object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()) {
            let mut object = Value::clone(object);
            object["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
            self.put(key, object);
        } else {
            self.end(key);
        }
    }

    fn end(&mut self, key: &Key) {
        let Some(object) = self.objects.remove(key) else { return };
        self.version += 1;
        let event = Event { version: self.version, key: key.clone(), before: Some(object), after: None };
        self.history.push(event);
    }

    /// Forgets the history: who watches from an earlier version has to list anew.
    pub(super) fn compact(&mut self) {
        self.oldest = self.version;
    }

    pub(super) fn is_compacted(&self, version: u64) -> bool {
        version < self.oldest
    }

    /// The events of a selection after a version, as lines of a watch.
    pub(super) fn events(&self, selection: &Selection, from: u64) -> String {
        let first = self.history.partition_point(|event| event.version <= from);
        let mut lines = String::new();
        for Event { version, key, before, after } in &self.history[first..] {
            let selected = |object: &Option<Arc<Value>>| object.clone().filter(|one| selection.has(key, one));
            let (kind, object) = match (selected(before), selected(after)) {
                (Some(_), Some(object)) => ("MODIFIED", object),
                (None, Some(object)) => ("ADDED", object),
                (Some(object), None) => {
                    let mut object = Value::clone(&object);
                    object["metadata"]["resourceVersion"] = version.to_string().into();
                    ("DELETED", Arc::new(object))
                }
                (None, None) => continue,
            };
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{{\"type\":\"{kind}\",\"object\":{object}}}");
        }
        lines
    }

    /// What other controllers do in their time: status, and the removal of what has no owner any more.
    pub(super) fn reconcile_cluster(&mut self) {
        let stale: Vec<(Key, Value)> = self
            .objects
            .iter()
            .filter_map(|(key, object)| {
                let status = self.status(&key.0, object)?;
                (object["status"] != status).then(|| {
                    let mut object = Value::clone(object);
                    object["status"] = status;
                    (key.clone(), object)
                })
            })
            .collect();
        for (key, object) in stale {
            self.put(&key, object);
        }
        for key in self.without_owners() {
            self.delete(&key);
        }
    }

    /// Objects that are owned, and all of whose owners are gone.
    fn without_owners(&self) -> Vec<Key> {
        let uid = |value: &Value| value["uid"].as_str().map(str::to_owned);
        let alive: BTreeSet<String> =
            self.objects.values().filter_map(|object| uid(&object["metadata"])).collect();
        let is_orphan = |object: &Value| {
            let owners =
                object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
            !owners.is_empty()
                && owners.iter().all(|owner| uid(owner).is_none_or(|uid| !alive.contains(&uid)))
                && object["metadata"]["deletionTimestamp"].is_null()
        };
        self.objects.iter().filter(|(_, object)| is_orphan(object)).map(|(key, _)| key.clone()).collect()
    }
}

/// Versions, UIDs and times depend on how often something failed.
pub(super) fn without_fleeting(value: &mut Value) {
    const FLEETING: [&str; 6] = [
        "resourceVersion",
        "uid",
        "creationTimestamp",
        "lastTransitionTime",
        "generation",
        "observedGeneration",
    ];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !FLEETING.contains(&name.as_str()));
            fields.values_mut().for_each(without_fleeting);
        }
        Value::Array(list) => list.iter_mut().for_each(without_fleeting),
        _ => {}
    }
}
