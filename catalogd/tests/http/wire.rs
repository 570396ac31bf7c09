//! Bytes that no honest client sends: each gets one answer, or none, and nothing of what is hidden in it is answered.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use crate::world::{DEADLINE, World};

const FILE: &str = r#"{"schema":"olm.package","name":"foo","defaultChannel":"a"}"#;
const ALL: &str = "/catalogs/c/api/v1/all";
/// What is hidden: its answer has a header of this name.
const HIDDEN: &str = "GET /catalogs//hidden/api/v1/all HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const HIDDEN_ANSWER: &str = "location: /catalogs/hidden";

fn world() -> World {
    let world = World::new();
    world.install("c", '1', FILE);
    world
}

/// Everything that the server says until it closes the connection.
fn answers(world: &World, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read) = stream.read(&mut buffer) {
        if read == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8(answer).unwrap()
}

/// The status of each answer.
fn statuses(text: &str) -> Vec<&str> {
    text.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect()
}

fn post(headers: &str, body: &str) -> String {
    format!("POST /catalogs/c/api/v1/graphql HTTP/1.1\r\nhost: x\r\n{headers}\r\n{body}")
}

#[test]
fn a_request_has_one_length_and_hides_no_other() {
    let world = world();
    let chunked = |headers: &str| post(headers, &format!("0\r\n\r\n{HIDDEN}"));
    let counted = |headers: &str| post(headers, HIDDEN);
    let query = "{\"query\":\"{x}\"}";
    let within = format!("connection: close\r\ncontent-length: {}\r\n", query.len());
    for (name, request, wanted) in [
        ("one length", post(&within, &format!("{query}{HIDDEN}")), "200"),
        ("two lengths", counted("content-length: 0\r\ncontent-length: 60\r\n"), "400"),
        ("two in one", counted("content-length: 0, 60\r\n"), "400"),
        ("a negative one", counted("content-length: -1\r\n"), "400"),
        ("one with a sign", counted("content-length: +0\r\n"), "400"),
        ("one in hexadecimal", counted("content-length: 0x0\r\n"), "400"),
        ("one that is too large to count", counted("content-length: 18446744073709551616\r\n"), "400"),
        (
            "an encoding that does not end in chunked",
            chunked("transfer-encoding: chunked, identity\r\n"),
            "400",
        ),
        ("an unknown encoding", chunked("transfer-encoding: xchunked\r\n"), "400"),
        ("a blank before the colon", chunked("transfer-encoding : chunked\r\n"), "400"),
        ("a folded line", chunked("content-length: 0\r\nx: a\r\n transfer-encoding: chunked\r\n"), "400"),
        ("a bare return", chunked("content-length: 0\r\nx: a\rtransfer-encoding: chunked\r\n"), "400"),
        ("a byte of zero", chunked("x: a\0b\r\n"), "400"),
        (
            "a size that is no number",
            post("transfer-encoding: chunked\r\n", &format!("-1\r\n{HIDDEN}")),
            "400",
        ),
        (
            "a size that is too large to count",
            post("transfer-encoding: chunked\r\n", &format!("10000000000000000\r\n{HIDDEN}")),
            "400",
        ),
    ] {
        let answer = answers(&world, request.as_bytes());
        let found = statuses(&answer);
        assert!(found == [wanted] && !answer.contains(HIDDEN_ANSWER), "{name}: {answer}");
    }
    // Where both are there, the length counts for nothing, and the connection is not used again.
    let both = chunked("content-length: 5\r\ntransfer-encoding: chunked\r\n");
    let answer = answers(&world, both.as_bytes());
    assert!(statuses(&answer).len() <= 1 && !answer.contains(HIDDEN_ANSWER), "{answer}");
}

#[test]
fn heads_have_limits() {
    let world = world();
    let get = |headers: &str| format!("GET {ALL} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    let many: Vec<String> = (0..10_000).map(|number| format!("x-{number}: y\r\n")).collect();
    for (name, request) in [
        ("a header of a megabyte", get(&format!("x: {}\r\n", "y".repeat(1 << 20)))),
        ("ten thousand headers", get(&many.concat())),
        ("a path of a megabyte", format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(1 << 20))),
    ] {
        let answer = answers(&world, request.as_bytes());
        let found = statuses(&answer);
        assert!(matches!(found[..], [] | ["431" | "414" | "400"]), "{name}: {answer:.200}");
    }
    for (name, bytes) in [
        ("the preface of HTTP/2", &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..]),
        ("the hello of TLS", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"),
        ("no method", b" / HTTP/1.1\r\n\r\n"),
        ("a later version", b"GET / HTTP/9.9\r\nhost: x\r\n\r\n"),
    ] {
        let answer = answers(&world, bytes);
        assert!(matches!(statuses(&answer)[..], [] | ["400" | "505"]), "{name}: {answer:.200}");
    }
    assert_eq!(world.get(ALL).status, 200, "it serves on");
}

#[test]
fn many_ranges_are_no_more_than_the_whole() {
    let world = world();
    let whole = world.get(ALL).body;
    let ranges = |range: &str, count: usize| format!("bytes={}", vec![range; count].join(","));
    for header in [ranges("0-", 32), ranges("0-0", 1_000), ranges("-1", 33), ranges("0-9", 50)] {
        let answer = world.ask("GET", ALL, &[("range", &header)]);
        assert_eq!((answer.status, &answer.body), (200, &whole), "{header:.40}");
    }
    let request = format!(
        "GET {ALL} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nrange: {}\r\n\r\n",
        ranges("0-0", 30_000)
    );
    let answer = answers(&world, request.as_bytes());
    assert!(answer.len() < 2_000 + whole.len(), "{} bytes", answer.len());
}

#[test]
fn an_answer_says_nothing_that_the_request_dictates() {
    let world = world();
    for target in [
        "/catalogs/c/api/v1/metas?schema=a%0d%0ainjected:%20yes",
        "/catalogs/c/api/v1/metas?name=%0d%0a%0d%0aHTTP/1.1%20200%20OK",
        "/catalogs//c/api/v1/all?x=%0d%0ainjected:%20yes",
        "/catalogs/%0d%0ainjected:%20yes//api/v1/all",
    ] {
        let answer = world.get(target);
        assert_eq!(answer.header("injected"), None, "{target}");
    }
    // A redirect stays here, whatever host the request names.
    for target in [
        "//evil.example/catalogs/c/api/v1/all",
        "///evil.example//x",
        "/\\evil.example//x",
        "http://evil.example//catalogs/c/api/v1/all",
        "http://evil.example/catalogs/../x/./all",
    ] {
        let answer = world.get(target);
        let location = answer.header("location");
        let stays = location
            .is_none_or(|location| location.starts_with('/') && !location[1..].starts_with(['/', '\\']));
        assert!(stays, "{target}: {location:?}");
    }
    let named = world.get("http://evil.example/catalogs/c/api/v1/all");
    assert_eq!((named.status, named.header("location")), (200, None), "a proxy's form of the same request");
}
