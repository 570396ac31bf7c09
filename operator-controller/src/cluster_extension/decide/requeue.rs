//! When a reconcile of an extension is followed by another one, should no event come.

use std::time::Duration;

use jiff::Timestamp;
use olm_bundles::NextPull;
use olm_runtime::Next;

use crate::{
    cluster_extension::report::{Cause, Outcome, Report, StepError},
    deletion_policy::extension::PolicyState,
};

/// How soon a deletion that is held is checked again; not every remedy comes with an event.
pub(crate) const HELD_RETRY: Duration = Duration::from_secs(10);
/// How soon revisions that are being stopped are checked again, should no event come.
pub(crate) const AT_REST_RETRY: Duration = Duration::from_secs(1);
/// How long deletions usually take. One that takes longer says what it waits for.
pub(crate) const DELETION_USUAL: Duration = Duration::from_secs(3);
/// How soon revisions that could not be read are read again.
const UNKNOWN_RETRY: Duration = Duration::from_secs(10);
/// How soon a release that cannot be read is read again; nothing announces that its Secret has changed.
const TAKEOVER_RETRY: Duration = Duration::from_mins(1);

/// Longest wait for a time of the future: timers of years are not to be relied upon.
const WAIT_MAX: Duration = Duration::from_hours(24);

pub(crate) fn requeue(report: &Report, now: Timestamp) -> Next {
    match (&report.outcome, &report.policy) {
        (Outcome::Recorded, _) => Next::Await,
        (Outcome::Failed(error), _) => after_failure(report, error, now),
        (_, PolicyState::Unknown(error)) => Next::Retry(error.clone()),
        (Outcome::Away { why, next_pull: Some(next) }, _) => after_pull(*next, why),
        (Outcome::Away { why, next_pull: None }, _) => Next::Retry(why.clone()),
        (Outcome::Settled | Outcome::Created(_) | Outcome::Held(_) | Outcome::Pulling { .. }, _) => {
            let pending = report.pending().and_then(|pending| pending.look_again);
            let at = report.resumes.into_iter().chain(pending).min();
            at.map_or(Next::Await, |at| Next::After(until(now, at)))
        }
    }
}

fn after_failure(report: &Report, error: &StepError, now: Timestamp) -> Next {
    match (error, &report.unread, &report.resumes) {
        // Only a person can help, and nothing announces that.
        (StepError::Takeover { terminal: true, .. }, ..)
        | (StepError::Validation { .. }, Some(StepError::Takeover { terminal: true, .. }), _) => {
            Next::After(TAKEOVER_RETRY)
        }
        (StepError::Validation { .. }, Some(_), _) => Next::After(UNKNOWN_RETRY),
        (StepError::Paused, _, Some(at)) | (StepError::Resolution { answer_at: Some(at), .. }, ..) => {
            Next::After(until(now, *at))
        }
        (StepError::Bundle { cause: Cause { next_pull: Some(next), .. }, .. }, ..) => {
            after_pull(*next, &error.to_string())
        }
        _ if error.is_terminal() => Next::Blocked(error.to_string()),
        _ => Next::Retry(error.to_string()),
    }
}

