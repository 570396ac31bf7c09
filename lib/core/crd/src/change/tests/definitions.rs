//! Findings on whole definitions and between versions, their order, and malformed definitions.

use serde_json::{Value, json};

use super::{definition, lines, report, version, with_property};
use crate::{
    Check, CrdError, Policy, Reason, compare,
    limits::{SCHEMA_DEPTH_MAX, VERSIONS_MAX},
};

#[test]
fn scope_must_not_change() {
    let old = with_property(&json!({}));
    let mut new = old.clone();
    new["spec"]["scope"] = "Cluster".into();
    assert_eq!(
        report(&old, &new, Policy::Ours).message("foos.example.com").unwrap(),
        r#"validating upgrade for CRD "foos.example.com": scope: scope changed : "Namespaced" -> "Cluster""#
    );
}

#[test]
fn stored_versions_must_stay() {
    let versions = |names: &[&str]| {
        let versions: Vec<_> =
            names.iter().map(|name| json!({"name": name, "schema": {"openAPIV3Schema": {}}})).collect();
        definition(&versions.into())
    };
    let mut old = versions(&["v1", "v1beta1", "v1alpha1"]);
    old["status"]["storedVersions"] = json!(["v1beta1", "v1"]);
    let removed = report(&old, &versions(&["v2"]), Policy::Ours);
    assert_eq!(lines(&removed), ["storedVersionRemoval: stored versions removed : [v1 v1beta1]"]);
    // A version at which nothing is stored may go, and versions may come.
    let kept = report(&old, &versions(&["v1", "v1beta1", "v2"]), Policy::Ours);
    assert_eq!(lines(&kept), Vec::<String>::new());
}

#[test]
fn a_removed_property_is_found_with_all_it_loses() {
    let old = with_property(&json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}));
    let new = definition(&json!([version("v1", &json!({"type": "object"}))]));
    assert_eq!(
        lines(&report(&old, &new, Policy::Ours)),
        [
            "existingFieldRemoval: removed field : v1.^.f",
            "existingFieldRemoval: removed field : v1.^.f.items",
            r#"v1: ^.f: type: type changed : "array" -> """#,
            r#"v1: ^.f.items: enum: allowed enum values removed : ["a"]"#,
            r#"v1: ^.f.items: type: type changed : "string" -> """#,
        ]
    );
}

#[test]
fn paths_name_every_kind_of_schema() {
    let typed = json!({"type": "string"});
    let old = json!({
        "items": [typed],
        "allOf": [typed],
        "not": typed,
        "additionalProperties": typed,
        "additionalItems": typed,
        "patternProperties": {"^a": typed},
        "definitions": {"d": typed},
        "dependencies": {"e": typed, "n": ["x"]},
        "properties": {"items": typed},
    });
    let report = report(&with_property(&old), &with_property(&json!({})), Policy::Upstream);
    let mut paths: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.check == Check::ExistingFieldRemoval)
        .map(|finding| finding.path.trim_start_matches("v1.^.f"))
        .collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            ".additionalItems",
            ".additionalProperties",
            ".allOf[0]",
            ".definitions[d]",
            ".dependencies[e]",
            ".items",
            ".items[0]",
            ".not",
            ".patternProperties[^a]",
        ]
    );
}

#[test]
fn a_version_without_schema_has_an_empty_one() {
    let without = definition(&json!([{"name": "v1", "served": true}]));
    let with = with_property(&json!({"type": "string"}));
    assert_eq!(report(&without, &with, Policy::Ours).findings, []);
    let lost = lines(&report(&with, &without, Policy::Ours));
    assert!(lost.contains(&"existingFieldRemoval: removed field : v1.^.f".to_owned()), "{lost:?}");
}

