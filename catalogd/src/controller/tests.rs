//! One catalog, reconciled against an API server of a few lines and images in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use kube::{Client, client::Body};
use olm_api::v1::ClusterCatalog;
use olm_image::{OnProgress, Progress, PullError, Refusal};
use olm_runtime::{BackoffLimits, Chance, Clock, MemoryBudget, Next, PANIC_REPORT, Reconciler as _};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::{CatalogReconciler, FetchJobs};
use crate::{
    CatalogImage, CatalogSource, Pinned,
    limits::INGEST_MEMORY_BYTES,
    testing::{MemoryFiles, ONE, TWO, TestStore, at},
};

mod pulls;

/// The object as an API server would keep it, and what was asked.
#[derive(Default)]
struct Server {
    object: Value,
    version: u64,
    requests: Vec<String>,
    /// Reasons and notes of events.
    events: Vec<String>,
}

impl Server {
    fn answer(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let body: Value = serde_json::from_slice(body).unwrap();
        if path.starts_with("/apis/events.k8s.io/") {
            assert_eq!(body["regarding"]["kind"], "ClusterCatalog");
            self.events.push(format!(
                "{}: {}",
                body["reason"].as_str().unwrap(),
                body["note"].as_str().unwrap()
            ));
            return (200, body);
        }
        self.requests.push(format!("{method} {path}"));
        match method {
            "PATCH" => {
                let operations: json_patch::Patch = serde_json::from_value(body).unwrap();
                if json_patch::patch(&mut self.object, &operations).is_err() {
                    return (
                        422,
                        json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid"}),
                    );
                }
            }
            "PUT" if path.ends_with("/status") => {
                assert_eq!(body["metadata"]["resourceVersion"], self.object["metadata"]["resourceVersion"]);
                self.object["status"] = body["status"].clone();
            }
            _ => panic!("{method} {path} is not expected"),
        }
        self.version += 1;
        self.object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        (200, self.object.clone())
    }
}

fn client(server: &Arc<Mutex<Server>>) -> Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: axum::http::Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let (status, answer) =
                server.lock().unwrap().answer(head.method.as_str(), head.uri.path(), &body);
            let answer = serde_json::to_vec(&answer).unwrap();
            let response = axum::http::Response::builder().status(status).body(Body::from(answer)).unwrap();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    Client::new(service, "default")
}

/// Tags and images in memory.
#[derive(Default)]
struct Registry {
    tags: Mutex<BTreeMap<String, String>>,
    images: Mutex<BTreeMap<String, MemoryFiles>>,
    asked: Mutex<Vec<String>>,
    /// How long a pull takes.
    pull_seconds: Mutex<u64>,
    /// How long a resolution takes.
    resolve_seconds: Mutex<u64>,
    /// Held by every pull under way.
    pulling: Arc<()>,
}

#[async_trait]
impl CatalogSource for Registry {
    async fn resolve(&self, reference: &str) -> Result<String, PullError> {
        self.asked.lock().unwrap().push(format!("resolve {reference}"));
        let resolved = match self.tags.lock().unwrap().get(reference) {
            _ if reference.contains('@') => Ok(reference.to_owned()),
            Some(digest) => Ok(digest.clone()),
            None => Err(PullError::Deadline(1)),
        };
        let seconds = *self.resolve_seconds.lock().unwrap();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        resolved
    }

    async fn check(&self, resolved: &str) -> Result<(), PullError> {
        let delivers = self.images.lock().unwrap().contains_key(resolved);
        if delivers { Ok(()) } else { Err(PullError::Deadline(1)) }
    }

    async fn pull(
        &self,
        resolved: &str,
        pinned: Pinned,
        on_progress: OnProgress,
    ) -> Result<Box<dyn CatalogImage>, PullError> {
        self.asked.lock().unwrap().push(format!("pull {}", &resolved[..30]));
        let pulled = match (self.images.lock().unwrap().get(resolved).cloned(), pinned) {
            (Some(files), _) => Ok(Box::new(files) as Box<dyn CatalogImage>),
            (None, Pinned::Yes) => Err(PullError::Refused(Refusal::terminal("no label"))),
            (None, Pinned::No) => Err(PullError::Refused(Refusal::retry("no label"))),
        };
        let seconds = *self.pull_seconds.lock().unwrap();
        let _pulling = Arc::clone(&self.pulling);
        for second in 0..seconds {
            let (bytes, layers) = (second * 1_500_000, usize::from(second > 2));
            on_progress(Progress { bytes, bytes_total: 30_000_000, layers, layers_total: 2 });
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        pulled
    }
}

/// How long a failed job is held back, but for the jitter.
const WAIT: Duration = Duration::from_secs(10);

fn is_retry(next: &Next, text: &str) -> bool {
    matches!(next, Next::RetryAfter(error, wait) if error == text && *wait >= WAIT * 8 / 10)
}

struct TestClock(Mutex<Timestamp>);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn random(&self) -> f64 {
        0.5
    }
}

