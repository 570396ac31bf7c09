//! When a reconcile of an extension is followed by another one, should no event come.

use std::time::Duration;

use olm_runtime::Next;

use crate::cluster_extension::report::{Progress, StepError};

/// How soon a deletion that is held is checked again; not every remedy comes with an event.
pub(crate) const HELD_RETRY: Duration = Duration::from_secs(10);
/// How soon revisions that are being stopped are checked again, should no event come.
pub(crate) const AT_REST_RETRY: Duration = Duration::from_secs(1);
/// How soon revisions that could not be read are read again.
pub(crate) const UNKNOWN_RETRY: Duration = Duration::from_secs(10);
/// How soon a release that cannot be read is read again; nothing announces that its Secret has changed.
pub(crate) const TAKEOVER_RETRY: Duration = Duration::from_mins(1);

/// What follows a reconcile that ended with `result`; `policy` is why it is not known whether the deletion policy is in
/// force.
pub(crate) fn requeue(progress: &Progress, result: Result<(), &StepError>, policy: Option<String>) -> Next {
    if progress.recorded {
        return Next::Await;
    }
    match result {
        Ok(()) => match (policy, &progress.waits_for_content) {
            (Some(error), _) => Next::Retry(error),
            (None, Some(why)) => progress.next_pull(why).unwrap_or_else(|| Next::Retry(why.clone())),
            (None, None) => progress.look_again.map_or(Next::Await, Next::After),
        },
        Err(StepError::Takeover { terminal: true, .. }) => Next::After(TAKEOVER_RETRY),
        Err(error) => match (progress.look_again, progress.next_pull(&error.to_string())) {
            (Some(wait), _) => Next::After(wait),
            (None, Some(next)) => next,
            (None, None) if error.is_terminal() => Next::Blocked(error.to_string()),
            (None, None) => Next::Retry(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bundles::NextPull,
        cluster_extension::{BundleRecord, report::Cause},
    };

    fn validation(terminal: bool) -> StepError {
        StepError::Validation { errors: vec!["e".to_owned()], terminal, advice: None }
    }

    fn takeover(terminal: bool) -> StepError {
        StepError::Takeover { text: "t".to_owned(), terminal }
    }

    fn bundle(cause: Cause) -> StepError {
        StepError::Bundle { bundle: BundleRecord::default(), cause }
    }

    #[test]
    fn each_end_has_its_next_reconcile() {
        let none = Progress::default;
        let wait = |seconds| Progress { look_again: Some(Duration::from_secs(seconds)), ..none() };
        let away = |next| Progress { waits_for_content: Some("away".into()), next_pull: next, ..none() };
        let pull = |next| Progress { next_pull: Some(next), ..none() };
        let after = |seconds, is_new| NextPull::After { wait: Duration::from_secs(seconds), is_new };
        let resolution = || StepError::Resolution { text: "r".into(), explanation: None };
        let text = |error: &StepError| error.to_string();
        let (transient, terminal) = (bundle(Cause::transient("x")), bundle(Cause::terminal("x")));
        let seconds = Duration::from_secs;
        let error = || Some("policy".to_owned());
        let rows: Vec<(&str, Progress, Result<(), StepError>, Option<String>, Next)> = vec![
            ("as wanted", none(), Ok(()), None, Next::Await),
            ("recorded", Progress { recorded: true, ..wait(3) }, Err(validation(true)), error(), Next::Await),
            ("policy not known", away(None), Ok(()), error(), Next::Retry("policy".into())),
            ("pulling", Progress { pulling: Some("p".into()), ..none() }, Ok(()), None, Next::Await),
            ("paused for a time", wait(3), Ok(()), None, Next::After(seconds(3))),
            (
                "nothing is installed before the end of a pause",
                wait(3),
                Err(StepError::Paused),
                None,
                Next::After(seconds(3)),
            ),
            (
                "paused until the annotation goes",
                none(),
                Err(StepError::Paused),
                None,
                Next::Blocked(text(&StepError::Paused)),
            ),
            ("away", away(None), Ok(()), None, Next::Retry("away".into())),
            ("away, pulled again now", away(Some(NextPull::Now)), Ok(()), None, Next::Await),
            (
                "away, news",
                away(Some(after(5, true))),
                Ok(()),
                None,
                Next::RetryAfter("away".into(), seconds(5)),
            ),
            ("away, known", away(Some(after(5, false))), Ok(()), None, Next::After(seconds(5))),
            ("not taken over", none(), Err(takeover(true)), error(), Next::After(TAKEOVER_RETRY)),
            ("not taken over yet", none(), Err(takeover(false)), None, Next::Retry("t".into())),
            ("invalid", none(), Err(validation(true)), None, Next::Blocked(text(&validation(true)))),
            ("no account yet", none(), Err(validation(false)), None, Next::Retry(text(&validation(false)))),
            ("invalid, revisions unknown", wait(10), Err(validation(true)), None, Next::After(seconds(10))),
            (
                "revisions unknown",
                none(),
                Err(StepError::Revisions("r".into())),
                error(),
                Next::Retry("r".into()),
            ),
            ("no bundle", none(), Err(resolution()), None, Next::Retry("r".into())),
            ("no bundle before a deadline", wait(9), Err(resolution()), None, Next::After(seconds(9))),
            ("pulled again now", pull(NextPull::Now), Err(transient.clone()), None, Next::Await),
            (
                "pull failed, news",
                pull(after(5, true)),
                Err(transient.clone()),
                None,
                Next::RetryAfter(text(&transient), seconds(5)),
            ),
            (
                "pull failed, known",
                pull(after(5, false)),
                Err(terminal.clone()),
                None,
                Next::After(seconds(5)),
            ),
            ("bundle refused", none(), Err(terminal.clone()), None, Next::Blocked(text(&terminal))),
            ("bundle failed", none(), Err(transient.clone()), None, Next::Retry(text(&transient))),
        ];
        for (row, progress, result, policy, wanted) in rows {
            assert_eq!(requeue(&progress, result.as_ref().copied(), policy), wanted, "{row}");
        }
    }
}
