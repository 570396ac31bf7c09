//! Compares two versions, property by property.
//!
//! Every path of the older schema is compared with the same path of the newer one, or with an empty schema where that
//! has none. Paths that only the newer one has are ignored: adding an optional property is safe.

use olm_text::one_line;
use serde_json::Value;

use super::{
    Check, Finding, Policy, Reason, Scope,
    difference::{Difference, differing_here},
    rules, unchecked,
};
use crate::{definition::Version, schema};

/// The findings between two versions. Removed properties count for one version over time, not for two served ones.
pub(crate) fn compare(old: &Version<'_>, new: &Version<'_>, scope: &Scope, policy: Policy) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(root) = &old.schema {
        schema::visit(&mut "^".to_owned(), root, new.schema.as_ref(), &mut |path, old_schema, new_schema| {
            if new_schema.is_none() && matches!(scope, Scope::Version(_)) {
                findings.push(removed_property(old.name, path));
            }
            compare_property(scope, path, policy, (old_schema, new_schema), &mut findings);
        });
    }
    findings
}

/// A property that a version no longer has, which crdify reports as a finding on the whole definition.
fn removed_property(version: &str, path: &str) -> Finding {
    let path = format!("{version}.{path}");
    let text = format!("removed field : {}", one_line(&path));
    Finding::new(
        Scope::Crd,
        &path,
        Check::ExistingFieldRemoval,
        (path.as_str().into(), Value::Null),
        Reason::Incompatible,
        text,
    )
}

fn compare_property(
    scope: &Scope,
    path: &str,
    policy: Policy,
    (old, new): (&Value, Option<&Value>),
    findings: &mut Vec<Finding>,
) {
    let mut unchecked = Vec::new();
    for difference in differing_here(old, new.unwrap_or(&Value::Null)) {
        let Some((check, text)) = rules::check(&difference) else {
            unchecked.push(difference);
            continue;
        };
        let Difference { old, new, .. } = difference;
        let values = (old.cloned().unwrap_or_default(), new.cloned().unwrap_or_default());
        findings.extend(
            text.map(|text| Finding::new(scope.clone(), path, check, values, Reason::Incompatible, text)),
        );
    }
    for (reason, differences) in unchecked::by_reason(&unchecked, policy) {
        let (old, new) = unchecked::values(&differences);
        let text = unchecked::text(&old, &new);
        findings.push(Finding::new(scope.clone(), path, Check::Unhandled, (old, new), reason, text));
    }
}
