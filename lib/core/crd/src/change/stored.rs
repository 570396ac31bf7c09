//! Versions at which objects are stored must not disappear.
//!
//! Removing a version that no object is stored at is allowed, as by crdify.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Check, Finding, Reason, Scope};
use crate::definition::Definition;

/// The stored versions of the live definition that the new one lacks, as one finding.
pub(crate) fn removed_versions(old: &Definition<'_>, new: &Definition<'_>) -> Option<Finding> {
    let removed: BTreeSet<&str> =
        old.stored_versions.iter().copied().filter(|stored| new.version(stored).is_none()).collect();
    if removed.is_empty() {
        return None;
    }
    let names: Vec<&str> = removed.into_iter().collect();
    let text = format!("stored versions removed : [{}]", names.join(" "));
    let values = (names.into(), Value::Null);
    let check = Check::StoredVersionRemoval;
    Some(Finding::new(Scope::Crd, "status.storedVersions", check, values, Reason::Incompatible, text))
}
