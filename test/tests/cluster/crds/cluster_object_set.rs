//! ClusterObjectSet: spec, transitions, status.

use anyhow::Result;
use olm_api::v1::{ClusterObjectSet, MAX_PHASE_OBJECTS, MAX_PHASES};
use serde_json::{Value, json};

use super::{
    accepted, check_creates, check_status, check_updates, columns, completed, refused, with, without,
};

const LABEL: &str = "the value must consist of only lowercase alphanumeric characters and hyphens, and must start and end with an alphanumeric character.";
const PATH: &str = "must contain a valid field path. valid fields contain upper or lower-case alphanumeric characters separated by the \".\" character.";
const ONE_OF: &str = "exactly one of the fields in [object ref] must be set";

fn object_set() -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterObjectSet",
        "metadata": {"name": "crds-set"},
        "spec": {
            "lifecycleState": "Active",
            "revision": 1,
            "collisionProtection": "Prevent",
            "phases": [phase("deploy", 1)],
        },
    })
}

fn reference() -> Value {
    json!({"name": "secret", "namespace": "olmv1-system", "key": "key"})
}

fn phase(name: &str, objects: usize) -> Value {
    json!({"name": name, "objects": vec![json!({"ref": reference()}); objects]})
}

fn phases(count: usize, objects: usize) -> Value {
    with(
        &object_set(),
        "spec.phases",
        (0..count).map(|index| phase(&format!("p{index}"), objects)).collect::<Vec<_>>(),
    )
}

fn object(value: Value) -> Value {
    with(&object_set(), "spec.phases.0.objects.0", value)
}

fn probe(selector: Value, assertion: Value) -> Value {
    with(&object_set(), "spec.progressionProbes", json!([{"selector": selector, "assertions": [assertion]}]))
}

fn by_kind() -> Value {
    json!({"type": "GroupKind", "groupKind": {"group": "apps", "kind": "Deployment"}})
}

fn condition() -> Value {
    json!({"type": "ConditionEqual", "conditionEqual": {"type": "Available", "status": "True"}})
}

#[tokio::test]
async fn specs_within_the_rules_are_accepted() -> Result<()> {
    let base = object_set();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let probes = vec![json!({"selector": by_kind(), "assertions": vec![condition(); 20]}); 20];
    check_creates::<ClusterObjectSet>(vec![
        accepted("base", base.clone()),
        accepted("no spec", without(&base, "spec")),
        accepted("no phases", without(&base, "spec.phases")),
        accepted("empty phases", with(&base, "spec.phases", json!([]))),
        accepted("empty phase", phases(1, 0)),
        accepted("as many phases as allowed", phases(MAX_PHASES, 1)),
        accepted("more objects than upstream allows", phases(1, 51)),
        accepted("as many objects as allowed", phases(1, MAX_PHASE_OBJECTS)),
        accepted("as much as allowed", phases(MAX_PHASES, MAX_PHASE_OBJECTS)),
        accepted("object in place", object(json!({"object": map}))),
        accepted("object with its own protection", object(json!({"ref": reference(), "collisionProtection": "None"}))),
        accepted("phase with its own protection", with(&base, "spec.phases.0.collisionProtection", "IfNoController")),
        accepted("reference without a namespace", object(json!({"ref": {"name": "n", "key": "k"}}))),
        accepted("archived", with(&base, "spec.lifecycleState", "Archived")),
        accepted("shortest deadline", with(&base, "spec.progressDeadlineMinutes", 10)),
        accepted("longest deadline", with(&base, "spec.progressDeadlineMinutes", 720)),
        accepted("longest phase name", with(&base, "spec.phases.0.name", "p".repeat(63))),
        accepted("probes", with(&base, "spec.progressionProbes", json!(probes))),
        accepted("probe by label", probe(json!({"type": "Label", "label": {"matchLabels": {"a": "b"}}}), condition())),
        accepted("probe by expression", probe(
            json!({"type": "Label", "label": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}),
            json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": "status.replicas", "fieldB": "spec.replicas"}}),
        )),
        accepted("probe of a value", probe(
            json!({"type": "GroupKind", "groupKind": {"group": "", "kind": "Namespace"}}),
            json!({"type": "FieldValue", "fieldValue": {"fieldPath": "status.phase", "value": "Active"}}),
        )),
    ])
    .await
}

