//! What needs a clock that the test moves; everything else is tested over connections, in `tests/http`.

mod community;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode, header},
};
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use tower::ServiceExt;

use super::ContentServer;
use crate::{
    Config,
    testing::{ONE, TWO, TestStore, at},
};

const FILES: &[(&str, &str)] = &[("c.json", r#"{"schema":"olm.package","name":"foo"}"#)];
const PACKAGE: &str = "{\"name\":\"foo\",\"schema\":\"olm.package\"}\n";
/// 1970-01-01T00:16:40Z, when the content of these tests was unpacked.
const UNPACKED: &str = "Thu, 01 Jan 1970 00:16:40 GMT";

pub(super) fn routes(test: &TestStore) -> Router {
    ContentServer::new(test.store.clone(), &Config::default(), &mut Registry::default()).router()
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

async fn get(router: &Router, uri: &str) -> Answer {
    let request = Request::get(uri).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

#[tokio::test(start_paused = true)]
async fn content_that_is_on_its_way_is_waited_for_but_not_for_ever() {
    let test = TestStore::new();
    let router = routes(&test);
    let uri = "/catalogs/c/api/v1/metas?name=foo";
    assert_eq!(get(&router, uri).await.status, StatusCode::NOT_FOUND);

    test.store.announce("c", Some((ONE.into(), Some(at(7)))));
    let waiting = get(&router, uri).await;
    assert_eq!(
        (waiting.status, waiting.body.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "503 Service Unavailable\n")
    );
    assert_eq!(waiting.header(header::RETRY_AFTER), Some("2"));

    test.install("c", ONE, FILES);
    let answer = get(&router, uri).await;
    assert_eq!(answer.status, StatusCode::OK);
    // The leader's time, on every replica.
    assert_eq!(answer.header(header::LAST_MODIFIED), Some("Thu, 01 Jan 1970 00:00:07 GMT"));

    test.store.announce("c", Some((TWO.into(), None)));
    assert_eq!(get(&router, uri).await.status, StatusCode::SERVICE_UNAVAILABLE);
    tokio::time::advance(std::time::Duration::from_secs(9)).await;
    test.store.announce("c", Some((TWO.into(), None)));
    assert_eq!(get(&router, uri).await.status, StatusCode::SERVICE_UNAVAILABLE);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let old = get(&router, uri).await;
    // What a leader brought here is served before the status says so.
    let newer = test.install("c", &TWO.replace('2', "4"), FILES);
    assert_eq!(
        get(&router, uri).await.header(header::ETAG).map(|tag| tag.contains(newer.digest())),
        Some(true)
    );
    assert_eq!((old.status, old.body.as_str()), (StatusCode::OK, PACKAGE));
    assert_eq!(old.header(header::LAST_MODIFIED), Some(UNPACKED));
}
