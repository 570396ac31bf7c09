//! A world for the loops in which one seed has one course: a clock that jumps, and an API server that is a function.

mod answers;
mod api_server;
mod faults;
mod properties;
mod request;
mod store;

use catalogd::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

pub(crate) use self::{
    api_server::{ApiServer, Process},
    faults::Rates,
    properties::{FOREIGN_LABEL, condition},
};

/// Time as the runtime counts it, from the epoch on.
pub(crate) struct Since(pub(crate) Instant);

impl Clock for Since {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.0.elapsed()).unwrap_or_default();
        Timestamp::UNIX_EPOCH + passed
    }

    fn random(&self) -> f64 {
        0.5
    }
}

/// One thread and a clock that is still until everybody waits, and jumps then.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}
