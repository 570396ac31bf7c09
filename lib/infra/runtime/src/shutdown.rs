//! The end of a process: from signals to a token that its parts wait for, and what is left behind.

use std::{future::Future, io, time::Duration};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Threads for work that blocks end this long after they were last needed: each keeps memory of its own.
const IDLE_THREADS_END: Duration = Duration::from_secs(1);

/// A token that is cancelled by SIGTERM or SIGINT. The signals are caught from now on.
///
/// The task that waits for them lives as long as the runtime; it is the one task that is never joined.
///
/// # Errors
/// The signals cannot be caught.
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

/// Runs a program on a runtime of its own, which ends with it.
///
/// Threads that are still busy then, unpacking an image or looking up a name, are left behind: whatever they write may
/// be cut off at any time, and a registry must not decide when the process ends.
///
/// # Errors
/// The runtime cannot be started.
pub fn run_program<T>(program: impl Future<Output = T>) -> io::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().thread_keep_alive(IDLE_THREADS_END).build()?;
    let ended = runtime.block_on(program);
    runtime.shutdown_background();
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

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

    #[test]
    fn a_thread_that_is_busy_does_not_hold_up_the_end() {
        let (busy, hold) = mpsc::channel::<()>();
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            let value = run_program(async move {
                let (started, is_busy) = tokio::sync::oneshot::channel();
                tokio::task::spawn_blocking(move || {
                    let _ = started.send(());
                    hold.recv()
                });
                is_busy.await
            });
            ended.send(value.is_ok_and(|started| started.is_ok()))
        });
        assert_eq!(end.recv_timeout(Duration::from_mins(1)), Ok(true));
        drop(busy);
    }
}
