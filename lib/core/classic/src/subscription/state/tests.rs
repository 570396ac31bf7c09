use olm_api_classic::SubscriptionStatus;
use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn subscription(status: &Value) -> Subscription {
    let object = json!({
        "metadata": {"name": "lamp", "namespace": "ns"},
        "spec": {"name": "lamp", "source": "cat", "sourceNamespace": "olm", "startingCSV": "lamp.v1"},
        "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn plan(status: &Value) -> InstallPlan {
    let object = json!({
        "metadata": {"name": "install-abcde", "namespace": "ns", "uid": "u"},
        "spec": {"clusterServiceVersionNames": ["lamp.v1"], "approval": "Automatic", "approved": true},
        "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn in_phase(phase: &str) -> InstallPlan {
    plan(&json!({"phase": phase, "catalogSources": []}))
}

fn followed(mut subscription: Subscription, named: &Named<'_>) -> SubscriptionStatus {
    follow(&mut subscription, named, at(1));
    subscription.status.unwrap()
}

/// Conditions as `type=status:reason`.
fn shown(status: &SubscriptionStatus) -> Vec<String> {
    let line = |one: &olm_api_classic::LegacyCondition| {
        format!("{}={}:{}", one.type_, one.status, one.reason.as_deref().unwrap_or_default())
    };
    status.conditions.iter().map(line).collect()
}

const REFERENCE: &str = r#"{"kind": "InstallPlan", "name": "install-abcde"}"#;

fn pending() -> Value {
    let reference: Value = serde_json::from_str(REFERENCE).unwrap();
    json!({"currentCSV": "lamp.v1", "state": "UpgradePending", "installPlanRef": reference})
}

#[test]
fn row_4_the_plan_of_a_generated_subscription_is_its_own() {
    let mut generated = subscription(&json!({}));
    generated.annotations_mut().insert(GENERATED_BY_ANNOTATION.to_owned(), "install-abcde".to_owned());
    assert_eq!(plan_name(&generated), Some("install-abcde"));
    let absent = followed(generated.clone(), &Named::default());
    assert_eq!(absent, SubscriptionStatus::default(), "without the plan nothing is known");
    let plan = in_phase("Installing");
    let status = followed(generated.clone(), &Named { plan: Some(&plan), ..Named::default() });
    assert_eq!(status.current_csv.as_deref(), Some("lamp.v1"));
    assert_eq!(status.state.as_deref(), Some(texts::UPGRADE_PENDING));
    assert_eq!(status.install_plan.unwrap().uuid, "u");
    let failed = in_phase("Failed");
    let status = followed(generated, &Named { plan: Some(&failed), fails_forward: true, ..Named::default() });
    assert_eq!(status.state.as_deref(), Some(texts::UPGRADE_FAILED));
}

#[test]
fn row_5_a_version_that_exists_is_the_installed_one() {
    let plan = in_phase("Complete");
    let named = Named { has_csv: true, plan: Some(&plan), ..Named::default() };
    let status = followed(subscription(&pending()), &named);
    assert_eq!(status.installed_csv.as_deref(), Some("lamp.v1"));
    assert_eq!(status.state.as_deref(), Some(texts::AT_LATEST_KNOWN));
}

#[test]
fn row_5_a_version_that_does_not_exist_is_pending_and_failed_where_failures_are_gone_on_from() {
    let plan = in_phase("Failed");
    for (fails_forward, state) in [(false, texts::UPGRADE_PENDING), (true, texts::UPGRADE_FAILED)] {
        let named = Named { plan: Some(&plan), fails_forward, ..Named::default() };
        let status = followed(subscription(&pending()), &named);
        assert_eq!((status.state.as_deref(), status.installed_csv), (Some(state), None));
    }
}

#[test]
fn what_was_installed_stays_named_when_its_version_is_gone() {
    let mut before = pending();
    before["installedCSV"] = json!("lamp.v1");
    before["state"] = json!("AtLatestKnown");
    let plan = in_phase("Complete");
    let status = followed(subscription(&before), &Named { plan: Some(&plan), ..Named::default() });
    assert_eq!(status.installed_csv.as_deref(), Some("lamp.v1"));
    assert_eq!(status.state.as_deref(), Some(texts::UPGRADE_PENDING));
}

#[test]
fn a_missing_plan_of_a_pending_subscription_is_forgotten_whatever_its_conditions() {
    let mut with_condition = pending();
    with_condition["conditions"] = json!([{"type": "InstallPlanPending", "status": "True"}]);
    for before in [pending(), with_condition] {
        let status = followed(subscription(&before), &Named::default());
        assert_eq!(status, SubscriptionStatus::default());
    }
}

#[test]
fn a_missing_plan_of_an_installed_subscription_is_reported() {
    let status = followed(subscription(&pending()), &Named { has_csv: true, ..Named::default() });
    assert_eq!(shown(&status), ["InstallPlanMissing=True:ReferencedInstallPlanNotFound"]);
    assert!(status.install_plan_ref.is_some());
    let plan = in_phase("Complete");
    let mut again = subscription(&json!({}));
    again.status = Some(status);
    let named = Named { has_csv: true, plan: Some(&plan), ..Named::default() };
    assert!(shown(&followed(again, &named)).is_empty());
}

#[test]
fn a_plan_is_pending_in_its_phase_until_it_failed_or_is_complete() {
    let conditions = |plan: &InstallPlan| {
        shown(&followed(subscription(&pending()), &Named { plan: Some(plan), ..Named::default() }))
    };
    assert_eq!(conditions(&in_phase("")), ["InstallPlanPending=True:InstallPlanNotYetReconciled"]);
    for phase in ["Planning", "Installing", "RequiresApproval"] {
        assert_eq!(conditions(&in_phase(phase)), [format!("InstallPlanPending=True:{phase}")]);
    }
    assert_eq!(conditions(&in_phase("Failed")), ["InstallPlanFailed=True:InstallPlanFailed"]);
    let failed = plan(&json!({"phase": "Failed", "catalogSources": [], "conditions": [
        {"type": "Installed", "status": "False", "reason": "InstallComponentFailed", "message": "no"},
    ]}));
    assert_eq!(conditions(&failed), ["InstallPlanFailed=True:InstallComponentFailed"]);
    assert!(conditions(&in_phase("Complete")).is_empty());
}

#[test]
fn the_message_of_a_pending_plan_is_its_own_or_that_of_its_bundles() {
    let lookup = |message: &str| {
        json!({
            "path": "p", "identifier": "i", "replaces": "", "catalogSourceRef": {},
            "conditions": [{"type": "BundleLookupPending", "status": "True", "message": message}],
        })
    };
    let lookups = json!({
        "phase": "Installing", "catalogSources": [], "bundleLookups": [lookup("one"), lookup("two.")],
    });
    assert_eq!(message(&plan(&lookups)), "one. two.");
    let own = json!({"phase": "Installing", "catalogSources": [], "conditions": [
        {"type": "Installed", "status": "False", "message": "no account"},
    ]});
    assert_eq!(message(&plan(&own)), "no account");
}

#[test]
fn the_same_facts_change_nothing() {
    let plan = in_phase("Installing");
    let named = Named { plan: Some(&plan), ..Named::default() };
    let first = followed(subscription(&pending()), &named);
    let mut again = subscription(&json!({}));
    again.status = Some(first.clone());
    follow(&mut again, &named, at(99));
    assert_eq!(again.status, Some(first));
}
