//! The rows of the install status. Each has the faults of the rows after it too, to show the order.

use super::*;
use crate::csv::Availability::{self, Available, Disrupted, Failed, Unavailable};

/// What a failed operator comes to, whose phase and reason otherwise are Pending and `NeedsReinstall`.
fn found(deployments: Check, availability: Availability, webhooks: Webhooks) -> String {
    let api_services = Some(ApiServices { availability, ..ApiServices::default() });
    let view = View { deployments: Some(deployments), api_services, webhooks: Some(webhooks), ..view() };
    after(&csv("Failed", "x"), &view)
}

fn waiting() -> Check {
    fault(FaultKind::Waiting)
}

#[test]
fn status_1_everything_is_fine() {
    let wanted = "Succeeded InstallSucceeded: install strategy completed with no errors";
    assert_eq!(found(Check::Fine, Available, Webhooks::Installed), wanted);
}

/// The API server does not answer: the fact stays unknown, and nothing is written.
#[test]
fn status_2_what_could_not_be_read_decides_nothing() {
    let failed = csv("Failed", "x");
    for view in [View { deployments: None, ..view() }, View { webhooks: None, ..view() }] {
        let step = step(&failed, &view, now());
        assert!(matches!(step.effects.as_slice(), [Effect::Ask(_)]), "{:?}", step.effects);
        assert_eq!(Some(&step.status), failed.status.as_ref());
    }
}

#[test]
fn status_3_a_deployment_made_no_progress_in_time() {
    let late = fault(FaultKind::Timeout);
    let wanted = "Failed InstallCheckFailed: install failed: why";
    assert_eq!(found(late, Failed("down".to_owned()), Webhooks::Missing), wanted);
}

#[test]
fn status_4_pods_of_an_api_service_are_on_their_way() {
    assert_eq!(found(waiting(), Disrupted, Webhooks::Missing), "Failed x: before");
    let api_services = ApiServices { availability: Disrupted, ..ApiServices::default() };
    let again = step(&csv("Failed", "x"), &View { api_services: Some(api_services), ..view() }, now()).again;
    assert_eq!(again, Again::After(SignedDuration::from_secs(10)));
}

#[test]
fn status_5_an_api_service_has_an_error() {
    let wanted = "Failed APIServiceInstallFailed: APIService install failed: down";
    assert_eq!(found(waiting(), Failed("down".to_owned()), Webhooks::Missing), wanted);
}

#[test]
fn status_6_an_api_service_does_not_answer() {
    let wanted = "Pending NeedsReinstall: apiServices not installed";
    assert_eq!(found(waiting(), Unavailable, Webhooks::Failed("bad".to_owned())), wanted);
}

#[test]
fn status_7_a_webhook_has_an_error() {
    let wanted = "InstallReady NeedsReinstall: Webhook install failed: bad";
    assert_eq!(found(waiting(), Available, Webhooks::Failed("bad".to_owned())), wanted);
}

#[test]
fn status_8_a_webhook_is_missing() {
    let wanted = "Pending NeedsReinstall: webhooks not installed";
    assert_eq!(found(fault(FaultKind::Updated), Available, Webhooks::Missing), wanted);
}

#[test]
fn status_9_a_deployment_is_not_as_it_is_to_be() {
    for kind in [FaultKind::Updated, FaultKind::Annotations] {
        let wanted = "InstallReady NeedsReinstall: installing: why";
        assert_eq!(found(fault(kind), Available, Webhooks::Installed), wanted);
    }
}

#[test]
fn status_10_a_deployment_is_missing_or_not_healthy() {
    for kind in [FaultKind::Missing, FaultKind::Waiting] {
        let wanted = "Pending NeedsReinstall: installing: why";
        assert_eq!(found(fault(kind), Available, Webhooks::Installed), wanted);
    }
}