struct World {
    server: Arc<Mutex<Server>>,
    registry: Arc<Registry>,
    clock: Arc<TestClock>,
    test: TestStore,
    leader: watch::Sender<bool>,
    reconciler: CatalogReconciler,
    /// Names of catalogs whose job has ended.
    ended: tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>,
}

impl World {
    fn new(image: &Value) -> Self {
        let object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
            "metadata": { "name": "c", "generation": 1, "resourceVersion": "0" },
            "spec": { "source": { "type": "Image", "image": image } },
        });
        let server = Arc::new(Mutex::new(Server { object, ..Server::default() }));
        let registry = Arc::new(Registry::default());
        registry.tags.lock().unwrap().insert("quay.io/a/b:v1".into(), ONE.into());
        for (reference, file) in [(ONE, "{\"one\":1}"), (TWO, "{\"two\":2}")] {
            let files = MemoryFiles::new(&[("a.json", file)]);
            registry.images.lock().unwrap().insert(reference.into(), files);
        }
        let clock = Arc::new(TestClock(Mutex::new(at(100_000))));
        Self::over(server, registry, clock, TestStore::new())
    }

    fn over(
        server: Arc<Mutex<Server>>,
        registry: Arc<Registry>,
        clock: Arc<TestClock>,
        test: TestStore,
    ) -> Self {
        let (leader, leads) = watch::channel(true);
        let (sender, fetched) = mpsc::unbounded_channel();
        let ended = move |catalog: &str| drop(sender.send(catalog.to_owned()));
        let backoff = BackoffLimits { first: WAIT, longest: WAIT };
        let reconciler = CatalogReconciler::new(
            client(&server),
            test.store.clone(),
            (registry.clone(), MemoryBudget::new(2 * INGEST_MEMORY_BYTES)),
            clock.clone(),
            leads,
            "https://host/catalogs".into(),
            FetchJobs::new(Arc::new(ended), backoff, Chance::seeded(1)),
        );
        Self { server, registry, clock, test, leader, reconciler, ended: fetched.into() }
    }

    /// The same disk and cluster, in a new process.
    fn restarted(self) -> Self {
        let Self { server, registry, clock, test, reconciler, .. } = self;
        drop(reconciler);
        Self::over(server, registry, clock, test.restarted())
    }

    /// Reconciles until no job runs any more, as the controller does: when a job ends, and when it is time.
    async fn reconcile(&self) -> Next {
        loop {
            let next = self.reconcile_once().await;
            if !self.reconciler.jobs.is_running("c") {
                return next;
            }
            let again = if let Next::After(wait) = next { wait } else { Duration::MAX };
            // Nobody asked again: that is what it was for.
            let _ = tokio::time::timeout(again, async { self.ended.lock().await.recv().await }).await;
        }
    }

    async fn reconcile_once(&self) -> Next {
        let object = self.server.lock().unwrap().object.clone();
        let catalog: ClusterCatalog = serde_json::from_value(object).unwrap();
        self.reconciler.next(&catalog).await
    }

    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut server = self.server.lock().unwrap();
        change(&mut server.object);
        server.version += 1;
        let version = server.version.to_string();
        server.object["metadata"]["resourceVersion"] = json!(version);
    }

    fn later(&self, seconds: i64) {
        let mut now = self.clock.0.lock().unwrap();
        *now = Timestamp::from_second(now.as_second() + seconds).unwrap();
    }

    /// Requests to the API server since the last call.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.server.lock().unwrap().requests)
    }

    /// Events since the last call.
    fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.server.lock().unwrap().events)
    }

    /// Requests to the registry since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.registry.asked.lock().unwrap())
    }

    fn get(&self, path: &str) -> Value {
        self.server.lock().unwrap().object.pointer(path).cloned().unwrap_or_default()
    }

    fn condition(&self, type_: &str) -> String {
        let conditions = self.get("/status/conditions");
        let found = conditions.as_array().into_iter().flatten().find(|condition| condition["type"] == type_);
        found.map_or_else(String::new, |condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            format!("{}/{}/{}", text("status"), text("reason"), text("message"))
        })
    }

    fn served(&self) -> Option<String> {
        self.test.store.generation("c").map(|generation| generation.reference().to_owned())
    }
}

const RESOURCE: &str = "/apis/olm.operatorframework.io/v1/clustercatalogs/c";

fn tag() -> Value {
    json!({ "ref": "quay.io/a/b:v1" })
}

fn polled_tag() -> Value {
    json!({ "ref": "quay.io/a/b:v1", "pollIntervalMinutes": 10 })
}

