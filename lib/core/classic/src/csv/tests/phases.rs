//! The rows of the phases up to Succeeded.

use super::*;
use crate::csv::{Certificates, InstallFault, Installed};

#[test]
fn none_1_becomes_pending() {
    assert_eq!(after(&csv("", ""), &view()), "Pending RequirementsUnknown: requirements not yet checked");
}

#[test]
fn pending_1_the_replaced_version_is_not_upgradeable() {
    let view = View { replaced: replaced(Phase::Succeeded, Err("busy".to_owned())), ..view() };
    let message = "operator is not upgradeable: busy";
    assert_eq!(
        after(&csv("Pending", ""), &view),
        format!("Pending OperatorConditionNotUpgradeable: {message}")
    );
}

#[test]
fn pending_2_the_requirements_are_an_error() {
    let view = View { requirements: Some(Err("why".to_owned())), ..view() };
    let wanted = "Failed InvalidInstallStrategy: install strategy invalid: why";
    assert_eq!(after(&csv("Pending", ""), &view), wanted);
}

#[test]
fn pending_3_the_list_of_requirements_is_reported_whatever_row_is_next() {
    let one = olm_api_classic::RequirementStatus { name: "one".to_owned(), ..Default::default() };
    let requirements = Some(Ok(Requirements { met: true, statuses: vec![one.clone()] }));
    let found = View { requirements, ..view() };
    let rows = [
        ("InstallReady", found.clone()),
        ("Failed", View { crd_conflict: Some(true), ..found.clone() }),
        ("Pending", View { replaced: replaced(Phase::Succeeded, Ok(())), ..found }),
    ];
    for (phase, view) in rows {
        let status = step(&csv("Pending", ""), &view, now()).status;
        assert_eq!((status.phase.as_deref(), status.requirement_status), (Some(phase), vec![one.clone()]));
    }
}

#[test]
fn pending_4_requirements_are_not_met_and_looked_at_again() {
    let view = View { requirements: unmet(), ..view() };
    let step = step(&csv("Pending", ""), &view, now());
    assert_eq!(text(&step), "Pending RequirementsNotMet: one or more requirements couldn't be found");
    assert!(matches!(step.again, Again::Retry(_)));
}

#[test]
fn pending_4_the_list_of_requirements_is_written_when_it_alone_changes() {
    let mut known = csv("Pending", "");
    let first = View { requirements: unmet(), ..view() };
    known.status = Some(step(&known, &first, now()).status);
    let status = olm_api_classic::RequirementStatus { name: "new".to_owned(), ..Default::default() };
    let requirements = Some(Ok(Requirements { met: false, statuses: vec![status] }));
    let step = step(&known, &View { requirements, ..view() }, now());
    assert_eq!(step.status.requirement_status[0].name, "new");
    assert!(step.effects.is_empty(), "there is no Event for it");
}

