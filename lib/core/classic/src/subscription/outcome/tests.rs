use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn unresolved() -> Outcome {
    Outcome::Unresolved {
        reason: texts::NOT_SATISFIABLE,
        message: "constraints not satisfiable: a".to_owned(),
        explanation: "because".to_owned(),
    }
}

fn failed(is_retried: bool) -> Outcome {
    Outcome::NotUnpacked {
        reason: texts::UNPACK_FAILED,
        message: texts::unpack_failed("PullFailed", "401"),
        explanation: "401".to_owned(),
        is_retried,
    }
}

fn reported(outcomes: &[Outcome]) -> Vec<String> {
    let mut subscription = Subscription::default();
    for outcome in outcomes {
        report(&mut subscription, outcome, at(1));
    }
    let line = |one: olm_api_classic::LegacyCondition| {
        format!("{}={}:{}", one.type_, one.status, one.reason.unwrap_or_default())
    };
    subscription.status.unwrap().conditions.into_iter().map(line).collect()
}

#[test]
fn rows_8_and_9_set_resolution_failed() {
    assert_eq!(reported(&[unresolved()]), ["ResolutionFailed=True:ConstraintsNotSatisfiable"]);
}

#[test]
fn rows_10_12_and_16_set_bundle_unpack_failed_and_remove_what_is_over() {
    let all = [unresolved(), Outcome::Unpacking(String::new()), failed(true)];
    assert_eq!(reported(&all), ["BundleUnpackFailed=True:BundleUnpackFailed"]);
}

#[test]
fn row_13_sets_bundle_unpacking() {
    let all = [unresolved(), Outcome::Unpacking(String::new())];
    assert_eq!(reported(&all), ["BundleUnpacking=True:UnpackingInProgress"]);
}

#[test]
fn row_14_removes_all_three() {
    assert!(reported(&[unresolved(), Outcome::Settled]).is_empty());
    assert!(reported(&[failed(true), Outcome::Settled]).is_empty());
    assert_eq!(reported(&[unresolved(), Outcome::Await(None)]).len(), 1, "what is under way changes nothing");
}

