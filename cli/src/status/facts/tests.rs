use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const PAUSED: &str = olm_api::names::PAUSED_ANNOTATION;

fn extension(conditions: &Value) -> ClusterExtension {
    serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "light", "uid": "u"},
        "spec": {"namespace": "harbour", "serviceAccount": {"name": "installer"}, "source": {
            "sourceType": "Catalog", "catalog": {"packageName": "lighthouse"},
        }},
        "status": {"conditions": conditions, "install": {"bundle": {"name": "lighthouse.v1", "version": "1.0.0"}}},
    }))
    .unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn set(number: i64, version: &str, conditions: &Value) -> ClusterObjectSet {
    serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {
            "name": format!("light-{number}"),
            "annotations": {
                "olm.operatorframework.io/bundle-name": format!("lighthouse.v{version}"),
                "olm.operatorframework.io/bundle-version": version,
            },
            "ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "light", "uid": "u", "controller": true}],
        },
        "spec": {"lifecycleState": "Active", "revision": number, "collisionProtection": "Prevent", "phases": []},
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

#[test]
fn the_installed_and_the_pending_bundle_are_on_one_line() {
    let done = json!([condition("Succeeded", "True", "Succeeded", "ok")]);
    let rolling =
        json!([condition("Available", "False", "ProbeFailure", "Object Deployment x: not available")]);
    let extension = extension(&json!([
        condition("Ready", "False", "RollingOut", "rolling out"),
        condition("Progressing", "True", "RollingOut", "rolling out"),
    ]));
    let status = Status::of(&[extension], &[set(2, "2", &rolling), set(1, "1", &done)], &[], NOW);
    assert_eq!(
        status.table(),
        "EXTENSION  INSTALLED      REVISION  STATE       PENDING\n\
         light      lighthouse.v1  light-1   RollingOut  lighthouse.v2: Object Deployment x: not available\n"
    );
    let detail = status.detail();
    assert!(
        detail.contains("  pending    lighthouse.v2  version 2, revision light-2: Object Deployment x"),
        "{detail}"
    );
    assert!(detail.contains("  light-1  active  lighthouse.v1  rolled out\n"), "{detail}");
}

#[test]
fn the_obstacle_is_shown_in_short_and_in_full() {
    let text = format!("missing permissions:\n{}", "x".repeat(300));
    let extension = extension(&json!([
        condition("Ready", "False", "Retrying", "x"),
        condition("Progressing", "True", "Retrying", &text),
    ]));
    let status = Status::of(&[extension], &[], &[], NOW);
    assert!(status.table().ends_with("Retrying  missing permissions:...\n"), "{}", status.table());
    assert!(status.detail().contains(&"x".repeat(300)));
    let shown = serde_json::to_value(&status).unwrap();
    assert_eq!(shown["extensions"][0]["pending"]["why"], text);
}

#[test]
fn the_remedy_is_shown_before_the_error_that_it_ends() {
    let error =
        format!("operation cannot proceed due to the following validation error(s): {}", "x".repeat(100));
    let extension = extension(&json!([
        condition("Ready", "False", "Blocked", "x"),
        condition("Progressing", "True", "Retrying", &error),
        condition("Stalled", "True", "Blocked", &format!("{error}. Create the namespace \"harbour\".")),
    ]));
    let status = Status::of(&[extension], &[], &[], NOW);
    assert!(status.table().ends_with("Blocked  Create the namespace \"harbour\".\n"), "{}", status.table());
    let detail = status.detail();
    assert!(detail.contains(&format!("  pending    {error}\n")), "{detail}");
    assert!(detail.contains("  to do      Create the namespace \"harbour\".\n"), "{detail}");
}

#[test]
fn the_version_that_waits_for_the_end_of_a_pause_is_pending() {
    let ready = "Revision 1.0.0 has rolled out.\nWaiting for the end of the pause: bundle \"b\" with version \"2.0.0\".";
    let mut one = extension(&json!([
        condition("Ready", "True", "Succeeded", ready),
        condition("Progressing", "True", "Succeeded", "Desired state reached"),
    ]));
    let table =
        |extension: &ClusterExtension| Status::of(std::slice::from_ref(extension), &[], &[], NOW).table();
    one.annotations_mut().insert(PAUSED.to_owned(), "true".to_owned());
    let line = "Paused  waits for the end of the pause: bundle \"b\" with version \"2.0.0\".\n";
    assert!(table(&one).ends_with(line), "{}", table(&one));
    one.annotations_mut().insert(PAUSED.to_owned(), "1969-01-31T08:00:00Z".to_owned());
    assert!(table(&one).ends_with("Ready  -\n"), "{}", table(&one));
}

#[test]
fn what_is_paused_or_deleted_is_not_called_ready() {
    let ready = json!([condition("Ready", "True", "Succeeded", "x")]);
    let state = |extension: &ClusterExtension| {
        Status::of(std::slice::from_ref(extension), &[], &[], NOW).extensions[0].state.clone()
    };
    let mut one = extension(&ready);
    assert_eq!(state(&one), "Ready");
    for (value, wanted) in
        [("true", "Paused"), ("2030-01-31T08:00:00Z", "Paused"), ("1969-01-31T08:00:00Z", "Ready")]
    {
        one.annotations_mut().insert(PAUSED.to_owned(), value.to_owned());
        assert_eq!(state(&one), wanted, "{value}");
    }
    let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    one.metadata.deletion_timestamp = Some(time);
    assert_eq!(state(&one), "Deleting");
}

#[test]
fn nothing_is_pending_when_all_is_done() {
    let extension = extension(&json!([
        condition("Ready", "True", "Succeeded", "x"),
        condition("Progressing", "True", "Succeeded", "Desired state reached"),
    ]));
    let status = Status::of(
        &[extension],
        &[set(1, "1", &json!([condition("Succeeded", "True", "Succeeded", "ok")]))],
        &[],
        NOW,
    );
    assert!(status.table().ends_with("light      lighthouse.v1  light-1   Ready  -\n"), "{}", status.table());
}
