//! Every outcome of a reconcile and the conditions it leads to.

use olm_api::{
    ConditionStatus,
    ConditionType::{Ready, Reconciling, Stalled},
    ConditionUpdate,
    v1::{
        ClusterExtensionSpec, ClusterObjectSet, ClusterObjectSetSpec, ClusterObjectSetStatus, LifecycleState,
    },
};
use olm_resolve::{DeprecationData, deprecation_status};

use super::*;
use crate::cluster_extension::report::Outcome;

const GENERATION: i64 = 3;

fn extension() -> ClusterExtension {
    let mut extension = ClusterExtension::new("ext", ClusterExtensionSpec::default());
    extension.metadata.generation = Some(GENERATION);
    extension
}

fn bundle(version: &str) -> BundleRecord {
    BundleRecord {
        name: format!("op.v{version}"),
        package: "op".into(),
        version: version.into(),
        release: None,
        reference: format!("example.com/op@{version}"),
    }
}

/// A revision with conditions given as (type, status, reason, message).
fn set(
    number: i64,
    version: &str,
    reported: &[(ConditionType, ConditionStatus, Reason, &str)],
) -> ClusterObjectSet {
    let spec = ClusterObjectSetSpec {
        revision: number,
        lifecycle_state: LifecycleState::Active,
        ..ClusterObjectSetSpec::default()
    };
    let mut set = ClusterObjectSet::new(&format!("ext-{number}"), spec);
    set.metadata.annotations = Some(bundle(version).annotations());
    let mut status = ClusterObjectSetStatus::default();
    for (type_, state, reason, message) in reported {
        let update = ConditionUpdate::new(*type_, *state, *reason, *message, Some(1));
        status.conditions.set(update, Timestamp::UNIX_EPOCH);
    }
    set.status = Some(status);
    set
}

fn rolled_out(number: i64, version: &str) -> ClusterObjectSet {
    let message = format!("Revision {version} has rolled out.");
    set(
        number,
        version,
        &[
            (Progressing, True, Reason::Succeeded, &message),
            (Available, True, Reason::ProbesSucceeded, "Objects are available and pass all probes."),
            (ConditionType::Succeeded, True, Reason::Succeeded, "Revision succeeded rolling out."),
        ],
    )
}

fn rolling_out(number: i64, version: &str) -> ClusterObjectSet {
    let message = format!("Revision {version} is rolling out.");
    set(
        number,
        version,
        &[
            (Progressing, True, Reason::RollingOut, &message),
            (Available, False, Reason::ProbeFailure, "Object Deployment.apps/v1 ns/d: unhealthy"),
        ],
    )
}

fn report(sets: &[ClusterObjectSet]) -> Report {
    Report { revisions: Some(Revisions::read(sets.iter().cloned())), ..Report::default() }
}

fn ended(sets: &[ClusterObjectSet], outcome: Outcome) -> Report {
    Report { outcome, ..report(sets) }
}

fn failed(sets: &[ClusterObjectSet], error: StepError) -> Report {
    ended(sets, Outcome::Failed(error))
}

/// Nothing is known of the revisions.
fn unknown(error: StepError) -> Report {
    Report { outcome: Outcome::Failed(error), ..Report::default() }
}

fn after(report: &Report) -> ClusterExtensionStatus {
    status(&extension(), report, Timestamp::UNIX_EPOCH)
}

fn shown(status: &ClusterExtensionStatus, type_: ConditionType) -> Option<String> {
    let condition = status.conditions.find(type_)?;
    assert_eq!(condition.observed_generation, Some(GENERATION), "{type_}");
    Some(format!("{}/{}/{}", condition.status, condition.reason, condition.message))
}

fn failed_bundle(text: &str, kind: CauseKind) -> StepError {
    StepError::Bundle {
        bundle: bundle("1.0.0"),
        cause: Cause { text: text.into(), kind, explanation: None, next_pull: None },
    }
}

