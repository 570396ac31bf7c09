//! Time and jitter, so that a controller can be run against chosen ones.

use jiff::Timestamp;

/// The time and the jitter of a controller.
pub trait Clock: Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// A number, uniform in 0..1.
    fn random(&self) -> f64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn random(&self) -> f64 {
        fastrand::f64()
    }
}
