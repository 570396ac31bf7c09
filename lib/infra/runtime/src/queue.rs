//! Which object is worked on next: first asked, first served, each by one worker at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::time::Instant;

/// Names of objects that are to be worked on, now or later. The order depends on nothing but the calls.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    ready: VecDeque<String>,
    is_ready: BTreeSet<String>,
    running: BTreeSet<String>,
    /// Asked for while they are being worked on.
    again: BTreeSet<String>,
    later: BTreeMap<String, Instant>,
}

impl Queue {
    /// Asks for an object now; what was to happen later is done with that.
    pub(crate) fn ask(&mut self, name: &str) {
        self.later.remove(name);
        if self.running.contains(name) {
            self.again.insert(name.to_owned());
        } else if self.is_ready.insert(name.to_owned()) {
            self.ready.push_back(name.to_owned());
        }
    }

    /// Asks for an object at a time, unless it is asked for before.
    pub(crate) fn ask_at(&mut self, name: &str, at: Instant) {
        if self.is_ready.contains(name) || self.again.contains(name) {
            return;
        }
        let due = self.later.entry(name.to_owned()).or_insert(at);
        *due = at.min(*due);
    }

    /// When the next object is due that was asked for later.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.later.values().min().copied()
    }

    /// Asks for everything that is due.
    pub(crate) fn due(&mut self, now: Instant) {
        let mut due: Vec<(Instant, String)> =
            self.later.iter().filter(|(_, at)| **at <= now).map(|(name, at)| (*at, name.clone())).collect();
        due.sort_unstable();
        for (_, name) in due {
            self.ask(&name);
        }
    }

    /// The next object to be worked on.
    pub(crate) fn take(&mut self) -> Option<String> {
        let name = self.ready.pop_front()?;
        self.is_ready.remove(&name);
        self.running.insert(name.clone());
        Some(name)
    }

    /// Says that the work on an object is over.
    pub(crate) fn done(&mut self, name: &str) {
        self.running.remove(name);
        if self.again.remove(name) {
            self.ask(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn all(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn objects_come_once_and_in_the_order_in_which_they_were_asked_for() {
        let mut queue = Queue::default();
        for name in ["b", "a", "b", "c"] {
            queue.ask(name);
        }
        assert_eq!(all(&mut queue), ["b", "a", "c"]);
    }

    #[test]
    fn what_is_asked_for_while_it_is_worked_on_comes_again_afterwards() {
        let mut queue = Queue::default();
        queue.ask("a");
        assert_eq!(queue.take().as_deref(), Some("a"));
        queue.ask("a");
        queue.ask("a");
        assert_eq!(queue.take(), None, "one worker at a time");
        queue.done("a");
        assert_eq!(all(&mut queue), ["a"]);
        queue.done("a");
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn the_earliest_time_counts_and_now_is_earlier_than_all() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        queue.ask_at("a", after(5));
        queue.ask_at("a", after(9));
        queue.ask_at("b", after(2));
        assert_eq!(queue.next_due(), Some(after(2)));
        queue.due(after(1));
        assert_eq!(queue.take(), None);
        queue.due(after(6));
        assert_eq!(all(&mut queue), ["b", "a"]);
        queue.done("a");
        queue.ask_at("a", after(7));
        queue.ask("a");
        queue.ask_at("a", after(7));
        assert_eq!((all(&mut queue), queue.next_due()), (vec!["a".to_owned()], None));
    }
}