#[test]
fn a_missing_account_leaves_nothing_known() {
    let errors = vec!["service account \"sa\" not found in namespace \"ns\"".to_owned()];
    let status = after(&unknown(StepError::Validation { errors, terminal: false, advice: None }));
    let text = "operation cannot proceed due to the following validation error(s): service account \"sa\" not found in namespace \"ns\"";
    assert_eq!(shown(&status, Installed).unwrap(), format!("Unknown/Failed/{text}"));
    assert_eq!(shown(&status, Progressing).unwrap(), format!("True/Retrying/{text}"));
    assert_eq!(shown(&status, Ready).unwrap(), format!("False/Retrying/{text}"));
    assert!(status.conditions.is_true(Reconciling) && status.conditions.find(Stalled).is_none());
}

#[test]
fn what_a_person_has_to_do_is_in_stalled_and_upstreams_conditions_stay() {
    let cause = |advice: &str| Cause {
        explanation: Some(advice.into()),
        ..Cause::transient("pre-authorization failed")
    };
    let cases = [
        StepError::Validation {
            errors: vec!["no account".into()],
            terminal: false,
            advice: Some("create it".into()),
        },
        StepError::Bundle { bundle: bundle("1.0.0"), cause: cause("create it") },
    ];
    for error in cases {
        let text = error.to_string();
        let status = after(&failed(&[], error));
        assert_eq!(shown(&status, Progressing).unwrap(), format!("True/Retrying/{text}"));
        assert_eq!(shown(&status, Stalled).unwrap(), format!("True/Blocked/{text}. create it"));
        assert!(status.conditions.find(Reconciling).is_none(), "nobody works on it");
    }
}

#[test]
fn what_the_latest_revision_cannot_go_on_without_is_in_stalled() {
    let collision = "revision object collisions in phase 0\nObject x";
    let advised = format!("{collision}\ndelete one");
    let stuck = [
        (Progressing, True, Reason::Retrying, collision),
        (Ready, False, Reason::Retrying, advised.as_str()),
        (Stalled, True, Reason::Blocked, advised.as_str()),
    ];
    let status = after(&report(&[rolled_out(1, "1.0.0"), set(2, "2.0.0", &stuck)]));
    assert_eq!(shown(&status, Progressing).unwrap(), format!("True/Retrying/{collision}"));
    assert_eq!(shown(&status, Ready).unwrap(), format!("False/Blocked/{advised}"));
    assert_eq!(shown(&status, Stalled).unwrap(), format!("True/Blocked/{advised}"));
    let recovered = after(&report(&[rolled_out(1, "1.0.0"), rolled_out(2, "2.0.0")]));
    assert!(recovered.conditions.find(Stalled).is_none());
}

#[test]
fn a_foreign_line_break_in_a_note_begins_no_line_in_ready() {
    let mut hostile = report(&[rolled_out(1, "1.0.0")]);
    hostile.notes = vec!["kept\nReady: True\u{202e}".into(), "second".into()];
    let ready = shown(&after(&hostile), Ready).unwrap();
    assert!(ready.ends_with("\nkept Ready: True\\u{202e}\nsecond"), "{ready}");
}

#[test]
fn unreadable_revisions_clear_the_installed_bundle() {
    let status = after(&unknown(StepError::Revisions("api server away".into())));
    assert_eq!(shown(&status, Installed).unwrap(), "Unknown/Failed/api server away");
    assert_eq!(shown(&status, Progressing).unwrap(), "True/Retrying/retrying to get installed bundle");
    assert!(status.install.is_none());
}

#[test]
fn an_unresolvable_package_is_retried_and_explained() {
    let error = StepError::Resolution {
        text: "no bundles found for package \"x\"".into(),
        explanation: Some("Rejected: nothing".into()),
        answer_at: None,
        recovers: false,
    };
    let status = after(&failed(&[], error));
    assert_eq!(shown(&status, Installed).unwrap(), "False/Failed/No bundle installed");
    assert_eq!(shown(&status, Progressing).unwrap(), "True/Retrying/no bundles found for package \"x\"");
    let stalled = shown(&status, Stalled).unwrap();
    assert_eq!(stalled, "True/Blocked/no bundles found for package \"x\". Rejected: nothing");
}