#[tokio::test]
async fn a_new_catalog_is_claimed_unpacked_and_said_to_be_served() {
    let world = World::new(&tag());
    assert_eq!(world.reconcile().await, Next::Await);
    assert_eq!(world.requests(), [format!("PATCH {RESOURCE}"), format!("PUT {RESOURCE}/status")]);
    assert_eq!(world.served().as_deref(), Some(ONE));
    assert_eq!(world.get("/metadata/finalizers"), json!(["olm.operatorframework.io/delete-server-cache"]));
    assert_eq!(world.get("/metadata/labels"), json!({ "olm.operatorframework.io/metadata.name": "c" }));
    assert_eq!(world.get("/status/resolvedSource"), json!({ "type": "Image", "image": { "ref": ONE } }));
    assert_eq!(world.get("/status/urls/base"), "https://host/catalogs/c");
    assert_eq!(world.get("/status/lastUnpacked"), "1970-01-02T03:46:40Z");
    assert_eq!(world.condition("Serving"), "True/Available/Serving desired content from resolved source");

    assert_eq!(world.events(), [format!("Unpacked: Serving content of {ONE}")]);

    world.asked();
    assert_eq!(world.reconcile().await, Next::Await);
    assert!(world.requests().is_empty() && world.asked().is_empty(), "nothing changed, nothing is done");
    assert!(world.events().is_empty());
}

#[tokio::test]
async fn polling_asks_for_the_digest_and_ingests_only_what_is_new() {
    let world = World::new(&polled_tag());
    let interval = Next::After(Duration::from_secs(603));
    assert_eq!(world.reconcile().await, interval);
    world.requests();
    world.asked();

    world.later(60);
    assert_eq!(world.reconcile().await, Next::After(Duration::from_secs(543)));
    assert!(world.asked().is_empty());

    world.later(540);
    assert_eq!(world.reconcile().await, interval);
    assert_eq!(world.asked(), ["resolve quay.io/a/b:v1"]);
    assert!(world.requests().is_empty(), "the same digest changes nothing");

    world.registry.tags.lock().unwrap().insert("quay.io/a/b:v1".into(), TWO.into());
    world.later(700);
    assert_eq!(world.reconcile().await, interval);
    assert_eq!(world.asked().len(), 2);
    assert_eq!(world.served().as_deref(), Some(TWO));
    assert_eq!(world.get("/status/resolvedSource/image/ref"), TWO);
    assert_eq!(world.requests(), [format!("PUT {RESOURCE}/status")]);
}

