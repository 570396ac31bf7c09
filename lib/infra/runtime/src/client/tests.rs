//! Tokens: from whom, for how long, and for which names.

use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

/// An address where connections are taken and never answered.
async fn silent() -> (tokio::net::TcpListener, Config) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    (listener, Config::new(uri))
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_ends() {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
    });
    let maps: Api<ConfigMap> = Api::namespaced(Client::new(service, "default"), "n");
    let started = Instant::now();
    let error = bounded(maps.get("a")).await.unwrap_err();
    assert_eq!(started.elapsed(), REQUEST_TIMEOUT);
    assert!(error.to_string().contains("no answer from the API server within 30 s"), "{error}");
}

#[tokio::test]
async fn a_name_that_no_account_can_have_leads_to_no_request() {
    let (controller, asked) = answering(serde_json::json!({}));
    let accounts = Accounts::of(controller.clone(), controller);
    let names =
        ["", "../../vic/serviceaccounts/installer", "installer/token?x=", "a%2f", "A", "-a", "a-", "a..b"];
    for name in names {
        let account = AccountRef { namespace: "n".into(), name: name.into() };
        assert!(matches!(accounts.client(&account).await, Err(ClientError::InvalidAccount { .. })), "{name}");
        let account = AccountRef { namespace: name.into(), name: "a".into() };
        assert!(matches!(accounts.client(&account).await, Err(ClientError::InvalidAccount { .. })), "{name}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    for (namespace, name, fits) in [
        ("n", "a.b", true),
        ("a.b", "a", false),
        (&"n".repeat(63), &"a".repeat(253), true),
        (&"n".repeat(64), "a", false),
        ("n", &"a".repeat(254), false),
    ] {
        let account = AccountRef { namespace: namespace.into(), name: name.into() };
        assert_eq!(account.check().is_ok(), fits, "{namespace}/{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_never_granted_is_given_up() {
    let (_listener, config) = silent().await;
    let accounts = Accounts::new(&config).unwrap();
    let account = AccountRef { namespace: "n".into(), name: "installer".into() };
    let Err(error) = accounts.client(&account).await else { panic!("a token from nowhere") };
    assert!(error.to_string().contains("no answer from the API server within 30 s"), "{error}");
}

/// A server that answers everything with this JSON, and how often it was asked.
fn answering(answer: serde_json::Value) -> (Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        let body = Body::from(answer.to_string().into_bytes());
        async move { Ok::<_, std::convert::Infallible>(Response::new(body)) }
    });
    (Client::new(service, "default"), asked)
}

fn token(uid: &str) -> String {
    let claims = serde_json::json!({"kubernetes.io": {"namespace": "n", "serviceaccount": {"uid": uid}}});
    format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn granted(uid: &str) -> serde_json::Value {
    serde_json::json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
        "spec": {"audiences": [], "expirationSeconds": 1000},
        "status": {"token": token(uid), "expirationTimestamp": "1970-01-01T01:00:00Z"},
    })
}

#[test]
fn a_token_names_its_account() {
    assert_eq!(account_uid(&token("u")).as_deref(), Some("u"));
    for other in ["", "t", "a.b.c", "e30.e30.e30", &token("")] {
        assert_eq!(account_uid(other), None, "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_request_is_sent_as_an_account_that_was_created_again() {
    let map = serde_json::json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}});
    let (anonymous, requests) = answering(map);
    let uid = Arc::new(Mutex::new("first"));
    let present = uid.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let body = Body::from(granted(&present.lock()).to_string().into_bytes());
        async move { Ok::<_, std::convert::Infallible>(Response::new(body)) }
    });
    let accounts = Accounts::of(Client::new(service, "default"), anonymous);
    let account = AccountRef { namespace: "n".into(), name: "installer".into() };
    assert_eq!(accounts.uid(&account).await.unwrap(), "first");
    let bound = accounts.bound_client(&account, "first").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(bound, "n");
    maps.get("a").await.unwrap();

    *uid.lock() = "second";
    accounts.forget_others(&account, "first");
    maps.get("a").await.unwrap();
    accounts.forget_others(&account, "second");
    let error = maps.get("a").await.unwrap_err();
    assert!(format!("{error:?}").contains("AccountReplaced"), "{error:?}");
    assert_eq!(requests.load(Ordering::Relaxed), 2, "a request was sent as the new one");
    let again = accounts.bound_client(&account, "first").await;
    assert!(matches!(again, Err(ClientError::AccountReplaced { found, .. }) if found == "second"));
    // What is bound to the new one works, whatever was cached.
    accounts.bound_client(&account, "second").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_token_is_kept_for_four_fifths_of_the_life_that_was_granted() {
    let (controller, tokens) = answering(granted("u"));
    let map = serde_json::json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}});
    let (anonymous, requests) = answering(map);
    let accounts = Accounts::of(controller, anonymous);
    let account = AccountRef { namespace: "n".into(), name: "installer".into() };
    let maps: Api<ConfigMap> = Api::namespaced(accounts.client(&account).await.unwrap(), "n");
    // The life is the granted one, not the one that was asked for.
    for (seconds, asked) in [(0, 1), (799, 1), (2, 2), (797, 2), (3, 3)] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        maps.get("a").await.unwrap();
        assert_eq!(tokens.load(Ordering::Relaxed), asked, "{seconds} s later");
    }
    assert_eq!(requests.load(Ordering::Relaxed), 5);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_bounded_and_those_that_nobody_uses_go() {
    let (controller, granted_tokens) = answering(granted("u"));
    let (anonymous, _) = answering(serde_json::json!({}));
    let accounts = Accounts::of(controller, anonymous);
    let account = |number: usize| AccountRef { namespace: "n".into(), name: format!("a{number}") };
    for number in 0..TOKENS_MAX {
        tokio::time::advance(Duration::from_millis(1)).await;
        accounts.uid(&account(number)).await.unwrap();
    }
    let kept = || accounts.tokens.lock().0.len();
    // The first is used again, so one more takes the place of the second.
    tokio::time::advance(Duration::from_millis(1)).await;
    accounts.uid(&account(0)).await.unwrap();
    accounts.uid(&account(TOKENS_MAX)).await.unwrap();
    assert_eq!((kept(), granted_tokens.load(Ordering::Relaxed)), (TOKENS_MAX, TOKENS_MAX + 1));
    accounts.uid(&account(0)).await.unwrap();
    assert_eq!(granted_tokens.load(Ordering::Relaxed), TOKENS_MAX + 1);
    accounts.uid(&account(1)).await.unwrap();
    assert_eq!(granted_tokens.load(Ordering::Relaxed), TOKENS_MAX + 2);
    // The life of all but one has ended.
    tokio::time::advance(Duration::from_secs(799)).await;
    accounts.uid(&account(5)).await.unwrap();
    tokio::time::advance(Duration::from_secs(2)).await;
    accounts.uid(&account(6)).await.unwrap();
    assert!(kept() <= 3, "{}", kept());
}
