//! Whatever comes in, an answer comes out.

use olm_cel::{Patterns, parse};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::definition;
use crate::{Schema, Tristate};

/// Texts made of the tokens of rules and patterns.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "self",
        ".a",
        "has(",
        ")",
        "(",
        "[",
        "]",
        "{",
        "}",
        "'",
        "\"",
        "\\",
        "r'",
        "b'",
        "&&",
        "||",
        "!",
        "-",
        "+",
        "?",
        ":",
        "in",
        "all(x, ",
        "map(",
        "size(",
        "1",
        "0x",
        "1e",
        ".5",
        "1.5u",
        "é",
        "日",
        "\u{0}",
        "\n",
        "//",
        "matches('",
        "^",
        "[^",
        "[:alpha:]",
        "\\d",
        "\\Q",
        "{2,3}",
        "*",
        "oldSelf",
        "duration('",
        "--",
        ",",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_a_rule_and_a_pattern_or_not(text in prop_oneof![pieces(), ".{0,30}"]) {
        let mut patterns = Patterns::default();
        let _ = parse(&text, &mut patterns);
        let _ = patterns.compile(&text);
    }

    #[test]
    fn any_object_gets_the_same_verdict_twice(object in data(), rule in pieces(), format in "[a-z]{0,8}|date-time|uri|email|duration|cidr|byte") {
        let schema = json!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "a": {"type": "string", "format": format, "x-kubernetes-validations": [{"rule": rule}]},
                "b": {"x-kubernetes-int-or-string": true, "maximum": 5, "multipleOf": 0.5},
                "c": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number", "format": "float"}},
            },
            "x-kubernetes-validations": [{"rule": "!has(self.c) || self.c.all(x, x in self.c && self.c == self.c)"}],
        });
        let schema = Schema::read(&definition(&schema), "v1").unwrap();
        let validation = schema.validate(&object);
        prop_assert_eq!(schema.validate(&object), validation.clone());
        prop_assert_eq!(validation.is_valid() == Tristate::No, !validation.violations.is_empty());
    }
}
