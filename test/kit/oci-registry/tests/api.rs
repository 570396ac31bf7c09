//! What clients do with a registry, over HTTP.

use olm_test_registry::{Registry, Tls};
use reqwest::{Client, StatusCode, header};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The SHA-256 of `hello`.
const HELLO: &str = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn started() -> (Registry, Client, String) {
    let registry = Registry::start().unwrap();
    let url = format!("{}/v2/team/app", registry.url());
    (registry, Client::builder().no_proxy().build().unwrap(), url)
}

fn location(registry: &Registry, answer: &reqwest::Response) -> String {
    assert_eq!(answer.status(), StatusCode::ACCEPTED);
    format!("{}{}", registry.url(), answer.headers()[header::LOCATION].to_str().unwrap())
}

#[tokio::test]
async fn blobs_are_pushed_whole_or_in_chunks_and_checked() {
    let (registry, http, url) = started();
    let upload = location(&registry, &http.post(format!("{url}/blobs/uploads/")).send().await.unwrap());
    let upload = location(&registry, &http.patch(upload).body("hel").send().await.unwrap());
    let wrong = http.put(format!("{upload}?digest=sha256:00")).send().await.unwrap();
    assert_eq!(wrong.status(), StatusCode::BAD_REQUEST);
    let blob = format!("{url}/blobs/{HELLO}");
    assert_eq!(http.head(&blob).send().await.unwrap().status(), StatusCode::NOT_FOUND);

    let upload = location(&registry, &http.post(format!("{url}/blobs/uploads/")).send().await.unwrap());
    let upload = location(&registry, &http.patch(upload).body("hel").send().await.unwrap());
    let stored =
        http.put(format!("{upload}?digest={}", HELLO.replace(':', "%3A"))).body("lo").send().await.unwrap();
    assert_eq!(stored.status(), StatusCode::CREATED);
    let read = http.get(&blob).send().await.unwrap();
    assert_eq!(read.headers()["docker-content-digest"], HELLO);
    assert_eq!(read.text().await.unwrap(), "hello");
    let elsewhere = format!("{}/v2/other/blobs/{HELLO}", registry.url());
    assert_eq!(http.head(elsewhere).send().await.unwrap().status(), StatusCode::NOT_FOUND);

    let whole = format!("{}/v2/other/blobs/uploads/?digest={HELLO}", registry.url());
    assert_eq!(http.post(whole).body("hello").send().await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(http.delete(&blob).send().await.unwrap().status(), StatusCode::ACCEPTED);
    assert_eq!(http.get(&blob).send().await.unwrap().status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn manifests_are_read_by_tag_and_digest_and_tags_have_pages() {
    let (_registry, http, url) = started();
    for tag in ["a", "b", "c"] {
        let put =
            http.put(format!("{url}/manifests/{tag}")).header(header::CONTENT_TYPE, "text/x").body("hello");
        assert_eq!(put.send().await.unwrap().headers()["docker-content-digest"], HELLO);
    }
    let put = http.put(format!("{url}/manifests/{HELLO}")).body("something else");
    assert_eq!(put.send().await.unwrap().status(), StatusCode::BAD_REQUEST);
    for reference in ["b", HELLO] {
        let read = http.get(format!("{url}/manifests/{reference}")).send().await.unwrap();
        assert_eq!(read.headers()[header::CONTENT_TYPE], "text/x");
        assert_eq!(read.text().await.unwrap(), "hello");
    }
    let page = http.get(format!("{url}/tags/list?n=2")).send().await.unwrap();
    let link = page.headers()[header::LINK].to_str().unwrap().to_owned();
    assert_eq!(link, "</v2/team/app/tags/list?n=2&last=b>; rel=\"next\"");
    let tags = |text: String| serde_json::from_str::<Value>(&text).unwrap()["tags"].clone();
    assert_eq!(tags(page.text().await.unwrap()), serde_json::json!(["a", "b"]));
    let rest = http.get(format!("{url}/tags/list?n=2&last=b")).send().await.unwrap();
    assert!(!rest.headers().contains_key(header::LINK));
    assert_eq!(tags(rest.text().await.unwrap()), serde_json::json!(["c"]));

    http.delete(format!("{url}/manifests/a")).send().await.unwrap();
    assert_eq!(http.get(format!("{url}/manifests/b")).send().await.unwrap().status(), StatusCode::OK);
    http.delete(format!("{url}/manifests/{HELLO}")).send().await.unwrap();
    let gone = http.get(format!("{url}/manifests/b")).send().await.unwrap();
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    assert!(gone.text().await.unwrap().contains("MANIFEST_UNKNOWN"));
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let (_registry, http, url) = started();
    let path = url.strip_prefix("http://").unwrap();
    let (host, path) = path.split_once('/').unwrap();
    // Announced only: the answer comes before the bytes. Clients of HTTP may give up on such a request by themselves.
    for (request, limit) in [("PUT", 4 << 20), ("POST", 512 << 20)] {
        let path =
            if request == "PUT" { format!("{path}/manifests/v1") } else { format!("{path}/blobs/uploads/") };
        let mut connection = TcpStream::connect(host).await.unwrap();
        let head =
            format!("{request} /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n", limit + 1);
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        connection.read_exact(&mut status).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&status), "HTTP/1.1 413");
    }
    // Not announced: nobody waits for the rest of the bytes, so that the answer may not be read.
    let part = || Ok::<_, std::io::Error>(vec![b' '; 1 << 20]);
    let endless = reqwest::Body::wrap_stream(futures::stream::repeat_with(part));
    let answer = http.put(format!("{url}/manifests/v1")).body(endless).send().await;
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status() == StatusCode::PAYLOAD_TOO_LARGE));
}

#[tokio::test]
async fn an_outage_ends_connections_and_keeps_address_and_content() {
    let (registry, http, url) = started();
    let tags = format!("{url}/tags/list");
    http.put(format!("{url}/manifests/v1")).body("hello").send().await.unwrap();
    registry.stop();
    http.get(&tags).send().await.unwrap_err();
    registry.start_again().unwrap();
    assert!(http.get(&tags).send().await.unwrap().text().await.unwrap().contains("v1"));
}

#[tokio::test]
async fn with_a_certificate_it_speaks_https() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let tls = Tls { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() };
    let registry = Registry::start_on("127.0.0.1", Some(tls)).unwrap();
    let trusted = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let http = Client::builder().no_proxy().tls_certs_only([trusted]).build().unwrap();
    assert!(registry.url().starts_with("https://"));
    assert_eq!(http.get(format!("{}/v2/", registry.url())).send().await.unwrap().status(), StatusCode::OK);
}
