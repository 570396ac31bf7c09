//! The controller: a ConfigMap for each Sample, of its name, and what was done in its status.
//!
//! It works one object at a time and tries again what failed; the cluster's garbage collector removes the
//! ConfigMaps. While one version takes over from another both run, and the last word is to be that of the one that
//! stays: a ConfigMap that changes or goes is worked on again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::sample::{KIND, OPERATOR_VERSION, PLURAL, STORED, data};

/// Name of this program among the writers of fields.
const FIELD_MANAGER: &str = "olm-sample-operator";
/// Between two attempts.
const RETRY: Duration = Duration::from_secs(2);
/// Label of the ConfigMaps; its value is the API group of the objects they are for.
const MADE_FOR: &str = "olm-sample-operator";

/// Objects by namespace and name.
type Objects = BTreeMap<(String, String), DynamicObject>;

/// The controller.
pub(crate) struct Operator {
    pub(crate) client: Client,
    pub(crate) group: String,
    /// What it says its version is.
    pub(crate) version: String,
    /// Set once all objects are known.
    pub(crate) listed: Arc<AtomicBool>,
}

impl Operator {
    /// Works until `shutdown`.
    pub(crate) async fn run(&self, shutdown: CancellationToken) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.resource());
        let mut events = kube::runtime::watcher(api, watcher::Config::default()).default_backoff().boxed();
        let maps: Api<ConfigMap> = Api::all(self.client.clone());
        let ours = watcher::Config::default().labels(&format!("{MADE_FOR}={}", self.group));
        let mut maps = kube::runtime::watcher(maps, ours).default_backoff().boxed();
        let (mut known, mut failed) = (Objects::new(), Objects::new());
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                Some(event) = events.next() => match event {
                    Ok(Event::Apply(object) | Event::InitApply(object)) => {
                        known.insert(key(&object), object.clone());
                        self.work(object, &mut failed).await;
                    }
                    Ok(Event::Delete(object)) => {
                        known.remove(&key(&object));
                        failed.remove(&key(&object));
                    }
                    Ok(Event::Init) => {}
                    Ok(Event::InitDone) => self.listed.store(true, Ordering::Relaxed),
                    Err(error) => tracing::warn!(%error, "watching samples"),
                },
                Some(event) = maps.next() => if let Some(object) = self.of_changed(&event, &known) {
                    self.work(object.clone(), &mut failed).await;
                },
                () = tokio::time::sleep(RETRY), if !failed.is_empty() => {
                    for object in std::mem::take(&mut failed).into_values() {
                        self.work(object, &mut failed).await;
                    }
                }
                else => return,
            }
        }
    }

    /// The object whose ConfigMap went, or was written by another version.
    fn of_changed<'a>(
        &self,
        event: &Result<Event<ConfigMap>, watcher::Error>,
        known: &'a Objects,
    ) -> Option<&'a DynamicObject> {
        let map = match event {
            Ok(Event::Delete(map)) => map,
            Ok(Event::Apply(map) | Event::InitApply(map)) => {
                let written_by = map.data.as_ref().and_then(|data| data.get(OPERATOR_VERSION));
                Some(map).filter(|_| written_by != Some(&self.version))?
            }
            Ok(Event::Init | Event::InitDone) => return None,
            Err(error) => {
                tracing::warn!(%error, "watching ConfigMaps");
                return None;
            }
        };
        known.get(&(map.namespace().unwrap_or_default(), map.name_any()))
    }

    async fn work(&self, object: DynamicObject, failed: &mut Objects) {
        let (namespace, name) = key(&object);
        if object.metadata.deletion_timestamp.is_some() {
            failed.remove(&(namespace, name));
            return;
        }
        match self.reconcile(&object).await {
            Ok(false) => {}
            Ok(true) => tracing::info!(namespace, name, "written"),
            Err(error) => {
                tracing::warn!(namespace, name, error = format!("{error:#}"), "not written, tried again");
                failed.insert((namespace, name), object);
            }
        }
    }

    /// Writes what an object asks for; answers whether its status changed by it.
    async fn reconcile(&self, object: &DynamicObject) -> Result<bool> {
        let (namespace, name) = key(object);
        let value = serde_json::to_value(object).context("an object as JSON")?;
        let map = data(&value, &self.version);
        let copies = map.len().saturating_sub(1);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": namespace, "labels": {MADE_FOR: self.group},
                "ownerReferences": [{
                    "apiVersion": value["apiVersion"], "kind": KIND, "name": name,
                    "uid": object.uid().unwrap_or_default(), "controller": true,
                }],
            },
            "data": map,
        });
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        maps.patch(&name, &params, &Patch::Apply(&map)).await.context("applying the ConfigMap")?;
        let status = json!({
            "configMap": name, "copies": copies, "operatorVersion": self.version,
            "observedGeneration": object.metadata.generation,
        });
        if value.get("status") == Some(&status) {
            return Ok(false);
        }
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &self.resource());
        let patch: Value = json!({"status": status});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        api.patch_status(&name, &params, &Patch::Merge(&patch)).await.context("writing the status")?;
        Ok(true)
    }

    fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: STORED.to_owned(),
            api_version: format!("{}/{STORED}", self.group),
            kind: KIND.to_owned(),
            plural: PLURAL.to_owned(),
        }
    }
}

fn key(object: &DynamicObject) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}
