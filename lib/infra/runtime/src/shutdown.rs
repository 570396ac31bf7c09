//! From the signals that end a process to a token that its parts wait for.

use std::io;

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
