use std::time::Duration;

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
    routing::get,
};
use futures::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{ServerLimits, health_router, limit, listen, places::Places, serve};
use crate::tls::{TlsProfile, self_signed, server_config};

#[test]
fn addresses_are_host_and_port() {
    let listener = listen("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    assert!(listen(&taken).unwrap_err().to_string().starts_with(&format!("listening on {taken}: ")));
    assert!(listen(":0").is_ok());
    for address in ["", "8443", ":x", "host", "host:", "0"] {
        let text = listen(address).unwrap_err().to_string();
        assert_eq!(text, format!("address {address:?} is not of the form [host]:port"));
    }
}

fn limited(router: Router, limits: &ServerLimits) -> Router {
    limit::limited(router, limits, Places::new(limits.requests_max, limits.waiting_max))
}

async fn status(router: &Router, uri: &str) -> StatusCode {
    router.clone().oneshot(Request::get(uri).body(Body::empty()).unwrap()).await.unwrap().status()
}

#[tokio::test]
async fn readiness_says_what_is_missing() {
    assert_eq!(status(&health_router(|| Ok(())), "/readyz").await, StatusCode::OK);
    let waiting = health_router(|| Err("catalogs not read yet".into()));
    assert_eq!(status(&waiting, "/healthz").await, StatusCode::OK);
    assert_eq!(status(&waiting, "/readyz").await, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test(start_paused = true)]
async fn a_request_counts_until_its_body_ends_or_its_time_is_up() {
    let endless = || async { Body::from_stream(futures::stream::pending::<std::io::Result<Vec<u8>>>()) };
    let limits = ServerLimits { requests_max: 1, ..ServerLimits::default() };
    let router = limited(Router::new().route("/", get(endless)), &limits);
    let request = || Request::get("/").body(Body::empty()).unwrap();
    let first = router.clone().oneshot(request()).await.unwrap();
    assert_eq!(status(&router, "/").await, StatusCode::SERVICE_UNAVAILABLE);
    drop(first);
    let second = router.clone().oneshot(request()).await.unwrap();
    assert_eq!(second.status(), StatusCode::OK);
    let mut body = second.into_body().into_data_stream();
    assert!(body.next().await.unwrap().is_err(), "broken off at the deadline");
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_limit_wait_for_their_turn_but_not_all_and_not_for_ever() {
    let endless = || async { Body::from_stream(futures::stream::pending::<std::io::Result<Vec<u8>>>()) };
    let limits = ServerLimits { requests_max: 1, waiting_max: 1, ..ServerLimits::default() };
    let router = limited(Router::new().route("/", get(endless)), &limits);
    let ask = || {
        let router = router.clone();
        tokio::spawn(
            async move { router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap() },
        )
    };
    let first = ask().await.unwrap();
    let started = tokio::time::Instant::now();
    let waiting = ask();
    tokio::task::yield_now().await;
    assert_eq!(ask().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE, "one waits already");
    assert_eq!(started.elapsed(), Duration::ZERO);
    drop(first);
    let second = waiting.await.unwrap();
    assert_eq!((second.status(), started.elapsed()), (StatusCode::OK, Duration::ZERO));
    let late = ask().await.unwrap();
    assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(late.headers()["retry-after"], "1");
    assert!(started.elapsed() >= limits.waiting_timeout);
}

#[tokio::test]
async fn a_server_answers_ends_and_does_not_wait_for_silent_clients() {
    let listener = listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let limits = ServerLimits {
        header_timeout: Duration::from_millis(100),
        drain_timeout: Duration::from_secs(5),
        ..ServerLimits::default()
    };
    let router = Router::new().route("/", get(|| async { "hello" }));
    let server = tokio::spawn(serve(listener, router, None, limits, shutdown.clone()));

    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut talking = TcpStream::connect(address).await.unwrap();
    talking.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    talking.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{answer}");

    let ended = tokio::time::timeout(Duration::from_secs(10), silent.read_to_end(&mut Vec::new())).await;
    ended.expect("the server closes the connection").unwrap();
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(10), server).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn answers_in_flight_have_a_while_to_end_and_no_more() {
    for (answers_after, is_answered) in [(Duration::from_millis(300), true), (Duration::from_hours(1), false)]
    {
        let listener = listen("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (begun, mut begins) = tokio::sync::mpsc::channel(1);
        let answer = move || {
            let begun = begun.clone();
            async move {
                begun.send(()).await.unwrap();
                tokio::time::sleep(answers_after).await;
                "hello"
            }
        };
        let shutdown = CancellationToken::new();
        let router = Router::new().route("/", get(answer));
        let server = tokio::spawn(serve(listener, router, None, ServerLimits::default(), shutdown.clone()));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        begins.recv().await.unwrap();
        shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(10), server).await.unwrap().unwrap().unwrap();
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        assert_eq!(answer.ends_with(b"hello"), is_answered);
    }
}

#[tokio::test]
async fn with_a_certificate_only_tls_is_spoken_in_http_1_1() {
    // Another test may have installed it already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listener = listen("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let made = self_signed(&["localhost".to_owned()]).unwrap();
    let tls = server_config(made.serving, &TlsProfile::default()).unwrap();
    let router = Router::new().route("/", get(|| async { "hello" }));
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve(listener, router, Some(tls), ServerLimits::default(), shutdown.clone()));

    let root = reqwest::Certificate::from_pem(made.ca_pem.as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([root]).build().unwrap();
    let answer = client.get(format!("https://localhost:{port}/")).send().await.unwrap();
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, axum::http::Version::HTTP_11));
    assert_eq!(answer.text().await.unwrap(), "hello");
    assert!(client.get(format!("http://localhost:{port}/")).send().await.is_err());

    drop(client);
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(10), server).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_request_that_arrives_byte_by_byte_has_no_more_time_than_others() {
    let listener = listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let limits = ServerLimits { header_timeout: Duration::from_millis(200), ..ServerLimits::default() };
    let router = Router::new().route("/", get(|| async { "hello" }));
    let server = tokio::spawn(serve(listener, router, None, limits, shutdown.clone()));
    let client = TcpStream::connect(address).await.unwrap();
    let (mut reading, mut writing) = client.into_split();
    // A header that never ends, a byte at a time.
    let dripping = tokio::spawn(async move {
        let head = b"GET / HTTP/1.1\r\nhost: x\r\nx: ".iter().chain(std::iter::repeat(&b'y'));
        for byte in head {
            if writing.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), reading.read_to_end(&mut answer)).await;
    let _ = ended.expect("the server closes the connection");
    assert!(!String::from_utf8_lossy(&answer).contains("hello"));
    dripping.abort();
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(10), server).await.unwrap().unwrap().unwrap();
}

/// The first message of a TLS client, of a version and cipher suites.
fn hello(version: [u8; 2], suites: &[u16]) -> Vec<u8> {
    let with_length = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length, bytes].concat()
    };
    let suites: Vec<u8> = suites.iter().flat_map(|suite| suite.to_be_bytes()).collect();
    // Groups and signatures that the server has.
    let extensions = [
        &[0, 10, 0, 4, 0, 2, 0, 23][..],
        &[0, 13, 0, 6, 0, 4, 4, 3, 8, 4],
        &[0, 11, 0, 2, 1, 0],
        &[0, 23, 0, 0],
    ]
    .concat();
    let body =
        [&version[..], &[7; 32], &[0], &with_length(&suites), &[1, 0], &with_length(&extensions)].concat();
    let message = [&[1, 0][..], &with_length(&body)].concat();
    [&[22, 3, 1][..], &with_length(&message)].concat()
}

