//! Places for pulls: how many go on at the same time, at each registry and in all.
//!
//! A registry that hangs takes the places of its own host and leaves the others. A place that becomes free goes to
//! the waiting pull whose host has the fewest, and among these to the one that has waited longest.

use std::collections::BTreeMap;

use tokio::sync::watch;

use crate::limits::Concurrency;

/// All places of a process.
pub(crate) struct Places {
    limits: Concurrency,
    state: watch::Sender<State>,
}

#[derive(Default)]
struct State {
    /// Places that are taken, by host.
    taken: BTreeMap<String, usize>,
    /// Hosts that are waited for, by number; who came first has the smallest.
    waiting: BTreeMap<u64, String>,
    last_number: u64,
}

impl State {
    fn taken(&self, host: &str) -> usize {
        self.taken.get(host).copied().unwrap_or(0)
    }

    /// Who is next, if there is a place for anybody.
    fn next(&self, limits: Concurrency) -> Option<u64> {
        if self.taken.values().sum::<usize>() >= limits.total {
            return None;
        }
        let admissible = self.waiting.iter().filter(|(_, host)| self.taken(host) < limits.per_host);
        admissible.min_by_key(|(number, host)| (self.taken(host), **number)).map(|(number, _)| *number)
    }

    fn release(&mut self, host: &str) {
        if let Some(taken) = self.taken.get_mut(host) {
            *taken = taken.saturating_sub(1);
        }
        self.taken.retain(|_, taken| *taken > 0);
    }
}

impl Places {
    pub(crate) fn new(limits: Concurrency) -> Self {
        // Without a place nothing would ever be pulled.
        let limits = Concurrency { per_host: limits.per_host.max(1), total: limits.total.max(1) };
        Self { limits, state: watch::Sender::default() }
    }

    /// A place for a pull from `host`, as soon as there is one. Who stops waiting gives up the turn.
    pub(crate) async fn take<'a>(&'a self, host: &'a str) -> Place<'a> {
        let mut changes = self.state.subscribe();
        let turn = self.wait_for(host);
        while !turn.is_over() {
            // The sender is in `self`.
            let _ = changes.changed().await;
        }
        Place { places: self, host }
    }

    fn wait_for<'a>(&'a self, host: &'a str) -> Turn<'a> {
        let mut number = 0;
        self.state.send_modify(|state| {
            state.last_number += 1;
            number = state.last_number;
            state.waiting.insert(number, host.to_owned());
        });
        Turn { places: self, number }
    }
}

/// A place that is waited for.
struct Turn<'a> {
    places: &'a Places,
    number: u64,
}

impl Turn<'_> {
    /// Takes the place if it is this one's turn. Everybody else looks again then: there may be more places.
    fn is_over(&self) -> bool {
        self.places.state.send_if_modified(|state| {
            if state.next(self.places.limits) != Some(self.number) {
                return false;
            }
            if let Some(host) = state.waiting.remove(&self.number) {
                *state.taken.entry(host).or_default() += 1;
            }
            true
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Gone already if the place was taken.
        self.places.state.send_if_modified(|state| state.waiting.remove(&self.number).is_some());
    }
}

/// A place that is taken, until it is dropped.
pub(crate) struct Place<'a> {
    places: &'a Places,
    host: &'a str,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.places.state.send_modify(|state| state.release(self.host));
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::Pin};

    use futures::FutureExt as _;

    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Place<'a>> + 'a>>;

    fn places(per_host: usize, total: usize) -> Places {
        Places::new(Concurrency { per_host, total })
    }

    /// Asks for places in this order; what is free is taken at once.
    fn ask<'a>(places: &'a Places, hosts: &[&'a str]) -> Vec<Waiting<'a>> {
        hosts.iter().map(|host| Box::pin(places.take(host)) as Waiting<'a>).collect()
    }

    fn now<'a>(waiting: &mut Waiting<'a>) -> Option<Place<'a>> {
        waiting.now_or_never()
    }

    #[test]
    fn a_host_has_its_own_places_and_all_hosts_have_theirs() {
        let places = places(2, 4);
        let mut waiting = ask(&places, &["slow", "slow", "slow", "b", "b", "c"]);
        let mut taken: Vec<Option<Place<'_>>> = waiting.iter_mut().map(now).collect();
        let has: Vec<bool> = taken.iter().map(Option::is_some).collect();
        assert_eq!(
            has,
            [true, true, false, true, true, false],
            "the third of a host waits, the others do not"
        );
        taken[3] = None;
        assert!(now(&mut waiting[5]).is_some(), "a place for all is free, and none for the slow host");
        assert!(now(&mut waiting[2]).is_none());
        taken[0] = None;
        assert!(now(&mut waiting[2]).is_some());
    }

    #[test]
    fn a_free_place_goes_to_the_host_with_the_fewest_and_then_to_who_waits_longest() {
        let places = places(2, 2);
        let mut first = ask(&places, &["a", "b"]);
        let mut taken: Vec<Option<Place<'_>>> = first.iter_mut().map(now).collect();
        let mut waiting = ask(&places, &["a", "a", "c", "d"]);
        assert!(waiting.iter_mut().all(|one| now(one).is_none()));
        taken[1] = None;
        // The last to look is asked first here: the order of looks decides nothing.
        let admitted: Vec<Option<Place<'_>>> = waiting.iter_mut().rev().map(now).collect();
        let has: Vec<bool> = admitted.iter().rev().map(Option::is_some).collect();
        assert_eq!(has, [false, false, true, false], "a has one, c asked before d");
        drop(admitted);
        assert!(now(&mut waiting[3]).is_some());
    }

    #[test]
    fn who_stops_waiting_holds_nobody_up() {
        let places = places(1, 1);
        let taken = now(&mut ask(&places, &["a"])[0]);
        let mut waiting = ask(&places, &["b", "c"]);
        assert!(waiting.iter_mut().all(|one| now(one).is_none()));
        drop(waiting.remove(0));
        drop(taken);
        assert!(now(&mut waiting[0]).is_some());
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let places = places(1, 2);
        let (first, second) = (places.take("a").await, places.take("b").await);
        let order = std::sync::Mutex::new(Vec::new());
        let work = async |host: &'static str| {
            let _place = places.take(host).await;
            order.lock().unwrap().push(host);
            tokio::task::yield_now().await;
        };
        let end = async {
            drop(second);
            tokio::task::yield_now().await;
            drop(first);
        };
        tokio::join!(work("a"), work("b"), work("c"), work("b"), end);
        assert_eq!(order.into_inner().unwrap().len(), 4);
    }
}
