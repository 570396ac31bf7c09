//! From the signals that end a process to a token that its parts wait for.

use std::{io, time::Duration};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by SIGTERM or SIGINT. The signals are caught from now on.
///
/// The task that waits for them lives as long as the runtime; it is the one task nobody joins.
///
/// # Errors
/// The system refuses to catch the signals.
pub fn on_signal() -> io::Result<CancellationToken> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("ending on SIGTERM"),
            _ = interrupt.recv() => tracing::info!("ending on SIGINT"),
        }
        cancelled.cancel();
    });
    Ok(token)
}

/// Runs `work`, and drops it when it has not ended this long after `shutdown`: then there is no answer.
pub async fn ends_in_time<F: Future>(
    work: F,
    shutdown: &CancellationToken,
    patience: Duration,
) -> Option<F::Output> {
    let too_late = async {
        shutdown.cancelled().await;
        tokio::time::sleep(patience).await;
    };
    tokio::select! {
        ended = work => Some(ended),
        () = too_late => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_has_a_while_to_end_after_the_signal_and_no_limit_before() {
        let (patience, shutdown) = (Duration::from_secs(5), CancellationToken::new());
        let takes = async |seconds| tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(ends_in_time(takes(3600), &shutdown, patience).await, Some(()));
        shutdown.cancel();
        assert_eq!(ends_in_time(takes(4), &shutdown, patience).await, Some(()));
        assert_eq!(ends_in_time(takes(6), &shutdown, patience).await, None);
    }
}
