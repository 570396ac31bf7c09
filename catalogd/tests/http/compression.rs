//! Compressed answers: when, with which headers, and that they are the same content.

use catalogd::Config;

use crate::world::{DEADLINE, World, digest};

const ALL: &str = "/catalogs/c/api/v1/all";
const METAS: &str = "/catalogs/c/api/v1/metas";
const GZIP: (&str, &str) = ("accept-encoding", "gzip, deflate, br, zstd");

/// Packages `large` and `small`, and two bundles of one package.
fn content() -> String {
    let text = "some text that can be compressed ".repeat(60);
    let documents = [
        format!(r#"{{"schema":"olm.package","name":"large","description":"{text}"}}"#),
        format!(r#"{{"schema":"olm.bundle","package":"large","name":"large.v1","description":"{text}"}}"#),
        format!(r#"{{"schema":"olm.bundle","package":"large","name":"large.v2","description":"{text}"}}"#),
        r#"{"schema":"olm.package","name":"small"}"#.to_owned(),
        r#"{"schema":"olm.bundle","package":"small","name":"small.v1"}"#.to_owned(),
    ];
    documents.concat()
}

#[test]
fn whoever_takes_gzip_gets_it_once_it_is_there() {
    let world = World::new();
    world.install("c", '1', &content());
    let plain = world.get(ALL);
    let before = world.ask("GET", ALL, &[GZIP]);
    assert_eq!((before.header("content-encoding"), &before.body), (None, &plain.body));
    assert_eq!(before.header("etag"), plain.header("etag"));

    world.compress("c");
    let answer = world.ask("GET", ALL, &[GZIP]);
    assert_eq!(answer.decoded(), plain.body);
    assert!(answer.body.len() * 10 < plain.body.len());
    let weak = format!("W/\"{}\"", digest('1'));
    for (name, value) in [
        ("content-encoding", Some("gzip")),
        ("content-type", Some("application/jsonl")),
        ("etag", Some(weak.as_str())),
        ("last-modified", plain.header("last-modified")),
        ("accept-ranges", None),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    for accepted in ["identity", "br, zstd", "gzip;q=0, *", "gzip;q=0.5, identity"] {
        let answer = world.ask("GET", ALL, &[("accept-encoding", accepted)]);
        assert_eq!((answer.header("content-encoding"), &answer.body), (None, &plain.body), "{accepted}");
    }
    assert_eq!(world.get(ALL).header("content-encoding"), None, "who says nothing gets it plain");
}

#[test]
fn queries_are_compressed_where_they_are_whole_runs_of_some_length() {
    let world = World::new();
    world.install("c", '1', &content());
    world.compress("c");
    for (query, is_compressed) in [
        ("", true),
        ("?package=large", true),
        ("?schema=olm.bundle", true),
        ("?schema=olm.bundle&package=large", true),
        ("?schema=olm.package&name=large", true),
        // Shorter than 1,024 bytes.
        ("?package=small", false),
        ("?name=none", false),
        // One of two documents that were compressed together.
        ("?name=large.v1", false),
    ] {
        let target = format!("{METAS}{query}");
        let (plain, answer) = (world.get(&target), world.ask("GET", &target, &[GZIP]));
        assert_eq!(answer.header("content-encoding").is_some(), is_compressed, "{query}");
        assert_eq!(answer.decoded(), plain.body, "{query}");
        let prefix = if is_compressed { "W/" } else { "" };
        assert_eq!(answer.header("etag").unwrap(), format!("{prefix}{}", plain.header("etag").unwrap()));
    }
}

#[test]
fn heads_ranges_and_errors_are_never_compressed() {
    let world = World::new();
    world.install("c", '1', &content());
    world.compress("c");
    let plain = world.get(ALL);
    let head = world.ask("HEAD", ALL, &[GZIP]);
    assert_eq!((head.status, head.header("content-encoding")), (200, None));
    assert_eq!(head.header("content-length"), plain.header("content-length"));
    let part = world.ask("GET", ALL, &[GZIP, ("range", "bytes=0-2999")]);
    assert_eq!((part.status, part.header("content-encoding")), (206, None));
    assert_eq!(part.body, &plain.body[..3_000]);
    for (target, headers, status) in [
        (ALL, vec![GZIP, ("range", "bytes=99999-")], 416),
        (ALL, vec![GZIP, ("if-none-match", "*")], 304),
        (ALL, vec![GZIP, ("if-match", "\"x\"")], 412),
        ("/nothing", vec![GZIP], 404),
        ("/catalogs/c/api/v1/metas?x", vec![GZIP], 400),
    ] {
        let answer = world.ask("GET", target, &headers);
        assert_eq!((answer.status, answer.header("content-encoding")), (status, None), "{target}");
    }
}

#[test]
fn content_is_compressed_in_the_background() {
    let world = World::with(&Config::default(), true);
    for (digest, version) in [('1', "1"), ('2', "2")] {
        let content = content() + &format!("{{\"schema\":\"version\",\"name\":\"{version}\"}}");
        world.install("c", digest, &content);
        let started = std::time::Instant::now();
        let answer = loop {
            let answer = world.ask("GET", ALL, &[GZIP]);
            if answer.header("content-encoding").is_some() {
                break answer;
            }
            assert!(started.elapsed() < DEADLINE);
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        let decoded = answer.decoded();
        assert_eq!(decoded, world.get(ALL).body);
        assert!(str::from_utf8(&decoded).unwrap().contains(&format!("\"name\":\"{version}\"")));
    }
}