#[test]
fn what_recovers_by_itself_is_not_stalled() {
    let error = StepError::Resolution {
        text: "catalog \"c\" is not being served".into(),
        explanation: Some("Waiting for catalog c.".into()),
        answer_at: None,
        recovers: true,
    };
    let status = after(&failed(&[], error));
    let text = shown(&status, Reconciling).unwrap().replacen("True", "False", 1);
    assert_eq!(shown(&status, Ready).unwrap(), format!("{text}. Waiting for catalog c."));
    assert!(status.conditions.find(Stalled).is_none());
}

#[test]
fn a_long_text_stands_in_progressing_alone() {
    let cause =
        Cause { explanation: Some("grant them".into()), ..Cause::transient("permissions:\none\ntwo") };
    let status = after(&failed(&[], StepError::Bundle { bundle: bundle("1.0.0"), cause }));
    let prefix = "error for resolved bundle \"op.v1.0.0\" with version \"1.0.0\": permissions:";
    assert_eq!(shown(&status, Progressing).unwrap(), format!("True/Retrying/{prefix}\none\ntwo"));
    let brief = Some(format!("Blocked/{prefix} (in full: Progressing). grant them"));
    let about = |type_, value: &str| shown(&status, type_)?.strip_prefix(value).map(str::to_owned);
    assert_eq!([about(Ready, "False/"), about(Stalled, "True/")], [brief.clone(), brief]);
}

#[test]
fn an_update_is_shown_while_something_is_installed() {
    let with = |sets: &[ClusterObjectSet], update| Report { update, ..report(sets) };
    let installed = [rolled_out(1, "1.0.0")];
    let rows = [
        (AvailableUpdate::Newer("2.0.0\n".into()), "True/NewerVersion/2.0.0"),
        (AvailableUpdate::Newest, "False/NewestVersion/"),
        (AvailableUpdate::Unknown, "Unknown/Unavailable/unknown"),
    ];
    for (update, wanted) in rows {
        assert_eq!(shown(&after(&with(&installed, Some(update))), UpdateAvailable).as_deref(), Some(wanted));
    }
    let mut before = extension();
    before.status = Some(after(&with(&installed, Some(AvailableUpdate::Newest))));
    let later = |report: &Report| status(&before, report, Timestamp::UNIX_EPOCH);
    assert_eq!(later(&with(&installed, None)), before.status.clone().unwrap(), "the catalogs were not asked");
    assert_eq!(shown(&later(&with(&[], None)), UpdateAvailable), None, "nothing is installed any more");
}

#[test]
fn errors_about_a_bundle_name_it() {
    let prefix = "error for resolved bundle \"op.v1.0.0\" with version \"1.0.0\": ";
    for (kind, wanted) in [
        (CauseKind::Transient, format!("True/Retrying/{prefix}broken")),
        (CauseKind::Terminal, format!("False/Blocked/{prefix}broken")),
        (CauseKind::InvalidConfiguration, format!("False/InvalidConfiguration/{prefix}broken")),
    ] {
        let status = after(&failed(&[], failed_bundle("broken", kind)));
        assert_eq!(shown(&status, Progressing).unwrap(), wanted);
        assert_eq!(status.conditions.is_true(Stalled), kind != CauseKind::Transient);
        assert_eq!(status.conditions.is_true(Reconciling), kind == CauseKind::Transient);
    }
}

#[test]
fn a_failing_upgrade_keeps_what_is_installed() {
    let status = after(&failed(&[rolled_out(1, "1.0.0")], failed_bundle("broken", CauseKind::Transient)));
    assert_eq!(
        shown(&status, Installed).unwrap(),
        "True/Succeeded/Installed bundle example.com/op@1.0.0 successfully"
    );
    assert_eq!(status.install.unwrap().bundle.name, "op.v1.0.0");
}

#[test]
fn a_new_revision_is_rolling_out() {
    let made = Created { name: "ext-1".to_owned(), bundle: bundle("1.0.0"), ..Created::default() };
    let created = ended(&[], Outcome::Created(made));
    let status = after(&created);
    assert_eq!(status.active_revisions.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["ext-1"]);
    assert_eq!(shown(&status, Progressing).unwrap(), "True/RollingOut/Revision 1.0.0 is rolling out.");
    assert_eq!(shown(&status, Ready).unwrap(), "False/RollingOut/Revision 1.0.0 is rolling out.");
    assert!(status.conditions.is_true(Reconciling));
}

