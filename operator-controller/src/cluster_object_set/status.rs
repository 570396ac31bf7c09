//! From what happened to a revision to its conditions. Texts and reasons are the original's.

use jiff::Timestamp;
use olm_api::{
    Activity, ConditionStatus, ConditionType, ConditionWriter, Conditions, Reason,
    names::BUNDLE_VERSION,
    v1::{ClusterObjectSet, LifecycleState},
};
use olm_runtime::ClientError;

use crate::advice::advice;

/// What became of one pass over a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Somebody must act; nothing is tried until then.
    Blocked(String),
    /// An error that is tried again.
    Retrying(String),
    /// An error that is tried again, although only a person can remove what is in the way.
    Stuck {
        /// The error.
        message: String,
        /// What is in the way.
        obstacle: Obstacle,
    },
    /// Objects are not all there, or not all healthy.
    Incomplete {
        /// The messages of failed probes.
        failures: Vec<String>,
        /// What is waited for before probes could say anything, in our words.
        waits: Vec<String>,
        /// Whether an object is waited for that is being deleted.
        awaits_deletion: bool,
    },
    /// Everything is there and healthy.
    Complete,
    /// Teardown goes on.
    Archiving,
    /// Teardown is over.
    Archived,
}

/// What keeps a revision from being carried out until somebody does something about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Objects belong to somebody else.
    Collision,
    /// The API server does not allow it.
    Forbidden,
    /// The ServiceAccount or the namespace is missing: what to do about it.
    Missing(String),
}

impl Obstacle {
    /// What to do, in one sentence.
    fn advice(&self) -> &str {
        match self {
            Self::Collision => {
                "The object belongs to the owner that the message names: delete that owner or this extension, or the object if it is not needed."
            }
            Self::Forbidden => {
                "Give the ServiceAccount this permission (\"olm bundle rbac\" prints the permissions that a bundle needs), or change the policy or quota that the message names."
            }
            Self::Missing(advice) => advice,
        }
    }
}

/// Whether the roll-out may still take its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// There is none, or it no longer counts.
    None,
    /// It lies ahead.
    At(Timestamp),
    /// It has passed.
    Passed {
        /// How many minutes the revision had.
        minutes: i32,
    },
}

impl Outcome {
    /// What is in the way, if only a person can remove it.
    pub(crate) fn obstacle(&self) -> Option<&Obstacle> {
        if let Self::Stuck { obstacle, .. } = self { Some(obstacle) } else { None }
    }

    /// What it means that there is no client of the ServiceAccount.
    pub(crate) fn without_account(error: &ClientError) -> Self {
        let message = error.to_string();
        match advice(error) {
            Some(advice) => Self::Stuck { message, obstacle: Obstacle::Missing(advice) },
            None => Self::Retrying(message),
        }
    }
}

/// The deadline of a revision at `now`.
pub(crate) fn deadline(set: &ClusterObjectSet, now: Timestamp) -> Deadline {
    let succeeded = set.status.as_ref().is_some_and(|s| s.conditions.is_true(ConditionType::Succeeded));
    let created = set.metadata.creation_timestamp.as_ref();
    let (Some(minutes), Some(created)) = (set.spec.progress_deadline_minutes, created) else {
        return Deadline::None;
    };
    if succeeded || set.spec.lifecycle_state == LifecycleState::Archived {
        return Deadline::None;
    }
    let at = created.0 + jiff::SignedDuration::from_mins(i64::from(minutes));
    if now >= at { Deadline::Passed { minutes } } else { Deadline::At(at) }
}

/// Whether the status says that nothing is left to do for an archived revision.
pub(crate) fn torn_down(set: &ClusterObjectSet) -> bool {
    let told = set.status.as_ref().and_then(|s| s.conditions.find(ConditionType::Progressing));
    set.spec.lifecycle_state == LifecycleState::Archived
        && told.is_some_and(|c| c.reason == Reason::Archived.as_str())
}

