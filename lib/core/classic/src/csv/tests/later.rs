//! The rows of the phases from Succeeded on.

use super::*;

#[test]
fn succeeded_1_another_version_replaces_it() {
    let view = View { successor: successor(Phase::Pending, Phase::Pending), ..view() };
    let step = step(&csv("Succeeded", ""), &view, now());
    assert_eq!(text(&step), "Replacing BeingReplaced: being replaced by csv: a.v2");
    assert!(step.effects.contains(&Effect::CountUpgrade));
}

#[test]
fn succeeded_2_a_strategy_that_cannot_be_used() {
    let csv = with("Succeeded", "", &json!({"install": {"strategy": "helm"}}));
    assert!(after(&csv, &view()).starts_with("Failed InvalidInstallStrategy"));
}

#[test]
fn succeeded_3_what_an_api_service_needs_is_missing() {
    let faults = vec!["x".to_owned(), "y".to_owned()];
    let view = View { api_services: Some(ApiServices { faults, ..ApiServices::default() }), ..view() };
    assert_eq!(after(&csv("Succeeded", ""), &view), "Failed APIServiceResourceIssue: [x, y]");
}

#[test]
fn succeeded_4_certificates_are_due() {
    let view = View { certificates_due: Some(true), ..view() };
    let wanted = "Pending NeedsCertRotation: CSV owns resources that require a cert refresh";
    assert_eq!(after(&csv("Succeeded", ""), &view), wanted);
}

#[test]
fn succeeded_5_requirements_are_lost() {
    let lost = View { requirements: unmet(), ..view() };
    let wanted = "Failed RequirementsNotMet: requirements no longer met";
    assert_eq!(after(&csv("Succeeded", ""), &lost), wanted);
    let error = View { requirements: Some(Err("why".to_owned())), ..view() };
    let wanted = "Failed InvalidInstallStrategy: install strategy invalid: why";
    assert_eq!(after(&csv("Succeeded", ""), &error), wanted);
}

#[test]
fn succeeded_6_a_deployment_that_cannot_be_computed() {
    let view = View { deployments: Some(Check::Incalculable), ..view() };
    let wanted = "Pending NeedsReinstall: calculated deployment install is bad";
    assert_eq!(after(&csv("Succeeded", ""), &view), wanted);
}

#[test]
fn succeeded_7_a_deployment_is_not_healthy_or_changed() {
    for (kind, phase) in [
        (FaultKind::Missing, "Failed"),
        (FaultKind::Waiting, "Failed"),
        (FaultKind::Updated, "InstallReady"),
        (FaultKind::Annotations, "InstallReady"),
    ] {
        let view = View { deployments: Some(fault(kind)), ..view() };
        let wanted = format!("{phase} ComponentUnhealthy: installing: why");
        assert_eq!(after(&csv("Succeeded", ""), &view), wanted);
    }
}

#[test]
fn succeeded_8_the_roles_of_its_apis_are_made_and_the_certificate_is_awaited() {
    let mut csv = csv("Succeeded", "InstallSucceeded");
    let status = csv.status.as_mut().unwrap();
    status.message = Some("install strategy completed with no errors".to_owned());
    let rotation = now() + SignedDuration::from_hours(3);
    status.certs_rotate_at = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(rotation));
    let step = step(&csv, &view(), now());
    assert_eq!((step.effects, Some(&step.status)), (vec![Effect::EnsureApiRoles], csv.status.as_ref()));
    assert_eq!(step.again, Again::After(SignedDuration::from_hours(3)));
}

fn forward() -> Option<Membership> {
    Some(Membership::Of(Group { fails_forward: true, ..group() }))
}

#[test]
fn failed_1_it_is_replaced_where_the_group_fails_forward() {
    let successor = successor(Phase::Pending, Phase::Pending);
    let default = View { successor: successor.clone(), requirements: unmet(), ..view() };
    assert!(after(&csv("Failed", "x"), &default).starts_with("Pending RequirementsNotMet"));
    let view = View { successor, membership: forward(), ..view() };
    let message = "Fail Forward is enabled, allowing Failed csv to be replaced by csv: a.v2";
    assert_eq!(after(&csv("Failed", "x"), &view), format!("Replacing BeingReplaced: {message}"));
}

