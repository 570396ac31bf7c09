//! Which object is worked on next, each by one worker at a time.
//!
//! Objects that have changed come before those that something else concerns; among them those of the highest rank, and of
//! these the newest change. Ranks say what was edited last: a person who edits one object does not wait for the thousand
//! that were created before it, however often something happens to these. Every few turns belong to what has waited
//! longest, so that nothing waits forever.
//!
//! An object that is asked for again and again, because another controller undoes what a reconcile does or because everything
//! around it changes, soon gets a turn a second and no more: two that overwrite each other would ask the API server without end.

mod metrics;

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use tokio::time::Instant;

pub(crate) use metrics::{QueueFamilies, QueueMetrics};

/// One turn of so many belongs to the object that has waited longest.
const TURNS: usize = 4;

/// How often an object gets a turn that has had many; an edit gets its turn at once.
const PACE: Duration = Duration::from_secs(1);
/// How many turns it may have before, as fast as they come. A roll-out of many objects takes some tens.
const TURNS_AT_ONCE: u32 = 100;

/// Why an object is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// Something that concerns many objects, a time that has come, or a failure.
    Background,
    /// The object has changed, or something that belongs to it alone.
    Change,
}

/// Names of objects that are to be worked on, now or later. The order depends on nothing but the calls.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Asked for and not taken yet; also what is asked for again while it is worked on.
    asked: BTreeMap<String, Asked>,
    /// Those of them that no worker has.
    background: Line,
    changed: Line,
    /// Ranks of objects, where they have one.
    ranks: HashMap<String, u64>,
    /// How many have been lined up.
    count: u64,
    turn: usize,
    later: BTreeMap<String, Instant>,
    /// For each object the time at which all its turns would be over if it had had one in each [`PACE`].
    paces: HashMap<String, Instant>,
    /// Turns since those that rest were forgotten.
    turns_remembered: usize,
    metrics: QueueMetrics,
}

#[derive(Debug)]
struct Asked {
    since: Instant,
    cause: Cause,
    /// Its place in the line of its cause; none while a worker has the object.
    place: Option<Place>,
}

/// A place in a line: the rank, then the number of those that were lined up before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: u64,
    number: u64,
}

/// Objects by their places.
#[derive(Debug, Default)]
struct Line {
    names: BTreeMap<Place, String>,
    by_age: BTreeMap<u64, Place>,
}

impl Line {
    fn put(&mut self, place: Place, name: &str) {
        self.names.insert(place, name.to_owned());
        self.by_age.insert(place.number, place);
    }

    fn remove(&mut self, place: Place) {
        self.names.remove(&place);
        self.by_age.remove(&place.number);
    }

    /// Who has the highest rank; of several the one that came last.
    fn highest(&self) -> Option<&String> {
        self.names.values().next_back()
    }

    /// Who came first.
    fn oldest(&self) -> Option<&String> {
        self.names.get(self.by_age.values().next()?)
    }
}

impl Queue {
    /// An empty queue.
    pub(crate) fn new(metrics: QueueMetrics) -> Self {
        Self {
            asked: BTreeMap::new(),
            background: Line::default(),
            changed: Line::default(),
            ranks: HashMap::new(),
            count: 0,
            turn: 0,
            later: BTreeMap::new(),
            paces: HashMap::new(),
            turns_remembered: 0,
            metrics,
        }
    }

    /// Gives an object its rank from now on; 0 is that of all others, and forgets it.
    pub(crate) fn rank(&mut self, name: &str, rank: u64) {
        let before = match rank {
            0 => self.ranks.remove(name),
            rank => self.ranks.insert(name.to_owned(), rank),
        };
        let is_edited = before.unwrap_or_default() != rank;
        if is_edited {
            self.paces.remove(name);
        }
        let Some(Asked { cause, place: Some(place), .. }) = self.asked.get_mut(name) else { return };
        if is_edited {
            let (cause, old) = (*cause, *place);
            place.rank = rank;
            let new = *place;
            let line = self.line(cause);
            line.remove(old);
            line.put(new, name);
        }
    }