fn after_pull(next: NextPull, error: &str) -> Next {
    match next {
        NextPull::Now => Next::Await,
        NextPull::After { wait, is_new: true } => Next::RetryAfter(error.to_owned(), wait),
        NextPull::After { wait, is_new: false } => Next::After(wait),
    }
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    // A second more than needed does no harm, one less would be a reconcile for nothing.
    let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default() + Duration::from_secs(1);
    wait.min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_extension::{BundleRecord, decide::hold::Pending};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn validation(terminal: bool) -> StepError {
        StepError::Validation { errors: vec!["e".to_owned()], terminal, advice: None }
    }

    fn takeover(terminal: bool) -> StepError {
        StepError::Takeover { text: "t".to_owned(), terminal }
    }

    fn bundle(cause: Cause, next_pull: Option<NextPull>) -> StepError {
        StepError::Bundle { bundle: BundleRecord::default(), cause: Cause { next_pull, ..cause } }
    }

    fn resolution(answer_at: Option<Timestamp>) -> StepError {
        StepError::Resolution {
            text: "r".into(),
            explanation: None,
            answer_at,
            recovers: answer_at.is_some(),
        }
    }

    fn ended(outcome: Outcome) -> Report {
        Report { outcome, ..Report::default() }
    }

    fn failed(error: StepError) -> Report {
        ended(Outcome::Failed(error))
    }

    fn away(next_pull: Option<NextPull>) -> Report {
        ended(Outcome::Away { why: "away".into(), next_pull })
    }

    fn held(look_again: Option<Timestamp>) -> Report {
        ended(Outcome::Held(Pending { look_again, ..Pending::default() }))
    }

    fn pull(seconds: u64, is_new: bool) -> NextPull {
        NextPull::After { wait: Duration::from_secs(seconds), is_new }
    }

    fn unsettled(report: Report) -> Report {
        Report { policy: PolicyState::Unknown("policy".to_owned()), ..report }
    }

    fn check(rows: Vec<(&str, Report, Next)>) {
        for (row, report, wanted) in rows {
            assert_eq!(requeue(&report, NOW), wanted, "{row}");
        }
    }

    #[test]
    fn each_end_has_its_next_reconcile() {
        let seconds = Duration::from_secs;
        let resumes = |report| Report { resumes: Some(at(3)), ..report };
        check(vec![
            ("as wanted", Report::default(), Next::Await),
            ("recorded", unsettled(resumes(ended(Outcome::Recorded))), Next::Await),
            ("policy not known", unsettled(away(Some(pull(5, true)))), Next::Retry("policy".into())),
            ("pulling", ended(Outcome::Pulling { why: "p".into(), elapsed: Duration::ZERO }), Next::Await),
            ("paused for a time", resumes(Report::default()), Next::After(seconds(4))),
            ("held by a policy", held(None), Next::Await),
            ("held until a time", held(Some(at(7))), Next::After(seconds(8))),
            ("held until a time, paused for less", resumes(held(Some(at(7)))), Next::After(seconds(4))),
            ("away", away(None), Next::Retry("away".into())),
            ("away, pulled again now", away(Some(NextPull::Now)), Next::Await),
            ("away, news", away(Some(pull(5, true))), Next::RetryAfter("away".into(), seconds(5))),
            ("away, known", away(Some(pull(5, false))), Next::After(seconds(5))),
        ]);
    }

    #[test]
    fn each_failure_has_its_next_reconcile() {
        let seconds = Duration::from_secs;
        let resumes = |report| Report { resumes: Some(at(3)), ..report };
        let unread = |error| Report { unread: Some(error), ..failed(validation(true)) };
        let (transient, terminal) = (Cause::transient("x"), Cause::terminal("x"));
        let text = |cause: &Cause| bundle(cause.clone(), None).to_string();
        let paused = StepError::Paused.to_string();
        check(vec![
            ("before the end of a pause", resumes(failed(StepError::Paused)), Next::After(seconds(4))),
            ("paused until the annotation is removed", failed(StepError::Paused), Next::Blocked(paused)),
            (
                "a write failed while paused",
                resumes(failed(bundle(transient.clone(), None))),
                Next::Retry(text(&transient)),
            ),
            ("not taken over", unsettled(failed(takeover(true))), Next::After(TAKEOVER_RETRY)),
            ("not taken over yet", failed(takeover(false)), Next::Retry("t".into())),
            ("invalid", failed(validation(true)), Next::Blocked(validation(true).to_string())),
            ("no account yet", failed(validation(false)), Next::Retry(validation(false).to_string())),
            ("invalid, no revisions", unread(StepError::Revisions("r".into())), Next::After(UNKNOWN_RETRY)),
            ("invalid, not taken over yet", unread(takeover(false)), Next::After(UNKNOWN_RETRY)),
            ("invalid, not taken over", unread(takeover(true)), Next::After(TAKEOVER_RETRY)),
            ("no revisions", unsettled(failed(StepError::Revisions("r".into()))), Next::Retry("r".into())),
            ("no bundle", failed(resolution(None)), Next::Retry("r".into())),
            ("no bundle before a deadline", failed(resolution(Some(at(9)))), Next::After(seconds(10))),
            ("pulled again now", failed(bundle(transient.clone(), Some(NextPull::Now))), Next::Await),
            (
                "pull failed, news",
                failed(bundle(transient.clone(), Some(pull(5, true)))),
                Next::RetryAfter(text(&transient), seconds(5)),
            ),
            (
                "pull failed, known",
                failed(bundle(terminal.clone(), Some(pull(5, false)))),
                Next::After(seconds(5)),
            ),
            ("bundle refused", failed(bundle(terminal.clone(), None)), Next::Blocked(text(&terminal))),
            ("bundle failed", failed(bundle(transient.clone(), None)), Next::Retry(text(&transient))),
        ]);
    }

    #[test]
    fn a_time_is_waited_for_until_it_comes_and_at_most_a_day() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = time("2026-11-21T14:00:00Z");
        assert_eq!(until(now, time("2026-11-21T14:01:00Z")), Duration::from_secs(61));
        assert_eq!(until(now, time("2126-11-21T14:00:00Z")), WAIT_MAX);
        assert_eq!(until(now, time("2025-11-21T14:00:00Z")), Duration::from_secs(1));
    }
}
