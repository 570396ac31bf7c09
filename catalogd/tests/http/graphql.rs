//! The requests of `/graphql`; what queries mean is tested beside them.

use serde_json::{Value, json};

use crate::world::{Answer, World, ask};

const TARGET: &str = "/catalogs/c/api/v1/graphql";

fn world() -> World {
    let world = World::new();
    world.install("c", '1', r#"{"schema":"olm.package","name":"a"}{"schema":"olm.package","name":"b"}"#);
    world
}

fn post(world: &World, target: &str, body: &str) -> Answer {
    ask(world.address, "POST", target, &[("accept-encoding", "gzip")], body)
}

#[test]
fn bodies_are_json_with_a_query() {
    let world = world();
    let too_large = format!(r#"{{"query":"{}"}}"#, "x".repeat(100_001));
    let just_fits = format!(r#"{{"query":"{{olmpackages{{name}}}}{}"}}"#, " ".repeat(100_000 - 19));
    let over_1_mib = format!(r#"{{"x":"{}","query":"{{x}}"}}"#, "x".repeat(1 << 20));
    let invalid = (400, "Invalid request body\n");
    let empty = (400, "Query cannot be empty\n");
    for (body, (status, text)) in [
        ("", invalid),
        ("x", invalid),
        ("[]", invalid),
        (r#""{ x }""#, invalid),
        (r#"{"query":1}"#, invalid),
        (r#"{"query":"#, invalid),
        (over_1_mib.as_str(), invalid),
        ("{}", empty),
        ("null", empty),
        (r#"{"query":""}"#, empty),
        (r#"{"query":null,"variables":{}}"#, empty),
        (too_large.as_str(), (400, "Query too large\n")),
    ] {
        let answer = post(&world, TARGET, body);
        assert_eq!((answer.status, answer.text()), (status, text), "{}", &body[..body.len().min(40)]);
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    }
    assert_eq!(post(&world, TARGET, &just_fits).status, 200);
}

#[test]
fn answers_are_json_even_where_the_query_is_wrong() {
    let world = world();
    let names = json!({"data": {"olmpackages": [{"name": "a"}, {"name": "b"}]}});
    let nothing = |text: &str, locations: Value| json!({"data": null, "errors": [{"message": text, "locations": locations}]});
    for (body, expected) in [
        (r#"{"query":"{ olmpackages { name } }"}"#, names.clone()),
        // Only the query counts.
        (
            r#"{"operationName":"X","variables":{"n":1},"query":"query Q($n: Int) { olmpackages(limit: $n) { name } }"}"#,
            names.clone(),
        ),
        (r#"{"Query":"{ olmpackages { name } }"} and more"#, names),
        (
            r#"{"query":"{ nothing }"}"#,
            nothing("Cannot query field \"nothing\" on type \"Query\".", json!([{"line": 1, "column": 3}])),
        ),
        (
            r#"{"query":"mutation { x }"}"#,
            nothing("Schema is not configured for mutations", json!([{"line": 1, "column": 1}])),
        ),
        (
            r#"{"query":"{a{a{a{a{a{a{a{a{a{a{a}}}}}}}}}}}"}"#,
            nothing("query exceeds maximum depth of 10", json!([])),
        ),
    ] {
        let answer = post(&world, TARGET, body);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{body}");
        for name in ["etag", "last-modified", "cache-control", "content-encoding"] {
            assert_eq!(answer.header(name), None, "{name}");
        }
        let value: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(value, expected, "{body}");
    }
}

#[test]
fn catalogs_are_named_as_elsewhere() {
    let world = world();
    let query = r#"{"query":"{ olmpackages { name } }"}"#;
    for (name, status, text) in
        [("none", 404, "404 Not Found\n"), ("NO", 400, "invalid catalog name: a lowercase RFC 1123")]
    {
        let answer = post(&world, &format!("/catalogs/{name}/api/v1/graphql"), query);
        assert!(answer.status == status && answer.text().starts_with(text), "{answer:?}");
    }
}
