//! The versions of objects that this process wrote, so that a reconcile does not begin with an older one.
//!
//! A reconcile that begins right after another one has written may find the object in the watch's cache as it was
//! before; the event of the write is still to come, and causes another reconcile.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kube::Resource;

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
        if let (Some(uid), Some(version)) = (object.meta().uid.clone(), version(object)) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, Written { version, at });
        }
    }

    /// How long to wait for the watch when it shows an object as it was before the last write.
    pub fn behind(&self, object: &impl Resource, now: Timestamp) -> Option<Duration> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = all.get(object.meta().uid.as_deref()?)?;
        let waited = Duration::try_from(now.duration_since(written.at)).unwrap_or_default();
        let left = BEHIND_MAX.checked_sub(waited).filter(|left| !left.is_zero())?;
        (version(object)? < written.version).then_some(left)
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

/// Resource versions of one kind are numbers that grow.
fn version(object: &impl Resource) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
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
        writes.forget("a");
        assert_eq!(writes.behind(&object("a", "9"), at(0)), None);
    }
}
