use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, Response};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, client::Body};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use super::*;
use crate::Metrics;

/// What objects may depend on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    All,
    Of(String),
}

impl Interest for Change {}

const DEADLINE: Duration = Duration::from_mins(1);

/// An API server that holds these namespaces, and whose watches tell nothing.
fn holding(names: &'static [&'static str]) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            std::future::pending::<()>().await;
        }
        let items: Vec<_> = names
            .iter()
            .map(|name| {
                json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
                })
            })
            .collect();
        let list = json!({
            "apiVersion": "v1", "kind": "NamespaceList",
            "metadata": {"resourceVersion": "1"}, "items": items,
        });
        Ok::<_, std::convert::Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
    });
    Client::new(service, "default")
}

/// A controller of namespaces that are there already.
struct Controlled {
    source: Source<Namespace>,
    interests: Interests<Change>,
    registry: Registry,
    /// How many objects are worked on at a time.
    concurrency: u16,
    /// After a failure.
    pause: Duration,
}

impl Controlled {
    fn new(concurrency: u16, names: &'static [&'static str]) -> Self {
        Self {
            source: Source::all(holding(names), &Chance::seeded(1)),
            interests: Interests::default(),
            registry: Registry::default(),
            concurrency,
            pause: Duration::from_secs(1),
        }
    }

    /// Reconciles until the story ends; returns what it ended with, and the metrics.
    async fn run<T>(
        mut self,
        reconciler: impl Reconciler<Object = Namespace, Interest = Change>,
        story: impl Future<Output = T>,
    ) -> (T, String) {
        let metrics = Metrics::register(&mut self.registry);
        let settings = Settings {
            name: "test",
            concurrency: self.concurrency,
            backoff: Limits { first: self.pause, longest: self.pause },
            chance: Chance::seeded(1),
        };
        let stop = CancellationToken::new();
        let (interests, counts) = (&self.interests, metrics.controller("test"));
        let running = run(settings, self.source, interests, counts, stop.clone(), reconciler);
        let ended = async {
            let end = story.await;
            stop.cancel();
            end
        };
        let ((), end) = tokio::join!(running, ended);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        (end, text)
    }
}

/// Two functions as a reconciler.
struct Of<R, P>(R, P);

impl<R, F, P, G> Reconciler for Of<R, P>
where
    R: Fn(Arc<Namespace>) -> F + Send + Sync + 'static,
    F: Future<Output = (Next, BTreeSet<Change>)> + Send + 'static,
    P: Fn(Arc<Namespace>) -> G + Send + Sync + 'static,
    G: Future<Output = ()> + Send + 'static,
{
    type Object = Namespace;
    type Interest = Change;

    const CONDITION: &'static str = "Ready";

    fn state(_: &Namespace) -> Option<(&str, &str)> {
        None
    }

    async fn reconcile(&self, namespace: &Namespace) -> (Next, BTreeSet<Change>) {
        (self.0)(Arc::new(namespace.clone())).await
    }

    async fn report_panic(&self, namespace: &Namespace) {
        (self.1)(Arc::new(namespace.clone())).await;
    }
}

/// Reports no panic.
async fn silent(_: Arc<Namespace>) {}

/// Counts what was reconciled, by name.
#[derive(Default)]
struct Seen {
    counts: Mutex<BTreeMap<String, usize>>,
    changed: Notify,
}

impl Seen {
    fn count(&self, name: &str) -> usize {
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(name.to_owned()).or_insert(0);
        *count += 1;
        self.changed.notify_waiters();
        *count
    }

