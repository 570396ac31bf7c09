//! Places for each host or namespace: how many requests and transfers it has at the same time.
//!
//! A registry that hangs takes the places of its own host and leaves the others. Among the pulls that wait for the same
//! host, the one that has waited longest is next.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of all hosts.
pub struct Places {
    per_host: usize,
    hosts: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A place that is taken, until it is dropped.
pub type Place = Option<OwnedSemaphorePermit>;

impl Places {
    /// So many places for each host, at least one.
    pub fn new(per_host: usize) -> Self {
        // Without a place nothing would ever be pulled.
        Self { per_host: per_host.max(1), hosts: Mutex::default() }
    }

    /// A place of `host`, as soon as there is one. It is free again when the value is dropped.
    pub async fn take(&self, host: &str) -> Place {
        let places = {
            let mut hosts = self.hosts.lock();
            // Nothing is kept of hosts without pulls.
            hosts.retain(|_, places| Arc::strong_count(places) > 1);
            let new = || Arc::new(Semaphore::new(self.per_host));
            Arc::clone(hosts.entry(host.to_owned()).or_insert_with(new))
        };
        // It is never closed.
        places.acquire_owned().await.ok()
    }

    /// How many hosts something is kept of.
    pub fn hosts(&self) -> usize {
        self.hosts.lock().len()
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
    fn a_host_has_its_own_places_and_who_waits_longest_is_next() {
        let places = Places::new(2);
        let mut waiting = ask(&places, &["slow", "slow", "slow", "slow", "b", "b", "c"]);
        let mut taken: Vec<Option<Place>> = waiting.iter_mut().map(now).collect();
        let has: Vec<bool> = taken.iter().map(Option::is_some).collect();
        assert_eq!(has, [true, true, false, false, true, true, true], "the third of a host waits");
        taken[4] = None;
        assert!(now(&mut waiting[2]).is_none(), "a place of another host");
        taken[0] = None;
        // The last to look is asked first here: the order of looks decides nothing.
        assert!(now(&mut waiting[3]).is_none());
        assert!(now(&mut waiting[2]).is_some());
        assert!(now(&mut waiting[3]).is_some(), "dropped at once");
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
        assert_eq!(places.hosts(), 1, "nothing is kept of hosts");
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
    async fn who_waits_is_woken() {
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
        tokio::join!(work(1), work(2), work(3), end);
        assert_eq!(order.into_inner(), [1, 2, 3]);
    }
}