#[test]
fn row_15_names_plan_and_version() {
    let plan = json!({
        "metadata": {"name": "install-abcde", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
        "spec": {"clusterServiceVersionNames": [], "approval": "Automatic", "approved": true, "generation": 3},
    });
    let mut subscription = Subscription::default();
    planned(&mut subscription, "lamp.v1", &serde_json::from_value(plan).unwrap());
    let status = serde_json::to_value(subscription.status).unwrap();
    let api = "operators.coreos.com/v1alpha1";
    let wanted = json!({
        "currentCSV": "lamp.v1", "state": "UpgradePending", "installPlanGeneration": 3,
        "installplan": {"apiVersion": api, "kind": "InstallPlan", "name": "install-abcde", "uuid": "u"},
        "installPlanRef": {
            "apiVersion": api, "kind": "InstallPlan", "name": "install-abcde", "namespace": "ns",
            "uid": "u", "resourceVersion": "7",
        },
    });
    assert_eq!(status, wanted);
}

/// `Ready` and `Stalled` as texts.
fn concluded(status: Value, outcome: &Outcome, csv: Option<Value>, plan: Option<Value>) -> (String, bool) {
    let mut subscription =
        Subscription { status: serde_json::from_value(status).unwrap(), ..Subscription::default() };
    let csv = csv.map(|csv| {
        let object = json!({
            "metadata": {"name": "lamp.v1"},
            "spec": {"displayName": "l", "install": {"strategy": "deployment"}}, "status": csv,
        });
        serde_json::from_value::<ClusterServiceVersion>(object).unwrap()
    });
    let plan = plan.map(|status| {
        let object = json!({
            "metadata": {"name": "install-abcde"},
            "spec": {"clusterServiceVersionNames": [], "approval": "Manual", "approved": false},
            "status": status,
        });
        serde_json::from_value::<InstallPlan>(object).unwrap()
    });
    conclude(&mut subscription, outcome, (csv.as_ref(), plan.as_ref()), at(1));
    let status = subscription.status.unwrap();
    let ready = conditions::find(&status, texts::READY).unwrap();
    let text = [Some(ready.status.clone()), ready.reason.clone(), ready.message.clone()];
    (text.map(Option::unwrap_or_default).join(" "), conditions::is_true(&status, texts::STALLED))
}

/// The status of a plan in a phase, with a summary.
fn with_ready(phase: &str, reason: &str, message: &str, is_stalled: bool) -> Value {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": reason, "message": message});
    let mut conditions = vec![condition("Ready", "False")];
    if is_stalled {
        conditions.push(condition("Stalled", "True"));
    }
    json!({"phase": phase, "catalogSources": [], "conditions": conditions})
}

/// An outcome, the ClusterServiceVersion and the plan, with what Ready says and whether a person is needed.
type Case = (Outcome, Option<Value>, Option<Value>, &'static str, bool);

/// The status of a ClusterServiceVersion in a phase.
fn csv(phase: &str) -> Value {
    json!({"phase": phase})
}

fn cases_without_a_plan() -> Vec<Case> {
    vec![
        (Outcome::Settled, Some(csv("Succeeded")), None, "True Installed lamp.v1 is installed.", false),
        (
            Outcome::Settled,
            Some(json!({"phase": "Failed", "message": "no CRD"})),
            None,
            "False Failed lamp.v1 failed: no CRD.",
            true,
        ),
        (
            Outcome::Settled,
            Some(csv("Pending")),
            None,
            "False Installing lamp.v1 is in phase Pending.",
            false,
        ),
        (unresolved(), None, None, "False ConstraintsNotSatisfiable because.", true),
        (failed(true), None, None, "False BundleUnpackFailed 401.", false),
        (failed(false), None, None, "False BundleUnpackFailed 401.", true),
        (Outcome::Held("Proposed", "do it".to_owned()), None, None, "False Proposed do it.", true),
    ]
}

fn cases_of_plans() -> Vec<Case> {
    let plan = |phase: &str| Some(json!({"phase": phase, "catalogSources": []}));
    let cases = [
        (
            None,
            plan("RequiresApproval"),
            "False RequiresApproval InstallPlan install-abcde, which brings lamp.v1, waits for approval: set its \
             spec.approved to true.",
            false,
        ),
        (None, plan("Installing"), "False Installing InstallPlan install-abcde brings lamp.v1.", false),
        (
            None,
            Some(json!({"phase": "Failed", "catalogSources": [], "conditions": [
                {"type": "Installed", "status": "False", "message": "forbidden"},
            ]})),
            "False InstallPlanFailed InstallPlan install-abcde failed: forbidden.",
            true,
        ),
        (
            None,
            Some(with_ready("Failed", "InstallComponentFailed", "no. Change Lamp a", true)),
            "False InstallPlanFailed InstallPlan install-abcde failed: no. Change Lamp a.",
            true,
        ),
        (
            Some(csv("Succeeded")),
            Some(with_ready("Failed", "InstallComponentFailed", "no. Change Lamp a", true)),
            "False InstallPlanFailed InstallPlan install-abcde failed: no. Change Lamp a.",
            true,
        ),
        (Some(csv("Succeeded")), plan("Complete"), "True Installed lamp.v1 is installed.", false),
        (
            None,
            Some(with_ready("Installing", "MissingPermissions", "Grant them.", true)),
            "False MissingPermissions InstallPlan install-abcde, which brings lamp.v1, cannot continue: Grant them.",
            true,
        ),
        (
            None,
            Some(with_ready("Installing", "InstallComponentFailed", "no.", false)),
            "False InstallComponentFailed InstallPlan install-abcde, which brings lamp.v1, cannot continue: no.",
            false,
        ),
        (
            None,
            Some(with_ready("Installing", "Installing", "Waits for the API server.", false)),
            "False Installing InstallPlan install-abcde brings lamp.v1: Waits for the API server.",
            false,
        ),
    ];
    cases.map(|(csv, plan, wanted, is_stalled)| (Outcome::Settled, csv, plan, wanted, is_stalled)).into()
}

#[test]
fn ready_says_in_one_sentence_what_is_and_what_helps() {
    let current = json!({"currentCSV": "lamp.v1"});
    for (outcome, csv, plan, wanted, is_stalled) in cases_without_a_plan().into_iter().chain(cases_of_plans())
    {
        assert_eq!(concluded(current.clone(), &outcome, csv, plan), (wanted.to_owned(), is_stalled));
    }
    let (text, _) = concluded(json!({}), &Outcome::Settled, None, None);
    assert_eq!(text, "False Pending No version has been chosen yet.");
}

#[test]
fn a_status_is_dated_when_it_changes_and_only_then() {
    let mut subscription = Subscription::default();
    report(&mut subscription, &unresolved(), at(1));
    dated(&SubscriptionStatus::default(), &mut subscription, at(1));
    let first = subscription.status.clone().unwrap();
    assert_eq!(first.last_updated, Some(whole_seconds(at(1))));
    report(&mut subscription, &unresolved(), at(2));
    dated(&first, &mut subscription, at(2));
    assert_eq!(subscription.status.as_ref(), Some(&first));
    report(&mut subscription, &Outcome::Settled, at(3));
    dated(&first, &mut subscription, at(3));
    assert_eq!(subscription.status.unwrap().last_updated, Some(whole_seconds(at(3))));
}

#[test]
fn foreign_text_is_shown_within_a_limit_and_without_control_characters() {
    let mut subscription = Subscription::default();
    let message = format!("\u{1b}[31m{}", "x".repeat(100_000));
    let outcome = Outcome::Unresolved { reason: "r", message: message.clone(), explanation: message };
    report(&mut subscription, &outcome, at(1));
    let shown = subscription.status.unwrap().conditions[0].message.clone().unwrap();
    assert!(shown.len() < 40_000 && !shown.contains('\u{1b}'), "{}", shown.len());
}
