//! Wakes objects when something changes that their last reconcile depended on.
//!
//! A reconcile returns its interests, which replace those of the reconcile before: nothing has to be unregistered. Changes
//! that come together wake once, in the order of names. What changes while an object is reconciled counts: if the
//! reconcile ends with an interest in it, the object is reconciled again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use educe::Educe;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(50);
/// How long they are gathered at most while they do not end.
const GATHER_MAX: Duration = Duration::from_secs(2);
/// Something that fires again within so many times the last wait does not end.
const RESTLESS: u32 = 8;

/// Something that many objects may depend on.
pub trait Interest: Clone + Ord + Debug + Send + 'static {
    /// Whether changes are gathered before they wake, and for longer if they do not end. What belongs to one object alone
    /// wakes it at once.
    fn is_shared(&self) -> bool {
        true
    }
}

/// The interests of one reconcile, as they come up.
#[derive(Debug, Educe)]
#[educe(Default)]
pub struct Wanted<I>(Mutex<BTreeSet<I>>);

impl<I: Interest> Wanted<I> {
    /// Adds interests.
    pub fn add(&self, interests: impl IntoIterator<Item = I>) {
        self.0.lock().extend(interests);
    }

    /// All that were added.
    pub fn into_set(self) -> BTreeSet<I> {
        self.0.into_inner()
    }
}

/// The interests of all objects of some controllers. Clones are the same.
#[derive(Debug, Educe)]
#[educe(Clone, Default)]
pub struct Interests<I>(Arc<Mutex<Vec<Arc<Waiting<I>>>>>);

impl<I: Interest> Interests<I> {
    /// Wakes the objects with this interest.
    pub fn fire(&self, interest: &I) {
        let now = Instant::now();
        for waiting in &*self.0.lock() {
            if waiting.state.lock().fire(interest, now) {
                waiting.fired.notify_one();
            }
        }
    }

    /// Whether an object has this interest.
    pub fn is_wanted(&self, interest: &I) -> bool {
        self.0.lock().iter().any(|waiting| waiting.state.lock().objects.contains_key(interest))
    }

    /// Adds a controller.
    pub(crate) fn join(&self) -> Arc<Waiting<I>> {
        let waiting = Arc::<Waiting<I>>::default();
        self.0.lock().push(Arc::clone(&waiting));
        waiting
    }
}

/// The interests of the objects of one controller.
#[derive(Debug, Educe)]
#[educe(Default)]
pub(crate) struct Waiting<I> {
    pub(crate) state: Mutex<State<I>>,
    fired: Notify,
}

impl<I: Interest> Waiting<I> {
    /// Ends when something has fired since it ended last.
    pub(crate) async fn fired(&self) {
        self.fired.notified().await;
    }
}

/// See [`Waiting`]. Time is an argument.
#[derive(Debug, Educe)]
#[educe(Default)]
pub(crate) struct State<I> {
    /// The interests of each object.
    of: BTreeMap<String, Registered<I>>,
    /// The same the other way round.
    objects: BTreeMap<I, BTreeSet<String>>,
    /// What has fired: when it wakes, and how long it is gathered until then.
    due: BTreeMap<I, (Instant, Duration)>,
    /// What has woken lately: when, and how long it was gathered.
    lately: BTreeMap<I, (Instant, Duration)>,
    /// The objects that are being reconciled, and the count of what had fired when that began.
    running: BTreeMap<String, u64>,
    /// What has fired since the earliest of these began, by the same count.
    fired: BTreeMap<I, u64>,
    count: u64,
}

#[derive(Debug)]
struct Registered<I> {
    uid: String,
    interests: BTreeSet<I>,
}

