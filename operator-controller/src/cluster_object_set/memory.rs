//! What is known of the objects of revisions since they were last looked at.
//!
//! An object whose watch shows the resource version of the last look has not changed: it is not read again. A new
//! process loses the memory and begins with a list that is up to date.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use olm_object::ObjectKey;

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

    pub(crate) fn forget(&self, revision: &str) {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).remove(revision);
    }
}
