//! Queries that have none: what does not fit the types, and what asks for too much.

use std::cell::Cell;

use serde_json::{Value, json};

use super::{Lines, ask, catalog};
use crate::{Query, QueryError, Schema};

fn refusal(query: &str) -> String {
    let documents = catalog();
    let answer = ask(&documents, query);
    assert_eq!(answer["data"], Value::Null, "{answer}");
    assert_eq!(answer["errors"].as_array().unwrap().len(), 1);
    answer["errors"][0]["message"].as_str().unwrap().to_owned()
}

/// Queries that do not fit the types, or whose parts do not fit each other.
const UNFIT: &[(&str, &str)] = &[
    ("{ nothing }", "Cannot query field \"nothing\" on type \"Query\"."),
    ("{ olmbundles { x } }", "Cannot query field \"x\" on type \"OlmBundle\"."),
    ("{ olmbundles }", "Field \"olmbundles\" of type \"[OlmBundle]\" must have a sub selection."),
    ("{ olmbundles { name { x } } }", "Field \"name\" of type \"String\" must not have a sub selection."),
    (
        "{ olmbundles(filter: 1) { name } }",
        "Unknown argument \"filter\" on field \"olmbundles\" of type \"Query\".",
    ),
    (
        "{ olmbundles(limit: \"1\") { name } }",
        "Argument \"limit\" has an invalid value.\nExpected type \"Int\".",
    ),
    (
        "{ olmbundles(limit: 3000000000) { name } }",
        "Argument \"limit\" has an invalid value.\nExpected type \"Int\".",
    ),
    ("{ olmbundles(limit: $x) { name } }", "Variable \"$x\" is not defined."),
    (
        "query ($x: Int!) { olmbundles(limit: $x) { name } }",
        "Variable \"$x\" of required type \"Int!\" was not provided.",
    ),
    ("query ($x: Thing) { olmbundles { name } }", "Unknown type \"Thing\"."),
    ("{ ...F }", "Unknown fragment \"F\"."),
    ("{ ...F } fragment F on Nothing { x }", "Unknown type \"Nothing\"."),
    ("{ ...F } fragment F on String { x }", "Fragment cannot condition on non composite type \"String\"."),
    (
        "{ ...F } fragment F on OlmBundle { name }",
        "Fragment \"F\" cannot be spread here as objects of type \"Query\" can never be of type \"OlmBundle\".",
    ),
    (
        "{ ... on OlmBundle { name } }",
        "Fragment cannot be spread here as objects of type \"Query\" can never be of type \"OlmBundle\".",
    ),
    (
        "{ ...A } fragment A on Query { ...B } fragment B on Query { ...C } fragment C on Query { ...A }",
        "Cannot spread fragment \"A\" within itself.",
    ),
    (
        "{ __schema { types { ...T } } } fragment T on __Type { ofType { ...T } }",
        "Cannot spread fragment \"T\" within itself.",
    ),
    ("{ olmbundles { name @upper } }", "Unknown directive \"upper\"."),
    (
        "{ olmbundles { name @skip } }",
        "Directive \"@skip\" argument \"if\" of type \"Boolean!\" is required but not provided.",
    ),
    (
        "{ olmbundles { name @skip(if: 1) } }",
        "Argument \"if\" has an invalid value.\nExpected type \"Boolean!\".",
    ),
    (
        "{ __type { name } }",
        "Field \"__type\" argument \"name\" of type \"String!\" is required but not provided.",
    ),
    (
        "{ olmbundles { x: name x: image } }",
        "Fields \"x\" conflict because name and image are different fields.",
    ),
    (
        "{ olmbundles(limit: 1) { name } olmbundles { name } }",
        "Fields \"olmbundles\" conflict because they have differing arguments.",
    ),
    ("mutation { x }", "Schema is not configured for mutations"),
    ("subscription { x }", "Schema is not configured for subscriptions"),
    (
        "query A { olmbundles { name } } query B { olmbundles { name } }",
        "Must provide operation name if query contains multiple operations.",
    ),
    (
        "{ olmbundles { name } } { olmbundles { name } }",
        "This anonymous operation must be the only defined operation.",
    ),
    ("fragment F on Query { __typename }", "Must provide an operation."),
];

