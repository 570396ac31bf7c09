//! Which object is worked on next: first asked, first served, each by one worker at a time.

mod metrics;

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

pub(crate) use metrics::{QueueFamilies, QueueMetrics};

/// Names of objects that are to be worked on, now or later. The order depends on nothing but the calls.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Asked for and not taken yet, and since when; also what is asked for again while it is worked on.
    asked: BTreeMap<String, Instant>,
    /// Those of them that no worker has, in order.
    ready: VecDeque<String>,
    later: BTreeMap<String, Instant>,
    metrics: QueueMetrics,
}

impl Queue {
    /// An empty queue.
    pub(crate) fn new(metrics: QueueMetrics) -> Self {
        Self { asked: BTreeMap::new(), ready: VecDeque::new(), later: BTreeMap::new(), metrics }
    }

    /// Asks for an object now; what was to happen later is done with that.
    pub(crate) fn ask(&mut self, name: &str) {
        self.ask_since(name, Instant::now());
    }

    /// Asks for an object at a time, unless it is asked for before.
    pub(crate) fn ask_at(&mut self, name: &str, at: Instant) {
        if self.asked.contains_key(name) {
            return;
        }
        let due = self.later.entry(name.to_owned()).or_insert(at);
        *due = at.min(*due);
    }

    /// The same, for an object whose work failed.
    pub(crate) fn retry_at(&mut self, name: &str, at: Instant) {
        self.metrics.retries.inc();
        self.ask_at(name, at);
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
        for (at, name) in due {
            self.ask_since(&name, at);
        }
    }

    /// The next object to be worked on.
    pub(crate) fn take(&mut self) -> Option<String> {
        let name = self.ready.pop_front()?;
        let since = self.asked.remove(&name);
        self.metrics.waited.observe(since.map(|since| since.elapsed()).unwrap_or_default().as_secs_f64());
        self.export_depth();
        self.metrics.running.lock().insert(name.clone(), Instant::now());
        Some(name)
    }

    /// Ends the work on an object.
    pub(crate) fn done(&mut self, name: &str) {
        let started = self.metrics.running.lock().remove(name);
        if let Some(started) = started {
            self.metrics.worked.observe(started.elapsed().as_secs_f64());
        }
        if self.asked.contains_key(name) {
            self.ready.push_back(name.to_owned());
        }
    }

    fn ask_since(&mut self, name: &str, since: Instant) {
        self.later.remove(name);
        if self.asked.contains_key(name) {
            return;
        }
        self.asked.insert(name.to_owned(), since);
        if !self.metrics.running.lock().contains_key(name) {
            self.ready.push_back(name.to_owned());
        }
        self.metrics.adds.inc();
        self.export_depth();
    }

    fn export_depth(&self) {
        self.metrics.depth.set(i64::try_from(self.asked.len()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;

    use super::*;

    fn empty() -> Queue {
        Queue::new(QueueFamilies::register(&mut Registry::default()).queue("test"))
    }

    fn all(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn objects_come_once_and_in_the_order_in_which_they_were_asked_for() {
        let mut queue = empty();
        for name in ["b", "a", "b", "c"] {
            queue.ask(name);
        }
        assert_eq!(all(&mut queue), ["b", "a", "c"]);
    }

    #[test]
    fn what_is_asked_for_while_it_is_worked_on_comes_again_afterwards() {
        let mut queue = empty();
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
        let (mut queue, now) = (empty(), Instant::now());
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

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_counted_once_and_what_is_due_later_when_it_is() {
        let mut registry = Registry::default();
        let mut queue = Queue::new(QueueFamilies::register(&mut registry).queue("test"));
        let shows = |family: &str, value: &str| {
            let wanted = format!("workqueue_{family}{{controller=\"test\",name=\"test\"}} {value}");
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            assert!(text.lines().any(|line| line == wanted), "{wanted} is not in\n{text}");
        };
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        for family in ["depth", "adds_total", "retries_total", "queue_duration_seconds_count"] {
            shows(family, "0");
        }
        for name in ["a", "a", "b"] {
            queue.ask(name);
        }
        shows("depth", "2");
        shows("adds_total", "2");
        pass(2).await;
        assert_eq!(all(&mut queue), ["a", "b"]);
        shows("depth", "0");
        shows("queue_duration_seconds_sum", "4.0");
        pass(1).await;
        queue.done("b");
        queue.ask("a");
        shows("depth", "1");
        pass(3).await;
        shows("unfinished_work_seconds", "4.0");
        queue.ask("c");
        assert_eq!(queue.take().as_deref(), Some("c"));
        pass(1).await;
        shows("unfinished_work_seconds", "6.0");
        shows("longest_running_processor_seconds", "5.0");
        queue.done("a");
        queue.done("c");
        shows("unfinished_work_seconds", "0.0");
        shows("longest_running_processor_seconds", "0.0");
        shows("work_duration_seconds_count", "3");
        shows("work_duration_seconds_sum", "7.0");
        queue.retry_at("d", Instant::now() + Duration::from_secs(5));
        shows("retries_total", "1");
        shows("depth", "1");
        pass(6).await;
        queue.due(Instant::now());
        shows("depth", "2");
        shows("adds_total", "5");
        assert_eq!(all(&mut queue), ["a", "d"]);
        // `a` since it was asked for again, `d` since its time came.
        shows("queue_duration_seconds_sum", "15.0");
    }
}
