use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn what_has_not_been_compared_is_unknown_and_reported_after_a_moment() {
    let guard = Guard::new(&mut Registry::default());
    assert_eq!((guard.enforcement(), guard.complaint()), (Enforcement::Unknown, None));
    guard.doubt("no answer");
    tokio::time::advance(MOMENT).await;
    let complaint = guard.complaint().unwrap();
    assert!(complaint.contains("Cannot tell") && complaint.contains("no answer"), "{complaint}");
    assert!(guard.set(BTreeMap::new()).1, "known again, which is news");
    assert_eq!((guard.enforcement(), guard.complaint()), (Enforcement::InForce, None));
    guard.doubt("a policy has just changed");
    assert_eq!((guard.enforcement(), guard.complaint()), (Enforcement::Unknown, None));
    guard.set(BTreeMap::from([(NAMES[0], "it is absent".to_owned())]));
    assert_eq!(guard.enforcement(), Enforcement::Broken);
    assert!(guard.complaint().unwrap().starts_with("it is absent"));
    guard.set(BTreeMap::from([(DELETION_POLICY, "it is absent".to_owned())]));
    assert_eq!((guard.enforcement(), guard.complaint()), (Enforcement::InForce, None));
    assert!(guard.complaint_about_deletion().is_some());
}

/// The policy or binding of this name, as it should be.
fn policy(plural: &str, name: &str) -> Value {
    let kind = KINDS[usize::from(plural.ends_with("bindings"))];
    let mut all = objects("system").unwrap().into_iter();
    let mut found = all.find(|o| o["kind"] == kind && o["metadata"]["name"] == name).unwrap_or_default();
    found["metadata"]["resourceVersion"] = "1".into();
    found
}

/// An API server that has all policies, once it has refused so many reads.
fn refusing(refusals: usize) -> Client {
    let left = Arc::new(AtomicUsize::new(refusals));
    let service = tower::service_fn(move |request: Request<Body>| {
        let left = left.clone();
        async move {
            let path = request.uri().path().to_owned();
            let (plural, name) = path.rsplit_once('/').unwrap_or_default();
            if !NAMES.contains(&name) {
                // A watch that tells nothing.
                std::future::pending::<()>().await;
            }
            let refused = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            let (code, answer) = if refused.is_ok() {
                (503, json!({"kind": "Status", "status": "Failure", "message": "not now", "code": 503}))
            } else {
                (200, policy(plural, name))
            };
            let body = Body::from(answer.to_string().into_bytes());
            Response::builder().status(code).body(body).map_err(tower::BoxError::from)
        }
    });
    Client::new(service, "default")
}

/// An API server whose policies are all deleted right before they are listed for the first time.
fn losing_all() -> Client {
    let is_listed = Arc::new(AtomicBool::new(false));
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_listed = is_listed.clone();
        async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let (plural, name) = path.rsplit_once('/').unwrap_or_default();
            if query.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let is_one = NAMES.contains(&name);
            let was_listed = is_listed.fetch_or(!is_one, Ordering::SeqCst);
            let (code, answer) = match (is_one, was_listed) {
                (true, false) => (200, policy(plural, name)),
                (true, true) => (404, json!({"kind": "Status", "reason": "NotFound", "code": 404})),
                (false, _) => (200, json!({"metadata": {"resourceVersion": "1"}, "items": []})),
            };
            let body = Body::from(answer.to_string().into_bytes());
            Response::builder().status(code).body(body).map_err(tower::BoxError::from)
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn policies_that_go_before_they_are_watched_are_missed() {
    let (client, guard) = (losing_all(), Guard::new(&mut Registry::default()));
    let (stop, chance) = (CancellationToken::new(), Chance::seeded(1));
    let events = Events::new(client.clone(), "test");
    let running = run(client, &chance, "system", guard.clone(), events, || {}, stop.clone());
    let watching = async {
        guard.ready().await;
        assert_eq!(guard.enforcement(), Enforcement::InForce);
        tokio::time::sleep(Duration::from_mins(1)).await;
        stop.cancel();
    };
    tokio::join!(running, watching);
    assert_eq!(guard.enforcement(), Enforcement::Broken);
}

#[tokio::test(start_paused = true)]
async fn a_comparison_that_fails_is_repeated_within_seconds() {
    for (refusals, news, seconds) in [(1, 0, 2), (3, 0, 10), (7, 2, 160)] {
        let (client, guard) = (refusing(refusals), Guard::new(&mut Registry::default()));
        let (stop, chance) = (CancellationToken::new(), Chance::seeded(1));
        let changed = AtomicUsize::new(0);
        let began = Instant::now();
        let running = run(
            client.clone(),
            &chance,
            "system",
            guard.clone(),
            Events::new(client, "test"),
            || {
                changed.fetch_add(1, Ordering::SeqCst);
            },
            stop.clone(),
        );
        let watching = async {
            guard.ready().await;
            stop.cancel();
            began.elapsed()
        };
        let ((), took) = tokio::join!(running, watching);
        assert!(took < Duration::from_secs(seconds), "{refusals} refusals: {took:?}");
        assert_eq!(guard.enforcement(), Enforcement::InForce, "{:?}", guard.complaint());
        // Everybody hears of it when it has not been known for a while, and when it is known again.
        assert_eq!(changed.into_inner(), news, "{refusals} refusals");
    }
}