#[tokio::test]
async fn a_restart_serves_from_disk_without_asking_the_registry() {
    let world = World::new(&polled_tag());
    world.reconcile().await;
    let world = world.restarted();
    world.requests();
    world.asked();
    assert_eq!(world.served().as_deref(), Some(ONE));
    world.later(100);
    assert_eq!(world.reconcile().await, Next::After(Duration::from_secs(503)));
    assert!(world.requests().is_empty() && world.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_once_and_its_own_event_is_no_new_attempt() {
    let world = World::new(&json!({ "ref": "quay.io/a/b:away" }));
    let text = "source catalog content: error copying image: not finished after 1 seconds";
    let next = world.reconcile().await;
    assert!(is_retry(&next, text), "{next:?}");
    assert_eq!(world.condition("Progressing"), format!("True/Retrying/{text}"));
    assert_eq!(world.condition("Serving"), "");
    assert_eq!(world.asked().len(), 1);
    // The event of the status that was written.
    assert!(matches!(world.reconcile().await, Next::After(_)));
    assert!(world.asked().is_empty());
    world.requests();
    // The retry.
    tokio::time::sleep(WAIT * 2).await;
    let next = world.reconcile().await;
    assert!(is_retry(&next, text), "{next:?}");
    assert_eq!(world.asked().len(), 1);
    assert!(world.requests().is_empty(), "the same failure is not written again");
    assert_eq!(world.events(), [format!("Retrying: {text}")]);

    world.registry.tags.lock().unwrap().insert("quay.io/a/b:away".into(), TWO.into());
    tokio::time::sleep(WAIT * 2).await;
    assert_eq!(world.reconcile().await, Next::Await);
    assert_eq!(world.served().as_deref(), Some(TWO));
    assert_eq!(world.condition("Reconciling"), "");
}

#[tokio::test]
async fn terminal_errors_block_and_leave_old_content_served() {
    let world = World::new(&tag());
    world.reconcile().await;
    let gone = ONE.replace('1', "3");
    world.change(|object| {
        object["spec"]["source"]["image"]["ref"] = json!(gone);
        object["metadata"]["generation"] = json!(2);
    });
    let text = "source catalog content: error applying image: terminal error: no label";
    assert_eq!(world.reconcile().await, Next::Blocked(text.into()));
    assert_eq!(world.condition("Progressing"), format!("False/Blocked/{text}"));
    assert!(world.condition("Serving").starts_with("True/Available/"));
    assert!(world.condition("Stalled").starts_with("True/Blocked/"));
    assert_eq!(world.served().as_deref(), Some(ONE));
    assert_eq!(world.get("/status/resolvedSource/image/ref"), ONE);
}

#[tokio::test]
async fn an_unavailable_catalog_loses_content_and_finalizer_and_comes_back() {
    let world = World::new(&tag());
    world.reconcile().await;
    world.change(|object| object["spec"]["availabilityMode"] = json!("Unavailable"));
    assert_eq!(world.reconcile().await, Next::Await);
    assert_eq!(world.served(), None);
    assert_eq!(world.get("/metadata/finalizers"), json!([]));
    assert_eq!(world.get("/status/urls"), Value::Null);
    assert_eq!(
        world.condition("Serving"),
        "False/UserSpecifiedUnavailable/Catalog availability mode is set to Unavailable"
    );
    world.requests();
    assert_eq!(world.reconcile().await, Next::Await);
    assert!(world.requests().is_empty());
    world.change(|object| object["spec"]["availabilityMode"] = json!("Available"));
    world.reconcile().await;
    assert_eq!(world.served().as_deref(), Some(ONE));
}

#[tokio::test]
async fn a_deleted_catalog_is_let_go_of_once_its_content_is_gone() {
    let world = World::new(&tag());
    world.reconcile().await;
    world.change(|object| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["metadata"]["finalizers"].as_array_mut().unwrap().insert(0, json!("other"));
    });
    world.requests();
    assert_eq!(world.reconcile().await, Next::Await);
    assert_eq!(world.served(), None);
    assert_eq!(world.get("/metadata/finalizers"), json!(["other"]));
    assert_eq!(world.condition("Serving"), "False/Unavailable/");
    assert_eq!(world.requests(), [format!("PUT {RESOURCE}/status"), format!("PATCH {RESOURCE}")]);
    assert_eq!(world.reconcile().await, Next::Await);
    assert!(world.requests().is_empty());
}

#[tokio::test]
async fn a_follower_ingests_the_digest_of_the_status_and_writes_nothing() {
    let world = World::new(&tag());
    world.leader.send_replace(false);
    assert_eq!(world.reconcile().await, Next::Await);
    assert!(world.asked().is_empty());
    world.change(|object| {
        object["status"] = json!({ "resolvedSource": { "type": "Image", "image": { "ref": TWO } } });
    });
    assert_eq!(world.reconcile().await, Next::Await);
    assert_eq!(world.served().as_deref(), Some(TWO));
    assert_eq!(
        world.asked(),
        [format!("resolve {TWO}"), format!("pull {}", &TWO[..30])],
        "the digest, never the tag"
    );
    assert!(world.requests().is_empty());
    // It becomes the leader: now the tag counts.
    world.leader.send_replace(true);
    world.reconcile().await;
    assert_eq!(world.served().as_deref(), Some(ONE));
}

#[tokio::test(start_paused = true)]
async fn content_that_is_no_catalog_is_retried_with_upstreams_text() {
    let world = World::new(&tag());
    world.registry.images.lock().unwrap().insert(ONE.into(), MemoryFiles::new(&[("configs/a", "secret")]));
    let text = "error storing fbc: error walking FBC root: configs/a: document at offset 0 is not an object";
    assert!(is_retry(&world.reconcile().await, text));
    assert_eq!(world.condition("Progressing"), format!("True/Retrying/{text}"));
    // The event of the status, then the retry: a new push may help, the same digest cannot.
    world.reconcile().await;
    world.asked();
    tokio::time::sleep(WAIT * 2).await;
    assert!(is_retry(&world.reconcile().await, text));
    assert_eq!(world.asked(), ["resolve quay.io/a/b:v1"]);
    tokio::time::sleep(WAIT * 2).await;
    world.registry.tags.lock().unwrap().insert("quay.io/a/b:v1".into(), TWO.into());
    assert_eq!(world.reconcile().await, Next::Await);
    assert_eq!(world.served().as_deref(), Some(TWO));
}

#[tokio::test]
async fn a_panic_is_reported_by_the_leader() {
    let world = World::new(&tag());
    let catalog: ClusterCatalog = serde_json::from_value(world.get("")).unwrap();
    world.leader.send_replace(false);
    world.reconciler.report_panic(&catalog).await;
    assert!(world.requests().is_empty());
    world.leader.send_replace(true);
    world.reconciler.report_panic(&catalog).await;
    assert_eq!(world.condition("Progressing"), format!("True/Retrying/{PANIC_REPORT}"));
}