#[test]
fn failed_2_a_strategy_that_cannot_be_used() {
    let csv = with("Failed", "InvalidInstallStrategy", &json!({"install": {"strategy": "helm"}}));
    assert!(after(&csv, &view()).starts_with("Failed InvalidInstallStrategy"));
}

/// What an operator comes to that failed of its group, when that is over.
fn over(reason: &str) -> String {
    after(&csv("Failed", reason), &view())
}

#[test]
fn failed_3_the_group_has_namespaces_that_the_operator_can_serve() {
    let wanted = "Pending RequirementsUnknown: InstallModes now support target namespaces";
    for reason in
        ["NoTargetNamespaces", "NoOperatorGroup", "TooManyOperatorGroups", "UnsupportedOperatorGroup"]
    {
        assert_eq!(over(reason), wanted, "{reason}");
    }
}

#[test]
fn failed_4_no_intersecting_group_provides_the_apis() {
    let message = "OperatorGroup no longer intersecting with conflicting owner";
    assert_eq!(over("InterOperatorGroupOwnerConflict"), format!("Pending RequirementsUnknown: {message}"));
}

#[test]
fn failed_5_the_static_group_lists_the_apis() {
    let message = "static OperatorGroup and intersecting groups now support providedAPIs";
    let wanted = format!("Pending RequirementsUnknown: {message}");
    assert_eq!(over("CannotModifyStaticOperatorGroupProvidedAPIs"), wanted);
}

#[test]
fn failed_6_the_requirements_are_an_error() {
    let view = View { requirements: Some(Err("why".to_owned())), ..view() };
    let wanted = "Failed InvalidInstallStrategy: install strategy invalid: why";
    assert_eq!(after(&csv("Failed", "x"), &view), wanted);
    assert!(after(&csv("Failed", "InvalidInstallStrategy"), &view).starts_with("Pending RequirementsNotMet"));
}

#[test]
fn failed_7_requirements_are_not_met() {
    let view = View { requirements: unmet(), ..view() };
    assert_eq!(after(&csv("Failed", "x"), &view), "Pending RequirementsNotMet: requirements not met");
}

#[test]
fn failed_8_what_an_api_service_needs_is_installed_again_unless_it_belongs_to_others() {
    let faults = ApiServices { faults: vec!["x".to_owned()], ..ApiServices::default() };
    let missing = View { api_services: Some(faults.clone()), ..view() };
    assert_eq!(after(&csv("Failed", "x"), &missing), "Pending APIServiceResourcesNeedReinstall: x");
    let foreign = ApiServices { unadoptable: vec!["y".to_owned()], ..faults };
    let foreign = View { api_services: Some(foreign), ..view() };
    assert_eq!(after(&csv("Failed", "x"), &foreign), "Failed x: before");
}

#[test]
fn failed_9_certificates_are_due() {
    let view = View { certificates_due: Some(true), ..view() };
    let wanted = "Pending NeedsCertRotation: owned APIServices need cert refresh";
    assert_eq!(after(&csv("Failed", "x"), &view), wanted);
}

#[test]
fn failed_10_a_deployment_that_cannot_be_computed() {
    let view = View { deployments: Some(Check::Incalculable), ..view() };
    let wanted = "Pending NeedsReinstall: calculated deployment install is bad";
    assert_eq!(after(&csv("Failed", "x"), &view), wanted);
}

#[test]
fn failed_11_it_is_healthy_again_or_installed_again() {
    let wanted = "Succeeded InstallSucceeded: install strategy completed with no errors";
    assert_eq!(after(&csv("Failed", "ComponentUnhealthy"), &view()), wanted);
    let view = View { deployments: Some(fault(FaultKind::Missing)), ..view() };
    let wanted = "Pending NeedsReinstall: installing: why";
    assert_eq!(after(&csv("Failed", "ComponentUnhealthy"), &view), wanted);
}

/// Upstream leaves these phases and comes back at once, for ever.
#[test]
fn failed_what_is_still_wrong_stays() {
    let missing = View { deployments: Some(fault(FaultKind::Missing)), ..view() };
    let conflict = View { crd_conflict: Some(true), ..missing.clone() };
    assert_eq!(after(&csv("Failed", "OwnerConflict"), &conflict), "Failed OwnerConflict: before");
    let wanted = "Pending NeedsReinstall: installing: why";
    assert_eq!(after(&csv("Failed", "OwnerConflict"), &missing), wanted, "the conflict is over");
    let webhook = json!([{"type": "ValidatingAdmissionWebhook", "generateName": "w", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "rules": [{"apiGroups": ["*"]}]}]);
    let invalid = with("Failed", "InvalidWebhookDescription", &json!({"webhookdefinitions": webhook}));
    let due = View { certificates_due: Some(true), ..view() };
    assert_eq!(after(&invalid, &due), "Failed InvalidWebhookDescription: before");
}

