//! ClusterObjectSet: phases, objects, transitions.

use olm_api::v1::{MAX_PHASE_OBJECTS, MAX_PHASES};
use olm_test::prelude::*;

use super::{Rows, check_creates, check_updates, columns, completed, with, without};

pub(super) const LABEL: &str = "the value must consist of only lowercase alphanumeric characters and hyphens, and must start and end with an alphanumeric character.";
pub(super) const EMPTY: &str = "should be at least 1 chars long";

const STATE: &str = "spec.lifecycleState";
const PROTECTION: &str = "spec.collisionProtection";
const PHASES: &str = "spec.phases";
const PHASE_NAME: &str = "spec.phases.0.name";
const PHASE_PROTECTION: &str = "spec.phases.0.collisionProtection";
const OBJECT: &str = "spec.phases.0.objects.0";
const DEADLINE: &str = "spec.progressDeadlineMinutes";

pub(super) fn object_set() -> Value {
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
    (0..count).map(|index| phase(&format!("p{index}"), objects)).collect()
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})
}

#[tokio::test]
async fn specs_within_the_rules_are_accepted() -> Result<()> {
    let rows = Rows::of(&object_set())
        .yes_without("spec")
        .yes_without(PHASES)
        .yes(PHASES, json!([]))
        .yes(PHASES, phases(1, 0))
        // A bundle with 51 CRDs, which upstream's 50 objects refuse.
        .yes(PHASES, phases(1, 51))
        .yes(PHASES, phases(1, MAX_PHASE_OBJECTS))
        .yes(PHASES, phases(MAX_PHASES, MAX_PHASE_OBJECTS))
        .yes(PHASE_NAME, "p".repeat(63))
        .yes(PHASE_PROTECTION, "IfNoController")
        .yes(OBJECT, json!({"object": config_map()}))
        .yes(OBJECT, json!({"ref": reference(), "collisionProtection": "None"}))
        .yes(OBJECT, json!({"ref": {"name": "n", "key": "k"}}))
        .yes(STATE, "Archived")
        .yes(PROTECTION, "None")
        .yes(DEADLINE, 10)
        .yes(DEADLINE, 720);
    check_creates::<ClusterObjectSet>(rows).await
}

#[tokio::test]
async fn fields_of_the_spec_are_checked() -> Result<()> {
    let protection = "supported values: \"Prevent\", \"IfNoController\", \"None\"";
    let own = json!({"ref": reference(), "collisionProtection": "All"});
    let rows = Rows::of(&object_set())
        .required(STATE)
        .required("spec.revision")
        .required(PROTECTION)
        .no(STATE, "Paused", "supported values: \"Active\", \"Archived\"")
        .no("spec.revision", 0, "should be greater than or equal to 1")
        .no(PROTECTION, "All", protection)
        .no(PHASE_PROTECTION, "All", protection)
        .no_for(OBJECT, own, &[("spec.phases[0].objects[0].collisionProtection", protection)])
        .no(DEADLINE, 9, "should be greater than or equal to 10")
        .no(DEADLINE, 721, "should be less than or equal to 720")
        .no(PHASES, phases(MAX_PHASES + 1, 0), "Too many: 21: must have at most 20 items")
        .no_for(
            PHASES,
            phases(1, MAX_PHASE_OBJECTS + 1),
            &[("spec.phases[0].objects", "Too many: 1001: must have at most 1000 items")],
        )
        .no_for(PHASES, json!([phase("a", 0), phase("a", 0)]), &[("spec.phases[1]", "Duplicate value")])
        .no_for(PHASES, json!([{"name": "a"}]), &[("spec.phases[0].objects", "Required value")])
        .no_for(PHASES, json!([{"objects": []}]), &[("spec.phases[0].name", "Required value")])
        .no(PHASE_NAME, "p".repeat(64), "Too long: may not be more than 63")
        .no_for(PHASE_NAME, "", &[("spec.phases[0].name", EMPTY), ("spec.phases[0].name", LABEL)])
        .no(PHASE_NAME, "Deploy", LABEL)
        .no(PHASE_NAME, "a.b", LABEL)
        .no(PHASE_NAME, "-a", LABEL)
        .no(PHASE_NAME, "a-", LABEL);
    check_creates::<ClusterObjectSet>(rows).await
}