#[tokio::test]
async fn old_versions_of_tls_and_weak_ciphers_are_refused() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listener = listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let tls = server_config(self_signed(&["localhost".to_owned()]).unwrap().serving, &TlsProfile::default())
        .unwrap();
    let router = Router::new().route("/", get(|| async { "hello" }));
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve(listener, router, Some(tls), ServerLimits::default(), shutdown.clone()));
    // ECDHE with AES-GCM, ECDHE with AES-CBC, RSA with AES-GCM and AES-CBC, 3DES, RC4, none.
    let strong = [0xc02b, 0xc02f];
    let weak = [0xc009, 0xc013, 0x009c, 0x002f, 0x000a, 0x0005, 0x0000];
    let (hello_of_server, refused_version, refused_ciphers) = (vec![22], vec![21, 2, 70], vec![21, 2, 40]);
    for (name, message, wanted) in [
        ("1.2", hello([3, 3], &strong), &hello_of_server),
        ("1.1", hello([3, 2], &strong), &refused_version),
        ("1.0", hello([3, 1], &strong), &refused_version),
        ("SSL 3", hello([3, 0], &strong), &refused_version),
        ("1.2 with weak ciphers", hello([3, 3], &weak), &refused_ciphers),
    ] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&message).await.unwrap();
        let mut answer = [0; 7];
        client.read_exact(&mut answer).await.unwrap();
        // The kind of record; of an alert also its level and what it is about.
        let found = if answer[0] == 21 { vec![21, answer[5], answer[6]] } else { vec![answer[0]] };
        assert_eq!(&found, wanted, "{name}");
    }
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(10), server).await.unwrap().unwrap().unwrap();
}
