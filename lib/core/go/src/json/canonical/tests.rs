use proptest::prelude::*;
use serde_json::Value;

use super::{Canonicalizer, JsonError};

fn canonical(input: &str) -> String {
    bytes(input.as_bytes())
}

fn bytes(input: &[u8]) -> String {
    let mut canonicalizer = Canonicalizer::new(b"\"properties\"");
    let used =
        canonicalizer.document(input).unwrap_or_else(|stop| panic!("{}: {stop:?}", input.escape_ascii()));
    assert_eq!(used, input.trim_ascii_end().len());
    String::from_utf8(canonicalizer.line().to_vec()).unwrap()
}

#[test]
fn lines_are_as_go_encodes_decoded_maps() {
    for (input, line) in [
        ("{}", "{}"),
        (r#" { "b" : [ 1 , { } , [ ] ] , "a" : null } "#, r#"{"a":null,"b":[1,{},[]]}"#),
        (r#"{"b":{"d":1,"c":2},"a":true}"#, r#"{"a":true,"b":{"c":2,"d":1}}"#),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#"{"b":0,"a":{"x":1,"y":2,"x":3},"b":false}"#, r#"{"a":{"x":3,"y":2},"b":false}"#),
        (r#"{"Schema":"x","B":1,"a":2}"#, r#"{"B":1,"Schema":"x","a":2}"#),
        (r#"{"ab":1,"a":2,"a!":3}"#, r#"{"a":2,"a!":3,"ab":1}"#),
        (r#"{"\u0062":1,"a":2}"#, r#"{"a":2,"b":1}"#),
        (r#"{"a\"":1,"a#":2,"a":3}"#, r#"{"a":3,"a\"":1,"a#":2}"#),
        (r#"{"a":"\u003c\u003E&\/"}"#, r#"{"a":"<>&/"}"#),
        (r#"{"a":"\n\r\t\b\f\"\\\u0000\u001F\u000a"}"#, r#"{"a":"\n\r\t\b\f\"\\\u0000\u001f\n"}"#),
        ("{\"a\":\"\u{2028}x\u{2029}\\u2028é\"}", "{\"a\":\"\\u2028x\\u2029\\u2028é\"}"),
        (r#"{"a":"\ud83d\ude00 \ud800 \ud800A \udc00"}"#, "{\"a\":\"😀 \u{fffd} \u{fffd}A \u{fffd}\"}"),
        (r#"{"a":"\ud800\u0041"}"#, "{\"a\":\"\u{fffd}A\"}"),
        (r#"{"a":"\u007f"}"#, "{\"a\":\"\u{7f}\"}"),
    ] {
        assert_eq!(canonical(input), line, "{input}");
    }
}

#[test]
fn numbers_pass_through_a_float() {
    for (input, output) in [
        ("0", "0"),
        ("-0", "-0"),
        ("1.0", "1"),
        ("1e3", "1000"),
        ("1.50", "1.5"),
        ("12345678901234567890", "12345678901234567000"),
        ("9007199254740993", "9007199254740992"),
        ("999999999999999", "999999999999999"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("1.5E+22", "1.5e+22"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("-2.5e-9", "-2.5e-9"),
    ] {
        assert_eq!(canonical(&format!("{{\"a\":{input}}}")), format!("{{\"a\":{output}}}"), "{input}");
    }
}

#[test]
fn invalid_utf8_is_replaced_byte_by_byte() {
    assert_eq!(bytes(b"{\"a\":\"x\xe2\x82y\xff\"}"), "{\"a\":\"x\u{fffd}\u{fffd}y\u{fffd}\"}");
}

#[test]
fn what_is_no_object_is_refused() {
    for input in [
        "[]",
        "1",
        "\"a\"",
        "{]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":[1,]}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":-}",
        "{\"a\":1e}",
        "{\"a\":1e400}",
        "{\"a\":+1}",
        "{\"a\":tru}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u00g0\"}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":[1 2]}",
        "{\"a\":[1}}",
    ] {
        let stop = Canonicalizer::new(b"\"properties\"").document(input.as_bytes());
        assert!(matches!(stop, Err(JsonError::Invalid { .. })), "{input}: {stop:?}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(Canonicalizer::new(b"\"properties\"").document(nested(100).as_bytes()).is_ok());
    let stop = Canonicalizer::new(b"\"properties\"").document(nested(100_000).as_bytes());
    assert!(matches!(stop, Err(JsonError::Invalid { problem: "document is nested too deeply", .. })));
}

#[test]
fn every_beginning_of_a_document_is_incomplete() {
    let input = r#"{"schema":"olm.bundle","b":[1.5e3,true,{"x":"é\ud83d\ude00\n\/"}],"a":null}"#;
    for end in 0..input.len() {
        let stop = Canonicalizer::new(b"\"properties\"").document(&input.as_bytes()[..end]);
        assert_eq!(stop, Err(JsonError::Incomplete), "{}", &input.as_bytes()[..end].escape_ascii());
    }
}

/// Any value without numbers beyond the exact ones.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z\"\\\\/\n\u{2028}\u{e9}]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"\u{e9}]{0,3}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn meaning_is_kept_and_a_second_pass_changes_nothing(value in values(), pretty: bool) {
        let document = serde_json::json!({ "z": value, "a": 1 });
        let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
        let line = canonical(&text.unwrap());
        prop_assert_eq!(&serde_json::from_str::<Value>(&line).unwrap(), &document);
        prop_assert_eq!(canonical(&line), line);
    }

    #[test]
    fn no_bytes_make_it_panic(input: Vec<u8>) {
        let _ = Canonicalizer::new(b"\"properties\"").document(&input);
        let mut object = b"{\"a\":\"".to_vec();
        object.extend_from_slice(&input);
        let mut canonicalizer = Canonicalizer::new(b"\"properties\"");
        if canonicalizer.document(&object).is_ok() {
            prop_assert!(serde_json::from_slice::<Value>(canonicalizer.line()).is_ok());
        }
    }
}
