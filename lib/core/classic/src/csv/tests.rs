//! Every row of the state machine, by its name.
#![expect(
    clippy::unnecessary_wraps,
    clippy::option_option,
    reason = "they make fields of a view, of which each may be unknown"
)]

mod before;
mod later;
mod phases;
mod requirements;
mod status;

use jiff::{SignedDuration, Timestamp};
use olm_api_classic::ClusterServiceVersion;
use serde_json::{Value, json};

use super::{
    Again, ApiServices, Effect, Phase, Replaced, Step, Successor, View, Webhooks,
    deployments::{Check, Fault, FaultKind},
    requirements::Requirements,
    step,
};
use crate::group::membership::{Group, Membership};

/// The time of the steps.
fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// An operator in a phase, for a reason, as the group `g` of its namespace has annotated it.
fn csv(phase: &str, reason: &str) -> ClusterServiceVersion {
    with(phase, reason, &json!({}))
}

/// The same, with these fields of the spec.
fn with(phase: &str, reason: &str, spec: &Value) -> ClusterServiceVersion {
    let mode = |name: &str| json!({"type": name, "supported": true});
    let mut object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {
            "name": "a.v1", "namespace": "ops",
            "annotations": {"olm.operatorGroup": "g", "olm.operatorNamespace": "ops", "olm.targetNamespaces": "ops"},
        },
        "spec": {
            "displayName": "a", "install": {"strategy": "deployment"}, "installModes": [mode("OwnNamespace")],
            "customresourcedefinitions": {"owned": [{"name": "as.example.com", "version": "v1", "kind": "A"}]},
        },
    });
    if !phase.is_empty() {
        object["status"] = json!({
            "phase": phase, "reason": reason, "message": "before",
            "lastTransitionTime": (now() - SignedDuration::from_mins(1)).to_string(),
        });
    }
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn group() -> Group {
    Group {
        name: "g".to_owned(),
        namespace: "ops".to_owned(),
        targets: ["ops".to_owned()].into(),
        provided: crate::group::provided::apis_of("A.v1.example.com"),
        ..Group::default()
    }
}

/// Everything is as it should be.
fn view() -> View {
    View {
        revived: Some(false),
        membership: Some(Membership::Of(group())),
        intersecting: Some(crate::group::provided::Apis::default()),
        replaced: Some(None),
        successor: Some(None),
        requirements: Some(Ok(Requirements { met: true, statuses: Vec::new() })),
        crd_conflict: Some(false),
        api_services: Some(ApiServices::default()),
        certificates_due: Some(false),
        deployments: Some(Check::Fine),
        webhooks: Some(Webhooks::Installed),
        installed: Some(Ok(super::Installed::default())),
    }
}

fn fault(kind: FaultKind) -> Check {
    Check::Fault(Fault { kind, message: "why".to_owned() })
}

fn successor(phase: Phase, newest: Phase) -> Option<Option<Successor>> {
    Some(Some(Successor { name: "a.v2".to_owned(), phase, newest }))
}

fn replaced(phase: Phase, upgradeable: Result<(), String>) -> Option<Option<Replaced>> {
    Some(Some(Replaced { name: "a.v0".to_owned(), phase, upgradeable }))
}

fn unmet() -> Option<Result<Requirements, String>> {
    Some(Ok(Requirements { met: false, statuses: Vec::new() }))
}

/// `Phase Reason: message` after a step.
fn after(csv: &ClusterServiceVersion, view: &View) -> String {
    text(&step(csv, view, now()))
}

fn text(step: &Step) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let Step { status, .. } = step;
    format!("{} {}: {}", text(&status.phase), text(&status.reason), text(&status.message))
}
