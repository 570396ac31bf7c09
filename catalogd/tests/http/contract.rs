//! Routes, methods, names, parameters, ranges and errors: one row after another of what upstream answers.

use catalogd::Config;

use crate::world::{Answer, UNPACKED, World, digest, reference};

const FILE: &str = r#"{"schema":"olm.package","name":"foo"}{"schema":"olm.bundle","package":"foo","name":"foo.v1"}
    {"schema":"olm.bundle","package":"bar","name":"bar.v1"}{"no":"schema"}"#;
const PACKAGE: &str = "{\"name\":\"foo\",\"schema\":\"olm.package\"}\n";
const FOO: &str = "{\"name\":\"foo.v1\",\"package\":\"foo\",\"schema\":\"olm.bundle\"}\n";
const BAR: &str = "{\"name\":\"bar.v1\",\"package\":\"bar\",\"schema\":\"olm.bundle\"}\n";
const REST: &str = "{\"no\":\"schema\"}\n";

const ALL: &str = "/catalogs/c/api/v1/all";
const METAS: &str = "/catalogs/c/api/v1/metas";
const GRAPHQL: &str = "/catalogs/c/api/v1/graphql";

fn world() -> World {
    let world = World::new();
    world.install("c", '1', FILE);
    world
}

fn is_error(answer: &Answer, status: u16, text: &str, row: &str) {
    assert_eq!((answer.status, answer.text()), (status, text), "{row}");
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"), "{row}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{row}");
    assert_eq!(answer.header("allow"), None, "{row}");
}

#[test]
fn routes_and_methods() {
    let world = world();
    let (not_found, not_allowed) = ((404, "404 page not found\n"), (405, "Method Not Allowed\n"));
    for (method, target, (status, text)) in [
        ("GET", "/", not_found),
        ("GET", "/catalogs", not_found),
        ("GET", "/catalogs/c", not_found),
        ("GET", "/catalogs/c/api/v1", not_found),
        ("GET", "/catalogs/c/api/v1/all/", not_found),
        ("GET", "/catalogs/c/api/v1/metas/", not_found),
        ("GET", "/catalogs/c/api/v1/ALL", not_found),
        ("GET", "/catalogs/c/api/v2/all", not_found),
        ("GET", "/c/api/v1/all", not_found),
        ("POST", "/nothing", not_found),
        ("POST", ALL, not_allowed),
        ("PUT", ALL, not_allowed),
        ("DELETE", METAS, not_allowed),
        ("OPTIONS", ALL, not_allowed),
        ("OPTIONS", METAS, not_allowed),
        ("GET", GRAPHQL, not_allowed),
        // The method is looked at first.
        ("POST", "/catalogs/NOT_A_NAME/api/v1/all", not_allowed),
        ("POST", "/catalogs/none/api/v1/metas?x=1", not_allowed),
    ] {
        is_error(&world.ask(method, target, &[]), status, text, &format!("{method} {target}"));
    }
    let head = world.ask("HEAD", GRAPHQL, &[]);
    assert_eq!((head.status, head.header("content-length")), (405, Some("19")));
    for target in [ALL, METAS] {
        assert_eq!(world.get(target).status, 200);
        assert_eq!(world.ask("HEAD", target, &[]).status, 200);
    }
}

#[test]
fn endpoints_are_there_as_their_gates_say() {
    for (metas, graphql) in [(true, false), (false, false), (false, true), (true, true)] {
        let world = World::with(&Config { metas, graphql, ..Config::default() }, false);
        world.install("c", '1', FILE);
        assert_eq!(world.get(ALL).status, 200);
        let off = |target: &str, method: &str| {
            is_error(&world.ask(method, target, &[]), 404, "404 page not found\n", target);
        };
        if metas {
            assert_eq!(world.get(METAS).status, 200);
        } else {
            off(METAS, "GET");
        }
        if graphql {
            assert_eq!(world.ask("POST", GRAPHQL, &[]).status, 400);
        } else {
            off(GRAPHQL, "POST");
        }
    }
}

