//! When a pass over a revision is followed by another one, should no event come.
//!
//! Whatever a revision waits for, it is looked at when its deadline passes: what is told changes then.

use std::time::Duration;

use jiff::Timestamp;
use olm_runtime::Next;

use crate::cluster_object_set::status::{Deadline, Obstacle, Outcome};

/// How soon a collision is looked at again; nothing announces that the other owner is gone.
const COLLISION_RETRY: Duration = Duration::from_secs(10);
/// How soon a teardown that waits for deletions is looked at again, should no event come.
const TEARDOWN_RETRY: Duration = Duration::from_secs(5);
/// How soon an object that is being deleted is looked at again: an event of its end may be another revision's.
const DELETION_RETRY: Duration = Duration::from_secs(5);
/// How soon content that was changed, or is mutable, is looked at again: Secrets of others are not watched.
const CONTENT_RETRY: Duration = Duration::from_secs(30);
/// How soon objects are looked at again whose changes are not seen, because the watch of their kind fails.
const UNSEEN_RETRY: Duration = Duration::from_secs(30);
/// How soon a pass may follow another one of itself.
const SOONEST: Duration = Duration::from_secs(1);

/// What decides about the next pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) now: Timestamp,
    pub(crate) deadline: Deadline,
    /// When a webhook certificate is to be looked at again.
    pub(crate) certificates: Option<Timestamp>,
    /// The content is at fault, and nothing would tell that it was put right.
    pub(crate) look_again: bool,
    /// Changes of some of the objects are not seen.
    pub(crate) unseen: bool,
}

impl Pace {
    /// What follows a pass that ended like this; `unsettled` is why the deletion policy is not in force.
    pub(crate) fn next(&self, outcome: Outcome, unsettled: Option<String>) -> Next {
        match outcome {
            Outcome::Stuck { obstacle: Obstacle::Collision, .. } => {
                Next::After(self.until_deadline().map_or(COLLISION_RETRY, |left| left.min(COLLISION_RETRY)))
            }
            Outcome::Retrying(text) | Outcome::Stuck { message: text, .. } => self.retry(text),
            Outcome::Blocked(_) if self.look_again => Next::After(CONTENT_RETRY),
            Outcome::Blocked(text) => Next::Blocked(text),
            Outcome::Archiving => Next::After(TEARDOWN_RETRY),
            // The status' own event brings the pass that ends it.
            Outcome::Archived => Next::Await,
            Outcome::Complete | Outcome::Incomplete { .. } if unsettled.is_some() => {
                self.retry(unsettled.unwrap_or_default())
            }
            Outcome::Complete => self.own_times().min().map_or(Next::Await, Next::After),
            Outcome::Incomplete { awaits_deletion, .. } => self
                .until_deadline()
                .into_iter()
                .chain(self.own_times())
                .chain(awaits_deletion.then_some(DELETION_RETRY))
                .min()
                .map_or(Next::Await, Next::After),
        }
    }

    /// Another try, no later than the deadline.
    pub(crate) fn retry(&self, text: String) -> Next {
        match self.until_deadline() {
            Some(left) => Next::RetryWithin(text, left),
            None => Next::Retry(text),
        }
    }

    /// What is looked at whether or not the roll-out is over.
    fn own_times(&self) -> impl Iterator<Item = Duration> {
        let certificates = self.certificates.map(|at| self.until(at));
        certificates.into_iter().chain(self.unseen.then_some(UNSEEN_RETRY))
    }

    fn until_deadline(&self) -> Option<Duration> {
        match self.deadline {
            Deadline::At(at) => Some(self.until(at)),
            Deadline::None | Deadline::Passed { .. } => None,
        }
    }

    fn until(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.now)).unwrap_or_default().max(SOONEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn pace(deadline_in_seconds: Option<i64>) -> Pace {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let deadline = deadline_in_seconds.map_or(Deadline::None, |seconds| Deadline::At(at(seconds)));
        Pace { now: NOW, deadline, certificates: None, look_again: false, unseen: false }
    }

    #[test]
    fn nothing_is_looked_at_later_than_its_deadline() {
        let error = || Outcome::Retrying("e".into());
        let collision = || Outcome::Stuck { message: "c".into(), obstacle: Obstacle::Collision };
        let incomplete =
            || Outcome::Incomplete { failures: Vec::new(), waits: Vec::new(), awaits_deletion: false };
        let seconds = Duration::from_secs;
        assert_eq!(pace(None).next(error(), None), Next::Retry("e".into()));
        assert_eq!(pace(Some(40)).next(error(), None), Next::RetryWithin("e".into(), seconds(40)));
        assert_eq!(pace(Some(0)).next(error(), None), Next::RetryWithin("e".into(), SOONEST));
        let passed = Pace { deadline: Deadline::Passed { minutes: 1 }, ..pace(None) };
        assert_eq!(passed.next(error(), None), Next::Retry("e".into()));
        assert_eq!(pace(Some(40)).next(collision(), None), Next::After(COLLISION_RETRY));
        assert_eq!(pace(Some(4)).next(collision(), None), Next::After(seconds(4)));
        assert_eq!(pace(Some(40)).next(incomplete(), None), Next::After(seconds(40)));
        assert_eq!(pace(None).next(incomplete(), None), Next::Await);
        let unsettled = Some("policy".to_owned());
        assert_eq!(
            pace(Some(40)).next(incomplete(), unsettled),
            Next::RetryWithin("policy".into(), seconds(40))
        );
    }

    #[test]
    fn objects_that_nobody_watches_are_looked_at_from_time_to_time() {
        let unseen = |deadline| Pace { unseen: true, ..pace(deadline) };
        let incomplete =
            || Outcome::Incomplete { failures: Vec::new(), waits: Vec::new(), awaits_deletion: false };
        assert_eq!(unseen(None).next(Outcome::Complete, None), Next::After(UNSEEN_RETRY));
        assert_eq!(unseen(None).next(incomplete(), None), Next::After(UNSEEN_RETRY));
        assert_eq!(unseen(Some(4)).next(incomplete(), None), Next::After(Duration::from_secs(4)));
        assert_eq!(unseen(None).next(Outcome::Archived, None), Next::Await);
    }

    #[test]
    fn a_deletion_that_is_waited_for_is_looked_at_although_no_event_comes() {
        let goes = || Outcome::Incomplete { failures: Vec::new(), waits: Vec::new(), awaits_deletion: true };
        assert_eq!(pace(None).next(goes(), None), Next::After(DELETION_RETRY));
        assert_eq!(pace(Some(40)).next(goes(), None), Next::After(DELETION_RETRY));
        assert_eq!(pace(Some(2)).next(goes(), None), Next::After(Duration::from_secs(2)));
    }

    #[test]
    fn certificates_have_their_own_time() {
        let soon = Pace { certificates: Some(Timestamp::from_second(20).unwrap()), ..pace(Some(40)) };
        assert_eq!(soon.next(Outcome::Complete, None), Next::After(Duration::from_secs(20)));
        let incomplete =
            Outcome::Incomplete { failures: Vec::new(), waits: Vec::new(), awaits_deletion: false };
        assert_eq!(soon.next(incomplete, None), Next::After(Duration::from_secs(20)));
    }
}
