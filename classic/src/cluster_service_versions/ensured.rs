//! Which operators have the roles of their APIs and their permissions elsewhere, so that these are not looked at with each
//! reconcile.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::operators::Interest;

/// The operators whose roles have been made, until something of them changes. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ensured(Arc<Mutex<BTreeMap<String, Made>>>);

#[derive(Debug)]
struct Made {
    /// What they were made for.
    state: String,
    /// What changes when one of them does.
    parts: BTreeSet<Interest>,
}

impl Ensured {
    /// Whether the roles of an operator are to be made: they have not been for this state, or something of them has changed
    /// since. From now on they count as made: a change while that is done is not missed.
    pub(super) fn begin(&self, uid: &str, state: String, parts: BTreeSet<Interest>) -> bool {
        let mut made = self.0.lock();
        if made.get(uid).is_some_and(|known| known.state == state) {
            return false;
        }
        made.insert(uid.to_owned(), Made { state, parts });
        true
    }

    /// Has the roles of an operator made again.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// Takes note that something has changed.
    pub(crate) fn changed(&self, part: &Interest) {
        self.0.lock().retain(|_, made| !made.parts.contains(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_made_once_until_their_state_or_a_part_changes() {
        let ensured = Ensured::default();
        let part = |name: &str| Interest::Definition(name.to_owned());
        let begin = |state: &str| ensured.begin("u", state.to_owned(), [part("a")].into());
        assert!(begin("1") && !begin("1"));
        ensured.changed(&part("b"));
        assert!(!begin("1"));
        ensured.changed(&part("a"));
        assert!(begin("1") && begin("2"));
        ensured.forget("u");
        assert!(begin("2"));
    }
}