    /// Asks for an object now, or when its pace allows; what was to happen later is done with that.
    pub(crate) fn ask(&mut self, name: &str, cause: Cause) {
        let now = Instant::now();
        let ahead = PACE * TURNS_AT_ONCE;
        match self.paces.get(name).copied().filter(|over| *over > now + ahead) {
            Some(over) => self.ask_at(name, over - ahead),
            None => self.ask_since(name, now, cause),
        }
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
            self.ask_since(&name, at, Cause::Background);
        }
    }

    /// The next object to be worked on.
    pub(crate) fn take(&mut self) -> Option<String> {
        let name = self.next()?;
        if let Some(asked) = self.asked.remove(&name) {
            if let Some(place) = asked.place {
                self.line(asked.cause).remove(place);
            }
            self.metrics.waited.observe(asked.since.elapsed().as_secs_f64());
        }
        self.export_depth();
        let now = Instant::now();
        let over = self.paces.entry(name.clone()).or_insert(now);
        *over = now.max(*over) + PACE;
        self.metrics.running.lock().insert(name.clone(), now);
        Some(name)
    }

    /// The name of the next object.
    fn next(&mut self) -> Option<String> {
        self.turn = (self.turn + 1) % TURNS;
        let (background, changed) = (self.background.oldest(), self.changed.oldest());
        if self.turn != 0 {
            return self.changed.highest().or(background).cloned();
        }
        let since = |name: &&String| self.asked.get(*name).map(|asked| asked.since);
        background.into_iter().chain(changed).min_by_key(since).cloned()
    }

    /// Ends the work on an object.
    pub(crate) fn done(&mut self, name: &str) {
        // Of objects that have gone nothing stays; those that rest are as if they had had no turn.
        self.turns_remembered += 1;
        if self.turns_remembered > self.paces.len() {
            let now = Instant::now();
            self.paces.retain(|_, over| *over > now);
            self.turns_remembered = 0;
        }
        let started = self.metrics.running.lock().remove(name);
        if let Some(started) = started {
            self.metrics.worked.observe(started.elapsed().as_secs_f64());
        }
        self.line_up(name);
    }

    fn line(&mut self, cause: Cause) -> &mut Line {
        match cause {
            Cause::Background => &mut self.background,
            Cause::Change => &mut self.changed,
        }
    }

    fn ask_since(&mut self, name: &str, since: Instant, cause: Cause) {
        self.later.remove(name);
        match self.asked.get_mut(name) {
            Some(asked) if asked.cause >= cause => return,
            Some(asked) => {
                let before = std::mem::replace(&mut asked.cause, cause);
                if let Some(place) = asked.place.take() {
                    self.line(before).remove(place);
                }
            }
            None => {
                self.asked.insert(name.to_owned(), Asked { since, cause, place: None });
                self.metrics.adds.inc();
                self.export_depth();
            }
        }
        if !self.metrics.running.lock().contains_key(name) {
            self.line_up(name);
        }
    }

    /// Gives an object that is asked for the last place of its line.
    fn line_up(&mut self, name: &str) {
        let Some(asked) = self.asked.get_mut(name) else { return };
        self.count += 1;
        let place = Place { rank: self.ranks.get(name).copied().unwrap_or_default(), number: self.count };
        asked.place = Some(place);
        let cause = asked.cause;
        self.line(cause).put(place, name);
    }

    fn export_depth(&self) {
        self.metrics.depth.set(i64::try_from(self.asked.len()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;

    use super::{Cause::*, *};

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
            queue.ask(name, Background);
        }
        assert_eq!(all(&mut queue), ["b", "a", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_change_comes_before_a_thousand_others_which_have_their_turns() {
        let mut queue = empty();
        for (prefix, cause) in [("late", Background), ("many", Change)] {
            for number in 0..1000 {
                queue.ask(&format!("{prefix}-{number:03}"), cause);
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        queue.ask("late-500", Change);
        let first: Vec<String> = std::iter::from_fn(|| queue.take()).take(8).collect();
        assert_eq!(
            first,
            ["late-500", "many-999", "many-998", "late-000", "many-997", "many-996", "many-995", "late-001"]
        );
        // What is asked for while it is worked on waits for that, wherever it was.
        queue.ask("many-998", Change);
        assert_eq!(queue.take().as_deref(), Some("many-994"));
        queue.done("many-998");
        assert_eq!(queue.take().as_deref(), Some("many-998"));
        let rest = all(&mut queue);
        let names: std::collections::BTreeSet<&String> = rest.iter().collect();
        assert_eq!((rest.len(), names.len()), (1991, 1991), "each once");
    }

    #[test]
    fn what_was_edited_last_comes_before_newer_events_of_others() {
        let mut queue = empty();
        for (number, name) in ["first", "second", "edited"].into_iter().enumerate() {
            queue.rank(name, number as u64 + 1);
        }
        for name in ["edited", "first", "second"] {
            queue.ask(name, Change);
        }
        assert_eq!(queue.take().as_deref(), Some("edited"));
        // An edit counts at once, also for what waits.
        queue.rank("first", 4);
        assert_eq!(queue.take().as_deref(), Some("first"));
        queue.ask("first", Change);
        queue.ask("new", Change);
        queue.done("first");
        queue.done("edited");
        queue.ask("edited", Change);
        assert_eq!(queue.take().as_deref(), Some("first"));
        // One turn of four belongs to what has waited longest.
        assert_eq!(all(&mut queue), ["second", "edited", "new"]);
        queue.rank("edited", 0);
        assert_eq!(queue.ranks.len(), 2, "what has gone is forgotten");
    }

    #[test]
    fn what_is_asked_for_while_it_is_worked_on_comes_again_afterwards() {
        let mut queue = empty();
        queue.ask("a", Background);
        assert_eq!(queue.take().as_deref(), Some("a"));
        queue.ask("a", Background);
        queue.ask("a", Background);
        assert_eq!(queue.take(), None, "one worker at a time");
        queue.done("a");
        assert_eq!(all(&mut queue), ["a"]);
        queue.done("a");
        assert_eq!(queue.take(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_asked_for_without_end_has_a_turn_a_second_until_it_rests_or_is_edited() {
        let mut queue = empty();
        // Turns within some time, of an object that is asked for as soon as each of them is over.
        let turns = async |queue: &mut Queue, seconds: u64| {
            let (mut count, end) = (0, Instant::now() + Duration::from_secs(seconds));
            while Instant::now() < end {
                queue.ask("fought-over", Change);
                while queue.take().is_some() {
                    count += 1;
                    tokio::time::advance(Duration::from_millis(1)).await;
                    queue.done("fought-over");
                    queue.ask("fought-over", Change);
                }
                let due = queue.next_due().unwrap();
                tokio::time::sleep_until(due).await;
                queue.due(due);
            }
            count
        };
        assert_eq!(turns(&mut queue, 10).await, 110);
        assert_eq!(turns(&mut queue, 60).await, 60);
        queue.ask("other", Change);
        assert_eq!(queue.take().as_deref(), Some("other"), "nobody else is held up");
        queue.done("other");
        queue.rank("fought-over", 1);
        queue.ask("fought-over", Change);
        assert_eq!(queue.take().as_deref(), Some("fought-over"), "an edit is worked on at once");
        queue.done("fought-over");
        // What rests may have many turns again, and is forgotten.
        tokio::time::advance(Duration::from_mins(3)).await;
        for _ in 0..4 {
            queue.ask("other", Change);
            queue.take();
            queue.done("other");
        }
        assert_eq!(queue.paces.len(), 1);
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
        queue.ask("a", Background);
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
            queue.ask(name, Background);
        }
        shows("depth", "2");
        shows("adds_total", "2");
        pass(2).await;
        assert_eq!(all(&mut queue), ["a", "b"]);
        shows("depth", "0");
        shows("queue_duration_seconds_sum", "4.0");
        pass(1).await;
        queue.done("b");
        queue.ask("a", Background);
        shows("depth", "1");
        pass(3).await;
        shows("unfinished_work_seconds", "4.0");
        queue.ask("c", Background);
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