#[tokio::test]
async fn fields_of_the_spec_are_checked() -> Result<()> {
    let base = object_set();
    let deadline = "spec.progressDeadlineMinutes";
    let protection = "supported values: \"Prevent\", \"IfNoController\", \"None\"";
    check_creates::<ClusterObjectSet>(vec![
        refused(
            "empty spec",
            with(&base, "spec", json!({})),
            &[
                ("spec.collisionProtection", "Required value"),
                ("spec.lifecycleState", "Required value"),
                ("spec.revision", "Required value"),
            ],
        ),
        denied(
            "state",
            with(&base, "spec.lifecycleState", "Paused"),
            "spec.lifecycleState",
            "supported values: \"Active\", \"Archived\"",
        ),
        denied(
            "revision",
            with(&base, "spec.revision", 0),
            "spec.revision",
            "should be greater than or equal to 1",
        ),
        denied(
            "protection",
            with(&base, "spec.collisionProtection", "All"),
            "spec.collisionProtection",
            protection,
        ),
        denied(
            "protection of a phase",
            with(&base, "spec.phases.0.collisionProtection", "All"),
            "spec.phases[0].collisionProtection",
            protection,
        ),
        denied(
            "protection of an object",
            object(json!({"ref": reference(), "collisionProtection": "All"})),
            "spec.phases[0].objects[0].collisionProtection",
            protection,
        ),
        denied(
            "deadline too short",
            with(&base, deadline, 9),
            deadline,
            "should be greater than or equal to 10",
        ),
        denied(
            "deadline too long",
            with(&base, deadline, 721),
            deadline,
            "should be less than or equal to 720",
        ),
        denied(
            "too many phases",
            phases(MAX_PHASES + 1, 0),
            "spec.phases",
            "Too many: 21: must have at most 20 items",
        ),
        denied(
            "too many objects",
            phases(1, MAX_PHASE_OBJECTS + 1),
            "spec.phases[0].objects",
            "Too many: 1001: must have at most 1000 items",
        ),
        denied(
            "phase twice",
            with(&base, "spec.phases", json!([phase("a", 0), phase("a", 0)])),
            "spec.phases[1]",
            "Duplicate value",
        ),
        denied(
            "phase without objects",
            with(&base, "spec.phases", json!([{"name": "a"}])),
            "spec.phases[0].objects",
            "Required value",
        ),
        denied(
            "phase name too long",
            with(&base, "spec.phases.0.name", "p".repeat(64)),
            "spec.phases[0].name",
            "Too long: may not be more than 63",
        ),
        refused(
            "no phase name",
            with(&base, "spec.phases.0.name", ""),
            &[("spec.phases[0].name", "should be at least 1 chars long"), ("spec.phases[0].name", LABEL)],
        ),
        denied(
            "phase name in capitals",
            with(&base, "spec.phases.0.name", "Deploy"),
            "spec.phases[0].name",
            LABEL,
        ),
        denied(
            "phase name with a dot",
            with(&base, "spec.phases.0.name", "a.b"),
            "spec.phases[0].name",
            LABEL,
        ),
        denied(
            "phase name that ends badly",
            with(&base, "spec.phases.0.name", "a-"),
            "spec.phases[0].name",
            LABEL,
        ),
    ])
    .await
}

#[tokio::test]
async fn an_object_is_in_place_or_a_reference() -> Result<()> {
    let place = "spec.phases[0].objects[0]";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let long =
        |field: &str, length: usize| object(json!({"ref": with(&reference(), field, "x".repeat(length))}));
    check_creates::<ClusterObjectSet>(vec![
        denied("neither", object(json!({})), place, ONE_OF),
        denied("both", object(json!({"object": map, "ref": reference()})), place, ONE_OF),
        refused(
            "object that is none",
            object(json!({"object": {"data": {}}})),
            &[
                ("spec.phases[0].objects[0].object.apiVersion", "Required value"),
                ("spec.phases[0].objects[0].object.kind", "Required value"),
            ],
        ),
        refused(
            "empty reference",
            object(json!({"ref": {}})),
            &[
                ("spec.phases[0].objects[0].ref.key", "Required value"),
                ("spec.phases[0].objects[0].ref.name", "Required value"),
            ],
        ),
        accepted("longest name", long("name", 253)),
        accepted("longest namespace", long("namespace", 63)),
        accepted("longest key", long("key", 253)),
        denied(
            "name too long",
            long("name", 254),
            "spec.phases[0].objects[0].ref.name",
            "may not be more than 253",
        ),
        denied(
            "namespace too long",
            long("namespace", 64),
            "spec.phases[0].objects[0].ref.namespace",
            "may not be more than 63",
        ),
        denied(
            "key too long",
            long("key", 254),
            "spec.phases[0].objects[0].ref.key",
            "may not be more than 253",
        ),
        denied(
            "empty name",
            long("name", 0),
            "spec.phases[0].objects[0].ref.name",
            "should be at least 1 chars long",
        ),
        denied(
            "empty key",
            long("key", 0),
            "spec.phases[0].objects[0].ref.key",
            "should be at least 1 chars long",
        ),
    ])
    .await
}

