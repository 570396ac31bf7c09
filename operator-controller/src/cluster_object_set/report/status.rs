//! From the report of a reconcile to the status of a ClusterObjectSet. Texts and reasons of the conditions that upstream
//! has are upstream's.

use jiff::Timestamp;
use olm_api::{
    Activity, ConditionStatus, ConditionType, ConditionWriter, Conditions, Reason,
    names::BUNDLE_VERSION,
    v1::{ClusterObjectSet, ClusterObjectSetStatus, LifecycleState},
    with_remedy,
};

use crate::{
    cluster_object_set::{
        report::{Deadline, Outcome, Report, Unhealthy, deadline},
        workloads::EXAMINED_MAX,
    },
    conditions::brief,
    deletion_policy::revision as deletion_policy,
};

/// The status after a reconcile. Conditions that the report does not concern stay as they are.
pub(crate) fn status(set: &ClusterObjectSet, report: &Report, now: Timestamp) -> ClusterObjectSetStatus {
    let mut status = set.status.clone().unwrap_or_default();
    match &report.outcome {
        Outcome::Recorded | Outcome::AwaitsTakeover | Outcome::Unprepared(_) => return status,
        Outcome::PolicyTakenBack => {}
        _ => set_conditions(&mut status.conditions, set, report, now),
    }
    deletion_policy::set_condition(&mut status.conditions, set, report, now);
    status.conditions = in_order(&status.conditions);
    if let Some(content) = report.content.as_ref().filter(|_| status.observed_phases.is_empty()) {
        status.observed_phases.clone_from(content);
    }
    status
}

/// Whether the status says that nothing is left to do for an archived revision.
pub(crate) fn torn_down(set: &ClusterObjectSet) -> bool {
    let progressing = set.status.as_ref().and_then(|s| s.conditions.find(ConditionType::Progressing));
    set.spec.lifecycle_state == LifecycleState::Archived
        && progressing.is_some_and(|c| c.reason == Reason::Archived.as_str())
}

fn set_conditions(conditions: &mut Conditions, set: &ClusterObjectSet, report: &Report, now: Timestamp) {
    use ConditionStatus::{False, True, Unknown};
    use ConditionType::{Available, Progressing, Succeeded};

    let generation = set.metadata.generation;
    let version =
        set.metadata.annotations.as_ref().and_then(|a| a.get(BUNDLE_VERSION)).map_or("", String::as_str);
    // It is set once: a revision that was made of a release has another text.
    let succeeded = conditions.is_true(Succeeded);
    let deadline = deadline(set, now);
    let mut writer = ConditionWriter { conditions, generation, now };
    let rolling_out = format!("Revision {version} is rolling out.");
    match &report.outcome {
        Outcome::Recorded | Outcome::AwaitsTakeover | Outcome::Unprepared(_) | Outcome::PolicyTakenBack => {}
        Outcome::Blocked(message) => writer.put(Progressing, False, Reason::Blocked, message),
        Outcome::Unusable(error) => writer.put(Progressing, False, Reason::Blocked, &error.to_string()),
        Outcome::Retrying(message) | Outcome::Stuck { message, .. } => {
            progressing(&mut writer, Reason::Retrying, message, deadline);
            if set.status.as_ref().is_some_and(|s| s.conditions.find(Available).is_some()) {
                writer.put(Available, Unknown, Reason::Reconciling, message);
            }
        }
        Outcome::Incomplete { failures, .. } => {
            progressing(&mut writer, Reason::RollingOut, &rolling_out, deadline);
            if failures.is_empty() {
                writer.put(Available, False, Reason::RollingOut, &rolling_out);
            } else {
                writer.put(Available, False, Reason::ProbeFailure, &failures.join("\n"));
            }
        }
        Outcome::Complete => {
            writer.put(Progressing, True, Reason::Succeeded, &format!("Revision {version} has rolled out."));
            writer.put(
                Available,
                True,
                Reason::ProbesSucceeded,
                "Objects are available and pass all probes.",
            );
            if !succeeded {
                writer.put(Succeeded, True, Reason::Succeeded, "Revision succeeded rolling out.");
            }
        }
        Outcome::Archiving => {
            let message = "removing revision resources that are not owned by another revision";
            writer.put(Progressing, True, Reason::Retrying, message);
        }
        Outcome::Archived => {
            writer.put(Progressing, False, Reason::Archived, "revision is archived");
            writer.put(Available, Unknown, Reason::Archived, "revision is archived");
        }
    }
    summarize(&mut writer, report);
}

