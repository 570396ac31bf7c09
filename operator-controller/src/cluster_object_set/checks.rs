//! What is known of the objects of revisions since they were last checked.
//!
//! An object whose watch shows the resource version of the last check has not changed: it is not read again. A new process
//! knows nothing and reads every object once.

use std::collections::HashMap;

use olm_object::ObjectKey;
use parking_lot::Mutex;

/// What the last check of an object found; after it the object was as desired.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Check {
    /// Digest of the desired object it was compared with.
    pub(crate) desired: String,
    /// UID of the live object.
    pub(crate) uid: String,
    /// Its resource version.
    pub(crate) resource_version: String,
    /// Digest of its desired fields right after the last apply.
    pub(crate) applied: Option<String>,
    /// The messages of its failed probes.
    pub(crate) failures: Vec<String>,
    /// What it waited for then.
    pub(crate) waits: Option<String>,
}

/// The last checks by revision (UID) and object.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<HashMap<String, HashMap<ObjectKey, Check>>>);

impl Checks {
    pub(crate) fn recall(&self, revision: &str, object: &ObjectKey) -> Option<Check> {
        self.0.lock().get(revision)?.get(object).cloned()
    }

    pub(crate) fn remember(&self, revision: &str, object: ObjectKey, check: Check) {
        self.0.lock().entry(revision.to_owned()).or_default().insert(object, check);
    }

    pub(crate) fn forget(&self, revision: &str) {
        self.0.lock().remove(revision);
    }
}