#[test]
fn a_first_roll_out_shows_its_revision() {
    let status = after(&report(&[rolling_out(1, "1.0.0")]));
    assert_eq!(shown(&status, Installed).unwrap(), "False/Absent/No bundle installed");
    assert_eq!(shown(&status, Progressing).unwrap(), "True/RollingOut/Revision 1.0.0 is rolling out.");
    assert_eq!(status.active_revisions.len(), 1);
    assert_eq!(status.active_revisions[0].conditions.len(), 2);
}

#[test]
fn a_first_roll_out_that_fails_counts_as_failed() {
    let failing = set(1, "1.0.0", &[(Progressing, True, Reason::Retrying, "forbidden")]);
    let status = after(&report(&[failing]));
    assert_eq!(shown(&status, Installed).unwrap(), "False/Failed/No bundle installed");
    assert_eq!(shown(&status, Progressing).unwrap(), "True/Retrying/forbidden");
}

#[test]
fn an_upgrade_mirrors_the_installed_revision_and_the_one_under_way() {
    let status = after(&report(&[rolled_out(1, "1.0.0"), rolling_out(2, "1.1.0")]));
    assert_eq!(shown(&status, Progressing).unwrap(), "True/RollingOut/Revision 1.1.0 is rolling out.");
    assert_eq!(
        shown(&status, Available).unwrap(),
        "True/ProbesSucceeded/Objects are available and pass all probes."
    );
    let names: Vec<_> = status.active_revisions.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["ext-1", "ext-2"]);
    assert!(status.active_revisions[0].conditions.is_empty());
    assert_eq!(status.install.unwrap().bundle.version, "1.0.0");
}

#[test]
fn a_settled_extension_is_ready() {
    let status = after(&report(&[rolled_out(2, "1.1.0")]));
    assert_eq!(shown(&status, Progressing).unwrap(), "True/Succeeded/Revision 1.1.0 has rolled out.");
    assert_eq!(shown(&status, Ready).unwrap(), "True/Succeeded/Revision 1.1.0 has rolled out.");
    assert!(status.conditions.find(Reconciling).is_none() && status.conditions.find(Stalled).is_none());
}

#[test]
fn an_unhealthy_workload_is_not_ready() {
    let sick = set(
        1,
        "1.0.0",
        &[
            (Progressing, True, Reason::Succeeded, "Revision 1.0.0 has rolled out."),
            (Available, False, Reason::ProbeFailure, "Object Deployment.apps/v1 ns/d: down"),
            (ConditionType::Succeeded, True, Reason::Succeeded, "Revision succeeded rolling out."),
        ],
    );
    let status = after(&report(&[sick]));
    assert_eq!(shown(&status, Ready).unwrap(), "False/ProbeFailure/Object Deployment.apps/v1 ns/d: down");
    assert!(status.conditions.is_true(Installed));
}

#[test]
fn notes_stand_in_ready_and_nowhere_else() {
    let noted = Report { notes: vec!["A note.".into()], ..report(&[rolled_out(1, "1.0.0")]) };
    let status = after(&noted);
    assert!(shown(&status, Ready).unwrap().ends_with("\nA note."));
    assert!(!shown(&status, Progressing).unwrap().contains("A note."));
}

#[test]
fn deprecations_are_copied() {
    let reported = deprecation_status(DeprecationData::Unavailable, &[], None);
    let status = after(&Report { deprecations: Some(reported), ..report(&[]) });
    let unknown = "Unknown/DeprecationStatusUnknown/deprecation status unknown: catalog data unavailable";
    assert_eq!(shown(&status, Deprecated).unwrap(), unknown);
    assert_eq!(shown(&status, BundleDeprecated).unwrap(), "Unknown/Absent/no bundle installed yet");
}

