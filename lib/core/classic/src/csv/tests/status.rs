//! The rows of the install status.

use super::*;
use crate::csv::Availability;

/// What a failed operator comes to, whose phase and reason otherwise are Pending and `NeedsReinstall`.
fn found(deployments: Check, availability: Availability, webhooks: Webhooks) -> String {
    let api_services = Some(ApiServices { availability, ..ApiServices::default() });
    let view = View { deployments: Some(deployments), api_services, webhooks: Some(webhooks), ..view() };
    after(&csv("Failed", "x"), &view)
}

#[test]
fn every_row_of_the_install_status() {
    use Availability::{Available, Disrupted, Failed, Unavailable};
    use Webhooks::{Installed, Missing};
    let failed = || Failed("down".to_owned());
    let no_webhook = || Webhooks::Failed("bad".to_owned());
    let waiting = || fault(FaultKind::Waiting);
    let rows = [
        (
            Check::Fine,
            Available,
            Installed,
            "Succeeded InstallSucceeded: install strategy completed with no errors",
        ),
        (fault(FaultKind::Timeout), failed(), Missing, "Failed InstallCheckFailed: install failed: why"),
        (waiting(), Disrupted, Missing, "Failed x: before"),
        (waiting(), failed(), Missing, "Failed APIServiceInstallFailed: APIService install failed: down"),
        (waiting(), Unavailable, Missing, "Pending NeedsReinstall: apiServices not installed"),
        (waiting(), Available, no_webhook(), "InstallReady NeedsReinstall: Webhook install failed: bad"),
        (waiting(), Available, Missing, "Pending NeedsReinstall: webhooks not installed"),
        (fault(FaultKind::Updated), Available, Installed, "InstallReady NeedsReinstall: installing: why"),
        (fault(FaultKind::Annotations), Available, Installed, "InstallReady NeedsReinstall: installing: why"),
        (waiting(), Available, Installed, "Pending NeedsReinstall: installing: why"),
    ];
    for (deployments, availability, webhooks, wanted) in rows {
        assert_eq!(found(deployments, availability, webhooks), wanted);
    }
}

#[test]
fn disrupted_pods_are_looked_at_again() {
    let api_services = ApiServices { availability: Availability::Disrupted, ..ApiServices::default() };
    let view = View { api_services: Some(api_services), ..view() };
    let again = step(&csv("Failed", "x"), &view, now()).again;
    assert_eq!(again, Again::After(SignedDuration::from_secs(10)));
}
