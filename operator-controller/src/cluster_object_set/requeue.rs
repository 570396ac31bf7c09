//! When a reconcile of a revision is followed by another one, should no event come.
//!
//! Whatever a revision waits for, it is checked when its deadline passes: its status changes then.

use std::time::Duration;

use jiff::Timestamp;
use olm_runtime::Next;

use crate::cluster_object_set::report::{Deadline, Obstacle, Outcome, Report};

/// How soon a revision that is to be taken over is checked again, should its mark never come.
const TAKEOVER_RETRY: Duration = Duration::from_secs(10);
/// How soon a collision is checked again; nothing announces that the other owner is gone.
const COLLISION_RETRY: Duration = Duration::from_secs(10);
/// How soon a teardown that waits for deletions is checked again, should no event come.
const TEARDOWN_RETRY: Duration = Duration::from_secs(5);
/// How soon an object that is being deleted is checked again: an event of its end may be another revision's.
const DELETION_RETRY: Duration = Duration::from_secs(5);
/// How soon content that was changed, or is mutable, is read again: Secrets of others are not watched.
const CONTENT_RETRY: Duration = Duration::from_secs(30);
/// How soon objects are checked again whose changes are not seen, because the watch of their kind fails.
const UNSEEN_RETRY: Duration = Duration::from_secs(30);
/// How soon Pods of an unhealthy workload are listed again, by the time that it has been unhealthy: they change without
/// an event of the workload.
const POD_CHECKS: [(Duration, Duration); 3] = [
    (Duration::from_mins(2), Duration::from_secs(3)),
    (Duration::from_mins(10), Duration::from_secs(10)),
    (Duration::MAX, Duration::from_mins(1)),
];
/// How soon a reconcile may follow another one of itself.
const SOONEST: Duration = Duration::from_secs(1);

/// What follows a reconcile.
pub(crate) fn requeue(report: &Report, deadline: Deadline, now: Timestamp) -> Next {
    let left = left(deadline, now);
    let certificates = report.certificates.map(|at| until(at, now));
    let unseen = (!report.unseen.is_empty()).then_some(UNSEEN_RETRY);
    let soonest =
        |times: &[Option<Duration>]| times.iter().flatten().min().copied().map_or(Next::Await, Next::After);
    match (&report.outcome, report.policy_error()) {
        // The event of what was written causes the next one.
        (Outcome::Recorded | Outcome::PolicyTakenBack | Outcome::Archived, _) => Next::Await,
        (Outcome::AwaitsTakeover, _) => Next::After(TAKEOVER_RETRY),
        (Outcome::Archiving, _) => Next::After(TEARDOWN_RETRY),
        (Outcome::Blocked(text), _) => Next::Blocked(text.clone()),
        (Outcome::Unusable(_), _) => Next::After(CONTENT_RETRY),
        (Outcome::Stuck { obstacle: Obstacle::Collision { .. }, .. }, _) => {
            soonest(&[left, Some(COLLISION_RETRY)])
        }
        (Outcome::Unprepared(text) | Outcome::Retrying(text) | Outcome::Stuck { message: text, .. }, _) => {
            retry(text.clone(), deadline, now)
        }
        (Outcome::Complete | Outcome::Incomplete { .. }, Some(text)) => retry(text.to_owned(), deadline, now),
        (Outcome::Complete, None) => soonest(&[certificates, unseen]),
        (Outcome::Incomplete { awaits_deletion, .. }, None) => {
            let deletion = awaits_deletion.then_some(DELETION_RETRY);
            soonest(&[left, certificates, unseen, deletion, pods(report, now)])
        }
    }
}

/// Another try, no later than the deadline.
pub(crate) fn retry(text: String, deadline: Deadline, now: Timestamp) -> Next {
    match left(deadline, now) {
        Some(left) => Next::RetryWithin(text, left),
        None => Next::Retry(text),
    }
}

/// Whether Pods are listed now. Workloads of an ordinary roll-out are healthy sooner.
pub(crate) fn are_pods_due(unhealthy_since: Option<Timestamp>, now: Timestamp) -> bool {
    lasted(unhealthy_since, now) >= POD_CHECKS[0].1
}

/// When Pods are listed again.
fn pods(report: &Report, now: Timestamp) -> Option<Duration> {
    report.outcome.unhealthy().iter().find(|one| one.workload.is_some())?;
    let lasted = lasted(report.unhealthy_since, now);
    POD_CHECKS.iter().find(|(until, _)| lasted < *until).map(|(_, wait)| *wait)
}

/// How long workloads have been unhealthy; no time at all if that was not reported yet.
fn lasted(since: Option<Timestamp>, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since.unwrap_or(now))).unwrap_or_default()
}

fn left(deadline: Deadline, now: Timestamp) -> Option<Duration> {
    if let Deadline::At(at) = deadline { Some(until(at, now)) } else { None }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default().max(SOONEST)
}

#[cfg(test)]
mod tests {
    use olm_object::ObjectKey;
    use olm_objectset::Workload;
    use serde_json::json;

    use super::*;
    use crate::cluster_object_set::{observe::content::ContentError, report::Unhealthy};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn incomplete(awaits_deletion: bool) -> Report {
        let (failures, unhealthy, waits) = (Vec::new(), Vec::new(), Vec::new());
        Outcome::Incomplete { failures, unhealthy, waits, awaits_deletion }.into()
    }

