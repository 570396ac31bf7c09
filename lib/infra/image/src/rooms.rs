//! Room for pulls: how many layers are received and images unpacked at the same time, whatever their registries.
//!
//! Each holds a few chunks, and a decoder. A layer whose bytes hardly come keeps its room only as long as no other waits
//! for it: the one whose registry is furthest behind the least speed is ended then, so that registries that hang hold
//! up no other one, however many they are. Unpacking waits for no registry.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// How far behind the least speed a registry has to be before its layer is ended for another one.
pub(crate) const BEHIND_MAX: Duration = Duration::from_secs(1);
/// The room that unpacking an image with zstd layers takes, in that of others: a window may have 32 MiB.
pub(crate) const ZSTD_ROOM: usize = 8;

/// All the room of a process.
pub(crate) struct Rooms {
    total: usize,
    /// Least speed in bytes a second.
    least: u64,
    /// What is read, by number.
    open: Mutex<BTreeMap<u64, Open>>,
    /// Held by the one that gets the next room: a lock of tokio is given to who has waited longest.
    turn: tokio::sync::Mutex<()>,
    freed: Notify,
}

/// A layer that is being read.
struct Open {
    room: usize,
    pace: Pace,
    end: CancellationToken,
}

/// How far a registry is behind the least speed; being ahead does not count.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    behind: Duration,
    waits_since: Option<Instant>,
}

impl Pace {
    fn behind(&self, now: Instant) -> Duration {
        self.behind + self.waits_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn arrived(&mut self, bytes: u64, least: u64, now: Instant) {
        let worth = Duration::from_millis(bytes.saturating_mul(1000) / least.max(1));
        *self = Self { behind: self.behind(now).saturating_sub(worth), waits_since: None };
    }
}

/// Ends what is furthest behind until there will be room; how long until another look is of use.
fn make_room(open: &BTreeMap<u64, Open>, wanted: usize, total: usize) -> Duration {
    let now = Instant::now();
    let staying = || open.values().filter(|open| !open.end.is_cancelled());
    loop {
        let taken: usize = staying().map(|open| open.room).sum();
        let Some(last) = staying().max_by_key(|open| open.pace.behind(now)) else { return BEHIND_MAX };
        let behind = last.pace.behind(now);
        if taken + wanted <= total {
            return BEHIND_MAX;
        }
        match BEHIND_MAX.checked_sub(behind).filter(|left| !left.is_zero()) {
            Some(left) => return left,
            None => last.end.cancel(),
        }
    }
}

impl Rooms {
    pub(crate) fn new(total: usize, least: u64) -> Self {
        let (open, turn, freed) = (Mutex::default(), tokio::sync::Mutex::default(), Notify::new());
        Self { total: total.max(1), least, open, turn, freed }
    }

    /// Room for a layer, as soon as there is some.
    pub(crate) async fn take(&self, room: usize) -> Room<'_> {
        let room = room.min(self.total);
        let _turn = self.turn.lock().await;
        loop {
            match self.try_take(room) {
                Ok(room) => return room,
                Err(patience) => drop(timeout(patience, self.freed.notified()).await),
            }
        }
    }

    /// Room that there is now, or how long until another look is of use.
    fn try_take(&self, room: usize) -> Result<Room<'_>, Duration> {
        let mut open = self.open.lock();
        let taken: usize = open.values().map(|open| open.room).sum();
        if taken + room > self.total {
            return Err(make_room(&open, room, self.total));
        }
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        let end = CancellationToken::new();
        open.insert(number, Open { room, pace: Pace::default(), end: end.clone() });
        Ok(Room { rooms: self, number, end })
    }
}

/// Room that is taken, until it is dropped.
pub(crate) struct Room<'a> {
    rooms: &'a Rooms,
    number: u64,
    end: CancellationToken,
}

