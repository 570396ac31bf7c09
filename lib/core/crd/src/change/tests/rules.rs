//! Every rule on members of a schema, with a change that it refuses and one that it allows.

use serde_json::{Value, json};

use super::{lines, report, with_property};
use crate::{Policy, Reason, Verdict};

/// The refused lines when property `f` changes, without the part that is always the same.
fn property_change(old: &Value, new: &Value, policy: Policy) -> Vec<String> {
    let report = report(&with_property(old), &with_property(new), policy);
    let lines = lines(&report).into_iter();
    lines.map(|line| line.strip_prefix("v1: ^.f").unwrap_or(&line).to_owned()).collect()
}

/// Each row: property `f` before and after, and the finding of both policies.
fn assert_refused(rows: &[(Value, Value, &str)]) {
    for (old, new, line) in rows {
        for policy in [Policy::Upstream, Policy::Ours] {
            assert_eq!(property_change(old, new, policy), [format!(": {line}")], "{old} to {new}");
        }
    }
}

#[test]
fn values_are_refused_in_the_words_of_crdify() {
    assert_refused(&[
        (
            json!({"type": "string"}),
            json!({"type": "integer"}),
            r#"type: type changed : "string" -> "integer""#,
        ),
        (json!({}), json!({"type": "integer"}), r#"type: type changed : "" -> "integer""#),
        (
            json!({"required": ["z"]}),
            json!({"required": ["z", "b", "a"]}),
            "required: new required fields: [a b]",
        ),
        (
            json!({}),
            json!({"default": "x"}),
            r#"default: default added when there was none previously : "\"x\"""#,
        ),
        (json!({"default": "x"}), json!({}), r#"default: default value removed : "\"x\"""#),
        (
            json!({"default": "x"}),
            json!({"default": {"b": 1, "a": "<"}}),
            r#"default: default value changed : "\"x\"" -> "{\"a\":\"\\u003c\",\"b\":1}""#,
        ),
        (
            json!({}),
            json!({"enum": ["b", "a", 1]}),
            r#"enum: enum constraint added when there was none previously : ["a" "b" 1]"#,
        ),
        (
            json!({"enum": ["a", "b"]}),
            json!({"enum": ["b", "c"]}),
            r#"enum: allowed enum values removed : ["a"]"#,
        ),
        (json!({"enum": ["a", "b"]}), json!({}), r#"enum: allowed enum values removed : ["a" "b"]"#),
    ]);
}

#[test]
fn limits_are_rejected_in_the_words_of_crdify() {
    let limits = [
        ("minimum", ["minimum", "minItems", "minLength", "minProperties"], [1, 2], "increased"),
        ("maximum", ["maximum", "maxItems", "maxLength", "maxProperties"], [5, 4], "decreased"),
    ];
    for (limit, members, [old, new], changed) in limits {
        for member in members {
            let added = format!("{member}: {limit} constraint added when there was none previously : 0");
            let tightened = format!("{member}: {limit} {changed} : {old} -> {new}");
            assert_refused(&[
                (json!({}), json!({member: 0}), &added),
                (json!({member: old}), json!({member: new}), &tightened),
            ]);
        }
    }
    // Numbers are written as Go writes them: those of "minimum" and "maximum" may have fractions.
    assert_refused(&[
        (json!({"minimum": 1}), json!({"minimum": 2.5}), "minimum: minimum increased : 1 -> 2.5"),
        (json!({"maximum": 5_000_000}), json!({"maximum": 6}), "maximum: maximum decreased : 5e+06 -> 6"),
        (
            json!({"maxItems": 5_000_000}),
            json!({"maxItems": 4}),
            "maxItems: maximum decreased : 5000000 -> 4",
        ),
    ]);
}

#[test]
fn forms_are_rejected_in_the_words_of_crdify() {
    assert_refused(&[
        (json!({}), json!({"pattern": "^a$"}), r#"pattern: pattern added : "" -> "^a$""#),
        (
            json!({"pattern": "^b$"}),
            json!({"pattern": "^a$"}),
            r#"pattern: pattern changed : "^b$" -> "^a$""#,
        ),
        (json!({"pattern": "^b$"}), json!({}), r#"pattern: pattern removed : "^b$" -> """#),
        (json!({}), json!({"nullable": true}), "nullable: nullable added : false -> true"),
        (json!({"nullable": true}), json!({"nullable": false}), "nullable: nullable removed : true -> false"),
        (
            json!({}),
            json!({"oneOf": [{"type": "string", "description": "d"}]}),
            r#"oneOf: oneOf constraint added when there was none previously: [{"type":"string"}]"#,
        ),
        (
            json!({"oneOf": [{"minLength": 1}, {"maxLength": 1}]}),
            json!({"oneOf": [{"minLength": 1}, {"maxLength": 1}, {"pattern": "a"}]}),
            r#"oneOf: allowed oneOf schemas added: [{"pattern":"a"}]"#,
        ),
        (
            json!({}),
            json!({"format": "email"}),
            r#"unhandled: unhandled changes found (format none -> "email")"#,
        ),
    ]);
}

#[test]
fn each_rule_lets_safe_changes_through() {
    for (old, new) in [
        (json!({"type": ""}), json!({})),
        (json!({"required": ["a", "b"]}), json!({"required": ["b"]})),
        (json!({"required": ["a", "b"]}), json!({"required": ["b", "a"]})),
        (json!({"default": {"a": 1, "b": 2.0}}), json!({"default": {"b": 2, "a": 1}})),
        (json!({"default": null}), json!({})),
        (json!({"enum": ["a"]}), json!({"enum": ["b", "a"]})),
        (json!({"enum": []}), json!({})),
        (json!({"minimum": 2, "minItems": 2, "minLength": 2, "minProperties": 2}), json!({})),
        (
            json!({"minimum": 2, "minItems": 2, "minLength": 2, "minProperties": 2}),
            json!({"minimum": 1, "minItems": 1, "minLength": 1, "minProperties": 1}),
        ),
        (json!({"maximum": 2, "maxItems": 2, "maxLength": 2, "maxProperties": 2}), json!({})),
        (
            json!({"maximum": 2, "maxItems": 2, "maxLength": 2, "maxProperties": 2}),
            json!({"maximum": 3, "maxItems": 3, "maxLength": 3, "maxProperties": 3}),
        ),
        (json!({"minimum": 2}), json!({"minimum": 2.0})),
        (json!({"pattern": ""}), json!({})),
        (json!({"nullable": false}), json!({})),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "integer", "nullable": false}]}),
            json!({"oneOf": [{"type": "string", "title": "t"}, {"type": "integer", "example": 1}]}),
        ),
        (json!({"description": "a"}), json!({"description": "b"})),
        (json!({"format": "", "x-kubernetes-validations": [], "allOf": []}), json!({})),
        (json!({"uniqueItems": false, "x-kubernetes-int-or-string": false}), json!({})),
        (json!({"x-not-in-the-api": 1}), json!({"x-not-in-the-api": 2})),
        (json!({"properties": {"a": {}}}), json!({"properties": {"a": {}, "b": {"type": "string"}}})),
        (
            json!({"properties": {"a": null}, "allOf": [null]}),
            json!({"properties": {"a": {}}, "allOf": [{}]}),
        ),
        (
            json!({"additionalProperties": {"minLength": 1}}),
            json!({"additionalProperties": {"minLength": 1, "type": ""}}),
        ),
    ] {
        let lines = property_change(&old, &new, Policy::Ours);
        // Below oneOf the title and the example are changes at the member's own path.
        let lines: Vec<_> = lines.iter().filter(|line| !line.starts_with(".oneOf")).collect();
        assert!(lines.is_empty(), "{old} to {new}: {lines:?}");
    }
}