#[test]
fn what_does_not_fit_the_types_is_refused_with_the_place() {
    for (query, text) in UNFIT {
        assert_eq!(refusal(query), *text, "{query}");
    }
    let documents = catalog();
    let answer = ask(&documents, "{\n  olmbundles { x }\n}");
    assert_eq!(answer["errors"][0]["locations"], json!([{"line": 2, "column": 16}]));
}

#[test]
fn what_is_no_query_is_a_parse_error() {
    for (query, problem) in [
        ("{", "(1:2) Expected Name, found EOF"),
        ("", "(1:1) Unexpected EOF"),
        ("{}", "(1:3) Expected Name, found EOF"),
        ("{ a(b: ) }", "(1:8) Unexpected )"),
        ("{ a(b: 01) }", "(1:8) Invalid number \"01\""),
        ("{ a(b: 1.) }", "(1:8) Invalid number \"1.\""),
        ("{ a(b: 1e) }", "(1:8) Invalid number \"1e\""),
        ("{ a(b: \"x) }", "(1:8) Unterminated string"),
        ("{ a(b: \"\"\"x) }", "(1:8) Unterminated string"),
        ("{ a(b: \"\\q\") }", "(1:8) Invalid character escape sequence"),
        ("{ a } type T { b: Int }", "(1:7) Unexpected Name \"type\""),
        ("{ .. }", "(1:3) Unexpected character '.'"),
        ("{ ? }", "(1:3) Unexpected character '?'"),
        ("query ($x Int) { a }", "(1:11) Expected :, found Name \"Int\""),
        ("{ ...on }", "(1:9) Expected Name, found }"),
        ("fragment on on Query { a }", "(1:10) Unexpected Name \"on\""),
    ] {
        assert_eq!(refusal(query), format!("query parse error: Syntax Error GraphQL {problem}"), "{query}");
    }
}

#[test]
fn what_asks_for_too_much_is_refused_before_anything_is_looked_up() {
    let nested = |levels: usize| format!("{}x{}", "{x".repeat(levels - 1) + "{", "}".repeat(levels));
    let fields = |count: usize| format!("{{{}}}", "x ".repeat(count));
    let aliases = |count: usize| {
        let fields: Vec<String> = (0..count).map(|number| format!("a{number}: x")).collect();
        format!("{{{}}}", fields.join(" "))
    };
    let unknown = "Cannot query field \"x\" on type \"Query\".";
    for (query, text) in [
        (nested(10), unknown),
        (nested(11), "query exceeds maximum depth of 10"),
        (nested(60), "query exceeds maximum depth of 10"),
        // Fragments are levels too.
        (format!("{{...F}} fragment F on Query {}", nested(9)), unknown),
        (format!("{{...F}} fragment F on Query {}", nested(10)), "query exceeds maximum depth of 10"),
        (fields(500), unknown),
        (fields(501), "query exceeds maximum field count of 500"),
        (
            format!("query A {} query B {}", fields(250), fields(251)),
            "query exceeds maximum field count of 500",
        ),
        (aliases(50), unknown),
        (aliases(51), "query exceeds maximum alias count of 50"),
        (nested(20_000), "query parse error: Syntax Error GraphQL (1:130) nested deeper than 64 levels"),
        (
            format!("{{ a(b: {}) }}", "[".repeat(50_000)),
            "query parse error: Syntax Error GraphQL (1:71) nested deeper than 64 levels",
        ),
    ] {
        assert_eq!(refusal(&query), text);
    }
    // A chain that each fragment is only a short way down of.
    let chain = (0..1_000).map(|number| format!("fragment F{number} on Query {{ ...F{} }}", number + 1));
    let spread = (0..=1_000).rev().map(|number| format!("...F{number}"));
    let (chain, spread) = (chain.collect::<Vec<_>>().join(" "), spread.collect::<Vec<_>>().join(" "));
    let query = format!("{{ {spread} }} {chain} fragment F1000 on Query {{ __typename }}");
    assert_eq!(refusal(&query), "query exceeds maximum depth of 10");
}

