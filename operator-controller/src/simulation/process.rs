//! The processes that talk to the server of a simulation.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::sync::Notify;

/// A process that talks to the server, until it crashes: then none of its requests is answered any more.
#[derive(Clone, Default)]
pub(crate) struct Process(Arc<ProcessState>);

#[derive(Default)]
struct ProcessState {
    crashed: AtomicBool,
    noticed: Notify,
    /// Requests before the crash; with 0 it does not crash by itself.
    crash_at: u64,
    requests: AtomicU64,
}

impl Process {
    /// One that crashes at its n-th request.
    pub(crate) fn crashing_at(nth: u64) -> Self {
        Self(Arc::new(ProcessState { crash_at: nth, ..ProcessState::default() }))
    }

    pub(crate) async fn crashed(&self) {
        let noticed = self.0.noticed.notified();
        if !self.has_crashed() {
            noticed.await;
        }
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.0.crashed.load(Ordering::SeqCst)
    }

    /// Whether it crashes with this request.
    pub(super) fn crashes_now(&self) -> bool {
        let nth = 1 + self.0.requests.fetch_add(1, Ordering::SeqCst);
        if nth != self.0.crash_at {
            return false;
        }
        self.0.crashed.store(true, Ordering::SeqCst);
        self.0.noticed.notify_waiters();
        true
    }
}
