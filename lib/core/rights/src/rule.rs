//! A rule of Kubernetes' RBAC.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::part::Part;

/// A rule in the sense of Kubernetes' RBAC.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// API groups; `*` is all.
    pub api_groups: BTreeSet<String>,
    /// Resources, with `/` before a subresource; `*` is all.
    pub resources: BTreeSet<String>,
    /// Names; none means every name.
    pub resource_names: BTreeSet<String>,
    /// Verbs; `*` is all.
    pub verbs: BTreeSet<String>,
    /// Paths that are no resources; a `*` at the end stands for anything.
    pub non_resource_urls: BTreeSet<String>,
}

pub(crate) fn set<I: IntoIterator<Item = S>, S: Into<String>>(items: I) -> BTreeSet<String> {
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
            verbs: list("verbs"),
            non_resource_urls: list("nonResourceURLs"),
        }
    }

    /// The rule as it stands in a role; empty lists are left out.
    pub fn to_value(&self) -> Value {
        let lists = [
            ("apiGroups", &self.api_groups),
            ("nonResourceURLs", &self.non_resource_urls),
            ("resourceNames", &self.resource_names),
            ("resources", &self.resources),
            ("verbs", &self.verbs),
        ];
        let lists = lists.into_iter().filter(|(_, items)| !items.is_empty());
        lists.map(|(key, items)| (key.to_owned(), items.iter().cloned().collect::<Value>())).collect()
    }

    /// How many entries its lists have.
    pub fn entries(&self) -> usize {
        [&self.api_groups, &self.resources, &self.resource_names, &self.verbs, &self.non_resource_urls]
            .iter()
            .map(|list| list.len())
            .sum()
    }

    /// Whether it is about one path, or about one resource of one group with at most one name.
    pub fn is_about_one(&self) -> bool {
        let lists = [&self.api_groups, &self.resources, &self.resource_names, &self.non_resource_urls];
        matches!(lists.map(BTreeSet::len), [0, 0, 0, 1] | [1, 1, 0 | 1, 0])
    }

    /// Whether an entry of it stands for several.
    pub(crate) fn has_wildcard(&self) -> bool {
        let stands = |list: &BTreeSet<String>, of: fn(&str) -> bool| list.iter().any(|entry| of(entry));
        [&self.api_groups, &self.verbs].into_iter().any(|list| list.contains("*"))
            || stands(&self.resources, |resource| resource == "*" || resource.starts_with("*/"))
            || stands(&self.non_resource_urls, |url| url.ends_with('*'))
    }

    /// Whether this rule grants all of `wanted`.
    pub(crate) fn grants(&self, wanted: &Self) -> bool {
        Part::of(wanted)
            .into_iter()
            .all(|part| part.without(self, &mut 0).is_some_and(|left| left.is_empty()))
    }
}
