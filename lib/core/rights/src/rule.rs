//! A rule of Kubernetes' RBAC, split into atoms and compared.

use std::collections::BTreeSet;

use serde_json::Value;

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

    /// The rule split into its smallest parts: one group, resource, name and verb each.
    pub(crate) fn atoms(&self) -> Vec<Self> {
        let one = |text: &String| BTreeSet::from([text.clone()]);
        let names: Vec<BTreeSet<String>> = if self.resource_names.is_empty() {
            vec![BTreeSet::new()]
        } else {
            self.resource_names.iter().map(one).collect()
        };
        let mut atoms = Vec::new();
        for verb in &self.verbs {
            for url in &self.non_resource_urls {
                atoms.push(Self { non_resource_urls: one(url), verbs: one(verb), ..Self::default() });
            }
            for group in &self.api_groups {
                for resource in &self.resources {
                    for name in &names {
                        atoms.push(Self {
                            api_groups: one(group),
                            resources: one(resource),
                            resource_names: name.clone(),
                            verbs: one(verb),
                            non_resource_urls: BTreeSet::new(),
                        });
                    }
                }
            }
        }
        atoms
    }

    /// Whether this rule grants the atom `wanted`.
    pub(crate) fn grants(&self, wanted: &Self) -> bool {
        let has = |held: &BTreeSet<String>, wanted: &BTreeSet<String>| {
            held.contains("*") || wanted.iter().all(|w| held.contains(w))
        };
        if !has(&self.verbs, &wanted.verbs) {
            return false;
        }
        if !wanted.non_resource_urls.is_empty() {
            return wanted.non_resource_urls.iter().all(|wanted| {
                self.non_resource_urls.iter().any(|held| match held.strip_suffix('*') {
                    Some(prefix) => wanted.starts_with(prefix),
                    None => held == wanted,
                })
            });
        }
        let names = self.resource_names.is_empty()
            || (!wanted.resource_names.is_empty() && wanted.resource_names.is_subset(&self.resource_names));
        has(&self.api_groups, &wanted.api_groups)
            && resource_granted(&self.resources, &wanted.resources)
            && names
    }
}

/// `*` grants every resource, `*/status` the status of every resource.
fn resource_granted(held: &BTreeSet<String>, wanted: &BTreeSet<String>) -> bool {
    wanted.iter().all(|wanted| {
        let any = wanted.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        held.contains("*") || held.contains(wanted) || any.is_some_and(|any| held.contains(&any))
    })
}
