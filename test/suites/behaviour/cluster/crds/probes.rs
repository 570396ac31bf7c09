//! The progression probes of a ClusterObjectSet.

use olm_test::prelude::*;

use super::cluster_object_set::{EMPTY, object_set};
use super::{Rows, check_creates, with};

const PROBES: &str = "spec.progressionProbes";
const SELECTOR: &str = "spec.progressionProbes.0.selector";
const ASSERTIONS: &str = "spec.progressionProbes.0.assertions";
const ASSERTION: &str = "spec.progressionProbes.0.assertions.0";

fn probes(count: usize, assertions: usize) -> Value {
    let probe = json!({
        "selector": {"type": "GroupKind", "groupKind": {"group": "apps", "kind": "Deployment"}},
        "assertions": vec![condition("Available", "True"); assertions],
    });
    json!(vec![probe; count])
}

fn probed() -> Value {
    with(&object_set(), PROBES, probes(1, 1))
}

fn condition(type_: &str, status: &str) -> Value {
    json!({"type": "ConditionEqual", "conditionEqual": {"type": type_, "status": status}})
}

fn fields(a: &str, b: &str) -> Value {
    json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": a, "fieldB": b}})
}

fn value(path: &str, value: &str) -> Value {
    json!({"type": "FieldValue", "fieldValue": {"fieldPath": path, "value": value}})
}

#[tokio::test]
async fn the_number_of_probes_is_limited() -> Result<()> {
    let selector_only = json!([{"selector": {"type": "Label", "label": {"matchLabels": {"a": "b"}}}}]);
    let rows = Rows::of(&probed())
        .yes(PROBES, probes(20, 20))
        .no(PROBES, json!([]), "should have at least 1 items")
        .no(PROBES, probes(21, 1), "Too many: 21: must have at most 20 items")
        .required(SELECTOR)
        .no_for(PROBES, selector_only, &[("spec.progressionProbes[0].assertions", "Required value")])
        .no(ASSERTIONS, json!([]), "should have at least 1 items")
        .no(ASSERTIONS, json!(vec![condition("A", "True"); 21]), "Too many: 21: must have at most 20 items");
    check_creates::<ClusterObjectSet>(rows).await
}

#[tokio::test]
async fn a_selector_is_a_kind_or_a_label() -> Result<()> {
    let by_kind = "groupKind is required when type is GroupKind, and forbidden otherwise";
    let by_label = "label is required when type is Label, and forbidden otherwise";
    let one_of = "exactly one of matchLabels or matchExpressions must be set";
    let label = "spec.progressionProbes[0].selector.label";
    let labels = json!({"matchLabels": {"a": "b"}});
    let expressions = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let both = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let kind = json!({"group": "", "kind": "Namespace"});
    let rows = Rows::of(&probed())
        .yes(SELECTOR, json!({"type": "GroupKind", "groupKind": kind}))
        .yes(SELECTOR, json!({"type": "Label", "label": labels}))
        .yes(SELECTOR, json!({"type": "Label", "label": expressions}))
        .no(SELECTOR, json!({"type": "GroupKind"}), by_kind)
        .no(SELECTOR, json!({"type": "Label"}), by_label)
        .no(SELECTOR, json!({"type": "GroupKind", "groupKind": kind, "label": labels}), by_label)
        .no(SELECTOR, json!({"type": "Label", "groupKind": kind, "label": labels}), by_kind)
        .no_for(SELECTOR, json!({"type": "Label", "label": {}}), &[(label, one_of)])
        .no_for(SELECTOR, json!({"type": "Label", "label": both}), &[(label, one_of)])
        .no("spec.progressionProbes.0.selector.type", "Name", "supported values: \"GroupKind\", \"Label\"")
        .required("spec.progressionProbes.0.selector.groupKind.group")
        .required("spec.progressionProbes.0.selector.groupKind.kind");
    check_creates::<ClusterObjectSet>(rows).await
}

#[tokio::test]
async fn an_assertion_has_the_member_its_type_names_and_no_other() -> Result<()> {
    let place = "spec.progressionProbes[0].assertions[0]";
    let members = json!({
        "conditionEqual": {"type": "Available", "status": "True"},
        "fieldsEqual": {"fieldA": "a", "fieldB": "b"},
        "fieldValue": {"fieldPath": "a", "value": "v"},
    });
    let rules =
        [("conditionEqual", "ConditionEqual"), ("fieldsEqual", "FieldsEqual"), ("fieldValue", "FieldValue")]
            .map(|(member, kind)| {
                (kind, format!("{member} is required when type is {kind}, and forbidden otherwise"))
            });
    let mut rows = Rows::of(&probed());
    for (kind, rule) in &rules {
        let others: Vec<_> =
            rules.iter().filter(|(other, _)| other != kind).map(|(_, rule)| (place, rule.as_str())).collect();
        rows = rows.no(ASSERTION, json!({"type": kind}), rule).no_for(
            ASSERTION,
            with(&members, "type", *kind),
            &others,
        );
    }
    rows = rows.no(
        &format!("{ASSERTION}.type"),
        "Cel",
        "supported values: \"ConditionEqual\", \"FieldsEqual\", \"FieldValue\"",
    );
    check_creates::<ClusterObjectSet>(rows).await
}

#[tokio::test]
async fn members_of_assertions_are_checked() -> Result<()> {
    let path_rule = "must contain a valid field path. valid fields contain upper or lower-case alphanumeric characters separated by the \".\" character.";
    let too_long = "Too long: may not be more than 200";
    let at = |member: &str| format!("spec.progressionProbes[0].assertions[0].{member}");
    let (type_, status) = (&at("conditionEqual.type"), &at("conditionEqual.status"));
    let (a, b) = (&at("fieldsEqual.fieldA"), &at("fieldsEqual.fieldB"));
    let (path, text) = (&at("fieldValue.fieldPath"), &at("fieldValue.value"));
    let long = "l".repeat(201);
    let longest = &long[1..];
    let mut rows = Rows::of(&probed())
        .yes(ASSERTION, condition(longest, "False"))
        .no_for(ASSERTION, condition(&long, "True"), &[(type_, too_long)])
        .no_for(ASSERTION, condition("", "True"), &[(type_, EMPTY)])
        .no_for(
            ASSERTION,
            condition("Ready", "Unknown"),
            &[(status, "supported values: \"True\", \"False\"")],
        )
        .yes(ASSERTION, fields("status.replicas", "spec.replicas"))
        .yes(ASSERTION, fields(longest, longest))
        .no_for(ASSERTION, fields(&long, "b"), &[(a, too_long)])
        .no_for(ASSERTION, fields("a", &long), &[(b, too_long)])
        .no_for(ASSERTION, fields("", "b"), &[(a, EMPTY), (a, path_rule)])
        .yes(ASSERTION, value("status.phase", longest))
        .no_for(ASSERTION, value(&long, "v"), &[(path, too_long)])
        .no_for(ASSERTION, value("a", &long), &[(text, too_long)])
        .no_for(ASSERTION, value("a", ""), &[(text, EMPTY)]);
    for wrong in [".a", "a.", "a..b", "a-b", "a[0]", "a b", "a_b"] {
        rows = rows
            .no_for(ASSERTION, fields(wrong, "b"), &[(a, path_rule)])
            .no_for(ASSERTION, fields("a", wrong), &[(b, path_rule)])
            .no_for(ASSERTION, value(wrong, "v"), &[(path, path_rule)]);
    }
    check_creates::<ClusterObjectSet>(rows).await
}
