//! Places for each host or namespace: how many requests and transfers it has at the same time.
//!
//! A registry that hangs takes the places of its own host and leaves the others. Among the pulls that wait for the same
//! host, the newest is next: who asks for one image does not wait for the thousand that were asked for before it. Every
//! few turns belong to the one that has waited longest, so that none waits forever.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// One turn of so many belongs to the pull that has waited longest.
const TURNS: usize = 4;

/// The places of all hosts.
pub struct Places {
    per_host: usize,
    hosts: Arc<Mutex<BTreeMap<String, Host>>>,
}

/// A host of which places are taken.
#[derive(Default)]
struct Host {
    taken: usize,
    /// Those that wait, in the order in which they came. Some may have stopped to wait.
    waiting: VecDeque<oneshot::Sender<Place>>,
    turn: usize,
}

impl Host {
    /// The one that gets the next place.
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.turn = (self.turn + 1) % TURNS;
        if self.turn == 0 { self.waiting.pop_front() } else { self.waiting.pop_back() }
    }
}

/// A place that is taken, until it is dropped.
pub struct Place {
    hosts: Arc<Mutex<BTreeMap<String, Host>>>,
    host: String,
}

impl Places {
    /// So many places for each host, at least one.
    pub fn new(per_host: usize) -> Self {
        // Without a place nothing would ever be pulled.
        Self { per_host: per_host.max(1), hosts: Arc::default() }
    }

    /// A place of `host`, as soon as there is one. It is free again when the value is dropped.
    pub async fn take(&self, host: &str) -> Place {
        loop {
            let waiting = match self.ask(host) {
                Ok(place) => return place,
                Err(waiting) => waiting,
            };
            // It fails only if the sender was dropped, which happens to those that nobody waits for any more.
            if let Ok(place) = waiting.await {
                return place;
            }
        }
    }

    /// A place that is free, or what brings one.
    fn ask(&self, host: &str) -> Result<Place, oneshot::Receiver<Place>> {
        let mut hosts = self.hosts.lock();
        let known = hosts.entry(host.to_owned()).or_default();
        if known.taken < self.per_host {
            known.taken += 1;
            return Ok(Place { hosts: Arc::clone(&self.hosts), host: host.to_owned() });
        }
        let (give, waiting) = oneshot::channel();
        known.waiting.push_back(give);
        Err(waiting)
    }

    /// How many hosts something is kept of.
    pub fn hosts(&self) -> usize {
        self.hosts.lock().len()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = {
            let mut hosts = self.hosts.lock();
            let Some(host) = hosts.get_mut(&self.host) else { return };
            let next = host.next();
            if next.is_none() {
                host.taken -= 1;
                if host.taken == 0 {
                    // Nothing is kept of hosts without pulls.
                    hosts.remove(&self.host);
                }
            }
            next
        };
        if let Some(next) = next {
            // Who stops to wait at this moment gives it to the next one.
            let place = Self { hosts: Arc::clone(&self.hosts), host: std::mem::take(&mut self.host) };
            drop(next.send(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::Pin};

    use futures::FutureExt as _;

    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Place> + 'a>>;

    /// Asks for places in this order; what is free is taken at once.
    fn ask<'a>(places: &'a Places, hosts: &[&'a str]) -> Vec<Waiting<'a>> {
        hosts.iter().map(|host| Box::pin(places.take(host)) as Waiting<'a>).collect()
    }

    fn now(waiting: &mut Waiting<'_>) -> Option<Place> {
        waiting.now_or_never()
    }

    #[test]
    fn a_host_has_its_own_places_and_the_newest_is_next() {
        let places = Places::new(2);
        let mut waiting = ask(&places, &["slow", "slow", "slow", "slow", "b", "b", "c"]);
        let mut taken: Vec<Option<Place>> = waiting.iter_mut().map(now).collect();
        let has: Vec<bool> = taken.iter().map(Option::is_some).collect();
        assert_eq!(has, [true, true, false, false, true, true, true], "the third of a host waits");
        taken[4] = None;
        assert!(now(&mut waiting[2]).is_none(), "a place of another host");
        taken[0] = None;
        // The first is asked first here: the order of looks decides nothing.
        assert!(now(&mut waiting[2]).is_none());
        assert!(now(&mut waiting[3]).is_some());
        assert!(now(&mut waiting[2]).is_some(), "dropped at once");
    }

    #[test]
    fn any_number_of_hosts_has_places() {
        let places = Places::new(1);
        let hosts: Vec<String> = (0..1_000).map(|number| format!("hanging-{number}")).collect();
        let taken: Vec<Option<Place>> = hosts.iter().map(|host| places.take(host).now_or_never()).collect();
        assert!(taken.iter().all(Option::is_some));
        assert!(places.take("honest").now_or_never().is_some());
        drop(taken);
        assert!(places.take("another").now_or_never().is_some());
        assert_eq!(places.hosts(), 0, "nothing is kept of hosts");
    }

    #[test]
    fn who_stops_waiting_holds_nobody_up() {
        let places = Places::new(1);
        let taken = now(&mut ask(&places, &["a"])[0]);
        let mut waiting = ask(&places, &["a", "a"]);
        assert!(waiting.iter_mut().all(|one| now(one).is_none()));
        drop(waiting.remove(0));
        drop(taken);
        assert!(now(&mut waiting[0]).is_some());
    }

    #[tokio::test]
    async fn who_waits_is_woken_the_newest_first_and_every_fourth_time_the_oldest() {
        let places = Places::new(1);
        let first = places.take("a").await;
        let order = Mutex::new(Vec::new());
        let work = async |number: usize| {
            let _place = places.take("a").await;
            order.lock().push(number);
            tokio::task::yield_now().await;
        };
        let end = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        tokio::join!(futures::future::join_all((1..=9).map(work)), end);
        assert_eq!(order.into_inner(), [9, 8, 7, 1, 6, 5, 4, 2, 3]);
    }
}