#[tokio::test]
async fn selectors_of_probes_are_checked() -> Result<()> {
    let place = "spec.progressionProbes[0].selector";
    let kind = "groupKind is required when type is GroupKind, and forbidden otherwise";
    let label = "label is required when type is Label, and forbidden otherwise";
    let one = "exactly one of matchLabels or matchExpressions must be set";
    let labels = json!({"matchLabels": {"a": "b"}});
    let group_kind = json!({"group": "apps", "kind": "Deployment"});
    let probes = |count: usize| {
        with(
            &object_set(),
            "spec.progressionProbes",
            json!(vec![json!({"selector": by_kind(), "assertions": [condition()]}); count]),
        )
    };
    check_creates::<ClusterObjectSet>(vec![
        denied("no probes", probes(0), "spec.progressionProbes", "should have at least 1 items"),
        denied(
            "too many probes",
            probes(21),
            "spec.progressionProbes",
            "Too many: 21: must have at most 20 items",
        ),
        denied(
            "no selector",
            with(&probes(1), "spec.progressionProbes", json!([{"assertions": [condition()]}])),
            "spec.progressionProbes[0].selector",
            "Required value",
        ),
        denied("no kind", probe(json!({"type": "GroupKind"}), condition()), place, kind),
        denied("no label", probe(json!({"type": "Label"}), condition()), place, label),
        denied(
            "both, by kind",
            probe(json!({"type": "GroupKind", "groupKind": group_kind, "label": labels}), condition()),
            place,
            label,
        ),
        denied(
            "both, by label",
            probe(json!({"type": "Label", "groupKind": group_kind, "label": labels}), condition()),
            place,
            kind,
        ),
        denied(
            "type",
            probe(json!({"type": "Name"}), condition()),
            "spec.progressionProbes[0].selector.type",
            "supported values: \"GroupKind\", \"Label\"",
        ),
        denied(
            "no group",
            probe(json!({"type": "GroupKind", "groupKind": {"kind": "Namespace"}}), condition()),
            "spec.progressionProbes[0].selector.groupKind.group",
            "Required value",
        ),
        denied(
            "empty label",
            probe(json!({"type": "Label", "label": {}}), condition()),
            "spec.progressionProbes[0].selector.label",
            one,
        ),
        denied(
            "labels and expressions",
            probe(
                json!({"type": "Label", "label": {
                    "matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}],
                }}),
                condition(),
            ),
            "spec.progressionProbes[0].selector.label",
            one,
        ),
    ])
    .await
}