#[tokio::test]
async fn an_object_is_in_place_or_a_reference() -> Result<()> {
    let one_of = "exactly one of the fields in [object ref] must be set";
    let (name, namespace, key) = (
        "spec.phases.0.objects.0.ref.name",
        "spec.phases.0.objects.0.ref.namespace",
        "spec.phases.0.objects.0.ref.key",
    );
    let at = |field: &str| format!("spec.phases[0].objects[0].{field}");
    let rows = Rows::of(&object_set())
        .no(OBJECT, json!({}), one_of)
        .no(OBJECT, json!({"object": config_map(), "ref": reference()}), one_of)
        .no_for(
            OBJECT,
            json!({"object": {"data": {}}}),
            &[(&at("object.apiVersion"), "Required value"), (&at("object.kind"), "Required value")],
        )
        .no_for(
            OBJECT,
            json!({"ref": {}}),
            &[(&at("ref.key"), "Required value"), (&at("ref.name"), "Required value")],
        )
        .yes(name, "n".repeat(253))
        .yes(namespace, "n".repeat(63))
        .yes(namespace, "")
        .yes(key, "k".repeat(253))
        .no(name, "n".repeat(254), "Too long: may not be more than 253")
        .no(namespace, "n".repeat(64), "Too long: may not be more than 63")
        .no(key, "k".repeat(254), "Too long: may not be more than 253")
        .no(name, "", EMPTY)
        .no(key, "", EMPTY);
    check_creates::<ClusterObjectSet>(rows).await
}

#[tokio::test]
async fn content_is_immutable_and_an_archived_set_stays_archived() -> Result<()> {
    let base = with(&object_set(), DEADLINE, 10);
    let probe = json!([{
        "selector": {"type": "GroupKind", "groupKind": {"group": "", "kind": "Namespace"}},
        "assertions": [{"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "True"}}],
    }]);
    let immutable = "phases is immutable";
    let rows = Rows::of(&base)
        .yes(STATE, "Archived")
        .yes(DEADLINE, 20)
        .yes_without(DEADLINE)
        .yes("spec.progressionProbes", probe)
        .no("spec.revision", 2, "revision is immutable")
        .no(PROTECTION, "None", "collisionProtection is immutable")
        .no(PHASES, json!([phase("deploy", 1), phase("later", 0)]), immutable)
        .no(PHASES, json!([phase("deploy", 2)]), immutable)
        .no(PHASES, json!([]), immutable)
        .no_for("spec.phases.0.objects.0.ref.key", "other", &[(PHASES, immutable)]);
    check_updates::<ClusterObjectSet>(rows).await?;

    let rows =
        Rows::of(&with(&base, STATE, "Archived")).yes(DEADLINE, 20).no(STATE, "Active", "cannot un-archive");
    check_updates::<ClusterObjectSet>(rows).await
}

#[tokio::test]
async fn phases_may_be_filled_once() -> Result<()> {
    let empty = with(&object_set(), PHASES, json!([]));
    check_updates::<ClusterObjectSet>(Rows::of(&empty).yes(PHASES, phases(1, 1))).await?;
    let absent = without(&object_set(), PHASES);
    check_updates::<ClusterObjectSet>(Rows::of(&absent).yes(PHASES, phases(1, 1))).await
}

/// The comparison of phases must stay within what the API server spends on a rule.
#[tokio::test]
async fn a_large_set_can_be_updated() -> Result<()> {
    let large = with(&object_set(), PHASES, phases(MAX_PHASES, 500));
    let rows = Rows::of(&large).yes(STATE, "Archived").no_for(
        "spec.phases.19.objects.499.ref.key",
        "other",
        &[(PHASES, "phases is immutable")],
    );
    check_updates::<ClusterObjectSet>(rows).await
}

#[tokio::test]
async fn objects_in_place_keep_every_field() -> Result<()> {
    let content = json!({
        "apiVersion": "example.com/v1", "kind": "Anything", "metadata": {"name": "a", "labels": {"l": "v"}},
        "spec": {"deep": [{"er": null}, 1.5]}, "other": true,
    });
    let set = with(&object_set(), OBJECT, json!({"object": content}));
    let created = completed::<ClusterObjectSet>(set).await?;
    assert_eq!(created["spec"]["phases"][0]["objects"][0]["object"], content);
    Ok(())
}

#[tokio::test]
async fn columns_are_in_their_order() -> Result<()> {
    let names = columns::<ClusterObjectSet>().await?;
    let wanted = ["Name", "Available", "Progressing", "Revision", "Version", "State", "Age", "Message"];
    assert_eq!(names, wanted);
    Ok(())
}
