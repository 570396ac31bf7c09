mod community;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use tower::ServiceExt;

use super::ContentServer;
use crate::{
    Config,
    testing::{ONE, TWO, TestStore, at},
};

const FILES: &[(&str, &str)] = &[(
    "c.json",
    r#"{"schema":"olm.package","name":"foo"}{"schema":"olm.bundle","package":"foo","name":"foo.v1"}
       {"schema":"olm.bundle","package":"bar","name":"bar.v1"}{"no":"schema"}"#,
)];
const PACKAGE: &str = "{\"name\":\"foo\",\"schema\":\"olm.package\"}\n";
const FOO: &str = "{\"name\":\"foo.v1\",\"package\":\"foo\",\"schema\":\"olm.bundle\"}\n";
const BAR: &str = "{\"name\":\"bar.v1\",\"package\":\"bar\",\"schema\":\"olm.bundle\"}\n";
const REST: &str = "{\"no\":\"schema\"}\n";
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

async fn ask(router: &Router, method: Method, uri: &str, headers: &[(header::HeaderName, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    assert_eq!(parts.headers.get(header::VARY).unwrap(), "Accept-Encoding");
    Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

async fn get(router: &Router, uri: &str) -> Answer {
    ask(router, Method::GET, uri, &[]).await
}

fn served() -> (TestStore, Router) {
    let test = TestStore::new();
    test.install("c", ONE, FILES);
    let router = routes(&test);
    (test, router)
}

#[tokio::test]
async fn all_is_every_line() {
    let (_test, router) = served();
    let whole = [PACKAGE, FOO, BAR, REST].concat();
    let answer = get(&router, "/catalogs/c/api/v1/all?ignored=x;y").await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, whole.as_str()));
    for (name, value) in [
        (header::CONTENT_TYPE, "application/jsonl"),
        (header::LAST_MODIFIED, UNPACKED),
        (header::ACCEPT_RANGES, "bytes"),
        (header::CONTENT_LENGTH, whole.len().to_string().as_str()),
        (header::ETAG, format!("\"{}\"", ONE.split_once('@').unwrap().1).as_str()),
    ] {
        assert_eq!(answer.header(name.clone()), Some(value), "{name}");
    }
    let head = ask(&router, Method::HEAD, "/catalogs/c/api/v1/all", &[]).await;
    assert_eq!((head.status, head.body.as_str()), (StatusCode::OK, ""));
    assert_eq!(head.header(header::CONTENT_LENGTH), answer.header(header::CONTENT_LENGTH));
}

#[tokio::test]
async fn metas_are_the_lines_of_a_query() {
    let (_test, router) = served();
    let whole = [PACKAGE, FOO, BAR, REST].concat();
    let bundles = [FOO, BAR].concat();
    for (query, expected) in [
        ("", whole.as_str()),
        ("?", &whole),
        ("?schema=&name=", &whole),
        ("?schema=olm.bundle", &bundles),
        ("?schema=olm.bundle&package=foo", FOO),
        ("?package=foo", FOO),
        ("?name=foo", PACKAGE),
        ("?package=foo&package=bar", FOO),
        ("?name=foo%2Ev1", FOO),
        ("?name=foo.v1&", FOO),
        ("?name=none", ""),
        ("?schema=OLM.bundle", ""),
    ] {
        let answer = get(&router, &format!("/catalogs/c/api/v1/metas{query}")).await;
        assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, expected), "{query}");
        assert_eq!(answer.header(header::CONTENT_TYPE), Some("application/jsonl"));
        assert_eq!(answer.header(header::ACCEPT_RANGES), None);
    }
    for query in ["?Schema=x", "?x=1", "?schema=olm.package;x=1", "?%zz=1", "?schema=%", "?schema=%ff"] {
        let answer = get(&router, &format!("/catalogs/c/api/v1/metas{query}")).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (StatusCode::BAD_REQUEST, "400 Bad Request\n"),
            "{query}"
        );
    }
    let ranged = [(header::RANGE, "bytes=0-1")];
    let answer = ask(&router, Method::GET, "/catalogs/c/api/v1/metas?package=foo", &ranged).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, FOO));
}