#[test]
fn served_versions_are_compared_unless_a_webhook_converts() {
    let two = |older: Value, newer: Value| {
        let schema = |f: Value| json!({"type": "object", "properties": {"f": f}});
        definition(&json!([version("v1", &schema(newer)), version("v1alpha1", &schema(older))]))
    };
    let alike = two(json!({"type": "string"}), json!({"type": "string"}));
    let different = two(json!({"type": "string", "enum": ["a"]}), json!({"type": "string", "enum": ["b"]}));
    let line = r#"v1alpha1 -> v1: ^.f: enum: allowed enum values removed : ["a"]"#;
    let found = lines(&report(&alike, &different, Policy::Ours));
    assert!(found.contains(&line.to_owned()), "{found:?}");

    // As JSON a finding has the same words.
    let json = serde_json::to_value(report(&alike, &different, Policy::Ours)).unwrap();
    assert!(json["findings"].as_array().unwrap().contains(&json!({
        "scope": "v1alpha1 -> v1",
        "path": "^.f",
        "check": "enum",
        "old": ["a"],
        "new": ["b"],
        "verdict": "Refused",
        "reason": "Incompatible",
        "text": r#"allowed enum values removed : ["a"]"#,
    })));

    // Differences that the live definition already has do not block the upgrade, but are reported.
    let known = report(&different, &different, Policy::Ours);
    assert!(!known.is_refused());
    let reported: Vec<_> =
        known.findings.iter().map(|finding| (finding.to_string(), finding.reason)).collect();
    assert_eq!(reported, [(line.to_owned(), Reason::AlreadyServed)]);

    let mut converted = different.clone();
    converted["spec"]["conversion"] = json!({"strategy": "Webhook"});
    let found = lines(&report(&alike, &converted, Policy::Ours));
    assert!(!found.contains(&line.to_owned()), "{found:?}");

    let mut unserved = different;
    unserved["spec"]["versions"][1]["served"] = false.into();
    let found = lines(&report(&alike, &unserved, Policy::Ours));
    assert!(!found.contains(&line.to_owned()), "{found:?}");
}

#[test]
fn findings_are_sorted_by_group_version_path_and_check() {
    let old = definition(&json!([
        version(
            "v2",
            &json!({"properties": {"b": {"type": "string"}, "a": {"type": "string", "enum": ["x"]}}})
        ),
        version("v1", &json!({"properties": {"c": {"type": "string"}}})),
    ]));
    let mut new = definition(&json!([
        version("v1", &json!({"properties": {}})),
        version("v2", &json!({"properties": {}}))
    ]));
    new["spec"]["scope"] = "Cluster".into();
    assert_eq!(
        lines(&report(&old, &new, Policy::Ours)),
        [
            "existingFieldRemoval: removed field : v1.^.c",
            "existingFieldRemoval: removed field : v2.^.a",
            "existingFieldRemoval: removed field : v2.^.b",
            r#"scope: scope changed : "Namespaced" -> "Cluster""#,
            r#"v1: ^.c: type: type changed : "string" -> """#,
            r#"v2: ^.a: enum: allowed enum values removed : ["x"]"#,
            r#"v2: ^.a: type: type changed : "string" -> """#,
            r#"v2: ^.b: type: type changed : "string" -> """#,
        ]
    );
}

#[test]
fn malformed_definitions_are_errors_that_say_where() {
    let good = with_property(&json!({"minimum": 1}));
    for (bad, message) in [
        (json!([]), r#"custom resource definition "" is malformed: the document must be an object"#),
        (
            json!({"metadata": {"name": "a"}}),
            r#"custom resource definition "a" is malformed: .spec must be an object"#,
        ),
        (
            definition(&json!([{"name": 1}])),
            r#"custom resource definition "foos.example.com" is malformed: .spec.versions[0].name must be a string"#,
        ),
        (
            with_property(&json!({"minimum": "1"})),
            r#"custom resource definition "foos.example.com" is malformed: minimum of ^.f in version v1 must be a number"#,
        ),
    ] {
        assert_eq!(compare(&good, &bad, Policy::Ours).unwrap_err().to_string(), message);
        assert_eq!(
            compare(&bad, &bad, Policy::Ours).unwrap_err().to_string(),
            message,
            "also where nothing differs"
        );
    }
}

#[test]
fn sizes_have_limits() {
    let mut schema = json!({});
    for _ in 0..SCHEMA_DEPTH_MAX {
        schema = json!({"properties": {"a": schema}});
    }
    let deep = definition(&json!([version("v1", &schema)]));
    assert!(matches!(
        compare(&deep, &deep, Policy::Ours),
        Err(CrdError::TooLarge { limit: SCHEMA_DEPTH_MAX, .. })
    ));
    let versions: Vec<_> =
        (0..=VERSIONS_MAX).map(|number| version(&format!("v{number}"), &json!({}))).collect();
    let many = definition(&versions.into());
    assert!(matches!(
        compare(&many, &many, Policy::Ours),
        Err(CrdError::TooLarge { limit: VERSIONS_MAX, .. })
    ));
}
