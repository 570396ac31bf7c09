//! Turns at something that there is not enough of: who has waited longest is first.

use std::{collections::BTreeMap, time::Duration};

use tokio::{sync::watch, time::timeout};

/// Something that is taken, and a queue for more of it.
pub(crate) struct Turns<T, W>(watch::Sender<State<T, W>>);

pub(crate) struct State<T, W> {
    /// The part that is taken.
    pub(crate) taken: T,
    /// What is waited for, by number; who came first has the smallest.
    waiting: BTreeMap<u64, W>,
    last_number: u64,
}

impl<T, W> State<T, W> {
    /// Whether nobody came before this one to wait for something that `is_same`.
    pub(crate) fn is_first(&self, number: u64, is_same: impl Fn(&W) -> bool) -> bool {
        !self.waiting.range(..number).any(|(_, other)| is_same(other))
    }
}

/// An attempt fails until the next change, or until this time has passed as well.
pub(crate) type Attempt<R> = Result<R, Option<Duration>>;

impl<T: Default, W> Turns<T, W> {
    pub(crate) fn new() -> Self {
        let (taken, waiting) = (T::default(), BTreeMap::new());
        Self(watch::Sender::new(State { taken, waiting, last_number: 0 }))
    }

    /// Waits until `attempt` has taken what is `wanted`; it gets the number of this one, which stays the same and is
    /// nobody else's. Who stops waiting gives up the turn.
    pub(crate) async fn take<R>(
        &self,
        wanted: W,
        attempt: impl Fn(&mut State<T, W>, u64) -> Attempt<R>,
    ) -> R {
        let mut changes = self.0.subscribe();
        let turn = self.wait_for(wanted);
        loop {
            let mut result = Err(None);
            // Everybody else looks again when one has taken a part: there may be more.
            self.0.send_if_modified(|state| {
                result = attempt(state, turn.number);
                result.is_ok() && state.waiting.remove(&turn.number).is_some()
            });
            let patience = match result {
                Ok(taken) => return taken,
                Err(patience) => patience,
            };
            // The sender is in `self`.
            let next = changes.changed();
            match patience {
                Some(patience) => drop(timeout(patience, next).await),
                None => drop(next.await),
            }
        }
    }

    fn wait_for(&self, wanted: W) -> Turn<'_, T, W> {
        let mut number = 0;
        self.0.send_modify(|state| {
            state.last_number += 1;
            number = state.last_number;
            state.waiting.insert(number, wanted);
        });
        Turn { turns: self, number }
    }

    /// Gives back a part.
    pub(crate) fn release(&self, change: impl FnOnce(&mut T)) {
        self.0.send_modify(|state| change(&mut state.taken));
    }

    /// Changes what is known of a part that stays taken. Nobody looks again because of that.
    pub(crate) fn note(&self, change: impl FnOnce(&mut T)) {
        self.0.send_if_modified(|state| {
            change(&mut state.taken);
            false
        });
    }
}

/// One that waits.
struct Turn<'a, T, W> {
    turns: &'a Turns<T, W>,
    number: u64,
}

impl<T, W> Drop for Turn<'_, T, W> {
    fn drop(&mut self) {
        // Not there any more if the turn came.
        self.turns.0.send_if_modified(|state| state.waiting.remove(&self.number).is_some());
    }
}
