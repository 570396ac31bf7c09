use std::sync::atomic::{AtomicUsize, Ordering};

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

/// An API server that has all policies but those of this name, once it has refused so many lists.
fn server(refusals: usize, without: Option<&'static str>) -> Client {
    let left = Arc::new(AtomicUsize::new(refusals));
    let service = tower::service_fn(move |request: Request<Body>| {
        let left = left.clone();
        async move {
            if request.uri().query().unwrap_or_default().contains("watch=true") {
                // It tells nothing.
                std::future::pending::<()>().await;
            }
            let kind = KINDS[usize::from(request.uri().path().ends_with("bindings"))];
            let refused = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            let (code, answer) = if refused.is_ok() {
                (503, json!({"kind": "Status", "status": "Failure", "message": "not now", "code": 503}))
            } else {
                let mut items = objects("system").unwrap();
                items.retain(|o| {
                    o["kind"] == kind && without.is_none_or(|name| o["metadata"]["name"] != name)
                });
                (200, json!({"metadata": {"resourceVersion": "1"}, "items": items}))
            };
            let body = Body::from(answer.to_string().into_bytes());
            Response::builder().status(code).body(body).map_err(tower::BoxError::from)
        }
    });
    Client::new(service, "default")
}

/// How long it took to know, what is known then, and how often everybody heard of it.
async fn known(client: Client) -> (Duration, Guard, usize) {
    let guard = Guard::new(&mut Registry::default());
    let (stop, chance) = (CancellationToken::new(), Chance::seeded(1));
    let (began, changed) = (Instant::now(), AtomicUsize::new(0));
    let events = Events::new(client.clone(), "test");
    let news = || _ = changed.fetch_add(1, Ordering::SeqCst);
    let running = run(client, &chance, "system", guard.clone(), events, news, stop.clone());
    let watching = async {
        guard.ready().await;
        stop.cancel();
        began.elapsed()
    };
    let ((), took) = tokio::join!(running, watching);
    (took, guard, changed.into_inner())
}

#[tokio::test(start_paused = true)]
async fn a_policy_or_a_binding_that_is_absent_is_missed() {
    let (_, guard, _) = known(server(0, Some(OBJECT_SET_OWNER))).await;
    assert_eq!(guard.enforcement(), Enforcement::Broken);
    let complaint = guard.complaint().unwrap();
    assert!(
        complaint.contains(&format!("ValidatingAdmissionPolicy {OBJECT_SET_OWNER:?} is absent")),
        "{complaint}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_repeated_within_seconds() {
    for (refusals, news, seconds) in [(1, 0, 2), (3, 0, 10), (80, 2, 160)] {
        let (took, guard, heard) = known(server(refusals, None)).await;
        assert!(took < Duration::from_secs(seconds), "{refusals} refusals: {took:?}");
        assert_eq!(guard.enforcement(), Enforcement::InForce, "{:?}", guard.complaint());
        // Everybody hears of it when it has not been known for a while, and when it is known again.
        assert_eq!(heard, news, "{refusals} refusals");
    }
}