#[test]
fn an_answer_that_is_too_long_is_refused() {
    let document = format!("{{\"schema\":\"x\",\"text\":\"{}\"}}", "x".repeat(512 << 10));
    let documents = document.repeat(20);
    let documents = Lines::new(&[&documents]);
    let fits = ask(&documents, "{ xs { text } }");
    assert_eq!(fits["data"]["xs"].as_array().unwrap().len(), 20);
    let answer = ask(&documents, "{ xs { text again: text } }");
    assert_eq!(answer["data"], Value::Null);
    assert_eq!(answer["errors"][0]["message"], "answer exceeds maximum of 16777216 bytes");
}

/// The result of a query, and how often it was asked whether it is overdue.
fn answer_within(documents: &Lines, query: &str, checks_max: usize) -> (Result<Vec<u8>, QueryError>, usize) {
    let (schema, query) = (Schema::derive(documents).unwrap(), Query::parse(query).unwrap());
    let checks = Cell::new(0);
    let is_overdue = || {
        checks.set(checks.get() + 1);
        checks.get() > checks_max
    };
    (query.answer(&schema, documents, &is_overdue), checks.get())
}

#[test]
fn a_query_ends_at_its_deadline() {
    let overdue = Err(QueryError::plain("context deadline exceeded"));
    assert_eq!(answer_within(&catalog(), "{ olmbundles { name } }", 0), (overdue, 1));
}

#[test]
fn the_deadline_holds_for_objects_of_which_nothing_is_selected() {
    let elements = vec!["{\"a\":1}"; 1_000].join(",");
    let documents = Lines::new(&[&format!("{{\"schema\":\"x\",\"list\":[{elements}]}}")]);
    let query = "query ($no: Boolean = false) { xs { list { a @include(if: $no) } } }";
    let (answer, checks) = answer_within(&documents, query, usize::MAX);
    assert!(answer.is_ok());
    assert!(checks > 1_000, "{checks} checks");
    let (answer, checks) = answer_within(&documents, query, 500);
    assert_eq!((answer, checks), (Err(QueryError::plain("context deadline exceeded")), 501));
}

#[test]
fn very_many_operations_are_rejected_before_their_fragments_are_counted() {
    let fragments: Vec<_> = (0..1_000).map(|number| format!("fragment f{number} on Query{{...z}}")).collect();
    let spreads: Vec<_> = (0..1_000).map(|number| format!("...f{number}")).collect();
    let (fragments, spreads) = (fragments.concat(), spreads.concat());
    let operations = "{...a}".repeat(8_000);
    let query = format!("{operations} fragment a on Query {{{spreads}}} {fragments}");
    assert_eq!(refusal(&query), "query exceeds maximum field count of 500");
}

proptest::proptest! {
    #[test]
    fn whatever_the_text_reading_it_ends(text in ".{0,60}", pieces in proptest::collection::vec(0_usize..24, 0..60)) {
        const PIECES: [&str; 24] = [
            "{", "}", "(", ")", "[", "]", ":", "=", "@", "$", "!", "...", "on", "query", "fragment", "F", "x", "1",
            "-1.5e3", "\"s\"", "\"\"\"", "\\", "true", "#",
        ];
        let tokens = pieces.iter().map(|piece| PIECES[*piece]).collect::<Vec<_>>().join(" ");
        for query in [text, tokens.clone(), format!("{{ {tokens} }}"), format!("{{ x({tokens}) }}")] {
            // Limits are checked, too.
            let _ = Query::parse(&query);
        }
    }
}
