//! Places that clients take, shared out fairly among their addresses.
//!
//! Clients behind one proxy or Service have one address in common, so an address may have most of the places. Some
//! are left to addresses that have few, so that a client that takes all it can get does not shut out the others.

use std::{
    collections::HashMap,
    net::IpAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};

/// The part of the places that is left to addresses with few.
const RESERVED: usize = 4;
/// The part of the places that is few.
const FEW: usize = 32;

/// Places, so many at the same time.
pub(super) struct Places {
    total: usize,
    taken: Mutex<Taken>,
    freed: Notify,
    waiting: AtomicUsize,
    waiting_max: usize,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// A place, until it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    client: IpAddr,
}

impl Places {
    /// So many places, and so many clients that may wait for one.
    pub(super) fn new(total: usize, waiting_max: usize) -> Arc<Self> {
        let (taken, freed, waiting) = (Mutex::default(), Notify::new(), AtomicUsize::new(0));
        Arc::new(Self { total, taken, freed, waiting, waiting_max })
    }

    /// A place for a client, if there is one for it now.
    pub(super) fn try_take(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let client = client.to_canonical();
        let mut taken = self.taken.lock();
        let own = taken.by_client.get(&client).copied().unwrap_or(0);
        let has_few = own < (self.total / FEW).max(1);
        let reserved = if has_few { 0 } else { self.total / RESERVED };
        if taken.all + reserved >= self.total {
            return None;
        }
        taken.all += 1;
        taken.by_client.insert(client, own + 1);
        Some(Place { places: Arc::clone(self), client })
    }

    /// A place for a client; `None` when there is none in time, or too many wait already.
    pub(super) async fn take(self: &Arc<Self>, client: IpAddr, time: Duration) -> Option<Place> {
        if let Some(place) = self.try_take(client) {
            return Some(place);
        }
        let _waiting = Waiting::new(self)?;
        let wait = async {
            let mut freed = pin!(self.freed.notified());
            loop {
                // Before the attempt, so that no place becomes free unseen after it.
                freed.as_mut().enable();
                if let Some(place) = self.try_take(client) {
                    return place;
                }
                freed.as_mut().await;
                freed.set(self.freed.notified());
            }
        };
        timeout(time, wait).await.ok()
    }

    /// Whether a client waits for a place.
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.by_client.get_mut(&self.client) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.by_client.remove(&self.client);
            }
        }
        drop(taken);
        self.places.freed.notify_waiters();
    }
}

/// One that waits for a place.
struct Waiting<'a>(&'a Places);

impl<'a> Waiting<'a> {
    fn new(places: &'a Places) -> Option<Self> {
        let one_more = |count| (count < places.waiting_max).then_some(count + 1);
        places.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Self(places))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn an_address_that_takes_all_it_can_get_leaves_places_to_the_others() {
        let places = Places::new(128, 0);
        let mut greedy = Vec::new();
        while let Some(place) = places.try_take(client(1)) {
            greedy.push(place);
        }
        assert_eq!(greedy.len(), 96);
        assert!(places.try_take("::ffff:10.0.0.1".parse().unwrap()).is_none(), "the same address");
        // The others have four each of the rest.
        let others: Vec<_> =
            (2..=20).flat_map(|last| std::iter::repeat_with(move || last).take(10)).collect();
        let others: Vec<_> = others.into_iter().filter_map(|last| places.try_take(client(last))).collect();
        assert_eq!(others.len(), 32);
        assert_eq!(others.iter().filter(|place| place.client == client(2)).count(), 4);
        assert!(places.try_take(client(99)).is_none(), "no more than all");
        drop(others);
        assert!(places.try_take(client(1)).is_none() && places.try_take(client(99)).is_some());
        drop(greedy);
        assert!(places.taken.lock().by_client.is_empty(), "nothing is remembered of those who have gone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_becomes_free_is_taken_by_one_who_waits() {
        let places = Places::new(1, 1);
        let first = places.try_take(client(1)).unwrap();
        let waiting = {
            let places = Arc::clone(&places);
            tokio::spawn(async move { places.take(client(2), Duration::from_secs(10)).await.is_some() })
        };
        tokio::task::yield_now().await;
        assert!(places.is_crowded());
        assert!(places.take(client(3), Duration::from_secs(10)).await.is_none(), "one waits already");
        drop(first);
        assert!(waiting.await.unwrap());
        assert!(!places.is_crowded());
        let _last = places.try_take(client(1)).unwrap();
        assert!(places.take(client(2), Duration::from_secs(10)).await.is_none(), "not in time");
    }
}
