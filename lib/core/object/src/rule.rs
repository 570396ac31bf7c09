//! A rule of Kubernetes' RBAC.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

/// A rule of Kubernetes' RBAC, to be compared: its lists are sets. As JSON it is an entry of a role's `rules`; empty lists
/// are left out. `olm_bundle::PolicyRule` keeps a rule as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// API groups; the empty one is the core, `*` is all.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub api_groups: BTreeSet<String>,
    /// Resources, with `/` before a subresource; `*` is all.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub resources: BTreeSet<String>,
    /// Names; an empty list is every name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub resource_names: BTreeSet<String>,
    /// Paths that are no resources; `*` at the end matches anything.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "BTreeSet::is_empty")]
    pub non_resource_urls: BTreeSet<String>,
    /// Verbs; `*` is all.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub verbs: BTreeSet<String>,
}

fn set<I: IntoIterator<Item = S>, S: Into<String>>(items: I) -> BTreeSet<String> {
    items.into_iter().map(Into::into).collect()
}

impl Rule {
    /// A rule for one resource.
    pub fn new(group: &str, resource: &str, name: Option<&str>, verbs: &[&str]) -> Self {
        Self {
            api_groups: set([group]),
            resources: set([resource]),
            resource_names: set(name),
            verbs: set(verbs.iter().copied()),
            non_resource_urls: BTreeSet::new(),
        }
    }

    /// Reads a `rules` entry of a role or of a review.
    pub fn of(value: &Value) -> Self {
        let list = |key: &str| {
            set(value.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str))
        };
        Self {
            api_groups: list("apiGroups"),
            resources: list("resources"),
            resource_names: list("resourceNames"),
            non_resource_urls: list("nonResourceURLs"),
            verbs: list("verbs"),
        }
    }

    fn lists(&self) -> [&BTreeSet<String>; 5] {
        [&self.api_groups, &self.resources, &self.resource_names, &self.non_resource_urls, &self.verbs]
    }

    /// How many entries its lists have.
    pub fn entries(&self) -> usize {
        self.lists().iter().map(|list| list.len()).sum()
    }

    /// Whether it is about one path, or about one resource of one group with at most one name.
    pub fn is_about_one(&self) -> bool {
        let [groups, resources, names, urls, _] = self.lists().map(BTreeSet::len);
        matches!([groups, resources, names, urls], [0, 0, 0, 1] | [1, 1, 0 | 1, 0])
    }

    /// Whether one of its entries matches several groups, resources, paths or verbs.
    pub fn has_wildcard(&self) -> bool {
        [&self.api_groups, &self.verbs].into_iter().any(|list| list.contains("*"))
            || self.resources.iter().any(|resource| resource == "*" || resource.starts_with("*/"))
            || self.non_resource_urls.iter().any(|url| url.ends_with('*'))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_is_read_and_written_as_roles_have_it() {
        let entry = json!({"apiGroups": ["", "apps"], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get"]});
        let rule = Rule::of(&entry);
        assert_eq!(json!(rule), entry);
        assert_eq!(rule.entries(), 5);
        let on_paths = json!({"nonResourceURLs": ["/metrics*"], "verbs": ["get"]});
        assert_eq!(json!(Rule::of(&on_paths)), on_paths);
        assert!(Rule::of(&on_paths).has_wildcard() && Rule::of(&on_paths).is_about_one());
        assert!(!rule.has_wildcard() && !rule.is_about_one());
    }
}
