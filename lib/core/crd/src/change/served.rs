//! Served versions of one definition must be compatible with each other, unless a webhook converts.
//!
//! Without a webhook an object written at one version is returned at another as it is. Differences between versions
//! of the live definition do not block the upgrade.

use std::{cmp::Ordering, collections::BTreeSet};

use olm_go::json::marshal;

use super::{Check, Finding, Policy, Reason, Scope, versions};
use crate::definition::{Definition, Version};

/// The findings between the served versions of `new`.
pub(crate) fn compare(old: &Definition<'_>, new: &Definition<'_>, policy: Policy) -> Vec<Finding> {
    if new.webhook_conversion {
        return Vec::new();
    }
    let compare = |(older, newer): (&Version<'_>, &Version<'_>)| {
        let scope = Scope::ServedPair { older: older.name.to_owned(), newer: newer.name.to_owned() };
        versions::compare(older, newer, &scope, policy)
    };
    let pairs = pairs(new);
    // A pair that the new definition does not serve has nothing to be compared with.
    let is_served = |(older, newer): &(&Version<'_>, &Version<'_>)| {
        pairs.iter().any(|(a, b)| (a.name, b.name) == (older.name, newer.name))
    };
    let known: BTreeSet<String> = self::pairs(old)
        .into_iter()
        .filter(is_served)
        .flat_map(compare)
        .map(|finding| fingerprint(&finding))
        .collect();
    let findings = pairs.iter().copied().flat_map(compare);
    findings
        .map(|finding| {
            let is_known = known.contains(&fingerprint(&finding));
            if is_known { finding.because(Reason::AlreadyServed) } else { finding }
        })
        .collect()
}

/// The identity of a finding. crdify compares texts, and for changes without a check a textual difference of the
/// schemas, which the values replace here.
fn fingerprint(finding: &Finding) -> String {
    let mut fingerprint = finding.to_string();
    if finding.check == Check::Unhandled {
        for values in [&finding.old, &finding.new] {
            fingerprint.push('\n');
            fingerprint.push_str(&marshal(values));
        }
    }
    fingerprint
}

/// All pairs of served versions, the older one first.
fn pairs<'d, 'a>(definition: &'d Definition<'a>) -> Vec<(&'d Version<'a>, &'d Version<'a>)> {
    let mut served: Vec<_> = definition.versions.iter().filter(|version| version.served).collect();
    served.sort_by(|a, b| by_age(a.name, b.name));
    let mut pairs = Vec::new();
    for (index, older) in served.iter().enumerate() {
        pairs.extend(served.iter().skip(index + 1).map(|newer| (*older, *newer)));
    }
    pairs
}

/// Kubernetes' order of version names: alpha before beta before general availability, then by major
/// and minor number. Other names come first, the last of the alphabet leading.
fn by_age(a: &str, b: &str) -> Ordering {
    match (kube_version(a), kube_version(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Stability, major and minor number of a name like `v1` or `v2beta3`.
fn kube_version(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let (major, stability, minor) = if let Some((major, minor)) = rest.split_once("alpha") {
        (major, 0, number(minor)?)
    } else if let Some((major, minor)) = rest.split_once("beta") {
        (major, 1, number(minor)?)
    } else {
        (rest, 2, 0)
    };
    Some((stability, number(major)?, minor))
}

fn number(digits: &str) -> Option<u64> {
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    // A number that does not fit into 63 bits makes the name an ordinary one (apimachinery, `pkg/version`).
    let number: i64 = if all_digits { digits.parse().ok()? } else { return None };
    u64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::by_age;

    #[test]
    fn version_names_are_sorted_as_kubernetes_does() {
        let sorted = [
            "zeta", "foo10", "foo1", "v1alpha1", "v1alpha2", "v2alpha1", "v1beta1", "v1beta10", "v1", "v2",
            "v10",
        ];
        let mut names = sorted;
        names.reverse();
        names.sort_by(|a, b| by_age(a, b));
        assert_eq!(names, sorted);
    }
}