#[test]
fn nothing_changes_when_nothing_happened() {
    let report = report(&[rolled_out(1, "1.0.0")]);
    let first = status(&extension(), &report, Timestamp::UNIX_EPOCH);
    let mut settled = extension();
    settled.status = Some(first.clone());
    let later = Timestamp::from_second(100).unwrap();
    assert_eq!(status(&settled, &report, later), first);
}

#[test]
fn ports_of_broken_connections_are_left_out() {
    for (text, wanted) in [
        ("get: read tcp 10.0.0.1:4711->10.0.0.2:443: reset by peer", "get: reset by peer"),
        ("write udp [::1]:5->[::2]:6: broken", "broken"),
        ("no connection here", "no connection here"),
        ("read tcp nonsense here", "read tcp nonsense here"),
    ] {
        assert_eq!(without_connections(text), wanted);
    }
}

#[test]
fn an_extension_that_may_not_be_worked_on_still_says_what_is_installed() {
    let error = StepError::Validation { errors: vec!["no account".into()], terminal: true, advice: None };
    let status = after(&failed(&[rolled_out(1, "1.0.0")], error.clone()));
    assert!(shown(&status, Installed).unwrap().starts_with("True/Succeeded/"));
    assert!(shown(&status, Progressing).unwrap().starts_with("False/Blocked/operation cannot proceed"));
    assert_eq!(status.install.unwrap().bundle.version, "1.0.0");
    // Nothing is installed: it is as if nothing were known.
    let status = after(&failed(&[], error));
    assert!(shown(&status, Installed).unwrap().starts_with("Unknown/Failed/"));
}

#[test]
fn what_cannot_be_taken_over_leaves_what_the_original_said() {
    let mut before = extension();
    let installed = report(&[rolled_out(1, "1.0.0")]);
    before.status = Some(status(&before, &installed, Timestamp::UNIX_EPOCH));
    let takeover = |terminal| StepError::Takeover { text: "cut off".into(), terminal };
    // Without an account, it is only said that there is none.
    let blocked = StepError::Validation { errors: vec!["no account".into()], terminal: true, advice: None };
    let refused =
        "False/Blocked/operation cannot proceed due to the following validation error(s): no account";
    for (error, reported) in [
        (takeover(true), "False/Blocked/cut off"),
        (takeover(false), "True/Retrying/cut off"),
        (blocked, refused),
    ] {
        let after = status(&before, &unknown(error), Timestamp::UNIX_EPOCH);
        assert!(shown(&after, Installed).unwrap().starts_with("True/Succeeded/"));
        assert_eq!(shown(&after, Progressing).unwrap(), reported);
        assert_eq!(after.install, before.status.as_ref().unwrap().install);
    }
}

#[test]
fn what_was_taken_over_is_not_ready_before_its_revision_was_carried_out() {
    let mut before = extension();
    before.status = Some(after(&report(&[rolled_out(1, "1.0.0")])));
    assert!(before.status.as_ref().unwrap().conditions.is_true(Ready));
    let reported = [(ConditionType::Succeeded, True, Reason::Succeeded, "Revision succeeded rolling out.")];
    let migrated = report(&[set(1, "1.0.0", &reported)]);
    let status = status(&before, &migrated, Timestamp::UNIX_EPOCH);
    assert!(status.conditions.is_true(Installed));
    assert_eq!(shown(&status, Progressing).unwrap(), "True/RollingOut/Revision 1.0.0 is rolling out.");
    assert_eq!(shown(&status, Ready).unwrap(), "False/RollingOut/Revision 1.0.0 is rolling out.");
}

#[test]
fn a_spec_that_waits_for_its_bundle_is_not_ready() {
    let why = "The spec asks for something else".to_owned();
    let waiting = ended(&[rolled_out(1, "1.0.0")], Outcome::Away { why, next_pull: None });
    let status = after(&waiting);
    let text = "Revision 1.0.0 has rolled out.";
    assert_eq!(shown(&status, Progressing).unwrap(), format!("True/Succeeded/{text}"));
    assert_eq!(
        shown(&status, Ready).unwrap(),
        format!("False/Retrying/The spec asks for something else\n{text}")
    );
    assert_eq!(shown(&status, Reconciling).unwrap(), "True/Retrying/The spec asks for something else");
    // What is rolling out says so itself.
    let waiting = ended(&[rolling_out(1, "1.0.0")], Outcome::Away { why: "w".into(), next_pull: None });
    assert!(shown(&after(&waiting), Reconciling).unwrap().starts_with("True/RollingOut/w"));
}