#[tokio::test]
async fn odd_requests_are_answered_as_the_original_answers_them() {
    let (_test, router) = served();
    let not_found = (StatusCode::NOT_FOUND, "404 page not found\n");
    for (method, uri, expected) in [
        (Method::GET, "/", not_found),
        (Method::GET, "/catalogs/c/api/v1/all/", not_found),
        (Method::GET, "/catalogs/c/api/v1/graphql", not_found),
        (Method::GET, "/catalogs/c", not_found),
        (Method::POST, "/nothing", not_found),
        (Method::GET, "/catalogs/none/api/v1/all", (StatusCode::NOT_FOUND, "404 Not Found\n")),
        (Method::GET, "/catalogs/none/api/v1/metas", (StatusCode::NOT_FOUND, "404 Not Found\n")),
        (Method::POST, "/catalogs/c/api/v1/all", (StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n")),
        (
            Method::OPTIONS,
            "/catalogs/C/api/v1/metas?x=1",
            (StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n"),
        ),
    ] {
        let answer = ask(&router, method.clone(), uri, &[]).await;
        assert_eq!((answer.status, answer.body.as_str()), expected, "{method} {uri}");
        assert_eq!(answer.header(header::ALLOW), None);
        assert_eq!(answer.header(header::CONTENT_TYPE), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header(header::X_CONTENT_TYPE_OPTIONS), Some("nosniff"));
    }
    for name in ["C", "a_b", "-a", "a..b", "%2e%2e", "a%2Fb", "%zz", &"a".repeat(254)] {
        let answer = get(&router, &format!("/catalogs/{name}/api/v1/metas?x=1")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
        assert!(
            answer.body.starts_with("invalid catalog name: a lowercase RFC 1123 subdomain must"),
            "{name}"
        );
    }
    for (uri, target) in [
        ("/catalogs//c/api/v1/all", "/catalogs/c/api/v1/all"),
        ("/catalogs/x/../c/./api/v1/metas?a=1&b=2", "/catalogs/c/api/v1/metas?a=1&b=2"),
        ("/catalogs/c/..", "/catalogs"),
    ] {
        let answer = get(&router, uri).await;
        assert_eq!(answer.status, StatusCode::TEMPORARY_REDIRECT, "{uri}");
        assert_eq!(answer.header(header::LOCATION), Some(target));
    }
    let encoded = get(&router, "/catalogs/%63/api/v1/metas?name=foo").await;
    assert_eq!(encoded.body, PACKAGE);
}

#[tokio::test]
async fn conditions_are_checked_and_dates_that_are_none_ignored() {
    let (_test, router) = served();
    let (same, later) = (UNPACKED, "Thu, 01 Jan 1970 00:16:41 GMT");
    let earlier = "Thu, 01 Jan 1970 00:16:39 GMT";
    for uri in ["/catalogs/c/api/v1/all", "/catalogs/c/api/v1/metas?package=foo"] {
        let etag = get(&router, uri).await.header(header::ETAG).unwrap().to_owned();
        let weak = format!("W/{etag}");
        let list = format!("\"x\", {etag}");
        let (ok, unchanged, failed) =
            (StatusCode::OK, StatusCode::NOT_MODIFIED, StatusCode::PRECONDITION_FAILED);
        for (name, value, expected) in [
            (header::IF_MODIFIED_SINCE, same, unchanged),
            (header::IF_MODIFIED_SINCE, later, unchanged),
            (header::IF_MODIFIED_SINCE, "Thursday, 01-Jan-70 00:16:40 GMT", unchanged),
            (header::IF_MODIFIED_SINCE, "Thu Jan  1 00:16:40 1970", unchanged),
            (header::IF_MODIFIED_SINCE, earlier, ok),
            (header::IF_MODIFIED_SINCE, "yesterday", ok),
            (header::IF_NONE_MATCH, "*", unchanged),
            (header::IF_NONE_MATCH, etag.as_str(), unchanged),
            (header::IF_NONE_MATCH, weak.as_str(), unchanged),
            (header::IF_NONE_MATCH, list.as_str(), unchanged),
            (header::IF_NONE_MATCH, "\"x\"", ok),
            (header::IF_MATCH, "*", ok),
            (header::IF_MATCH, etag.as_str(), ok),
            (header::IF_MATCH, weak.as_str(), failed),
            (header::IF_MATCH, "\"x\"", failed),
            (header::IF_UNMODIFIED_SINCE, earlier, failed),
            (header::IF_UNMODIFIED_SINCE, same, ok),
            (header::IF_UNMODIFIED_SINCE, "yesterday", ok),
        ] {
            let answer = ask(&router, Method::GET, uri, &[(name.clone(), value)]).await;
            assert_eq!(answer.status, expected, "{uri} {name}: {value}");
            assert_eq!(answer.body.is_empty(), expected != ok, "{uri} {name}: {value}");
            if expected == unchanged {
                assert_eq!(answer.header(header::LAST_MODIFIED), Some(UNPACKED));
                assert_eq!(answer.header(header::CONTENT_TYPE), None);
            }
        }
        let both = [(header::IF_NONE_MATCH, "\"x\""), (header::IF_MODIFIED_SINCE, later)];
        assert_eq!(ask(&router, Method::GET, uri, &both).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn entity_tags_tell_queries_apart() {
    let (_test, router) = served();
    let mut tags = Vec::new();
    for query in ["schema=foo", "package=foo", "name=foo", "schema=foo&name=foo", ""] {
        let answer = get(&router, &format!("/catalogs/c/api/v1/metas?{query}")).await;
        tags.push(answer.header(header::ETAG).unwrap().to_owned());
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 5);
}

#[tokio::test]
async fn parts_of_all_can_be_asked_for() {
    let (_test, router) = served();
    let uri = "/catalogs/c/api/v1/all";
    let whole = [PACKAGE, FOO, BAR, REST].concat();
    let size = whole.len();
    let single = ask(&router, Method::GET, uri, &[(header::RANGE, "bytes=5-9")]).await;
    assert_eq!((single.status, single.body.as_str()), (StatusCode::PARTIAL_CONTENT, &whole[5..10]));
    assert_eq!(single.header(header::CONTENT_RANGE), Some(format!("bytes 5-9/{size}").as_str()));
    assert_eq!(single.header(header::CONTENT_LENGTH), Some("5"));

    let several = ask(&router, Method::GET, uri, &[(header::RANGE, "bytes=0-1,-3")]).await;
    assert_eq!(several.status, StatusCode::PARTIAL_CONTENT);
    let kind = several.header(header::CONTENT_TYPE).unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |range: &str, text: &str| {
        format!(
            "--{boundary}\r\nContent-Range: bytes {range}/{size}\r\nContent-Type: application/jsonl\r\n\r\n{text}\r\n"
        )
    };
    let tail = format!("{}-{}", size - 3, size - 1);
    let expected =
        format!("{}{}--{boundary}--\r\n", part("0-1", &whole[..2]), part(&tail, &whole[size - 3..]));
    assert_eq!(several.body, expected);
    assert_eq!(several.header(header::CONTENT_LENGTH), Some(expected.len().to_string().as_str()));

    let beyond = ask(&router, Method::GET, uri, &[(header::RANGE, "bytes=9999-")]).await;
    assert_eq!(beyond.status, StatusCode::RANGE_NOT_SATISFIABLE);
    assert_eq!(beyond.body, "invalid range: failed to overlap\n");
    assert_eq!(beyond.header(header::CONTENT_RANGE), Some(format!("bytes */{size}").as_str()));

    let etag = single.header(header::ETAG).unwrap();
    for (condition, status) in [
        (etag, StatusCode::PARTIAL_CONTENT),
        (UNPACKED, StatusCode::PARTIAL_CONTENT),
        ("\"x\"", StatusCode::OK),
        ("Thu, 01 Jan 1970 00:16:41 GMT", StatusCode::OK),
    ] {
        let headers = [(header::RANGE, "bytes=5-9"), (header::IF_RANGE, condition)];
        assert_eq!(ask(&router, Method::GET, uri, &headers).await.status, status, "{condition}");
    }
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

#[tokio::test]
async fn metas_can_be_switched_off_and_requests_are_counted() {
    let test = TestStore::new();
    test.install("c", ONE, FILES);
    let mut registry = Registry::default();
    let config = Config { metas: false, ..Config::default() };
    let router = ContentServer::new(test.store.clone(), &config, &mut registry).router();
    assert_eq!(get(&router, "/catalogs/c/api/v1/metas").await.body, "404 page not found\n");
    assert_eq!(get(&router, "/catalogs/c/api/v1/all").await.status, StatusCode::OK);
    let mut exposed = String::new();
    prometheus_client::encoding::text::encode(&mut exposed, &registry).unwrap();
    for line in [
        "catalogd_http_request_duration_seconds_count{code=\"404\"} 1",
        "catalogd_http_request_duration_seconds_count{code=\"200\"} 1",
        "catalogd_http_request_duration_seconds_bucket{le=\"0.1\",code=\"200\"} 1",
    ] {
        assert!(exposed.contains(line), "{line} in {exposed}");
    }
}