    async fn until(&self, wanted: impl Fn(&BTreeMap<String, usize>) -> bool) {
        let reached = async {
            loop {
                let changed = self.changed.notified();
                if wanted(&self.counts.lock().unwrap()) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(DEADLINE, reached).await.expect("not reconciled");
    }
}

#[tokio::test]
async fn a_reconcile_that_panics_is_tried_again_and_does_not_stop_the_others() {
    let (seen, reported) = (Arc::new(Seen::default()), Arc::new(Seen::default()));
    let (counting, reporting) = (seen.clone(), reported.clone());
    let reconcile = move |namespace: Arc<Namespace>| {
        let seen = counting.clone();
        async move {
            let count = seen.count(&namespace.name_any());
            assert!(namespace.name_any() != "bad" || count > 2, "made to panic");
            (Next::Await, BTreeSet::new())
        }
    };
    // Even a report may panic.
    let report = move |namespace: Arc<Namespace>| {
        let reported = reporting.clone();
        async move { assert!(reported.count(&namespace.name_any()) > 1, "made to panic") }
    };
    let mut controlled = Controlled::new(1, &["a", "bad", "z"]);
    controlled.pause = Duration::from_millis(1);
    let finished = async {
        seen.until(|counts| counts.get("a") == Some(&1) && counts.get("z") == Some(&1)).await;
        seen.until(|counts| counts.get("bad") == Some(&3)).await;
    };
    let ((), text) = controlled.run(Of(reconcile, report), finished).await;
    assert_eq!(*reported.counts.lock().unwrap(), BTreeMap::from([("bad".to_owned(), 2)]));
    for wanted in [
        "controller_runtime_reconcile_panics_total{controller=\"test\"} 2",
        "controller_runtime_reconcile_errors_total{controller=\"test\"} 2",
        "controller_runtime_reconcile_total{controller=\"test\",result=\"success\"} 3",
        "controller_runtime_max_concurrent_reconciles{controller=\"test\"} 1",
        "controller_runtime_active_workers{controller=\"test\"} 0",
        "workqueue_retries_total{controller=\"test\",name=\"test\"} 2",
        "workqueue_depth{controller=\"test\",name=\"test\"} 0",
    ] {
        assert!(text.lines().any(|line| line == wanted), "{wanted} is not in\n{text}");
    }
}

#[tokio::test]
async fn no_more_objects_are_worked_on_at_a_time_than_was_said() {
    let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let of_reconcile = (under_way, most.clone(), gate.clone(), begun.clone());
    let reconcile = move |_: Arc<Namespace>| {
        let (under_way, most, gate, begun) = of_reconcile.clone();
        async move {
            most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            begun.add_permits(1);
            gate.acquire().await.unwrap().forget();
            under_way.fetch_sub(1, Ordering::SeqCst);
            (Next::Await, BTreeSet::new())
        }
    };
    let all_begin = tokio::time::timeout(DEADLINE, async {
        begun.acquire_many(2).await.unwrap().forget();
        // Both workers are held; any other that could begin, would.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(6);
        begun.acquire_many(4).await.unwrap().forget();
    });
    let controlled = Controlled::new(2, &["a", "b", "c", "d", "e", "f"]);
    controlled.run(Of(reconcile, silent), all_begin).await.0.expect("not all were worked on");
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_object_that_fails_holds_nobody_else_up() {
    let seen = Arc::new(Seen::default());
    let counting = seen.clone();
    let reconcile = move |namespace: Arc<Namespace>| {
        let name = namespace.name_any();
        counting.count(&name);
        let next = if name == "bad" { Next::Retry("it fails".into()) } else { Next::Await };
        std::future::ready((next, [Change::Of(name)].into()))
    };
    let mut controlled = Controlled::new(1, &["bad", "good"]);
    controlled.pause = Duration::from_hours(1);
    let interests = controlled.interests.clone();
    let finished = async {
        seen.until(|counts| counts.len() == 2).await;
        interests.fire(&Change::Of("good".into()));
        seen.until(|counts| counts.get("good") == Some(&2)).await;
        // What waits for its time is worked on at once when something happens to it.
        assert_eq!(seen.counts.lock().unwrap().get("bad"), Some(&1));
        interests.fire(&Change::Of("bad".into()));
        seen.until(|counts| counts.get("bad") == Some(&2)).await;
    };
    controlled.run(Of(reconcile, silent), finished).await;
}

#[tokio::test(start_paused = true)]
async fn who_is_interested_is_reconciled_again_and_nobody_else() {
    let seen = Arc::new(Seen::default());
    let controlled = Controlled::new(3, &["a", "b", "slow"]);
    let interests = controlled.interests.clone();
    let (counting, firing) = (seen.clone(), interests.clone());
    let reconcile = move |namespace: Arc<Namespace>| {
        let (seen, interests) = (counting.clone(), firing.clone());
        async move {
            let name = namespace.name_any();
            let count = seen.count(&name);
            if name == "slow" && count == 1 {
                // It changes while this reconcile goes on, which ends long after the others were woken.
                interests.fire(&Change::All);
                tokio::time::sleep(Duration::from_mins(1)).await;
            }
            // The others have no interest any more once they were woken.
            let wanted = (name != "b" && count == 1).then_some(Change::All);
            (Next::Await, wanted.into_iter().collect())
        }
    };
    let finished = async {
        tokio::time::sleep(Duration::from_hours(1)).await;
        interests.fire(&Change::All);
        tokio::time::sleep(Duration::from_hours(1)).await;
    };
    controlled.run(Of(reconcile, silent), finished).await;
    let counts: Vec<_> = seen.counts.lock().unwrap().clone().into_iter().collect();
    assert_eq!(counts, [("a".to_owned(), 2), ("b".to_owned(), 1), ("slow".to_owned(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_everything_is_known() {
    let seen = Arc::new(Seen::default());
    let (open, opened) = tokio::sync::oneshot::channel::<()>();
    let mut controlled = Controlled::new(1, &["a", "b"]);
    controlled.source = controlled.source.gated(async move { opened.await.unwrap() });
    let listed = controlled.source.listed();
    let counting = seen.clone();
    let reconcile = move |namespace: Arc<Namespace>| {
        counting.count(&namespace.name_any());
        std::future::ready((Next::Await, BTreeSet::new()))
    };
    let finished = async {
        listed.await;
        // Whatever could happen by itself has happened by then.
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert!(seen.counts.lock().unwrap().is_empty());
        open.send(()).unwrap();
        seen.until(|counts| counts.len() == 2).await;
    };
    controlled.run(Of(reconcile, silent), finished).await;
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_does_not_end_is_aborted_soon_after_the_stop() {
    let (begun, ended) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let of_reconcile = (begun.clone(), ended.clone());
    let reconcile = move |namespace: Arc<Namespace>| {
        let (begun, ended) = of_reconcile.clone();
        async move {
            begun.add_permits(1);
            let takes = if namespace.name_any() == "quick" { 2 } else { 2000 };
            tokio::time::sleep(Duration::from_secs(takes)).await;
            ended.fetch_add(1, Ordering::SeqCst);
            (Next::Await, BTreeSet::new())
        }
    };
    let stopped = async {
        begun.acquire_many(2).await.unwrap().forget();
        Instant::now()
    };
    let controlled = Controlled::new(2, &["quick", "stuck"]);
    let (stopped, _) = controlled.run(Of(reconcile, silent), stopped).await;
    assert_eq!(stopped.elapsed(), STOP_PATIENCE);
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(ended.load(Ordering::SeqCst), 1, "one was in time, and the other one is gone");
}

#[test]
fn the_key_of_an_object_has_its_namespace_and_leads_back_to_it() {
    use k8s_openapi::api::core::v1::ConfigMap;

    let mut map = ConfigMap::default();
    map.metadata.name = Some("m".to_owned());
    map.metadata.namespace = Some("n".to_owned());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("n".to_owned());
    assert_eq!((object_key(&map), object_key(&namespace)), ("n/m".to_owned(), "n".to_owned()));
    assert_eq!(object_ref::<ConfigMap>("n/m"), ObjectRef::from_obj(&map));
    assert_eq!(object_ref::<Namespace>("n"), ObjectRef::from_obj(&namespace));
}
