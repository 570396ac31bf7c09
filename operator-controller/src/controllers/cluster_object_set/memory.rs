//! What is known of the objects of revisions since they were last looked at.
//!
//! An object whose watch shows the resource version of the last look has not changed: it is not read again. What the
//! status records of the content counts from its writing on, not only once the watch has brought it back. A new
//! process loses the memory and begins with a list that is up to date.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use olm_api::v1::ObservedPhase;
use olm_objectset::ObjectKey;

/// What the last look at an object found; after it the object was as desired.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Digest of the desired object it was compared with.
    pub(crate) desired: String,
    /// UID of the live object.
    pub(crate) uid: String,
    /// Its resource version.
    pub(crate) resource_version: String,
    /// Digest of what it said about the desired fields right after the last apply.
    pub(crate) applied: Option<String>,
    /// What its probes said.
    pub(crate) failures: Vec<String>,
    /// What it waited for then.
    pub(crate) waits: Option<String>,
}

/// Looks by revision (UID) and object.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    looks: Mutex<HashMap<String, HashMap<ObjectKey, Look>>>,
    /// Digests of the content, by revision.
    observed: Mutex<HashMap<String, Vec<ObservedPhase>>>,
}

impl Memory {
    pub(crate) fn recall(&self, revision: &str, object: &ObjectKey) -> Option<Look> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).get(revision)?.get(object).cloned()
    }

    pub(crate) fn remember(&self, revision: &str, object: ObjectKey, look: Look) {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.entry(revision.to_owned()).or_default().insert(object, look);
    }

    pub(crate) fn forget_object(&self, revision: &str, object: &ObjectKey) {
        if let Some(looks) = self.looks.lock().unwrap_or_else(PoisonError::into_inner).get_mut(revision) {
            looks.remove(object);
        }
    }

    /// Keeps the digests that were written into a revision's status.
    pub(crate) fn record(&self, revision: &str, observed: &[ObservedPhase]) {
        let mut all = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(revision.to_owned(), observed.to_vec());
    }

    /// The digests of a revision's content: those that its status shows, or those that were written last.
    pub(crate) fn recorded(&self, revision: &str, shown: &[ObservedPhase]) -> Vec<ObservedPhase> {
        if shown.is_empty() {
            let all = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
            return all.get(revision).cloned().unwrap_or_default();
        }
        shown.to_vec()
    }

    pub(crate) fn forget(&self, revision: &str) {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).remove(revision);
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).remove(revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_counts_as_recorded_before_the_watch_shows_it() {
        let phases = |digest: &str| vec![ObservedPhase { name: "one".to_owned(), digest: digest.to_owned() }];
        let memory = Memory::default();
        assert_eq!(memory.recorded("a", &[]), []);
        memory.record("a", &phases("written"));
        assert_eq!(memory.recorded("a", &[]), phases("written"));
        assert_eq!(memory.recorded("a", &phases("shown")), phases("shown"));
        assert_eq!(memory.recorded("b", &[]), []);
        memory.forget("a");
        assert_eq!(memory.recorded("a", &[]), []);
    }
}
