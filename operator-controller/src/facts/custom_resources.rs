//! How many custom resources guarded extensions have, by namespace.
//!
//! A watch for each CRD of a guarded extension, of metadata only and as its ServiceAccount, adds and subtracts: objects are
//! counted and not kept. The watches end with the guard.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::TryStreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, WatchEvent, WatchParams},
};
use olm_runtime::{AccountRef, api_text, bounded};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

/// Objects of a page.
const PAGE_OBJECTS: u32 = 500;
/// How long a watch lasts.
const WATCH_SECONDS: u32 = 290;
/// How long to wait after a failure.
const RETRY: Duration = Duration::from_secs(15);
/// How long to wait before objects are listed after a watch has failed.
const PAUSE: Duration = Duration::from_secs(1);
/// How long changed numbers may go unreported. Whether there are any at all is reported at once.
const REPORT: Duration = Duration::from_secs(30);

/// Custom resources by namespace; those without one under an empty name.
pub(crate) type Counts = BTreeMap<String, u64>;

/// What is known of a CRD's custom resources; nothing at first.
type Known = Option<Result<Counts, String>>;

/// The custom resources of guarded extensions. Clones are the same.
#[derive(Clone)]
pub(crate) struct CustomResources {
    /// By the UID of the extension.
    extensions: Arc<Mutex<BTreeMap<String, Followed>>>,
    /// Called with the name of an extension whose numbers have changed.
    changed: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The watches of an extension.
struct Followed {
    account: AccountRef,
    /// By the name of the CRD.
    definitions: BTreeMap<String, Watch>,
}

struct Watch {
    known: Arc<Mutex<Known>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl CustomResources {
    pub(crate) fn new(changed: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { extensions: Arc::default(), changed: Arc::new(changed) }
    }

    /// Follows the custom resources of these CRDs, and of no others of the extension.
    pub(crate) fn follow(
        &self,
        (uid, name): (&str, &str),
        (controller, client, account): (&Client, &Client, &AccountRef),
        definitions: &BTreeSet<String>,
    ) {
        let mut extensions = self.extensions.lock();
        let anew = || Followed { account: account.clone(), definitions: BTreeMap::new() };
        let followed = extensions.entry(uid.to_owned()).or_insert_with(anew);
        if followed.account != *account {
            *followed = anew();
        }
        followed.definitions.retain(|definition, _| definitions.contains(definition));
        for definition in definitions {
            followed.definitions.entry(definition.clone()).or_insert_with(|| {
                let known = Arc::<Mutex<Known>>::default();
                let counting = Follower {
                    controller: controller.clone(),
                    client: client.clone(),
                    definition: definition.clone(),
                    known: known.clone(),
                    changed: self.changed.clone(),
                    extension: name.to_owned(),
                };
                Watch { known, task: tokio::spawn(counting.run()) }
            });
        }
    }

    /// Custom resources by CRD; `None` while some are being counted.
    pub(crate) fn counts(&self, uid: &str) -> Option<Result<BTreeMap<String, Counts>, String>> {
        let extensions = self.extensions.lock();
        let mut all = BTreeMap::new();
        for (definition, watch) in &extensions.get(uid)?.definitions {
            match watch.known.lock().clone()? {
                Ok(counts) => drop(all.insert(definition.clone(), counts)),
                Err(why) => return Some(Err(why)),
            }
        }
        Some(Ok(all))
    }

    /// Ends the watches of an extension.
    pub(crate) fn forget(&self, uid: &str) {
        self.extensions.lock().remove(uid);
    }
}

/// Keeps the numbers of one CRD.
struct Follower {
    controller: Client,
    client: Client,
    definition: String,
    known: Arc<Mutex<Known>>,
    changed: Arc<dyn Fn(&str) + Send + Sync>,
    extension: String,
}

impl Follower {
    async fn run(self) {
        loop {
            if let Err(why) = self.count_and_watch().await {
                self.report(Err(format!("counting custom resources of {}: {why}", self.definition)));
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    fn report(&self, now: Result<Counts, String>) {
        let before = self.known.lock().replace(now.clone());
        if before != Some(now) {
            (self.changed)(&self.extension);
        }
    }

    /// Counts all objects, and follows them until the watch has to begin anew.
    async fn count_and_watch(&self) -> Result<(), String> {
        let api = self.api().await?;
        let (mut counts, mut version) = list(&api).await?;
        self.report(Ok(counts.clone()));
        loop {
            let params = WatchParams::default().timeout(WATCH_SECONDS);
            let events = match api.watch_metadata(&params, &version).await {
                Ok(events) => events,
                Err(error) => return interrupted(&error).await,
            };
            let mut events = std::pin::pin!(events);
            let mut report_at: Option<Instant> = None;
            loop {
                let until = report_at.unwrap_or_else(|| Instant::now() + REPORT);
                let Ok(event) = timeout_at(until, events.try_next()).await else {
                    if report_at.take().is_some() {
                        self.report(Ok(counts.clone()));
                    }
                    continue;
                };
                let event = match event {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(error) => return interrupted(&error).await,
                };
                let was_empty = counts.is_empty();
                match apply(&mut counts, event)? {
                    Some(at) => version = at,
                    None => return Ok(()),
                }
                if was_empty != counts.is_empty() {
                    self.report(Ok(counts.clone()));
                    report_at = None;
                } else if self.known.lock().as_ref() != Some(&Ok(counts.clone())) {
                    report_at = report_at.or_else(|| Some(Instant::now() + REPORT));
                }
            }
            self.report(Ok(counts.clone()));
        }
    }

    async fn api(&self) -> Result<Api<DynamicObject>, String> {
        let api: Api<CustomResourceDefinition> = Api::all(self.controller.clone());
        let crd = bounded(api.get(&self.definition)).await.map_err(|e| api_text(&e))?;
        let served = crd.spec.versions.iter().find(|version| version.served);
        let served = served.ok_or("it serves no version")?;
        let gvk = GroupVersionKind::gvk(&crd.spec.group, &served.name, &crd.spec.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
        Ok(Api::all_with(self.client.clone(), &resource))
    }
}

/// What a watch that ended with an error means: objects are listed anew, unless watching is not allowed.
async fn interrupted(error: &kube::Error) -> Result<(), String> {
    if let kube::Error::Api(status) = error
        && status.is_forbidden()
    {
        return Err(api_text(error));
    }
    tokio::time::sleep(PAUSE).await;
    Ok(())
}

/// All objects, page by page, and the version they were counted at.
async fn list(api: &Api<DynamicObject>) -> Result<(Counts, String), String> {
    let (mut counts, mut params) = (Counts::new(), ListParams::default().limit(PAGE_OBJECTS));
    loop {
        let page = bounded(api.list_metadata(&params)).await.map_err(|e| api_text(&e))?;
        for object in &page.items {
            *counts.entry(object.namespace().unwrap_or_default()).or_default() += 1;
        }
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params.continue_token = Some(next),
            None => return Ok((counts, page.metadata.resource_version.unwrap_or_default())),
        }
    }
}

/// Takes an event in: the version that the numbers are of then; `None` where it is too old to be watched from.
fn apply<K: ResourceExt>(counts: &mut Counts, event: WatchEvent<K>) -> Result<Option<String>, String> {
    let at = |object: &K| Ok(Some(object.resource_version().unwrap_or_default()));
    match event {
        WatchEvent::Added(object) => {
            *counts.entry(object.namespace().unwrap_or_default()).or_default() += 1;
            at(&object)
        }
        WatchEvent::Deleted(object) => {
            let namespace = object.namespace().unwrap_or_default();
            if let Some(count) = counts.get_mut(&namespace) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    counts.remove(&namespace);
                }
            }
            at(&object)
        }
        WatchEvent::Modified(object) => at(&object),
        WatchEvent::Bookmark(bookmark) => Ok(Some(bookmark.metadata.resource_version)),
        WatchEvent::Error(status) if status.code == 410 => Ok(None),
        WatchEvent::Error(status) => Err(status.message),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn event(kind: &str, namespace: &str, version: &str) -> WatchEvent<ConfigMap> {
        let object = json!({"metadata": {"name": "a", "namespace": namespace, "resourceVersion": version}});
        serde_json::from_value(json!({"type": kind, "object": object})).unwrap()
    }

    #[test]
    fn objects_are_counted_by_namespace_and_not_kept() {
        let mut counts = Counts::new();
        for (kind, namespace, wanted) in [
            ("ADDED", "a", json!({"a": 1})),
            ("ADDED", "a", json!({"a": 2})),
            ("ADDED", "b", json!({"a": 2, "b": 1})),
            ("MODIFIED", "b", json!({"a": 2, "b": 1})),
            ("DELETED", "b", json!({"a": 2})),
            ("DELETED", "b", json!({"a": 2})),
            ("DELETED", "a", json!({"a": 1})),
            ("DELETED", "a", json!({})),
        ] {
            assert_eq!(apply(&mut counts, event(kind, namespace, "7")), Ok(Some("7".to_owned())));
            assert_eq!(json!(counts), wanted);
        }
        let gone: WatchEvent<ConfigMap> = serde_json::from_value(
            json!({"type": "ERROR", "object": {"status": "Failure", "message": "m", "reason": "Expired", "code": 410}}),
        )
        .unwrap();
        assert_eq!(apply(&mut counts, gone), Ok(None));
    }
}
