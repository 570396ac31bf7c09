//! Randomness for waits, handed to whoever waits: one seed, one sequence.

use std::{sync::Arc, time::Duration};

use futures::Stream;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt as _, utils::Backoff, watcher},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

/// First and longest wait before an interrupted watch is set up again, kube's own.
const WATCH_FIRST: Duration = Duration::from_millis(800);
const WATCH_LONGEST: Duration = Duration::from_secs(30);

/// A source of randomness. Clones go on with the same sequence.
#[derive(Debug, Clone, Default)]
pub struct Chance(Arc<Mutex<fastrand::Rng>>);

impl Chance {
    /// The sequence that belongs to a seed; [`Chance::default`] has one that nobody knows.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// The next number, uniform in 0..1.
    pub fn fraction(&self) -> f64 {
        self.0.lock().f64()
    }

    /// Watches what `config` selects; each wait after an interruption is of this sequence.
    pub fn watch<K>(
        &self,
        api: Api<K>,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + use<K>
    where
        K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        watcher(api, config).backoff(self.watch_backoff())
    }

    /// Waits between attempts to watch, doubled with each and up to doubled once more by chance.
    fn watch_backoff(&self) -> WatchBackoff {
        WatchBackoff { chance: self.clone(), failures: 0 }
    }
}

/// See [`Chance::watch_backoff`]. It starts afresh when a watch delivers something.
#[derive(Debug, Clone)]
struct WatchBackoff {
    chance: Chance,
    failures: u32,
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = WATCH_FIRST.saturating_mul(1 << self.failures.min(16)).min(WATCH_LONGEST);
        self.failures = self.failures.saturating_add(1);
        Some(wait.mul_f64(1.0 + self.chance.fraction()))
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_sequence_of_waits_and_they_grow_to_a_limit() {
        let waits = |seed| Chance::seeded(seed).watch_backoff().take(9).collect::<Vec<_>>();
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
        assert!(waits(7)[0] >= WATCH_FIRST && waits(7)[0] <= 2 * WATCH_FIRST);
        assert!(waits(7)[8] >= WATCH_LONGEST && waits(7)[8] <= 2 * WATCH_LONGEST);
        let mut backoff = Chance::seeded(7).watch_backoff();
        backoff.by_ref().take(5).for_each(drop);
        backoff.reset();
        assert!(backoff.next().unwrap() <= 2 * WATCH_FIRST);
    }
}