/// Writes what `outcome` means into `conditions`.
pub(crate) fn set_conditions(
    conditions: &mut Conditions,
    set: &ClusterObjectSet,
    outcome: &Outcome,
    deadline: Deadline,
    now: Timestamp,
) {
    use ConditionStatus::{False, True, Unknown};
    use ConditionType::{Available, Progressing, Succeeded};

    let generation = set.metadata.generation;
    let version =
        set.metadata.annotations.as_ref().and_then(|a| a.get(BUNDLE_VERSION)).map_or("", String::as_str);
    // What came first stays, what was taken over from a release included.
    let succeeded = conditions.is_true(Succeeded);
    let mut writer = ConditionWriter { conditions, generation, now };
    let rolling_out = format!("Revision {version} is rolling out.");
    match outcome {
        Outcome::Blocked(message) => writer.put(Progressing, False, Reason::Blocked, message),
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
    summarize(&mut writer, outcome);
}

/// Sums up for GitOps tools, with what this program adds to upstream's texts.
fn summarize(writer: &mut ConditionWriter<'_>, outcome: &Outcome) {
    let Some(progressing) = writer.conditions.find(ConditionType::Progressing).cloned() else { return };
    let reason = Reason::named(&progressing.reason).unwrap_or(Reason::Retrying);
    let added: &[&str] = match outcome {
        Outcome::Incomplete { waits, .. } => &waits.iter().map(String::as_str).collect::<Vec<_>>(),
        Outcome::Stuck { obstacle, .. } => &[obstacle.advice()],
        _ => &[],
    };
    let message = [&[progressing.message.as_str()], added].concat().join("\n");
    let ready = matches!(outcome, Outcome::Complete | Outcome::Archived);
    let activity = match outcome {
        _ if ready => Activity::None,
        _ if progressing.status == ConditionStatus::False.as_str() => Activity::Stalled(reason, &message),
        Outcome::Stuck { .. } => Activity::Stalled(Reason::Blocked, &message),
        _ => Activity::Reconciling(reason, &message),
    };
    writer.summarize(ready, reason, &message, activity);
}

/// Adds sentences to what `Ready` says; the original's conditions stay as they are.
pub(crate) fn add_to_ready(conditions: &mut Conditions, sentences: &[String], now: Timestamp) {
    let Some(mut ready) = conditions.find(ConditionType::Ready).cloned().filter(|_| !sentences.is_empty())
    else {
        return;
    };
    for sentence in sentences {
        ready.message.push('\n');
        ready.message.push_str(sentence);
    }
    let generation = ready.observed_generation;
    conditions.mirror(&ready, generation, now);
}

/// Puts what is ours behind what the original has: the order tells nothing of the way here.
pub(crate) fn in_order(conditions: &Conditions) -> Conditions {
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
        v1::{ClusterObjectSetSpec, ClusterObjectSetStatus},
    };

    use super::*;

    fn set() -> ClusterObjectSet {
        let mut set =
            ClusterObjectSet::new("ext-1", ClusterObjectSetSpec { revision: 1, ..Default::default() });
        set.metadata.annotations = Some(BTreeMap::from([(BUNDLE_VERSION.to_owned(), "1.2.3".to_owned())]));
        set.metadata.generation = Some(4);
        set.metadata.creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        set
    }

    fn told(
        set: &ClusterObjectSet,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Vec<(String, String, String, String)> {
        const OURS: [&str; 3] = ["Ready", "Reconciling", "Stalled"];
        let mut conditions = set.status.clone().unwrap_or_default().conditions;
        set_conditions(&mut conditions, set, outcome, deadline(set, now), now);
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
        Outcome::Incomplete { failures: owned(failures), waits: owned(waits), awaits_deletion: false }
    }

    /// What GitOps tools see, in one line.
    fn summary(set: &ClusterObjectSet, outcome: &Outcome, now: Timestamp) -> String {
        let mut conditions = set.status.clone().unwrap_or_default().conditions;
        set_conditions(&mut conditions, set, outcome, deadline(set, now), now);
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
        // What an earlier pass said is taken back where it no longer holds.
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
                "Ready=False/Retrying/s\ndo Stalled=True/Blocked/s\ndo".to_owned(),
            ),
            (
                incomplete(&["x"], &["w", "v"]),
                format!("Ready=False/RollingOut/{rolling}\nw\nv Reconciling=True/RollingOut/{rolling}\nw\nv"),
            ),
            (Outcome::Complete, "Ready=True/Succeeded/Revision 1.2.3 has rolled out.".to_owned()),
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
        let told = summary(&set, &Outcome::Retrying("r".into()), late);
        let text = "Revision has not rolled out for 1 minute(s). Last status: r";
        let reason = "ProgressDeadlineExceeded";
        assert_eq!(told, format!("Ready=False/{reason}/{text} Stalled=True/{reason}/{text}"));
    }

    #[test]
    fn each_outcome_has_its_conditions() {
        let now = Timestamp::UNIX_EPOCH;
        let rolling = "Revision 1.2.3 is rolling out.";
        let cases = [
            (Outcome::Blocked("b".into()), vec![row("Progressing", "False", "Blocked", "b")]),
            (Outcome::Retrying("r".into()), vec![row("Progressing", "True", "Retrying", "r")]),
            (
                Outcome::Stuck { message: "s".into(), obstacle: Obstacle::Collision },
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
            assert_eq!(told(&set(), &outcome, now), wanted, "{outcome:?}");
        }
    }

    #[test]
    fn an_error_makes_known_availability_unknown_but_never_creates_it() {
        let mut set = set();
        let mut conditions = Conditions::default();
        set_conditions(&mut conditions, &set, &Outcome::Complete, Deadline::None, Timestamp::UNIX_EPOCH);
        set.status = Some(ClusterObjectSetStatus { conditions, ..Default::default() });
        let rows = told(&set, &Outcome::Retrying("e".into()), Timestamp::UNIX_EPOCH);
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
        let rows = told(&set, &incomplete(&[], &[]), after);
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
        assert_eq!(told(&set, &Outcome::Complete, after)[0].2, "Succeeded", "a late roll-out still succeeds");
    }
}
