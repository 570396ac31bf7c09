//! Whether a definition can safely replace another.
//!
//! The checks, their names and their texts are those of crdify's pkg/validations, with the
//! configuration of operator-controller's CRD upgrade safety preflight. [`Policy::Ours`] leaves out false alarms. A
//! change that no rule understands is refused. Stored objects are not considered here.

mod allowance;
mod difference;
mod finding;
mod rules;
mod safe_changes;
mod served;
#[cfg(test)]
mod tests;
mod unchecked;
mod versions;

use std::collections::BTreeSet;

use olm_go::Quoted;
use serde_json::Value;

pub use allowance::{Allowance, AllowanceError, Allowances};
pub use finding::{Check, Danger, Finding, Policy, Reason, Report, Scope, Verdict};

use crate::{CrdError, definition::Definition};

/// Compares the live definition `old` with `new`, which is to replace it.
///
/// Findings are sorted: those of the whole definition first, then those of versions that both have,
/// then those between served versions of the new one; within a group by version, path, check and
/// text. A version without a schema counts as one with an empty schema (crdify crashes).
///
/// # Errors
///
/// One of the two is not a definition that can be read, or is larger than the limits.
pub fn compare(old: &Value, new: &Value, policy: Policy) -> Result<Report, CrdError> {
    let old = Definition::read(old)?;
    let new = Definition::read(new)?;
    let mut findings = Vec::new();
    findings.extend(scope(&old, &new));
    findings.extend(removed_versions(&old, &new));
    for version in &old.versions {
        if let Some(successor) = new.version(version.name) {
            let scope = Scope::Version(version.name.to_owned());
            findings.extend(versions::compare(version, successor, &scope, policy));
        }
    }
    findings.extend(served::compare(&old, &new, policy));
    Ok(Report::new(findings))
}

/// `spec.scope` must not change.
fn scope(old: &Definition<'_>, new: &Definition<'_>) -> Option<Finding> {
    let text = format!("scope changed : {} -> {}", Quoted(old.scope), Quoted(new.scope));
    let values = (old.scope.into(), new.scope.into());
    (old.scope != new.scope)
        .then(|| Finding::new(Scope::Crd, "spec.scope", Check::Scope, values, Reason::Incompatible, text))
}

/// The versions at which objects are stored and that the new definition does not have, as one finding. Removing others is
/// allowed, as by crdify.
fn removed_versions(old: &Definition<'_>, new: &Definition<'_>) -> Option<Finding> {
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