impl Room<'_> {
    /// What the registry sends next, unless the layer has to make room for another one first. `bytes` is how much of
    /// it counts.
    pub(crate) async fn wait<T>(
        &self,
        next: impl Future<Output = T>,
        bytes: impl Fn(&T) -> u64,
    ) -> Option<T> {
        self.change(|pace, _| pace.waits_since = Some(Instant::now()));
        let next = self.end.run_until_cancelled(next).await?;
        self.change(|pace, least| pace.arrived(bytes(&next), least, Instant::now()));
        Some(next)
    }

    /// No task is woken: one that waits looks again when something may have become late.
    fn change(&self, change: impl FnOnce(&mut Pace, u64)) {
        if let Some(open) = self.rooms.open.lock().get_mut(&self.number) {
            change(&mut open.pace, self.rooms.least);
        }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.rooms.open.lock().remove(&self.number);
        self.rooms.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt as _;
    use tokio::time::sleep;

    use super::*;

    const LEAST: u64 = 10 << 10;

    /// Reads a layer of which so many bytes come each 100 ms, until it is ended.
    async fn read(rooms: &Rooms, bytes: u64) -> Duration {
        let (room, started) = (rooms.take(1).await, Instant::now());
        let tick = || sleep(Duration::from_millis(100));
        while room.wait(tick(), |()| bytes).await.is_some() {}
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn who_hangs_or_drips_makes_room_when_somebody_waits_and_not_before() {
        let rooms = Rooms::new(2, LEAST);
        let (hanging, dripping) = (rooms.take(1).await, read(&rooms, 100));
        let hangs = async {
            let ended = hanging.wait(pending::<()>(), |()| 0).await;
            drop(hanging);
            (ended, Instant::now())
        };
        let others = async {
            sleep(Duration::from_mins(1)).await;
            let before = Instant::now();
            let first = rooms.take(1).await;
            let second = rooms.take(1).await;
            drop((first, second));
            before
        };
        let (dripping, (ended, at), before) = tokio::join!(dripping, hangs, others);
        assert_eq!((ended, at), (None, before), "at once: it was late long ago");
        assert!(dripping >= Duration::from_mins(1), "{dripping:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_at_the_least_speed_stays() {
        let rooms = Rooms::new(1, LEAST);
        let ended = tokio::time::timeout(Duration::from_mins(5), async {
            tokio::join!(read(&rooms, LEAST / 10), rooms.take(1)).0
        });
        assert!(ended.await.is_err());
        // A second of silence ends it, however much came before.
        let silent = async {
            let room = rooms.take(1).await;
            assert!(room.wait(async {}, |()| 1 << 30).await.is_some());
            let since = Instant::now();
            assert!(room.wait(pending::<()>(), |()| 0).await.is_none());
            since.elapsed()
        };
        let (silence, _room) = tokio::join!(silent, rooms.take(1));
        assert_eq!(silence, BEHIND_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_is_spent_here_is_not_the_registrys() {
        let rooms = Rooms::new(1, LEAST);
        let room = rooms.take(1).await;
        assert!(room.wait(async {}, |()| 1).await.is_some());
        let waiting = tokio::time::timeout(Duration::from_mins(1), rooms.take(1)).await;
        assert!(waiting.is_err() && !room.end.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_ended_than_is_needed_and_the_latest_first() {
        let rooms = Rooms::new(20, LEAST);
        let mut layers = Vec::new();
        for number in 0..20 {
            let room = rooms.take(1).await;
            let _ = room.wait(pending::<()>(), |()| 0).now_or_never();
            layers.push(room);
            sleep(Duration::from_millis(100 * number)).await;
        }
        let mut wanted = std::pin::pin!(rooms.take(ZSTD_ROOM));
        assert!((&mut wanted).now_or_never().is_none());
        assert!((&mut wanted).now_or_never().is_none(), "another look ends no more");
        let ended: Vec<bool> = layers.iter().map(|room| room.end.is_cancelled()).collect();
        assert_eq!(ended, (0..20).map(|number| number < ZSTD_ROOM).collect::<Vec<_>>());
        assert!(rooms.take(1).now_or_never().is_none(), "the other one was there before");
        layers.drain(..ZSTD_ROOM);
        assert!(wanted.now_or_never().is_some());
        assert!(rooms.take(usize::MAX).now_or_never().is_none());
        drop(layers);
        assert!(rooms.take(usize::MAX).now_or_never().is_some(), "as much as there is");
    }
}
