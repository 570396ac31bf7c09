//! Compares two versions, property by property.
//!
//! Every place of the older schema is compared with the same place of the newer one, or with an
//! empty schema where that has none. Places that only the newer one has are not looked at: adding an
//! optional property is free.

use olm_text::one_line;
use serde_json::Value;

use crate::{
    Check, CrdError, Finding, Policy, Reason, Scope,
    crd::Version,
    error::Misfit,
    flatten::{self, Stop, StopReason},
    limits::SCHEMA_DEPTH_MAX,
    rules,
    schema::{self, Schema},
    unhandled,
};

/// The findings between two versions. Removed properties are a matter of one version over time, not
/// of two served ones.
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
        let place = Place { scope, path, policy };
        place.compare(old_schema, new_schema.unwrap_or(&schema::EMPTY), &mut findings)
    };
    let walked = flatten::walk(root, new.schema, &mut visit);
    walked.map_err(|stop| located(old, new, stop))?;
    Ok(findings)
}

/// A property that a version no longer has. The original counts it among the findings on the whole
/// definition.
fn removed_property(version: &str, path: &str) -> Finding {
    let path = format!("{version}.{path}");
    Finding {
        scope: Scope::Crd,
        check: Check::ExistingFieldRemoval,
        text: format!("removed field : {}", one_line(&path)),
        old: Value::String(path.clone()),
        new: Value::Null,
        path,
        verdict: Reason::Incompatible.verdict(),
        reason: Reason::Incompatible,
    }
}

/// One property of two versions.
struct Place<'a> {
    scope: &'a Scope,
    path: &'a str,
    policy: Policy,
}

impl Place<'_> {
    fn compare(&self, old: &Schema, new: &Schema, findings: &mut Vec<Finding>) -> Result<(), Misfit> {
        let mut rest = Vec::new();
        for difference in schema::differing_here(old, new) {
            let (member, old, new) = difference;
            match rules::on(member.name) {
                Some(rule) => {
                    if let Some(text) = (rule.judge)((old, new))? {
                        let value = |value: Option<&Value>| value.cloned().unwrap_or_default();
                        findings.push(self.finding(
                            rule.check,
                            text,
                            value(old),
                            value(new),
                            Reason::Incompatible,
                        ));
                    }
                }
                None => rest.push(difference),
            }
        }
        for (reason, differences) in unhandled::sort_out(&rest, self.policy)? {
            let text = unhandled::text(&differences);
            let (old, new) = unhandled::values(&differences);
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

fn located(old: &Version<'_>, new: &Version<'_>, stop: Stop) -> CrdError {
    let Stop { path, why } = stop;
    let version =
        if old.name == new.name { old.name.to_owned() } else { format!("{} or {}", old.name, new.name) };
    match why {
        StopReason::Misfit(Misfit { member, expected }) => CrdError::Malformed {
            name: old.definition.to_owned(),
            at: format!("{member} of {path} in version {version}"),
            expected,
        },
        StopReason::TooDeep => CrdError::TooLarge {
            name: old.definition.to_owned(),
            at: format!("the schema of version {version}"),
            limit: SCHEMA_DEPTH_MAX,
            unit: "levels",
        },
    }
}
