//! When the errors of a watch are more than an interruption.
//!
//! Only what the API server answers counts: while it cannot be reached, nothing can be done anyway, and every watch
//! fails. A watch that works again may have nothing to deliver, so an error that does not come back is over, too.

use std::time::Duration;

use kube::runtime::watcher::{Error, Event, Result};
use tokio::time::Instant;

/// For how long a watch must have failed to be known as failing. Starts of API servers refuse for seconds.
const FAILING_AFTER: Duration = Duration::from_secs(15);
/// After how long without an error it counts as working. Between two attempts lies a minute at most.
const QUIET: Duration = Duration::from_secs(75);

/// Errors of a watch, one after the other.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// The first and the last of them.
    span: Option<(Instant, Instant)>,
}

impl Trouble {
    /// Notes an error; the report when the watch has been failing for a while.
    pub(super) fn report(&mut self, error: &Error) -> Option<String> {
        let text = answer(error)?;
        let now = Instant::now();
        let first = self.span.filter(|(_, last)| now - *last < QUIET).map_or(now, |(first, _)| first);
        self.span = Some((first, now));
        (now - first >= FAILING_AFTER).then_some(text)
    }

    /// Whether this is an answer as it should be. The beginning of a list comes before its request.
    pub(super) fn ends_with<K>(&self, event: &Result<Event<K>>) -> bool {
        self.span.is_some() && !matches!(event, Ok(Event::Init) | Err(_))
    }

    /// Ends when no error has come for long enough; never without one.
    pub(super) async fn is_over(&self) {
        match self.span {
            Some((_, last)) => tokio::time::sleep_until(last + QUIET).await,
            None => std::future::pending().await,
        }
    }
}

/// What the API server said.
fn answer(error: &Error) -> Option<String> {
    match error {
        Error::WatchError(status)
        | Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status)) => Some(status.message.clone()),
        Error::InitialListFailed(_)
        | Error::WatchStartFailed(_)
        | Error::WatchFailed(_)
        | Error::NoResourceVersion => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn forbidden() -> Error {
        Error::WatchStartFailed(kube::Error::Api(
            Status::failure("forbidden", "Forbidden").with_code(403).boxed(),
        ))
    }

    async fn seconds(count: u64) {
        tokio::time::advance(Duration::from_secs(count)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn errors_count_when_they_go_on() {
        let mut trouble = Trouble::default();
        assert_eq!(trouble.report(&forbidden()), None);
        seconds(14).await;
        assert_eq!(trouble.report(&forbidden()), None);
        seconds(1).await;
        assert_eq!(trouble.report(&forbidden()).as_deref(), Some("forbidden"));
        // One that comes much later is another one.
        seconds(75).await;
        assert_eq!(trouble.report(&forbidden()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_cannot_be_reached_says_nothing_of_a_kind() {
        let mut trouble = Trouble::default();
        for _ in 0..9 {
            assert_eq!(trouble.report(&Error::NoResourceVersion), None);
            seconds(30).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_an_answer_or_without_a_further_error() {
        let mut trouble = Trouble::default();
        let pause = Duration::from_mins(10);
        assert!(tokio::time::timeout(pause, trouble.is_over()).await.is_err(), "there was none");
        assert!(!trouble.ends_with(&Ok(Event::<()>::InitDone)));
        trouble.report(&forbidden());
        assert!(!trouble.ends_with(&Ok(Event::<()>::Init)) && trouble.ends_with(&Ok(Event::<()>::InitDone)));
        let since = Instant::now();
        trouble.is_over().await;
        assert_eq!(since.elapsed(), QUIET);
    }
}