#[test]
fn what_a_revision_waits_for_is_reported_beside_its_progress() {
    let text = "Revision 2.0.0 is rolling out.";
    let mut waiting = rolling_out(2, "2.0.0");
    let reported = format!("{text}\nObject ConfigMap.v1 n/a: is being deleted");
    let update = ConditionUpdate::new(Ready, False, Reason::RollingOut, &reported, Some(1));
    waiting.status.as_mut().unwrap().conditions.set(update, Timestamp::UNIX_EPOCH);
    let status = after(&report(&[rolled_out(1, "1.0.0"), waiting]));
    assert_eq!(shown(&status, Progressing).unwrap(), format!("True/RollingOut/{text}"));
    assert_eq!(shown(&status, Ready).unwrap(), format!("False/RollingOut/{reported}"));
}

#[test]
fn a_panic_is_reported_and_takes_nothing_back() {
    let mut ready = extension();
    ready.status = Some(after(&report(&[rolled_out(1, "1.0.0")])));
    let status = panicked(&ready, Timestamp::UNIX_EPOCH);
    let report = format!("/Retrying/{PANIC_REPORT}");
    assert_eq!(shown(&status, Progressing).unwrap(), format!("True{report}"));
    assert_eq!(shown(&status, Ready).unwrap(), format!("False{report}"));
    assert!(status.conditions.is_true(Installed) && status.conditions.is_true(Available));
    assert_eq!(status.install, ready.status.unwrap().install);
}

#[test]
fn what_is_not_known_of_the_platform_changes_nothing() {
    let known = |verdict: Option<Verdict>| Report { platform: verdict, ..report(&[rolled_out(1, "1.0.0")]) };
    let mut limited = extension();
    let invalid = Some(Verdict::Invalid("x".to_owned()));
    limited.status = Some(status(&limited, &known(invalid), Timestamp::UNIX_EPOCH));
    let later = Timestamp::from_second(9).unwrap();
    let reported = |verdict| {
        let after = status(&limited, &known(verdict), later);
        after.conditions.find(Upgradeable).map(|condition| condition.last_transition_time.0)
    };
    assert_eq!(reported(None), Some(Timestamp::UNIX_EPOCH));
    assert_eq!(reported(Some(Verdict::NoLimit)), None);
}

#[test]
fn a_bundle_that_is_pulled_is_reported_in_words_of_our_own() {
    let pulling = |sets: &[ClusterObjectSet]| {
        let why = "Pulling bundle op.v1.1.0".into();
        let outcome = Outcome::Pulling { why, elapsed: std::time::Duration::ZERO };
        Report { notes: vec!["A note.".into()], ..ended(sets, outcome) }
    };
    let first = after(&pulling(&[]));
    assert_eq!(shown(&first, Ready).unwrap(), "False/Reconciling/Pulling bundle op.v1.1.0\nA note.");
    assert_eq!(shown(&first, Reconciling).unwrap(), "True/Reconciling/Pulling bundle op.v1.1.0");
    let of_upstream = (shown(&first, Installed), shown(&first, Progressing));
    assert_eq!(of_upstream, (None, None), "upstream has no words for it");

    let sets = [rolled_out(1, "1.0.0")];
    let mut extension = extension();
    extension.status = Some(after(&report(&sets)));
    extension.metadata.generation = Some(GENERATION + 1);
    let update = status(&extension, &pulling(&sets), Timestamp::UNIX_EPOCH);
    assert!(update.conditions.find(Ready).unwrap().message.starts_with("Pulling bundle"));
    assert!(update.conditions.is_true(Installed) && update.conditions.is_true(Available));
    let progressing = update.conditions.find(Progressing).unwrap();
    assert_eq!(progressing.observed_generation, Some(GENERATION), "it is not about the new version yet");
}