/// Sums up for GitOps tools, with what this program adds to upstream's texts.
fn summarize(writer: &mut ConditionWriter<'_>, report: &Report) {
    let Some(progressing) = writer.conditions.find(ConditionType::Progressing).cloned() else { return };
    let reason = Reason::named(&progressing.reason).unwrap_or(Reason::Retrying);
    let added = match &report.outcome {
        Outcome::Incomplete { unhealthy, waits, .. } => waiting(unhealthy, waits),
        Outcome::Stuck { obstacle, .. } => vec![obstacle.advice().to_owned()],
        _ => Vec::new(),
    };
    let brief = brief(&progressing.message);
    // What is waited for says more than that something is.
    let is_said = reason == Reason::RollingOut;
    let mut added = added.into_iter();
    let first = match added.next() {
        None => brief.to_string(),
        Some(next) if is_said => next,
        Some(next) => with_remedy(&brief, &next),
    };
    let lines: Vec<String> = [first].into_iter().chain(added).collect();
    let message = lines.join("\n");
    let ready = matches!(report.outcome, Outcome::Complete | Outcome::Archived);
    let activity = match report.outcome {
        _ if ready => Activity::None,
        _ if progressing.status == ConditionStatus::False.as_str() => Activity::Stalled(reason, &message),
        Outcome::Stuck { .. } => Activity::Stalled(Reason::Blocked, &message),
        _ => Activity::Reconciling(reason, &brief),
    };
    // The reason is a column of `kubectl get`.
    let state = match activity {
        Activity::Stalled(reason, _) => reason,
        _ if report.outcome == Outcome::Complete => Reason::Active,
        _ => reason,
    };
    let with_unseen: Vec<&str> = lines.iter().chain(&report.unseen).map(String::as_str).collect();
    writer.summarize(ready, state, &with_unseen.join("\n"), activity);
}

/// What a roll-out waits for: the first unhealthy objects with their reason, then what else it waits for.
fn waiting(unhealthy: &[Unhealthy], waits: &[String]) -> Vec<String> {
    let mut lines: Vec<String> =
        unhealthy.iter().take(EXAMINED_MAX).map(|one| format!("Waiting for {one}")).collect();
    let more = unhealthy.len().saturating_sub(EXAMINED_MAX);
    if more > 0 {
        lines.push(format!("Waiting for {more} more of the objects."));
    }
    lines.extend(waits.iter().cloned());
    lines
}

/// Puts what upstream does not have behind what it has, whatever was written first.
fn in_order(conditions: &Conditions) -> Conditions {
    use ConditionType::{DeletionPolicy, Ready, Reconciling, Stalled};
    let ours = [DeletionPolicy, Ready, Reconciling, Stalled].map(ConditionType::as_str);
    let place = |type_: &str| ours.iter().position(|our| *our == type_).map_or(0, |at| at + 1);
    let mut all: Vec<_> = conditions.iter().cloned().collect();
    all.sort_by_key(|condition| place(&condition.type_));
    all.into()
}

