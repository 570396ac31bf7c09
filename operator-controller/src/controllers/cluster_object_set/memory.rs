//! What is known of the objects of revisions since they were last looked at.
//!
//! An object whose watch shows the resource version of the last look has not changed: it is not read again. A revision
//! that was written counts as written even while the watch still shows it as it was before. A new process loses the
//! memory and begins with a list that is up to date.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::v1::ClusterObjectSet;
use olm_objectset::ObjectKey;

/// How long a pass waits for the watch to show what was written. Longer, and the version written is not believed any
/// more: a cluster that was restored from a backup counts anew from an earlier one.
const BEHIND_MAX: Duration = Duration::from_mins(1);

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

/// A version of a revision that this process wrote.
#[derive(Debug, Clone, Copy)]
struct Written {
    version: u64,
    at: Timestamp,
}

/// Looks by revision (UID) and object.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    looks: Mutex<HashMap<String, HashMap<ObjectKey, Look>>>,
    /// What was written last, by revision.
    written: Mutex<HashMap<String, Written>>,
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

    /// Keeps which version of a revision the API server answered a write with.
    pub(crate) fn wrote(&self, set: &ClusterObjectSet, at: Timestamp) {
        if let (Some(uid), Some(version)) = (set.uid(), version(set)) {
            let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(uid, Written { version, at });
        }
    }

    /// How long to wait for the watch when it shows a revision as it was before the last write, whose event is to come.
    pub(crate) fn behind(&self, set: &ClusterObjectSet, now: Timestamp) -> Option<Duration> {
        let all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let written = all.get(&set.uid()?)?;
        let waited = Duration::try_from(now.duration_since(written.at)).unwrap_or_default();
        let left = BEHIND_MAX.checked_sub(waited).filter(|left| !left.is_zero())?;
        (version(set)? < written.version).then_some(left)
    }

    pub(crate) fn forget(&self, revision: &str) {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).remove(revision);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(revision);
    }
}

/// Resource versions of one kind are numbers that grow.
fn version(set: &ClusterObjectSet) -> Option<u64> {
    set.resource_version()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(uid: &str, version: &str) -> ClusterObjectSet {
        let mut set = ClusterObjectSet::new("ext-1", olm_api::v1::ClusterObjectSetSpec::default());
        set.metadata.uid = Some(uid.to_owned());
        set.metadata.resource_version = Some(version.to_owned());
        set
    }

    #[test]
    fn a_revision_from_before_its_last_write_is_waited_for_but_not_for_ever() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let memory = Memory::default();
        assert_eq!(memory.behind(&set("a", "9"), at(0)), None);
        memory.wrote(&set("a", "10"), at(0));
        assert_eq!(memory.behind(&set("a", "9"), at(20)), Some(Duration::from_secs(40)));
        assert_eq!(memory.behind(&set("a", "9"), at(60)), None);
        assert_eq!(memory.behind(&set("a", "10"), at(0)), None);
        assert_eq!(memory.behind(&set("a", "11"), at(0)), None);
        assert_eq!(memory.behind(&set("another", "9"), at(0)), None);
        // A server with versions of another form is not waited for.
        assert_eq!(memory.behind(&set("a", "x"), at(0)), None);
        memory.forget("a");
        assert_eq!(memory.behind(&set("a", "9"), at(0)), None);
    }
}
