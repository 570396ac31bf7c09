//! One line for every check: a change that it refuses, and one of the same member that it lets through.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{definition, report, version, with_property};
use crate::{Check, Policy, Verdict};

/// A check with a pair of definitions that it refuses and a pair that it does not.
struct Line {
    check: Check,
    fires: Option<(Value, Value)>,
    silent: (Value, Value),
}

fn member(check: Check, name: &str, fires: [Value; 2], silent: [Value; 2]) -> Line {
    let with = |value: Value| {
        let mut schema = json!({});
        if !value.is_null() {
            schema[name] = value;
        }
        with_property(&schema)
    };
    let pair = |[old, new]: [Value; 2]| (with(old), with(new));
    Line { check, fires: Some(pair(fires)), silent: pair(silent) }
}

fn numbers(check: Check, name: &str, is_lower: bool) -> Line {
    let (tighter, looser) = if is_lower { (3, 1) } else { (1, 3) };
    member(check, name, [json!(2), json!(tighter)], [json!(2), json!(looser)])
}

fn members() -> Vec<Line> {
    let none = || Value::Null;
    vec![
        member(
            Check::Default,
            "default",
            [none(), json!("x")],
            [json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1})],
        ),
        member(Check::Enum, "enum", [json!(["a", "b"]), json!(["a"])], [json!(["a"]), json!(["a", "b"])]),
        numbers(Check::MaxItems, "maxItems", false),
        numbers(Check::MaxLength, "maxLength", false),
        numbers(Check::MaxProperties, "maxProperties", false),
        numbers(Check::Maximum, "maximum", false),
        numbers(Check::MinItems, "minItems", true),
        numbers(Check::MinLength, "minLength", true),
        numbers(Check::MinProperties, "minProperties", true),
        numbers(Check::Minimum, "minimum", true),
        member(Check::Nullable, "nullable", [none(), json!(true)], [none(), json!(false)]),
        member(
            Check::OneOf,
            "oneOf",
            [json!([{"minLength": 1}]), json!([{"minLength": 1}, {"pattern": "a"}])],
            [json!([{"minLength": 1}]), json!([{"minLength": 1, "description": "d"}])],
        ),
        member(Check::Pattern, "pattern", [json!("^a"), none()], [none(), json!("")]),
        member(Check::Required, "required", [none(), json!(["a"])], [json!(["a", "b"]), json!(["b"])]),
        member(Check::Type, "type", [json!("string"), json!("integer")], [none(), json!("")]),
        member(Check::Unhandled, "format", [none(), json!("email")], [none(), json!("")]),
    ]
}

fn whole_definitions() -> Vec<Line> {
    let plain = with_property(&json!({"description": "a"}));
    let with = |path: &str, value: Value| {
        let mut changed = plain.clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[name] = value;
        changed
    };
    let stored = |names: Value| {
        let mut changed = definition(&json!([version("v1", &json!({})), version("v2", &json!({}))]));
        changed["status"]["storedVersions"] = names;
        changed
    };
    let only_v2 = definition(&json!([version("v2", &json!({}))]));
    vec![
        Line {
            check: Check::Description,
            fires: None,
            silent: (plain.clone(), with_property(&json!({"description": "b"}))),
        },
        Line {
            check: Check::ExistingFieldRemoval,
            fires: Some((plain.clone(), definition(&json!([version("v1", &json!({"type": "object"}))])))),
            silent: (definition(&json!([version("v1", &json!({"type": "object"}))])), plain.clone()),
        },
        Line {
            check: Check::Scope,
            fires: Some((plain.clone(), with("/spec/scope", json!("Cluster")))),
            silent: (plain.clone(), with("/spec/names", json!({"singular": "foo"}))),
        },
        Line {
            check: Check::StoredVersionRemoval,
            fires: Some((stored(json!(["v1", "v2"])), only_v2.clone())),
            silent: (stored(json!(["v2"])), only_v2),
        },
    ]
}

#[test]
fn every_check_has_a_change_that_it_refuses_and_one_that_it_does_not() {
    let lines: Vec<Line> = members().into_iter().chain(whole_definitions()).collect();
    let covered: BTreeSet<Check> = lines.iter().map(|line| line.check).collect();
    assert_eq!(covered, Check::ALL.iter().copied().collect());
    for Line { check, fires, silent } in lines {
        for policy in [Policy::Upstream, Policy::Ours] {
            if let Some((old, new)) = &fires {
                let found = report(old, new, policy);
                let finding = found.refused().find(|finding| finding.check == check);
                let finding = finding.unwrap_or_else(|| panic!("{check} is silent: {found:?}"));
                assert!(!finding.path.is_empty() && finding.old != finding.new, "{finding:?}");
                assert_eq!(finding.verdict, Verdict::Refused);
            }
            let (old, new) = &silent;
            let found = report(old, new, policy);
            assert!(!found.is_refused(), "{check} is not silent: {found:?}");
        }
    }
}
