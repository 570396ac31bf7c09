//! Compares two versions, property by property.
//!
//! Every path of the older schema is compared with the same path of the newer one, or with an empty schema where that
//! has none. Paths that only the newer one has are ignored: adding an optional property is safe.

use olm_text::one_line;
use serde_json::Value;

use super::{Check, Finding, Policy, Reason, Scope, difference, paths, rules, unchecked};
use crate::{
    CrdError,
    definition::Version,
    schema::{EMPTY, Members, Misfit},
};

/// The findings between two versions. Removed properties count for one version over time, not for two served ones.
pub(crate) fn compare(
    old: &Version<'_>,
    new: &Version<'_>,
    scope: &Scope,
    policy: Policy,
) -> Result<Vec<Finding>, CrdError> {
    let Some(root) = old.schema else {
        return Ok(Vec::new());
    };
    let mut findings = Vec::new();
    let mut visit = |path: &str, old_schema: &_, new_schema: Option<&_>| {
        if new_schema.is_none() && matches!(scope, Scope::Version(_)) {
            findings.push(removed_property(old.name, path));
        }
        let property = Property { scope, path, policy };
        property.compare(old_schema, new_schema.unwrap_or(&EMPTY), &mut findings)
    };
    paths::visit(root, new.schema, &mut visit).map_err(|fault| {
        let both = format!("{} or {}", old.name, new.name);
        fault.of(old.definition, if old.name == new.name { old.name } else { &both })
    })?;
    Ok(findings)
}

/// A property that a version no longer has, which crdify reports as a finding on the whole definition.
fn removed_property(version: &str, path: &str) -> Finding {
    let path = format!("{version}.{path}");
    let text = format!("removed field : {}", one_line(&path));
    Finding::on_crd(Check::ExistingFieldRemoval, path.clone(), (path.into(), Value::Null), text)
}

/// One property of two versions.
struct Property<'a> {
    scope: &'a Scope,
    path: &'a str,
    policy: Policy,
}

impl Property<'_> {
    fn compare(&self, old: &Members, new: &Members, findings: &mut Vec<Finding>) -> Result<(), Misfit> {
        let mut unchecked = Vec::new();
        for difference in difference::differing_here(old, new) {
            let (member, old, new) = difference;
            match rules::check(member.name, (old, new))? {
                Some((check, Some(text))) => {
                    let [old, new] = [old, new].map(|value| value.cloned().unwrap_or_default());
                    findings.push(self.finding(check, text, old, new, Reason::Incompatible));
                }
                Some((_, None)) => {}
                None => unchecked.push(difference),
            }
        }
        for (reason, differences) in unchecked::by_reason(&unchecked, self.policy)? {
            let (old, new) = unchecked::values(&differences);
            let text = unchecked::text(&old, &new);
            findings.push(self.finding(Check::Unhandled, text, old, new, reason));
        }
        Ok(())
    }

    fn finding(&self, check: Check, text: String, old: Value, new: Value, reason: Reason) -> Finding {
        Finding {
            scope: self.scope.clone(),
            path: self.path.to_owned(),
            check,
            old,
            new,
            verdict: reason.verdict(),
            reason,
            text,
        }
    }
}
