//! Conditional requests: the same on both endpoints, on HEAD, and on compressed answers.

use crate::world::{UNPACKED, World, digest};

const LATER: &str = "Thu, 01 Jan 1970 00:16:41 GMT";
const EARLIER: &str = "Thu, 01 Jan 1970 00:16:39 GMT";

fn world() -> World {
    let world = World::new();
    let text = "x".repeat(2_000);
    world.install("c", '1', &format!("{{\"schema\":\"s\",\"package\":\"p\",\"text\":\"{text}\"}}"));
    world.compress("c");
    world
}

#[test]
fn each_condition_on_each_endpoint() {
    let world = world();
    for target in ["/catalogs/c/api/v1/all", "/catalogs/c/api/v1/metas?package=p"] {
        let etag = world.get(target).header("etag").unwrap().to_owned();
        let weak = format!("W/{etag}");
        let list = format!("\"x\", {etag}");
        for (name, value, expected) in [
            ("if-modified-since", UNPACKED, 304),
            ("if-modified-since", LATER, 304),
            ("if-modified-since", "Thursday, 01-Jan-70 00:16:40 GMT", 304),
            ("if-modified-since", "Thu Jan  1 00:16:40 1970", 304),
            ("if-modified-since", EARLIER, 200),
            ("if-modified-since", "yesterday", 200),
            ("if-none-match", "*", 304),
            ("if-none-match", etag.as_str(), 304),
            ("if-none-match", weak.as_str(), 304),
            ("if-none-match", list.as_str(), 304),
            ("if-none-match", "\"x\"", 200),
            ("if-match", "*", 200),
            ("if-match", etag.as_str(), 200),
            ("if-match", "\"x\"", 412),
            ("if-unmodified-since", EARLIER, 412),
            ("if-unmodified-since", UNPACKED, 200),
            ("if-unmodified-since", "yesterday", 200),
        ] {
            for method in ["GET", "HEAD"] {
                for encoding in ["identity", "gzip"] {
                    let row = format!("{method} {target} {encoding} {name}: {value}");
                    let answer = world.ask(method, target, &[(name, value), ("accept-encoding", encoding)]);
                    assert_eq!(answer.status, expected, "{row}");
                    let is_compressed = expected == 200 && method == "GET" && encoding == "gzip";
                    assert_eq!(answer.header("content-encoding").is_some(), is_compressed, "{row}");
                    match expected {
                        304 => {
                            assert_eq!(answer.header("last-modified"), Some(UNPACKED), "{row}");
                            assert!(answer.header("etag").unwrap().ends_with(&etag), "{row}");
                            assert_eq!(answer.header("content-type"), None, "{row}");
                            assert_eq!(answer.header("content-length"), None, "{row}");
                        }
                        412 => assert!(answer.body.is_empty(), "{row}"),
                        _ => {}
                    }
                }
            }
        }
        // An entity tag is asked about instead of the date, not beside it.
        let both = [("if-none-match", "\"x\""), ("if-modified-since", LATER)];
        assert_eq!(world.ask("GET", target, &both).status, 200);
        let both = [("if-match", etag.as_str()), ("if-unmodified-since", EARLIER)];
        assert_eq!(world.ask("GET", target, &both).status, 200);
    }
}

#[test]
fn tags_name_the_content_and_the_query() {
    let world = world();
    let tag = |query: &str| {
        let answer = world.get(&format!("/catalogs/c/api/v1/metas{query}"));
        answer.header("etag").unwrap().to_owned()
    };
    let queries = ["", "?schema=x", "?package=x", "?name=x", "?schema=x&name=x", "?schema=xx"];
    let tags: std::collections::BTreeSet<String> = queries.iter().map(|query| tag(query)).collect();
    assert_eq!(tags.len(), queries.len());
    assert!(tags.iter().all(|tag| tag.contains(&digest('1'))));
    assert_eq!(tag(""), world.get("/catalogs/c/api/v1/all").header("etag").unwrap());
    assert_eq!(tag("?name=x&schema=x"), tag("?schema=x&name=x"));
}

#[test]
fn a_range_counts_only_for_the_content_it_was_begun_with() {
    let world = world();
    let target = "/catalogs/c/api/v1/all";
    let etag = world.get(target).header("etag").unwrap().to_owned();
    let weak = format!("W/{etag}");
    for (condition, status) in
        [(etag.as_str(), 206), (UNPACKED, 206), (&weak, 200), ("\"x\"", 200), (EARLIER, 200), (LATER, 200)]
    {
        for encoding in ["identity", "gzip"] {
            let headers = [("range", "bytes=5-9"), ("if-range", condition), ("accept-encoding", encoding)];
            let answer = world.ask("GET", target, &headers);
            assert_eq!(answer.status, status, "{condition}");
            let is_compressed = status == 200 && encoding == "gzip";
            assert_eq!(answer.header("content-encoding").is_some(), is_compressed, "{condition}");
        }
    }
}