#[tokio::test]
async fn assertions_of_probes_are_checked() -> Result<()> {
    let place = "spec.progressionProbes[0].assertions[0]";
    let rule = |member: &str, kind: &str| {
        format!("{member} is required when type is {kind}, and forbidden otherwise")
    };
    let (condition_rule, fields_rule, value_rule) = (
        rule("conditionEqual", "ConditionEqual"),
        rule("fieldsEqual", "FieldsEqual"),
        rule("fieldValue", "FieldValue"),
    );
    let members = json!({
        "conditionEqual": {"type": "Available", "status": "True"},
        "fieldsEqual": {"fieldA": "a", "fieldB": "b"},
        "fieldValue": {"fieldPath": "a", "value": "v"},
    });
    let all = |kind: &str| probe(by_kind(), with(&members, "type", kind));
    let none = |kind: &str| probe(by_kind(), json!({"type": kind}));
    let fields = |a: &str, b: &str| {
        probe(by_kind(), json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": a, "fieldB": b}}))
    };
    let value = |path: &str, value: &str| {
        probe(by_kind(), json!({"type": "FieldValue", "fieldValue": {"fieldPath": path, "value": value}}))
    };
    let equal = |type_: &str, status: &str| {
        probe(
            by_kind(),
            json!({"type": "ConditionEqual", "conditionEqual": {"type": type_, "status": status}}),
        )
    };
    let at = |member: &str| format!("{place}.{member}");
    let too_long = "Too long: may not be more than 200";
    let mut rows = vec![
        denied("none of three", none("ConditionEqual"), place, &condition_rule),
        denied("none of three", none("FieldsEqual"), place, &fields_rule),
        denied("none of three", none("FieldValue"), place, &value_rule),
        refused("all three", all("ConditionEqual"), &[(place, &fields_rule), (place, &value_rule)]),
        refused("all three", all("FieldsEqual"), &[(place, &condition_rule), (place, &value_rule)]),
        refused("all three", all("FieldValue"), &[(place, &condition_rule), (place, &fields_rule)]),
        denied(
            "type",
            none("Cel"),
            &at("type"),
            "supported values: \"ConditionEqual\", \"FieldsEqual\", \"FieldValue\"",
        ),
        denied(
            "status",
            equal("Ready", "Unknown"),
            &at("conditionEqual.status"),
            "supported values: \"True\", \"False\"",
        ),
        denied("no type", equal("", "True"), &at("conditionEqual.type"), "should be at least 1 chars long"),
        accepted("longest type", equal(&"t".repeat(200), "False")),
        denied("type too long", equal(&"t".repeat(201), "True"), &at("conditionEqual.type"), too_long),
        accepted("longest fields", fields(&"a".repeat(200), &"b".repeat(200))),
        denied("field too long", fields(&"a".repeat(201), "b"), &at("fieldsEqual.fieldA"), too_long),
        denied("no value", value("a", ""), &at("fieldValue.value"), "should be at least 1 chars long"),
        denied("value too long", value("a", &"v".repeat(201)), &at("fieldValue.value"), too_long),
        denied(
            "no assertions",
            with(&none("FieldValue"), "spec.progressionProbes.0.assertions", json!([])),
            "spec.progressionProbes[0].assertions",
            "should have at least 1 items",
        ),
        denied(
            "too many assertions",
            with(&none("FieldValue"), "spec.progressionProbes.0.assertions", json!(vec![condition(); 21])),
            "spec.progressionProbes[0].assertions",
            "Too many: 21: must have at most 20 items",
        ),
    ];
    for path in [".a", "a.", "a..b", "a-b", "a[0]", "a b", "a_b"] {
        rows.push(denied(format!("fieldA {path:?}"), fields(path, "b"), &at("fieldsEqual.fieldA"), PATH));
        rows.push(denied(format!("fieldB {path:?}"), fields("a", path), &at("fieldsEqual.fieldB"), PATH));
        rows.push(denied(format!("fieldPath {path:?}"), value(path, "v"), &at("fieldValue.fieldPath"), PATH));
    }
    check_creates::<ClusterObjectSet>(rows).await
}

#[tokio::test]
async fn content_stays_and_lifecycle_goes_one_way() -> Result<()> {
    let base = with(&object_set(), "spec.progressDeadlineMinutes", 10);
    check_updates::<ClusterObjectSet>(
        &base,
        vec![
            accepted("no change", base.clone()),
            accepted("archived", with(&base, "spec.lifecycleState", "Archived")),
            accepted("deadline", with(&base, "spec.progressDeadlineMinutes", 20)),
            accepted("no deadline", without(&base, "spec.progressDeadlineMinutes")),
            accepted(
                "probes",
                with(
                    &base,
                    "spec.progressionProbes",
                    json!([{"selector": by_kind(), "assertions": [condition()]}]),
                ),
            ),
            denied("revision", with(&base, "spec.revision", 2), "spec.revision", "revision is immutable"),
            denied(
                "protection",
                with(&base, "spec.collisionProtection", "None"),
                "spec.collisionProtection",
                "collisionProtection is immutable",
            ),
            denied(
                "another phase",
                with(&base, "spec.phases", json!([phase("deploy", 1), phase("later", 0)])),
                "spec.phases",
                "phases is immutable",
            ),
            denied(
                "another object",
                with(&base, "spec.phases", json!([phase("deploy", 2)])),
                "spec.phases",
                "phases is immutable",
            ),
            denied(
                "another key",
                with(&base, "spec.phases.0.objects.0.ref.key", "other"),
                "spec.phases",
                "phases is immutable",
            ),
            denied("no phase", with(&base, "spec.phases", json!([])), "spec.phases", "phases is immutable"),
        ],
    )
    .await?;
    let archived = with(&base, "spec.lifecycleState", "Archived");
    check_updates::<ClusterObjectSet>(
        &archived,
        vec![
            accepted("still archived", with(&archived, "spec.progressDeadlineMinutes", 20)),
            denied("active again", base.clone(), "spec.lifecycleState", "cannot un-archive"),
        ],
    )
    .await?;
    let empty = with(&base, "spec.phases", json!([]));
    check_updates::<ClusterObjectSet>(&empty, vec![accepted("filled once", base.clone())]).await?;
    let absent = without(&base, "spec.phases");
    check_updates::<ClusterObjectSet>(&absent, vec![accepted("filled once", base.clone())]).await?;

    // The comparison must stay within what the API server spends on a rule.
    let large = phases(MAX_PHASES, 300);
    check_updates::<ClusterObjectSet>(
        &large,
        vec![
            accepted("large, unchanged", with(&large, "spec.lifecycleState", "Archived")),
            denied(
                "large, changed at its end",
                with(&large, "spec.phases.19.objects.299.ref.key", "other"),
                "spec.phases",
                "phases is immutable",
            ),
        ],
    )
    .await
}

#[tokio::test]
async fn objects_in_place_keep_every_field() -> Result<()> {
    let content = json!({
        "apiVersion": "example.com/v1", "kind": "Anything", "metadata": {"name": "a", "labels": {"l": "v"}},
        "spec": {"deep": [{"er": null}, 1.5]}, "other": true,
    });
    let created = completed::<ClusterObjectSet>(object(json!({"object": content}))).await?;
    assert_eq!(created["spec"]["phases"][0]["objects"][0]["object"], content);
    Ok(())
}

#[tokio::test]
async fn columns_are_in_their_order() -> Result<()> {
    assert_eq!(columns::<ClusterObjectSet>().await?, ["Name", "Available", "Progressing", "Age"]);
    Ok(())
}

#[tokio::test]
async fn a_status_is_checked() -> Result<()> {
    let observed = |name: &str, digest: &str| json!({"observedPhases": [{"name": name, "digest": digest}]});
    let digest_rule = "digest must be in the format '<algorithm>:<hex>'";
    let place = "status.observedPhases[0].digest";
    let many = |count: usize| {
        let phases: Vec<_> =
            (0..count).map(|index| json!({"name": format!("p{index}"), "digest": "sha256:0a"})).collect();
        json!({ "observedPhases": phases })
    };
    let mut rows = vec![
        accepted("digest", observed("deploy", "sha256:0123456789abcdef")),
        accepted("as many as there may be phases", many(MAX_PHASES)),
        denied(
            "more than there may be phases",
            many(MAX_PHASES + 1),
            "status.observedPhases",
            "must have at most 20 items",
        ),
        denied("name", observed("Deploy", "sha256:0a"), "status.observedPhases[0].name", LABEL),
        refused(
            "no digest",
            observed("deploy", ""),
            &[(place, "should be at least 1 chars long"), (place, digest_rule)],
        ),
        denied(
            "digest too long",
            observed("deploy", &format!("sha256:{}", "a".repeat(250))),
            place,
            "Too long: may not be more than 256",
        ),
    ];
    for digest in ["sha256", "sha256:", ":0a", "sha256:0A", "SHA256:0a", "sha256:0g", "a:b:c"] {
        rows.push(denied(digest, observed("deploy", digest), place, digest_rule));
    }
    check_status::<ClusterObjectSet>(&object_set(), json!({}), rows).await?;

    check_status::<ClusterObjectSet>(
        &object_set(),
        observed("deploy", "sha256:0a"),
        vec![
            accepted("the same", observed("deploy", "sha256:0a")),
            denied(
                "another digest",
                observed("deploy", "sha256:0b"),
                "status.observedPhases",
                "observedPhases is immutable",
            ),
            denied(
                "one more",
                json!({"observedPhases": [
                    {"name": "deploy", "digest": "sha256:0a"}, {"name": "later", "digest": "sha256:0a"},
                ]}),
                "status.observedPhases",
                "observedPhases is immutable",
            ),
            denied(
                "none",
                json!({"observedPhases": []}),
                "status.observedPhases",
                "observedPhases is immutable",
            ),
        ],
    )
    .await
}
