//! How long to wait before an object is tried again after a failure.

use parking_lot::Mutex;
use std::{borrow::Borrow, collections::HashMap, hash::Hash, time::Duration};

/// Shortest and longest wait between two attempts.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Wait after the first failure.
    pub first: Duration,
    /// Longest wait.
    pub longest: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { first: Duration::from_millis(250), longest: Duration::from_mins(5) }
    }
}

/// Counts failures by key and grows the wait with each, jittered, until a success resets it.
#[derive(Debug)]
pub struct Backoff<K> {
    limits: Limits,
    failures: Mutex<HashMap<K, u32>>,
}

impl<K: Eq + Hash> Backoff<K> {
    /// A fresh counter.
    pub fn new(limits: Limits) -> Self {
        Self { limits, failures: Mutex::default() }
    }

    /// Records a failure and returns how long to wait. `random` is uniform in 0..1.
    pub fn failed(&self, key: K, random: f64) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry(key).or_insert(0);
        let exponent = (*count).min(24);
        *count = count.saturating_add(1);
        let wait = self.limits.first.saturating_mul(1 << exponent).min(self.limits.longest);
        wait.mul_f64(0.8 + 0.4 * random.clamp(0.0, 1.0))
    }

    /// Forgets the failures of `key`.
    pub fn succeeded<Q: Eq + Hash + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.failures.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_the_limit_and_resets() {
        let limits = Limits { first: Duration::from_secs(1), longest: Duration::from_secs(5) };
        let backoff = Backoff::new(limits);
        let waits: Vec<_> = (0..5).map(|_| backoff.failed("a", 0.5).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5, 5]);
        assert_eq!(backoff.failed("b", 0.5).as_secs(), 1);
        backoff.succeeded(&"a");
        assert_eq!(backoff.failed("a", 0.5).as_secs(), 1);
    }

    #[test]
    fn the_jitter_stays_within_a_fifth() {
        let backoff =
            Backoff::new(Limits { first: Duration::from_secs(10), longest: Duration::from_secs(10) });
        assert_eq!(backoff.failed("a", 0.0), Duration::from_secs(8));
        assert_eq!(backoff.failed("a", 1.0), Duration::from_secs(12));
    }
}
