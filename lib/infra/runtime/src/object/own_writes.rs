//! The versions of objects that this process wrote, so that a reconcile does not begin with an older one.
//!
//! A reconcile that begins right after another one has written may find the object in the watch's cache as it was
//! before; the event of the write is still to come, and causes another reconcile.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use kube::{Resource, api::ObjectMeta};
use parking_lot::Mutex;

/// How long a reconcile waits for the watch to show what was written. Longer, and the version written is not believed
/// any more: a cluster that was restored from a backup counts anew from an earlier one.
const BEHIND_MAX: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy)]
struct Written {
    version: u64,
    at: Timestamp,
}

/// What was written last, by object (UID).
#[derive(Debug, Default)]
pub struct OwnWrites(Mutex<HashMap<String, Written>>);

impl OwnWrites {
    /// Keeps the version of an object that the API server answered a write with.
    pub fn wrote(&self, object: &impl Resource, at: Timestamp) {
        if let Some(uid) = &object.meta().uid {
            self.wrote_for(uid, object.meta(), at);
        }
    }

    /// The same, under the UID of another object that it belongs to: of several the newest counts.
    pub fn wrote_for(&self, uid: &str, written: &ObjectMeta, at: Timestamp) {
        let Some(version) = version(written) else { return };
        let mut all = self.0.lock();
        let written = all.entry(uid.to_owned()).or_insert(Written { version, at });
        if written.version <= version {
            *written = Written { version, at };
        }
    }

    /// How long to wait for the watch when it shows an object as it was before the last write.
    pub fn behind(&self, object: &impl Resource, now: Timestamp) -> Option<Duration> {
        self.unseen(object.meta().uid.as_deref()?, version(object.meta())?, now)
    }

    /// How long to wait for a watch that has seen versions up to this one to show what was written for an object (UID).
    pub fn unseen(&self, uid: &str, seen: u64, now: Timestamp) -> Option<Duration> {
        let all = self.0.lock();
        let written = all.get(uid).filter(|written| seen < written.version)?;
        let waited = Duration::try_from(now.duration_since(written.at)).unwrap_or_default();
        BEHIND_MAX.checked_sub(waited).filter(|left| !left.is_zero())
    }

    /// How long ago the object was written, as far as this process did so and remembers it.
    pub fn since(&self, object: &impl Resource, now: Timestamp) -> Option<Duration> {
        let at = self.0.lock().get(object.meta().uid.as_deref()?)?.at;
        Duration::try_from(now.duration_since(at)).ok()
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

/// Resource versions of one kind are numbers that grow.
pub(crate) fn version(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(uid: &str, version: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.uid = Some(uid.to_owned());
        object.metadata.resource_version = Some(version.to_owned());
        object
    }

    #[test]
    fn an_object_from_before_its_last_write_is_waited_for_but_not_for_ever() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let writes = OwnWrites::default();
        assert_eq!(writes.behind(&object("a", "9"), at(0)), None);
        writes.wrote(&object("a", "10"), at(0));
        assert_eq!(writes.behind(&object("a", "9"), at(20)), Some(Duration::from_secs(40)));
        assert_eq!(writes.behind(&object("a", "9"), at(60)), None);
        assert_eq!(writes.behind(&object("a", "10"), at(0)), None);
        assert_eq!(writes.behind(&object("a", "11"), at(0)), None);
        assert_eq!(writes.behind(&object("another", "9"), at(0)), None);
        // A server with versions of another form is not waited for.
        assert_eq!(writes.behind(&object("a", "x"), at(0)), None);
        assert_eq!(writes.since(&object("a", "9"), at(20)), Some(Duration::from_secs(20)));
        assert_eq!(writes.since(&object("a", "9"), at(-1)), None, "the clock was set back");
        writes.forget("a");
        assert_eq!(writes.since(&object("a", "9"), at(20)), None);
        assert_eq!(writes.behind(&object("a", "9"), at(0)), None);
    }

    #[test]
    fn a_watch_is_waited_for_until_it_has_seen_the_newest_of_what_was_written() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let writes = OwnWrites::default();
        writes.wrote_for("owner", &object("a", "20").metadata, at(0));
        writes.wrote_for("owner", &object("b", "12").metadata, at(10));
        assert_eq!(writes.unseen("owner", 19, at(20)), Some(Duration::from_secs(40)));
        assert_eq!(writes.unseen("owner", 20, at(20)), None);
        assert_eq!(writes.unseen("owner", 19, at(60)), None, "it is not waited for ever");
        assert_eq!(writes.unseen("another", 1, at(0)), None);
    }
}