#[test]
fn unclean_paths_are_redirected_and_encoded_ones_decoded() {
    let world = world();
    for (target, clean) in [
        ("/catalogs//c/api/v1/all", ALL),
        ("//catalogs/c/api/v1/all", ALL),
        ("/catalogs/./c/api/v1/all", ALL),
        ("/catalogs/x/../c/api/v1/all", ALL),
        ("/../../catalogs/c/api/v1/all", ALL),
        ("/catalogs/c/api/v1//metas?name=foo&x=%3C", "/catalogs/c/api/v1/metas?name=foo&x=%3C"),
        ("/catalogs/c/api/v1/all/..", "/catalogs/c/api/v1"),
        ("/catalogs//", "/catalogs/"),
    ] {
        let answer = world.get(target);
        assert_eq!((answer.status, answer.header("location")), (307, Some(clean)), "{target}");
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
        let escaped = clean.replace('&', "&amp;");
        assert_eq!(answer.text(), format!("<a href=\"{escaped}\">Temporary Redirect</a>.\n\n"));
    }
    assert_eq!(world.get("/catalogs/%63/api/v1/metas?name=foo").text(), PACKAGE);
}

#[test]
fn names_are_those_of_catalogs() {
    let world = world();
    let text = "invalid catalog name: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
        characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
        used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n";
    let long = "a".repeat(254);
    for name in [
        "C",
        "a_b",
        "-a",
        "a-",
        "a..b",
        ".a",
        "%2e%2e",
        "a%2Fb",
        "%2e%2e%2f%2e%2e",
        "a%00",
        "a%5cb",
        "%zz",
        "%ff",
        &long,
    ] {
        for endpoint in ["all", "metas", "metas?x=1"] {
            let answer = world.get(&format!("/catalogs/{name}/api/v1/{endpoint}"));
            is_error(&answer, 400, text, name);
        }
    }
    for name in ["0", "a.b-c.d", &"a".repeat(253)] {
        let answer = world.get(&format!("/catalogs/{name}/api/v1/all"));
        is_error(&answer, 404, "404 Not Found\n", name);
    }
}

#[test]
fn all_is_every_line_with_its_headers() {
    let world = world();
    let whole = [PACKAGE, FOO, BAR, REST].concat();
    let length = whole.len().to_string();
    let etag = format!("\"{}\"", digest('1'));
    for target in [ALL, "/catalogs/c/api/v1/all?ignored=x;y", "/catalogs/c/api/v1/all?%zz&schema=none"] {
        let answer = world.get(target);
        assert_eq!((answer.status, answer.text()), (200, whole.as_str()));
        let head = world.ask("HEAD", target, &[]);
        for answer in [answer, head] {
            for (name, value) in [
                ("content-type", Some("application/jsonl")),
                ("last-modified", Some(UNPACKED)),
                ("accept-ranges", Some("bytes")),
                ("content-length", Some(length.as_str())),
                ("etag", Some(etag.as_str())),
                ("cache-control", None),
                ("content-encoding", None),
            ] {
                assert_eq!(answer.header(name), value, "{name}");
            }
        }
    }
}

#[test]
fn parts_of_all_can_be_asked_for() {
    let world = world();
    let whole = [PACKAGE, FOO, BAR, REST].concat();
    let size = whole.len();
    for (range, part) in
        [("bytes=5-9", 5..10), ("bytes=5-", 5..size), ("bytes=-3", size - 3..size), ("bytes=0-0, 900-", 0..1)]
    {
        let answer = world.ask("GET", ALL, &[("range", range)]);
        assert_eq!((answer.status, answer.text()), (206, &whole[part.clone()]), "{range}");
        let expected = format!("bytes {}-{}/{size}", part.start, part.end - 1);
        assert_eq!(answer.header("content-range"), Some(expected.as_str()));
        assert_eq!(answer.header("content-type"), Some("application/jsonl"));
    }
    let several = world.ask("GET", ALL, &[("range", "bytes=0-1,-3")]);
    assert_eq!(several.status, 206);
    let kind = several.header("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |from: usize, to: usize| {
        let (range, text) = (format!("{from}-{}/{size}", to - 1), &whole[from..to]);
        format!(
            "--{boundary}\r\nContent-Range: bytes {range}\r\nContent-Type: application/jsonl\r\n\r\n{text}\r\n"
        )
    };
    assert_eq!(several.text(), format!("{}{}--{boundary}--\r\n", part(0, 2), part(size - 3, size)));
    for (range, text) in [
        ("bytes=9999-", "invalid range: failed to overlap\n"),
        ("bytes=-0", "invalid range: failed to overlap\n"),
        ("bytes=5-2", "invalid range\n"),
        ("lines=0-1", "invalid range\n"),
    ] {
        let answer = world.ask("GET", ALL, &[("range", range)]);
        is_error(&answer, 416, text, range);
        assert_eq!(answer.header("content-range"), Some(format!("bytes */{size}").as_str()));
    }
}