impl<I: Interest> State<I> {
    /// Notes that something has changed; whether objects are to be woken at another time than before.
    fn fire(&mut self, interest: &I, now: Instant) -> bool {
        if !self.running.is_empty() {
            self.count += 1;
            self.fired.insert(interest.clone(), self.count);
        }
        if !self.objects.contains_key(interest) && self.running.is_empty() {
            return false;
        }
        let is_first = !self.due.contains_key(interest);
        if is_first {
            let wait = if interest.is_shared() { self.gather(interest, now) } else { Duration::ZERO };
            self.due.insert(interest.clone(), (now + wait, wait));
        }
        is_first
    }

    /// How long changes of something are gathered: longer each time while they do not end.
    fn gather(&self, interest: &I, now: Instant) -> Duration {
        match self.lately.get(interest) {
            Some((at, wait)) if now.saturating_duration_since(*at) < *wait * RESTLESS => {
                (*wait * 2).min(GATHER_MAX)
            }
            _ => GATHER,
        }
    }

    /// When the next objects are to be woken.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.values().map(|(at, _)| *at).min()
    }

    /// The objects that are to be woken now, and whether by something that many may depend on. Those that are being
    /// reconciled are not among them: the end of the reconcile decides.
    pub(crate) fn wake(&mut self, now: Instant) -> BTreeSet<(String, bool)> {
        let mut woken = BTreeSet::new();
        for (interest, (_, wait)) in self.due.extract_if(.., |_, (at, _)| *at <= now) {
            let waiting = self.objects.get(&interest).into_iter().flatten();
            let waiting = waiting.filter(|name| !self.running.contains_key(*name));
            woken.extend(waiting.map(|name| (name.clone(), interest.is_shared())));
            if interest.is_shared() {
                self.lately.insert(interest, (now, wait));
            }
        }
        self.lately.retain(|_, (at, wait)| now.saturating_duration_since(*at) < *wait * RESTLESS);
        woken
    }

    /// A reconcile of an object begins. Another object of its name has no part in the interests of the one before.
    pub(crate) fn begin(&mut self, name: &str, uid: &str) {
        if self.of.get(name).is_some_and(|known| known.uid != uid) {
            self.forget(name);
        }
        self.running.insert(name.to_owned(), self.count);
    }

    /// The reconcile of an object has ended with these interests; with those of the one before if it came to none.
    /// Whether the object is to be reconciled again, because one of them fired meanwhile.
    pub(crate) fn end(&mut self, name: &str, uid: &str, interests: Option<BTreeSet<I>>) -> bool {
        if let Some(interests) = interests {
            self.forget(name);
            for interest in &interests {
                self.objects.entry(interest.clone()).or_default().insert(name.to_owned());
            }
            if !interests.is_empty() {
                self.of.insert(name.to_owned(), Registered { uid: uid.to_owned(), interests });
            }
        }
        let began = self.running.remove(name).unwrap_or(self.count);
        let missed = self.of.get(name).into_iter().flat_map(|known| &known.interests).any(|interest| {
            // What is still gathered wakes the object by itself.
            self.fired.get(interest).is_some_and(|at| *at > began) && !self.due.contains_key(interest)
        });
        let earliest = self.running.values().min().copied().unwrap_or(self.count);
        self.fired.retain(|_, at| *at > earliest);
        missed
    }

    /// The object is gone.
    pub(crate) fn forget(&mut self, name: &str) {
        for interest in self.of.remove(name).into_iter().flat_map(|known| known.interests) {
            if let Some(objects) = self.objects.get_mut(&interest) {
                objects.remove(name);
                if objects.is_empty() {
                    self.objects.remove(&interest);
                }
            }
        }
    }
}

/// Calls `then` whenever a value has changed, until `shutdown`.
pub async fn on_change<T>(mut value: watch::Receiver<T>, shutdown: &CancellationToken, then: impl Fn()) {
    // The sender is gone at the end of the process only; then nothing changes any more.
    while let Some(Ok(())) = shutdown.run_until_cancelled(value.changed()).await {
        then();
    }
}

#[cfg(test)]
mod tests;