/// An operator whose webhooks have these names, API groups and resources.
fn hooked(webhooks: &[(&str, &str, &str)]) -> ClusterServiceVersion {
    let webhook = |(name, group, resource): &(&str, &str, &str)| {
        json!({"type": "ValidatingAdmissionWebhook", "generateName": name, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": [{"apiGroups": [group], "resources": [resource]}]})
    };
    let webhooks: Vec<Value> = webhooks.iter().map(webhook).collect();
    with("Pending", "", &json!({"webhookdefinitions": webhooks}))
}

#[test]
fn pending_5_two_webhooks_of_one_name() {
    let csv = hooked(&[("w", "a", "x"), ("w", "a", "x")]);
    let message = "CSV contains repeated WebhookDescription name";
    assert_eq!(after(&csv, &view()), format!("Failed InvalidWebhookDescription: {message}"));
}

#[test]
fn pending_6_webhooks_that_are_not_allowed() {
    let rows = [
        ("*", "x", "webhook rules cannot include all groups"),
        ("operators.coreos.com", "x", "webhook rules cannot include the OLM group"),
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            "webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources",
        ),
    ];
    for (group, resource, message) in rows {
        let csv = hooked(&[("w", group, resource)]);
        assert_eq!(after(&csv, &view()), format!("Failed InvalidWebhookDescription: {message}"));
    }
}

#[test]
fn pending_7_another_version_owns_the_crd() {
    let view = View { crd_conflict: Some(true), ..view() };
    let wanted = "Failed OwnerConflict: conflicting CRD owner in namespace";
    assert_eq!(after(&csv("Pending", ""), &view), wanted);
}

#[test]
fn pending_8_an_api_service_that_belongs_to_others() {
    let services = ApiServices { unadoptable: vec!["x".to_owned()], ..ApiServices::default() };
    let view = View { api_services: Some(services), ..view() };
    assert_eq!(after(&csv("Pending", ""), &view), "Failed OwnerConflict: unable to adopt APIService");
}

#[test]
fn pending_9_the_replaced_version_is_waited_for() {
    for phase in [Phase::Succeeded, Phase::Failed, Phase::Pending] {
        let view = View { replaced: replaced(phase, Ok(())), ..view() };
        assert_eq!(after(&csv("Pending", "R"), &view), "Pending R: before");
    }
}

#[test]
fn pending_10_everything_is_there() {
    let wanted = "InstallReady AllRequirementsMet: all requirements found, attempting install";
    assert_eq!(after(&csv("Pending", ""), &view()), wanted);
    let view = View { replaced: replaced(Phase::Replacing, Ok(())), ..view() };
    assert_eq!(after(&csv("Pending", ""), &view), wanted);
}

#[test]
fn install_ready_1_a_strategy_that_cannot_be_used() {
    let csv = with("InstallReady", "", &json!({"install": {"strategy": "helm"}}));
    let message = "install strategy invalid: unrecognized install strategy \"helm\": it has to be deployment";
    assert_eq!(after(&csv, &view()), format!("Failed InvalidInstallStrategy: {message}"));
}

/// What a failed installation comes to.
fn not_installed(is_unrecoverable: bool) -> String {
    let fault = InstallFault { message: "why".to_owned(), is_unrecoverable };
    after(&csv("InstallReady", ""), &View { installed: Some(Err(fault)), ..view() })
}

#[test]
fn install_ready_2_the_installation_fails_for_good() {
    assert_eq!(not_installed(true), "Failed InstallComponentFailedNoRetry: install strategy failed: why");
}

#[test]
fn install_ready_3_the_installation_fails() {
    assert_eq!(not_installed(false), "Failed InstallComponentFailed: install strategy failed: why");
}

#[test]
fn install_ready_4_the_operator_is_installed() {
    let certificates =
        Some(Certificates { updated: now(), rotate_at: now() + SignedDuration::from_hours(9) });
    let view = View { installed: Some(Ok(Installed { certificates })), ..view() };
    let step = step(&csv("InstallReady", ""), &view, now());
    let wanted = "Installing InstallSucceeded: waiting for install components to report healthy";
    assert_eq!(text(&step), wanted);
    assert!(step.status.certs_rotate_at > step.status.certs_last_updated);
}

#[test]
fn installing_1_a_strategy_that_cannot_be_used() {
    let csv = with("Installing", "", &json!({"install": {"strategy": "helm"}}));
    assert!(after(&csv, &view()).starts_with("Failed InvalidInstallStrategy"));
}

#[test]
fn installing_2_a_deployment_that_cannot_be_computed() {
    let view = View { deployments: Some(Check::Incalculable), ..view() };
    let wanted = "Pending NeedsReinstall: calculated deployment install is bad";
    assert_eq!(after(&csv("Installing", ""), &view), wanted);
}

#[test]
fn installing_3_the_install_status() {
    let wanted = "Succeeded InstallSucceeded: install strategy completed with no errors";
    assert_eq!(after(&csv("Installing", ""), &view()), wanted);
    let view = View { deployments: Some(fault(FaultKind::Waiting)), ..view() };
    let step = step(&csv("Installing", ""), &view, now());
    assert_eq!(text(&step), "Installing InstallWaiting: installing: why");
    assert_eq!(step.again, Again::After(SignedDuration::from_mins(4)), "the time is over then");
}

#[test]
fn installing_4_five_minutes_are_over() {
    let view = View { deployments: Some(fault(FaultKind::Waiting)), ..view() };
    let late = now() + SignedDuration::from_mins(4);
    let waiting = csv("Installing", "");
    assert_eq!(text(&step(&waiting, &view, late)), "Failed InstallCheckFailed: install timeout");
    let early = late - SignedDuration::from_secs(1);
    assert_eq!(text(&step(&waiting, &view, early)), "Installing InstallWaiting: installing: why");
}

#[test]
fn a_fact_that_is_not_known_is_asked_for_and_nothing_else_happens() {
    use crate::csv::Fact;
    let rows = [
        ("Pending", Fact::Requirements),
        ("Pending", Fact::Replaced),
        ("Pending", Fact::Intersecting),
        ("InstallReady", Fact::Installed),
        ("Installing", Fact::Deployments),
        ("Succeeded", Fact::Successor),
        ("Succeeded", Fact::Webhooks),
        ("Failed", Fact::CertificatesDue),
        ("Replacing", Fact::Successor),
    ];
    for (phase, fact) in rows {
        let mut view = view();
        match fact {
            Fact::Requirements => view.requirements = None,
            Fact::Replaced => view.replaced = None,
            Fact::Intersecting => view.intersecting = None,
            Fact::Installed => view.installed = None,
            Fact::Deployments => view.deployments = None,
            Fact::Successor => view.successor = None,
            Fact::Webhooks => view.webhooks = None,
            _ => view.certificates_due = None,
        }
        let csv = csv(phase, "");
        let step = step(&csv, &view, now());
        assert_eq!(
            (step.effects, Some(&step.status)),
            (vec![Effect::Ask(fact)], csv.status.as_ref()),
            "{phase}"
        );
    }
}

#[test]
fn a_phase_of_no_row_stays() {
    let unknown = csv("Unknown", "R");
    let step = step(&unknown, &view(), now());
    assert_eq!((Some(&step.status), step.effects), (unknown.status.as_ref(), vec![]));
}

#[test]
fn an_event_is_published_for_a_change_and_is_a_warning_for_a_failure() {
    let events = |csv: &ClusterServiceVersion, view: &View| -> Vec<(bool, &'static str)> {
        let effects = step(csv, view, now()).effects;
        let event = |effect: &Effect| match effect {
            Effect::Event { is_warning, reason, .. } => Some((*is_warning, *reason)),
            _ => None,
        };
        effects.iter().filter_map(event).collect()
    };
    assert_eq!(events(&csv("Pending", ""), &view()), [(false, "AllRequirementsMet")]);
    let conflict = View { crd_conflict: Some(true), ..view() };
    assert_eq!(events(&csv("Pending", ""), &conflict), [(true, "OwnerConflict")]);
    let mut reported = csv("Pending", "");
    reported.status = Some(step(&reported, &View { requirements: unmet(), ..view() }, now()).status);
    assert_eq!(events(&reported, &View { requirements: unmet(), ..view() }), []);
}