#[test]
fn metas_are_the_lines_of_a_query() {
    let world = world();
    let whole = [PACKAGE, FOO, BAR, REST].concat();
    let bundles = [FOO, BAR].concat();
    for (query, expected) in [
        ("", whole.as_str()),
        ("?", &whole),
        ("?schema=&package=&name=", &whole),
        ("?schema=olm.bundle", &bundles),
        ("?schema=olm.bundle&package=foo", FOO),
        // The package's own document carries its name as name.
        ("?package=foo", FOO),
        ("?schema=olm.package&name=foo", PACKAGE),
        // Of repeated parameters the first counts, empty or not.
        ("?package=foo&package=bar", FOO),
        ("?package=&package=bar", &whole),
        ("?name=foo%2Ev1", FOO),
        ("?name=foo.v1&", FOO),
        ("?name=none", ""),
        ("?schema=OLM.bundle", ""),
        ("?schema=olm.bundle+", ""),
    ] {
        let answer = world.get(&format!("{METAS}{query}"));
        assert_eq!((answer.status, answer.text()), (200, expected), "{query}");
        for (name, value) in [
            ("content-type", Some("application/jsonl")),
            ("last-modified", Some(UNPACKED)),
            ("accept-ranges", None),
        ] {
            assert_eq!(answer.header(name), value, "{query}: {name}");
        }
    }
    for query in [
        "?Schema=x",
        "?x=1",
        "?x",
        "?=1",
        "?schema=olm.package;x=1",
        "?%zz=1",
        "?schema=%",
        "?schema=%2",
        "?schema=%ff",
        "?schema=a&limit=1",
    ] {
        is_error(&world.get(&format!("{METAS}{query}")), 400, "400 Bad Request\n", query);
    }
    let ranged = world.ask("GET", &format!("{METAS}?package=foo"), &[("range", "bytes=0-1")]);
    assert_eq!((ranged.status, ranged.text()), (200, FOO));
    let head = world.ask("HEAD", &format!("{METAS}?package=foo"), &[]);
    assert_eq!((head.status, head.header("content-type")), (200, Some("application/jsonl")));
}

#[test]
fn what_is_not_served_says_whether_to_come_again() {
    let world = World::new();
    for target in [ALL, METAS] {
        is_error(&world.get(target), 404, "404 Not Found\n", target);
        // Parameters come before the content.
        is_error(&world.get(&format!("{METAS}?x=1")), 400, "400 Bad Request\n", target);
    }
    world.store.announce("c", Some((reference('1'), None)));
    for (method, target, body) in
        [("GET", ALL, ""), ("GET", METAS, ""), ("POST", GRAPHQL, r#"{"query":"{x}"}"#)]
    {
        let answer = crate::world::ask(world.address, method, target, &[], body);
        is_error(&answer, 503, "503 Service Unavailable\n", target);
        assert_eq!(answer.header("retry-after"), Some("2"));
    }
    world.install("c", '1', FILE);
    assert_eq!(world.get(ALL).status, 200);
    world.store.remove("c").unwrap();
    is_error(&world.get(ALL), 404, "404 Not Found\n", "removed");
}

#[test]
fn content_that_cannot_be_read_is_an_error() {
    let world = world();
    let folder = world.folder.path().join("catalogs/c").join(digest('1'));
    std::fs::OpenOptions::new().write(true).open(folder.join("catalog.jsonl")).unwrap().set_len(10).unwrap();
    for target in [ALL, METAS, &format!("{METAS}?package=foo")] {
        is_error(&world.get(target), 500, "500 Internal Server Error\n", target);
    }
    assert_eq!(world.ask("HEAD", ALL, &[]).status, 200);
}

#[test]
fn durations_are_counted_by_status() {
    let world = world();
    assert_eq!(world.get(ALL).status, 200);
    assert_eq!(world.get("/").status, 404);
    assert_eq!(world.get(&format!("{METAS}?x")).status, 400);
    let name = "catalogd_http_request_duration_seconds";
    let metrics = world.metrics();
    assert!(metrics.contains(&format!("# TYPE {name} histogram\n")), "{metrics}");
    for code in [200, 404, 400] {
        assert!(metrics.contains(&format!("{name}_count{{code=\"{code}\"}} 1\n")), "{metrics}");
    }
    let buckets: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with(&format!("{name}_bucket")) && line.contains("code=\"200\""))
        .map(|line| line.split("le=\"").nth(1).unwrap().split('"').next().unwrap())
        .collect();
    assert_eq!(
        buckets.join(" "),
        "0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1.0 1.2 1.6 2.0 2.4 2.8 3.2 3.6 4.0 10.0 +Inf"
    );
}