    /// A Deployment is not healthy, for so many seconds.
    fn unhealthy(seconds: i64, kind: &str) -> Report {
        let object = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "d", "namespace": "n"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}},
        });
        let (object, workload) = (ObjectKey::of(&object), Workload::of(&object).map(Box::new));
        let unhealthy = vec![Unhealthy { object, failures: Vec::new(), workload, finding: None }];
        let (failures, waits) = (Vec::new(), Vec::new());
        let outcome = Outcome::Incomplete { failures, unhealthy, waits, awaits_deletion: false };
        Report { unhealthy_since: Some(at(-seconds)), ..outcome.into() }
    }

    #[test]
    fn pods_of_unhealthy_workloads_are_listed_again_less_and_less_often() {
        let after = |report: &Report| requeue(report, Deadline::None, NOW);
        let seconds = |seconds| Next::After(Duration::from_secs(seconds));
        for (lasted, wanted) in [(-5, 3), (0, 3), (119, 3), (120, 10), (599, 10), (600, 60), (1_000_000, 60)]
        {
            assert_eq!(after(&unhealthy(lasted, "Deployment")), seconds(wanted), "{lasted}");
        }
        let unreported = Report { unhealthy_since: None, ..unhealthy(0, "Job") };
        assert_eq!(after(&unreported), Next::Await, "a kind of another group");
        let first = Report { unhealthy_since: None, ..unhealthy(0, "StatefulSet") };
        assert_eq!(after(&first), seconds(3));
        let late = requeue(&first, Deadline::At(at(2)), NOW);
        assert_eq!(late, seconds(2), "no later than the deadline");
    }

    #[test]
    fn pods_of_an_ordinary_roll_out_are_not_listed() {
        for (since, due) in
            [(None, false), (Some(0), false), (Some(-2), false), (Some(-3), true), (Some(5), false)]
        {
            assert_eq!(are_pods_due(since.map(at), NOW), due, "{since:?}");
        }
    }

    fn stuck(obstacle: Obstacle) -> Report {
        Outcome::Stuck { message: "s".into(), obstacle }.into()
    }

    fn collision(with_set: bool) -> Obstacle {
        Obstacle::Collision { with_set, remedy: String::new() }
    }

    fn unseen(report: Report) -> Report {
        Report { unseen: vec!["Changes of K objects are not seen.".into()], ..report }
    }

    fn unsettled(report: Report) -> Report {
        Report { policy: Some(Err("policy".into())), ..report }
    }

    fn certificates(report: Report) -> Report {
        Report { certificates: Some(at(20)), ..report }
    }

    /// Rows of a report and what follows it without a deadline.
    #[test]
    fn each_end_has_its_next_reconcile() {
        let rows: Vec<(Report, Next)> = vec![
            (Outcome::Recorded.into(), Next::Await),
            (Outcome::PolicyTakenBack.into(), Next::Await),
            (Outcome::AwaitsTakeover.into(), Next::After(TAKEOVER_RETRY)),
            (Outcome::Unprepared("u".into()).into(), Next::Retry("u".into())),
            (Outcome::Blocked("b".into()).into(), Next::Blocked("b".into())),
            (Outcome::Unusable(ContentError::Mutable("m".into())).into(), Next::After(CONTENT_RETRY)),
            (Outcome::Retrying("e".into()).into(), Next::Retry("e".into())),
            (stuck(Obstacle::Forbidden), Next::Retry("s".into())),
            (stuck(collision(true)), Next::After(COLLISION_RETRY)),
            (incomplete(false), Next::Await),
            (incomplete(true), Next::After(DELETION_RETRY)),
            (unseen(incomplete(false)), Next::After(UNSEEN_RETRY)),
            (certificates(incomplete(false)), Next::After(Duration::from_secs(20))),
            (unsettled(certificates(incomplete(true))), Next::Retry("policy".into())),
            (Outcome::Complete.into(), Next::Await),
            (unseen(Outcome::Complete.into()), Next::After(UNSEEN_RETRY)),
            (unseen(certificates(Outcome::Complete.into())), Next::After(Duration::from_secs(20))),
            (unsettled(Outcome::Complete.into()), Next::Retry("policy".into())),
            (Outcome::Archiving.into(), Next::After(TEARDOWN_RETRY)),
            (unseen(Outcome::Archived.into()), Next::Await),
        ];
        for (report, wanted) in rows {
            assert_eq!(requeue(&report, Deadline::None, NOW), wanted, "{report:?}");
        }
    }

    #[test]
    fn nothing_is_checked_later_than_its_deadline() {
        let seconds = Duration::from_secs;
        let after = |report: &Report, second| requeue(report, Deadline::At(at(second)), NOW);
        let error: Report = Outcome::Retrying("e".into()).into();
        assert_eq!(after(&error, 40), Next::RetryWithin("e".into(), seconds(40)));
        assert_eq!(after(&error, 0), Next::RetryWithin("e".into(), SOONEST));
        assert_eq!(requeue(&error, Deadline::Passed { minutes: 1 }, NOW), Next::Retry("e".into()));
        let collision = stuck(collision(false));
        assert_eq!(after(&collision, 40), Next::After(COLLISION_RETRY));
        assert_eq!(after(&collision, 4), Next::After(seconds(4)));
        assert_eq!(after(&incomplete(false), 40), Next::After(seconds(40)));
        assert_eq!(after(&incomplete(true), 2), Next::After(seconds(2)));
        assert_eq!(after(&unseen(incomplete(false)), 4), Next::After(seconds(4)));
        assert_eq!(after(&certificates(incomplete(false)), 40), Next::After(seconds(20)));
        assert_eq!(after(&unsettled(incomplete(false)), 40), Next::RetryWithin("policy".into(), seconds(40)));
        // It has rolled out: the deadline no longer counts.
        assert_eq!(after(&Outcome::Complete.into(), 40), Next::Await);
    }
}