fn progressing(writer: &mut ConditionWriter<'_>, reason: Reason, message: &str, deadline: Deadline) {
    use ConditionStatus::{False, True};

    if let Deadline::Passed { minutes } = deadline {
        let message = format!("Revision has not rolled out for {minutes} minute(s). Last status: {message}");
        writer.put(ConditionType::Progressing, False, Reason::ProgressDeadlineExceeded, &message);
    } else {
        writer.put(ConditionType::Progressing, True, reason, message);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use olm_api::{
        ConditionUpdate,
        v1::{ClusterObjectSetSpec, ClusterObjectSetStatus, ObservedPhase},
    };

    use olm_object::ObjectKey;
    use serde_json::json;

    use super::*;
    use crate::cluster_object_set::{observe::content::ContentError, report::Obstacle};

    fn set() -> ClusterObjectSet {
        let mut set =
            ClusterObjectSet::new("ext-1", ClusterObjectSetSpec { revision: 1, ..Default::default() });
        set.metadata.annotations = Some(BTreeMap::from([(BUNDLE_VERSION.to_owned(), "1.2.3".to_owned())]));
        set.metadata.generation = Some(4);
        set.metadata.creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        set
    }

    fn upstreams(
        set: &ClusterObjectSet,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Vec<(String, String, String, String)> {
        const OURS: [&str; 3] = ["Ready", "Reconciling", "Stalled"];
        let mut conditions = set.status.clone().unwrap_or_default().conditions;
        set_conditions(&mut conditions, set, &outcome.clone().into(), now);
        conditions
            .iter()
            .inspect(|c| assert_eq!(c.observed_generation, Some(4)))
            .filter(|c| !OURS.contains(&c.type_.as_str()))
            .map(|c| (c.type_.clone(), c.status.clone(), c.reason.clone(), c.message.clone()))
            .collect()
    }

    fn row(type_: &str, status: &str, reason: &str, message: &str) -> (String, String, String, String) {
        (type_.into(), status.into(), reason.into(), message.into())
    }

    fn incomplete(failures: &[&str], waits: &[&str]) -> Outcome {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let unhealthy = failures.iter().map(|failure| unhealthy(failure)).collect();
        let (failures, waits) = (owned(failures), owned(waits));
        Outcome::Incomplete { failures, unhealthy, waits, awaits_deletion: false }
    }

    fn unhealthy(failure: &str) -> Unhealthy {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}});
        let (object, failures) = (ObjectKey::of(&object), vec![failure.to_owned()]);
        Unhealthy { object, failures, workload: None, finding: None }
    }

    #[test]
    fn a_roll_out_names_what_it_waits_for_and_how_much_more_there_is() {
        let outcome = incomplete(&["a", "b", "c", "d", "e"], &["w"]);
        let shown = summary(&set(), &outcome, Timestamp::UNIX_EPOCH);
        let lines = "Waiting for ConfigMap n/c: a\nWaiting for ConfigMap n/c: b\nWaiting for ConfigMap n/c: c\n\
                     Waiting for 2 more of the objects.\nw";
        let rolling = "Revision 1.2.3 is rolling out.";
        assert_eq!(shown, format!("Ready=False/RollingOut/{lines} Reconciling=True/RollingOut/{rolling}"));
        let mut late = set();
        late.spec.progress_deadline_minutes = Some(1);
        let shown = summary(&late, &incomplete(&["a"], &[]), Timestamp::from_second(60).unwrap());
        let text = format!(
            "Revision has not rolled out for 1 minute(s). Last status: {rolling} Waiting for ConfigMap n/c: a"
        );
        let reason = "ProgressDeadlineExceeded";
        assert_eq!(shown, format!("Ready=False/{reason}/{text} Stalled=True/{reason}/{text}"));
    }

    /// What GitOps tools see, in one line.
    fn summary(set: &ClusterObjectSet, outcome: &Outcome, now: Timestamp) -> String {
        let mut conditions = set.status.clone().unwrap_or_default().conditions;
        set_conditions(&mut conditions, set, &outcome.clone().into(), now);
        let one = |type_: ConditionType| {
            let found = conditions.find(type_)?;
            Some(format!("{type_}={}/{}/{}", found.status, found.reason, found.message))
        };
        let all = [ConditionType::Ready, ConditionType::Reconciling, ConditionType::Stalled];
        all.into_iter().filter_map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_outcome_is_summed_up_for_gitops_tools() {
        let mut set = set();
        // What an earlier reconcile reported is taken back where it no longer holds.
        for type_ in [ConditionType::Reconciling, ConditionType::Stalled] {
            let update = ConditionUpdate::new(type_, ConditionStatus::True, Reason::Retrying, "old", None);
            set.status.get_or_insert_default().conditions.set(update, Timestamp::UNIX_EPOCH);
        }
        let now = Timestamp::UNIX_EPOCH;
        let rolling = "Revision 1.2.3 is rolling out.";
        let archiving = "removing revision resources that are not owned by another revision";
        let cases = [
            (Outcome::Blocked("b".into()), "Ready=False/Blocked/b Stalled=True/Blocked/b".to_owned()),
            (Outcome::Retrying("r".into()), "Ready=False/Retrying/r Reconciling=True/Retrying/r".to_owned()),
            (
                Outcome::Stuck { message: "s".into(), obstacle: Obstacle::Missing("do".into()) },
                "Ready=False/Blocked/s. do Stalled=True/Blocked/s. do".to_owned(),
            ),
            (
                incomplete(&["x"], &["w", "v"]),
                format!(
                    "Ready=False/RollingOut/Waiting for ConfigMap n/c: x\nw\nv Reconciling=True/RollingOut/{rolling}"
                ),
            ),
            (Outcome::Complete, "Ready=True/Active/Revision 1.2.3 has rolled out.".to_owned()),
            (
                Outcome::Archiving,
                format!("Ready=False/Retrying/{archiving} Reconciling=True/Retrying/{archiving}"),
            ),
            (Outcome::Archived, "Ready=True/Archived/revision is archived".to_owned()),
        ];
        for (outcome, wanted) in cases {
            assert_eq!(summary(&set, &outcome, now), wanted, "{outcome:?}");
        }
        set.spec.progress_deadline_minutes = Some(1);
        let late = Timestamp::from_second(60).unwrap();
        let found = summary(&set, &Outcome::Retrying("r".into()), late);
        let text = "Revision has not rolled out for 1 minute(s). Last status: r";
        let reason = "ProgressDeadlineExceeded";
        assert_eq!(found, format!("Ready=False/{reason}/{text} Stalled=True/{reason}/{text}"));
    }

    #[test]
    fn each_outcome_has_its_conditions() {
        let now = Timestamp::UNIX_EPOCH;
        let rolling = "Revision 1.2.3 is rolling out.";
        let cases = [
            (Outcome::Blocked("b".into()), vec![row("Progressing", "False", "Blocked", "b")]),
            (
                Outcome::Unusable(ContentError::Changed("c".into())),
                vec![row("Progressing", "False", "Blocked", "c")],
            ),
            (Outcome::Retrying("r".into()), vec![row("Progressing", "True", "Retrying", "r")]),
            (
                Outcome::Stuck { message: "s".into(), obstacle: Obstacle::Forbidden },
                vec![row("Progressing", "True", "Retrying", "s")],
            ),
            (
                incomplete(&[], &["w"]),
                vec![
                    row("Progressing", "True", "RollingOut", rolling),
                    row("Available", "False", "RollingOut", rolling),
                ],
            ),
            (
                incomplete(&["x", "y"], &[]),
                vec![
                    row("Progressing", "True", "RollingOut", rolling),
                    row("Available", "False", "ProbeFailure", "x\ny"),
                ],
            ),
            (
                Outcome::Complete,
                vec![
                    row("Progressing", "True", "Succeeded", "Revision 1.2.3 has rolled out."),
                    row("Available", "True", "ProbesSucceeded", "Objects are available and pass all probes."),
                    row("Succeeded", "True", "Succeeded", "Revision succeeded rolling out."),
                ],
            ),
            (
                Outcome::Archiving,
                vec![row(
                    "Progressing",
                    "True",
                    "Retrying",
                    "removing revision resources that are not owned by another revision",
                )],
            ),
            (
                Outcome::Archived,
                vec![
                    row("Progressing", "False", "Archived", "revision is archived"),
                    row("Available", "Unknown", "Archived", "revision is archived"),
                ],
            ),
        ];
        for (outcome, wanted) in cases {
            assert_eq!(upstreams(&set(), &outcome, now), wanted, "{outcome:?}");
        }
    }

    #[test]
    fn a_reconcile_that_ended_before_anything_was_found_out_reports_nothing() {
        let mut set = set();
        let complete = status(&set, &Outcome::Complete.into(), Timestamp::UNIX_EPOCH);
        assert!(complete.conditions.is_true(ConditionType::Ready));
        set.status = Some(complete.clone());
        for outcome in [Outcome::Recorded, Outcome::AwaitsTakeover, Outcome::Unprepared("u".into())] {
            assert_eq!(status(&set, &outcome.into(), Timestamp::MAX), complete);
        }
        let error = status(&set, &Outcome::Retrying("e".into()).into(), Timestamp::MAX);
        assert!(!error.conditions.is_true(ConditionType::Ready));
    }

    #[test]
    fn changes_that_are_not_seen_are_reported_in_ready_alone() {
        let report = Report { unseen: vec!["not seen".into()], ..Outcome::Retrying("r".into()).into() };
        let status = status(&set(), &report, Timestamp::UNIX_EPOCH);
        let of = |type_| status.conditions.find(type_).map(|condition| condition.message.as_str());
        assert_eq!(of(ConditionType::Ready), Some("r\nnot seen"));
        assert_eq!(of(ConditionType::Reconciling), Some("r"));
        assert_eq!(of(ConditionType::Progressing), Some("r"));
    }

    #[test]
    fn the_digests_of_the_content_are_recorded_once() {
        let digest = |digest: &str| Some(vec![ObservedPhase { name: "p".into(), digest: digest.into() }]);
        let report = |content| Report { content, ..Outcome::Complete.into() };
        let mut set = set();
        assert!(status(&set, &report(None), Timestamp::UNIX_EPOCH).observed_phases.is_empty());
        set.status = Some(status(&set, &report(digest("a")), Timestamp::UNIX_EPOCH));
        let after = status(&set, &report(digest("b")), Timestamp::UNIX_EPOCH);
        assert_eq!(Some(after.observed_phases), digest("a"));
    }

    #[test]
    fn an_error_makes_known_availability_unknown_but_never_creates_it() {
        let mut set = set();
        let mut conditions = Conditions::default();
        set_conditions(&mut conditions, &set, &Outcome::Complete.into(), Timestamp::UNIX_EPOCH);
        set.status = Some(ClusterObjectSetStatus { conditions, ..Default::default() });
        let rows = upstreams(&set, &Outcome::Retrying("e".into()), Timestamp::UNIX_EPOCH);
        assert_eq!(rows[1], row("Available", "Unknown", "Reconciling", "e"));
        assert_eq!(rows[2], row("Succeeded", "True", "Succeeded", "Revision succeeded rolling out."));
    }

    #[test]
    fn past_the_deadline_the_last_status_is_kept_in_the_message() {
        let mut set = set();
        set.spec.progress_deadline_minutes = Some(10);
        let before = Timestamp::from_second(599).unwrap();
        let after = Timestamp::from_second(600).unwrap();
        assert_eq!(deadline(&set, before), Deadline::At(after));
        let rows = upstreams(&set, &incomplete(&[], &[]), after);
        assert_eq!(
            rows[0],
            row(
                "Progressing",
                "False",
                "ProgressDeadlineExceeded",
                "Revision has not rolled out for 10 minute(s). Last status: Revision 1.2.3 is rolling out."
            )
        );
        assert_eq!(rows[1].2, "RollingOut");
        assert_eq!(
            upstreams(&set, &Outcome::Complete, after)[0].2,
            "Succeeded",
            "a late roll-out still succeeds"
        );
    }
}