#[test]
fn failed_an_installation_is_tried_again_after_a_rest() {
    let view = View { deployments: Some(fault(FaultKind::Missing)), ..view() };
    let failed = csv("Failed", "InstallComponentFailed");
    let early = now() - SignedDuration::from_secs(53);
    let rests = step(&failed, &view, early);
    assert_eq!(text(&rests), "Failed InstallComponentFailed: before");
    assert_eq!(rests.again, Again::After(SignedDuration::from_secs(3)));
    assert_eq!(after(&failed, &view), "Pending NeedsReinstall: installing: why");
}

#[test]
fn failed_an_installation_that_fails_again_and_again_rests_longer() {
    let rest_after = |reasons: &[&str]| {
        let mut failed = csv("Failed", "InstallComponentFailed");
        let status = failed.status.as_mut().unwrap();
        status.last_transition_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        for reason in reasons {
            let (phase, reason) = (Some("x".to_owned()), Some((*reason).to_owned()));
            status.conditions.push(olm_api_classic::ConditionRecord { phase, reason, ..Default::default() });
        }
        match step(&failed, &view(), now()).again {
            Again::After(left) => left.as_secs(),
            other => panic!("{other:?}"),
        }
    };
    let failed = "InstallComponentFailed";
    assert_eq!(rest_after(&[]), 10);
    assert_eq!(rest_after(&[failed, "NeedsReinstall", failed]), 20);
    assert_eq!(rest_after(&[failed, failed, "InstallSucceeded", failed]), 10, "it worked in between");
    assert_eq!([5, 6, 20].map(|count| rest_after(&vec![failed; count])), [160, 300, 300]);
}

#[test]
fn succeeded_a_time_of_certificates_that_is_over_is_no_reason_to_look_again() {
    let mut csv = csv("Succeeded", "InstallSucceeded");
    let past = now() - SignedDuration::from_hours(3);
    csv.status.as_mut().unwrap().certs_rotate_at =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(past));
    assert_eq!(step(&csv, &view(), now()).again, Again::Await);
}

#[test]
fn replacing_1_it_replaces_a_version_itself() {
    let view = View {
        replaced: replaced(Phase::Deleting, Ok(())),
        successor: successor(Phase::Succeeded, Phase::Succeeded),
        ..view()
    };
    assert_eq!(after(&csv("Replacing", "x"), &view), "Replacing x: before");
}

/// What a replaced version comes to, where the group does not fail forward and where it does.
fn replaced_by(phase: Phase, newest: Phase) -> [String; 2] {
    let view = View { successor: successor(phase, newest), ..view() };
    let forward = View { membership: forward(), ..view.clone() };
    [&view, &forward].map(|view| after(&csv("Replacing", "x"), view))
}

const REPLACED: &str =
    "Deleting Replaced: has been replaced by a newer ClusterServiceVersion that has successfully installed.";

#[test]
fn replacing_2_the_successor_runs_or_with_fail_forward_the_last_of_the_chain() {
    assert_eq!(replaced_by(Phase::Succeeded, Phase::Failed)[0], REPLACED);
    assert_eq!(replaced_by(Phase::Failed, Phase::Succeeded)[1], REPLACED);
}

#[test]
fn replacing_3_the_successor_does_not_run_yet() {
    assert_eq!(replaced_by(Phase::Failed, Phase::Succeeded)[0], "Replacing x: before");
    assert_eq!(replaced_by(Phase::Succeeded, Phase::Failed)[1], "Replacing x: before");
}

#[test]
fn replacing_4_there_is_no_successor() {
    let step = step(&csv("Replacing", "x"), &view(), now());
    let error = "marked as replacement, but no replacement CSV found in cluster";
    assert_eq!((text(&step).as_str(), step.again), ("Replacing x: before", Again::Retry(error.to_owned())));
}

#[test]
fn deleting_1_the_object_is_deleted() {
    assert_eq!(step(&csv("Deleting", "x"), &view(), now()).effects, [Effect::Delete]);
}
