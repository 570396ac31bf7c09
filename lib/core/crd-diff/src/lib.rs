//! Whether a change of a CustomResourceDefinition is safe.
//!
//! [`compare`] takes the live definition and the one that would replace it, both as JSON values in
//! the form of `apiextensions.k8s.io/v1`, and reports what could break stored objects or clients.
//! The checks, their names and their words are those of the original's CRD upgrade safety preflight
//! (kubernetes-sigs/crdify as operator-controller configures it); [`Policy::Ours`] leaves out its
//! false alarms. What no rule understands is refused.
//!
//! The crate reads and writes nothing, and does not look at stored objects.

mod allowance;
mod crd;
mod error;
mod false_alarms;
mod flatten;
mod limits;
mod literal;
mod report;
mod rules;
mod schema;
mod served;
mod stored;
#[cfg(test)]
mod tests;
mod unhandled;
mod versions;

use serde_json::Value;

pub use allowance::{Allowance, AllowanceError, Allowances};
pub use error::CrdError;
pub use limits::{ALLOWANCES_MAX, SCHEMA_DEPTH_MAX, VERSIONS_MAX};
pub use report::{Check, Finding, Policy, Reason, Report, Scope, Verdict};

use crate::crd::Definition;

/// Compares the live definition `old` with `new`, which is to replace it.
///
/// Findings are sorted: those of the whole definition first, then those of versions that both have,
/// then those between served versions of the new one; within a group by version, path, check and
/// text. A version without a schema counts as one with an empty schema (the original crashes).
///
/// # Errors
///
/// When one of the two is not a definition that can be read, or is larger than the limits.
pub fn compare(old: &Value, new: &Value, policy: &Policy) -> Result<Report, CrdError> {
    let old = Definition::read(old)?;
    let new = Definition::read(new)?;
    let mut findings = Vec::new();
    findings.extend(rules::scope(&old, &new));
    findings.extend(stored::removed_versions(&old, &new));
    for version in &old.versions {
        if let Some(successor) = new.version(version.name) {
            let scope = Scope::Version(version.name.to_owned());
            findings.extend(versions::compare(version, successor, &scope, *policy)?);
        }
    }
    findings.extend(served::compare(&old, &new, *policy)?);
    Ok(Report::new(findings))
}