/// A member, a value before, a value after, and the text in parentheses.
fn unhandled_changes() -> Vec<(Value, Value, &'static str)> {
    let rule =
        |rule: &str, message: &str| json!({"x-kubernetes-validations": [{"rule": rule, "message": message}]});
    vec![
        (json!({}), json!({"format": "email"}), r#" (format none -> "email")"#),
        (json!({"title": "a"}), json!({"title": "b"}), r#" (title "a" -> "b")"#),
        (
            json!({}),
            rule("self.a", "m"),
            r#" (x-kubernetes-validations none -> [{"message":"m","rule":"self.a"}])"#,
        ),
        (
            rule("self.a", "m"),
            rule("self.b", "m"),
            r#" (x-kubernetes-validations[0].rule "self.a" -> "self.b")"#,
        ),
        (
            rule("self.a", "m"),
            json!({}),
            r#" (x-kubernetes-validations [{"message":"m","rule":"self.a"}] -> none)"#,
        ),
        (
            json!({}),
            rule(
                "self.type != 'tls' || !has(self.renewalDays) || !has(self.validityDays)",
                "'a' must be less than 'b'.",
            ),
            r#" (x-kubernetes-validations none -> [{"message":"'a' must be less than 'b'.","rule":"self.type != 'tls' || !has(self...)"#,
        ),
        (json!({}), json!({"additionalProperties": true}), " (additionalProperties none -> true)"),
        (
            json!({}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            " (x-kubernetes-preserve-unknown-fields none -> true)",
        ),
        (json!({}), json!({"x-kubernetes-list-type": "set"}), r#" (x-kubernetes-list-type none -> "set")"#),
        (
            json!({"x-kubernetes-list-map-keys": ["a"]}),
            json!({"x-kubernetes-list-map-keys": ["b"]}),
            r#" (x-kubernetes-list-map-keys[0] "a" -> "b")"#,
        ),
        (json!({}), json!({"exclusiveMaximum": true}), " (exclusiveMaximum none -> true)"),
        (json!({"example": 1}), json!({"example": 2}), " (example 1 -> 2)"),
        (json!({"multipleOf": 2}), json!({"multipleOf": 2.5}), " (multipleOf 2 -> 2.5)"),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}),
            json!({"x-kubernetes-int-or-string": false}),
            r#" (anyOf [{"type":"integer"},{"type":"string"}] -> none; x-kubernetes-int-or-string true -> none)"#,
        ),
        (
            json!({"externalDocs": {"url": "a"}}),
            json!({"externalDocs": {"url": "b"}}),
            r#" (externalDocs.url "a" -> "b")"#,
        ),
    ]
}

#[test]
fn changes_that_no_rule_understands_are_refused() {
    for (old, new, details) in unhandled_changes() {
        for policy in [Policy::Upstream, Policy::Ours] {
            let line = format!(": unhandled: unhandled changes found{details}");
            let lines = property_change(&old, &new, policy);
            assert!(lines.contains(&line), "{old} to {new}: {lines:#?}");
        }
    }
    for member in [
        json!({"id": "a"}),
        json!({"$schema": "a"}),
        json!({"$ref": "a"}),
        json!({"uniqueItems": true}),
        json!({"allOf": [{}]}),
        json!({"anyOf": [{}]}),
        json!({"not": {}}),
        json!({"exclusiveMinimum": true}),
        json!({"additionalProperties": {}}),
        json!({"patternProperties": {"a": {}}}),
        json!({"dependencies": {"a": ["b"]}}),
        json!({"additionalItems": false}),
        json!({"definitions": {"a": {}}}),
        json!({"x-kubernetes-embedded-resource": true}),
        json!({"x-kubernetes-map-type": "atomic"}),
    ] {
        let added = property_change(&json!({}), &member, Policy::Ours);
        assert!(added.iter().any(|line| line.starts_with(": unhandled: ")), "{member} added: {added:?}");
        let removed = property_change(&member, &json!({}), Policy::Ours);
        assert!(
            removed.iter().any(|line| line.starts_with(": unhandled: ")),
            "{member} removed: {removed:?}"
        );
    }
}

#[test]
fn false_alarms_are_refused_by_upstream_and_allowed_by_us() {
    let string = |minimum: u32, description: &str| json!({"type": "string", "minLength": minimum, "description": description});
    for (old, new, reason) in [
        (json!({}), json!({"x-kubernetes-map-type": "granular"}), Reason::ExplicitDefault),
        (json!({"x-kubernetes-map-type": "granular"}), json!({}), Reason::ExplicitDefault),
        (
            json!({"additionalProperties": string(2, "a")}),
            json!({"additionalProperties": string(1, "b")}),
            Reason::ComparedBelow,
        ),
        (
            json!({"additionalProperties": {"type": "object"}}),
            json!({"additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}}),
            Reason::ComparedBelow,
        ),
        (
            json!({"patternProperties": {"a": string(2, "a")}}),
            json!({"patternProperties": {"a": string(1, "a")}}),
            Reason::ComparedBelow,
        ),
        (
            json!({"anyOf": [string(2, "a"), {"required": ["a", "b"]}]}),
            json!({"anyOf": [string(1, "b"), {"required": ["a"]}]}),
            Reason::ComparedBelow,
        ),
        (
            json!({"allOf": [{"properties": {"a": {"maximum": 1}}}]}),
            json!({"allOf": [{"properties": {"a": {"maximum": 2}}}]}),
            Reason::ComparedBelow,
        ),
        (json!({"not": string(1, "a")}), json!({"not": string(1, "b")}), Reason::ComparedBelow),
    ] {
        let (before, after) = (with_property(&old), with_property(&new));
        let upstream = lines(&report(&before, &after, Policy::Upstream));
        assert!(
            matches!(&upstream[..], [line] if line.starts_with("v1: ^.f: unhandled: ")),
            "{old} to {new}: {upstream:?}"
        );
        let ours = report(&before, &after, Policy::Ours);
        let findings: Vec<_> =
            ours.findings.iter().map(|finding| (finding.verdict, finding.reason)).collect();
        assert_eq!(findings, [(Verdict::Allowed, reason)], "{old} to {new}");
        assert_eq!(ours.message("foos.example.com"), None);
    }
}

#[test]
fn an_unsafe_change_below_stays_refused() {
    for (old, new, line) in [
        // At its own path.
        (
            json!({"additionalProperties": {"type": "string"}}),
            json!({"additionalProperties": {"type": "integer"}}),
            r#".additionalProperties: type: type changed : "string" -> "integer""#,
        ),
        (
            json!({"additionalProperties": {"format": "a"}}),
            json!({"additionalProperties": {"format": "b"}}),
            r#".additionalProperties: unhandled: unhandled changes found (format "a" -> "b")"#,
        ),
        // A schema where a flag was, and the other way round.
        (
            json!({"additionalProperties": true}),
            json!({"additionalProperties": {"type": "string"}}),
            r#": unhandled: unhandled changes found (additionalProperties true -> {"type":"string"})"#,
        ),
        // New constraints that no comparison of paths sees.
        (
            json!({"allOf": [{"properties": {"a": {}}}]}),
            json!({"allOf": [{"properties": {"a": {}, "b": {"maximum": 1}}}]}),
            r#": unhandled: unhandled changes found (allOf[0].properties.b none -> {"maximum":1})"#,
        ),
        (
            json!({"anyOf": [{"minimum": 1}]}),
            json!({"anyOf": [{"minimum": 1}, {"minimum": 2}]}),
            r#": unhandled: unhandled changes found (anyOf [{"minimum":1}] -> [{"minimum":1},{"minimum":2}])"#,
        ),
        // Less below a negation is more above it.
        (
            json!({"not": {"minimum": 1, "maximum": 2}}),
            json!({"not": {"minimum": 1}}),
            ": unhandled: unhandled changes found (not.maximum 2 -> none)",
        ),
    ] {
        let lines = property_change(&old, &new, Policy::Ours);
        assert!(lines.contains(&line.to_owned()), "{old} to {new}: {lines:#?}");
    }
}

#[test]
fn one_of_reports_the_first_problem_only() {
    let lines = property_change(
        &json!({"oneOf": [{"minLength": 1}, {"maxLength": 1}]}),
        &json!({"oneOf": [{"minLength": 1}, {"maxLength": 2}]}),
        Policy::Upstream,
    );
    assert_eq!(lines, [r#": oneOf: allowed oneOf schemas removed: [{"maxLength":1}]"#]);
}

#[test]
fn the_text_of_a_large_change_is_short_and_visible() {
    let schema = |text: &str| {
        let names = (0..20).map(|i| (format!("p{i}\u{202e}"), json!({"enum": [text.repeat(100)]})));
        json!({"not": {"properties": names.collect::<serde_json::Map<_, _>>()}})
    };
    let lines = property_change(&schema("a"), &schema("b"), Policy::Ours);
    let line = lines.iter().find(|line| line.starts_with(": unhandled: ")).unwrap();
    assert!(line.contains("not.properties.p0\\u{202e}.enum[0] \"aaa"), "{line}");
    assert!(line.ends_with("; 12 more)") && line.len() < 3_000, "{line}");
    // Values that differ beyond the limit look the same.
    let long = |end: &str| json!({"format": "x".repeat(200) + end});
    assert_eq!(
        property_change(&long("a"), &long("b"), Policy::Ours),
        [": unhandled: unhandled changes found (format changed)"]
    );
}
