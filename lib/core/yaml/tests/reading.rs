//! Limits, places of errors, and that writing and reading are inverse.

use olm_yaml::{
    Limits, RepairBudget, YamlError, documents, documents_within, mixed_within, one, one_within, text,
    to_yaml,
};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn errors_name_line_and_column_of_the_whole_text() {
    let found: Vec<_> = documents("a: 1\n---\nb: 2\nc: [1\n").collect();
    assert!(found[0].is_ok());
    let error = found[1].as_ref().unwrap_err();
    assert!(error.line() >= 4, "{error}");
    assert!(error.to_string().starts_with("yaml: line "), "{error}");
    assert_eq!(found.len(), 2, "an error ends the iteration");
}

#[test]
fn errors_about_values_do_not_quote_them() {
    let error = one("password: !!int hunter2\n").unwrap_err();
    assert_eq!(error.to_string(), "yaml: line 1, column 17: the value is not of the type its tag names");
    assert!(!one("a: *hunter2\n").unwrap_err().to_string().is_empty());
}

#[test]
fn escapes_that_go_yaml_does_not_know_are_refused() {
    for text in [r#"a: "\/""#, r#"["\ud83d\ude00"]"#, r#"a: "\\\ud800""#, "a: \"x\n  \\/\""] {
        assert!(one(text).is_err(), "{text}: {:?}", one(text));
    }
    for (text, wanted) in [(r#"["\\/"]"#, r"\/"), (r#"["\\ud800"]"#, r"\ud800"), ("['\\/']", r"\/")] {
        assert_eq!(one(text), Ok(json!([wanted])), "{text}");
    }
}

#[test]
fn a_next_line_character_ends_a_line() {
    let text = "a: \"b\u{85}c\"\nd: e # f\u{85}g: h\ni: |\n  j\u{85}  k\n";
    assert_eq!(one(text), Ok(json!({"a": "b c", "d": "e", "g": "h", "i": "j\nk\n"})));
}

#[test]
fn json_is_read_as_go_reads_it() {
    let first = |text: &str| mixed_within(text, Limits::default(), &RepairBudget::default()).next().unwrap();
    for (text, wanted) in [
        (r#"{"a":"\ud800"}"#, "\u{fffd}"),
        (r#"{"a":"\udc00\ud800x"}"#, "\u{fffd}\u{fffd}x"),
        (r#"{"a":"\uD83D\uDE00\ud83d"}"#, "\u{1f600}\u{fffd}"),
        (r#"{"a":"\\ud800"}"#, r"\ud800"),
        (r#"{"a":"\/"}"#, "/"),
    ] {
        assert_eq!(first(text), Ok(json!({"a": wanted})), "{text}");
    }
    // As YAML it would be a text.
    for text in [r#"{"a":1E400}"#, r#"{"a":[-1e999,"x"]}"#] {
        assert!(matches!(first(text), Err(YamlError::Json { line: 1, .. })), "{text}: {:?}", first(text));
    }
    assert_eq!(first(r#"{"a":"1E400"}"#), Ok(json!({"a": "1E400"})));
    let second =
        mixed_within("{}\n\n{\"a\":1E400}", Limits::default(), &RepairBudget::default()).nth(1).unwrap();
    assert!(matches!(second, Err(YamlError::Json { line: 3, .. })), "{second:?}");
}

#[test]
fn each_limit_is_a_typed_error() {
    let small = Limits { bytes: 1000, documents: 2, depth: 4, nodes: 20, expanded_bytes: 60 };
    for (name, text) in [
        ("bytes", "x".repeat(1001)),
        ("nodes", "[1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,0,0]".to_owned()),
        ("nodes", "a: &a [1,2,3,4]\nb: &b [*a,*a]\nc: [*b,*b]\n".to_owned()),
        ("bytes of scalars", "a: &a xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nb: *a\nc: *a\n".to_owned()),
        ("levels of nesting", "a: &a [[x]]\nb: [[*a]]\n".to_owned()),
    ] {
        match one_within(&text, small, &RepairBudget::default()) {
            Err(YamlError::Limit { what, .. }) => assert_eq!(what, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(one_within("[[[[[1]]]]]", small, &RepairBudget::default()).is_err());
    for found in [
        documents_within("a\n---\nb\n---\nc\n", small).last().unwrap(),
        mixed_within("{} {} {}", small, &RepairBudget::default()).last().unwrap(),
    ] {
        assert!(matches!(found, Err(YamlError::Limit { what: "documents", limit: 2, .. })), "{found:?}");
    }
}

#[test]
fn deep_input_is_refused_without_exhausting_the_stack() {
    assert!(one(&"[".repeat(1_000_000)).is_err());
    assert!(one(&"- ".repeat(1_000_000)).is_err());
    let chain =
        (1..20_000).fold("- &a0 [x]\n".to_owned(), |text, n| text + &format!("- &a{n} [*a{}]\n", n - 1));
    assert!(matches!(one(&chain), Err(YamlError::Limit { what: "levels of nesting", .. })));
}

/// A few hundred kilobytes each, which used to become gigabytes.
#[test]
fn memory_is_limited_by_the_length_of_the_text() {
    let anchors: Vec<String> = (0..200).map(|n| format!("&a{n} [")).collect();
    let anchors = anchors.concat();
    let nested = format!("{anchors}{}1{}", "1,".repeat(100_000), "]".repeat(200));
    let small_mappings = "[".to_owned() + &"{a: 1},".repeat(200_000) + "]";
    let json = format!("{{\"a\":[{}{{}}]}}", "{\"a\":1},".repeat(200_000));
    let block = "- a: 1\n".repeat(200_000);
    for text in [nested, small_mappings, json, block] {
        let read = mixed_within(&text, Limits::default(), &RepairBudget::default()).next().unwrap();
        assert!(
            matches!(read, Err(YamlError::Limit { what: "bytes of memory", .. })),
            "{}: {}",
            &text[..20],
            read.is_ok()
        );
    }
    // Each continuation line would be indented deeper than the deepest line.
    let deep = format!("&a x:\n{}y: z\nq: '1\n{}'\n", " ".repeat(100_000), "2\n".repeat(20_000));
    assert!(one(&deep).is_err());
}

#[test]
fn bytes_that_are_no_text_are_located() {
    assert_eq!(text(b"ab\ncd\xff").unwrap_err(), YamlError::NotUtf8 { line: 2, column: 3 });
    assert_eq!(text("é".as_bytes()), Ok("é"));
}

#[test]
fn quoted_scalars_may_continue_at_any_indentation() {
    let text = "a:\n  # it's a comment\n  b: 'one\n  two ''x''\n three'\n  c: \"four\nfive \\\" six\"\n  d:\n  - 'e\n  f'\n  g: 'h'\n";
    let wanted = json!({"a": {"b": "one two 'x' three", "c": "four five \" six", "d": ["e f"], "g": "h"}});
    assert_eq!(one(text), Ok(wanted));
    // What only looks like such a scalar, in a block scalar, is left alone.
    let both = "a:\n  b: 'one\n two'\n  c: |\n    x: 'y\n   z'\n";
    assert!(one(both).is_err(), "the block scalar ends where its indentation does");
    let both = "a:\n  b: 'one\n two'\n  c: |\n    x: 'y\n    z'\n  d: 'e\n f'\n";
    assert_eq!(one(both), Ok(json!({"a": {"b": "one two", "c": "x: 'y\nz'\n", "d": "e f"}})));
    let error = one("a:\n  b: 'one\n  two' x\n").unwrap_err();
    assert!(matches!(error, YamlError::Syntax { line: 3, column: 3..=9, .. }), "{error}");
}

#[test]
fn what_is_read_again_is_limited_for_the_input_as_a_whole() {
    // The anchor is for the full parser, which needs each quoted scalar indented.
    let document = "e: &e 1\na:\n  b: 'one\n two'\n  c: |\n    x: 'y\n    z'\n  d: 'e\n f'\n";
    let read = |budget: &RepairBudget, text: &str| {
        mixed_within(text, Limits::default(), budget).take_while(Result::is_ok).count()
    };
    let needed = (1..20 * document.len())
        .find(|bytes| read(&RepairBudget::new(*bytes), document) == 1)
        .expect("some budget suffices");
    assert!(needed > document.len(), "{needed}");
    let three = format!("{document}---\n{document}---\n{document}");
    assert_eq!(read(&RepairBudget::new(3 * needed), &three), 3);
    assert_eq!(read(&RepairBudget::new(3 * needed - 1), &three), 2, "the first error is the end");
    // The same in several files, whichever way they are read.
    let budget = RepairBudget::new(2 * needed);
    assert_eq!(read(&budget.clone(), document), 1);
    assert!(one_within(document, Limits::default(), &budget).is_ok());
    assert!(one_within(document, Limits::default(), &budget).is_err());
    assert!(
        one_within("a:\n  b: 'one\n two'\n", Limits::default(), &budget).is_ok(),
        "the fast reader needs no repair"
    );
}

#[test]
fn yaml_is_written_in_block_style() {
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}},
        "data": {"yes": "no", "script": "#!/bin/sh\necho hi\n", "port": "80", "note": "a: b", "none": ""},
        "list": [1, {"a": [true, null], "b": "x"}, [], [["y"]]],
    });
    let expected = r##"apiVersion: v1
data:
  none: ""
  note: "a: b"
  port: "80"
  script: "#!/bin/sh\necho hi\n"
  "yes": "no"
kind: ConfigMap
list:
- 1
- a:
  - true
  - null
  b: x
- []
- - - "y"
metadata:
  labels: {}
  name: a
"##
    .replace("\"#!/bin/sh\\necho hi\\n\"", "|\n    #!/bin/sh\n    echo hi");
    assert_eq!(to_yaml(&value), expected);
    assert_eq!(
        to_yaml(&json!("a\nb")),
        "|-\n  a\n  b\n",
        "other parsers want texts indented at the top, too"
    );
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,6}",
        "[ -~\n\t]{0,20}",
        "[\\PC\n\r\u{85}\u{2028}\u{feff}]{0,12}",
        Just("yes".to_owned()),
        Just("0644".to_owned()),
        Just("1e3".to_owned()),
        Just("2001-12-14".to_owned()),
        Just("<<".to_owned()),
        Just("x\n\n\n".to_owned()),
        Just("x\n  y\n\tz".to_owned()),
        Just("k".repeat(1500)),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        (-1.0e9_f64..1.0e9).prop_map(|x| Value::from(x + 0.5)),
        any_text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(any_text(), inner, 0..5).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// Whole floats come back as integers, so the comparison is between the texts of a second round.
fn same(left: &Value, right: &Value) -> bool {
    left == right || to_yaml(left) == to_yaml(right)
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(value in any_value()) {
        let yaml = to_yaml(&value);
        let again = one(&yaml);
        prop_assert!(again.as_ref().is_ok_and(|again| same(again, &value)), "{yaml}\n{again:?}");
        prop_assert!(!matches!(value, Value::Object(ref map) if !map.is_empty()) || documents(&yaml).count() == 1);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]{}:,&*!|>'\"%@#?\\- \na-c0-9.~<]{0,60}") {
        let _ = one(&text);
        let _ = documents(&text).count();
        let _ = olm_yaml::mixed(&text).count();
    }
}
