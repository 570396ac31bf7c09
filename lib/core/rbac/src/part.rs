//! Parts of rules: the rest of a rule when others are taken away from it.
//!
//! A rule stands for every combination of the entries of its lists. The combinations are never listed to be compared:
//! a held rule covers some entries of each list, and what it does not cover is at most four rules.

use std::collections::{BTreeMap, BTreeSet};

use olm_object::Rule;

use crate::{
    limits::{
        COMPARISONS_MAX, ENTRIES_PER_COMPARISON, PART_ENTRIES_MAX, PARTS_MAX, SPLIT_BYTES_MAX,
        SPLIT_RULES_MAX,
    },
    required::{Held, Permission},
};

pub(crate) fn set<I: IntoIterator<Item = S>, S: Into<String>>(items: I) -> BTreeSet<String> {
    items.into_iter().map(Into::into).collect()
}

/// Whether `held` grants all of `wanted`.
pub(crate) fn grants(held: &Rule, wanted: &Rule) -> bool {
    Part::of(wanted).into_iter().all(|part| part.without(held, &mut 0).is_some_and(|left| left.is_empty()))
}

/// A rule about resources or about paths, never both; its texts belong to the rule it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    groups: Vec<&'a str>,
    resources: Vec<&'a str>,
    /// None means every name.
    names: Vec<&'a str>,
    urls: Vec<&'a str>,
    verbs: Vec<&'a str>,
}

impl<'a> Part<'a> {
    /// The parts of a rule, without those that grant nothing.
    pub(crate) fn of(rule: &'a Rule) -> Vec<Self> {
        let list = |items: &'a BTreeSet<String>| items.iter().map(String::as_str).collect();
        let on_urls =
            Self { urls: list(&rule.non_resource_urls), verbs: list(&rule.verbs), ..Self::default() };
        let on_resources = Self {
            groups: list(&rule.api_groups),
            resources: list(&rule.resources),
            names: list(&rule.resource_names),
            verbs: list(&rule.verbs),
            urls: Vec::new(),
        };
        [on_resources, on_urls].into_iter().filter(|part| !part.is_empty()).collect()
    }

    fn is_empty(&self) -> bool {
        self.verbs.is_empty()
            || (self.urls.is_empty() && (self.groups.is_empty() || self.resources.is_empty()))
    }

    fn entries(&self) -> usize {
        self.groups.len() + self.resources.len() + self.names.len() + self.urls.len() + self.verbs.len()
    }

    /// The rest when `held` is granted: parts that share nothing. `None` when that is all of it. Adds the
    /// comparisons made to `spent`.
    pub(crate) fn without(&self, held: &Rule, spent: &mut usize) -> Option<Vec<Self>> {
        *spent = spent.saturating_add(1 + self.entries() / ENTRIES_PER_COMPARISON);
        if !self.has_common_entries(held) {
            return None;
        }
        let mut cut = |items: &[&'a str], is_held: &dyn Fn(&str) -> bool| {
            *spent = spent.saturating_add(items.len() + 1);
            items.iter().partition::<Vec<&'a str>, _>(|item| is_held(item))
        };
        let (_, other_verbs) = cut(&self.verbs, &|verb| has(&held.verbs, verb));
        let mut left = Vec::new();
        if self.urls.is_empty() {
            let (groups, other_groups) = cut(&self.groups, &|group| has(&held.api_groups, group));
            let (resources, others) =
                cut(&self.resources, &|resource| has_resource(&held.resources, resource));
            let any_name = held.resource_names.is_empty();
            let (names, other_names) =
                cut(&self.names, &|name| any_name || held.resource_names.contains(name));
            if names.is_empty() && !(any_name && self.names.is_empty()) {
                return None;
            }
            left.push(Self { groups: other_groups, ..self.clone() });
            left.push(Self { groups: groups.clone(), resources: others, ..self.clone() });
            if !other_names.is_empty() {
                let (groups, resources) = (groups.clone(), resources.clone());
                left.push(Self { groups, resources, names: other_names, ..self.clone() });
            }
            left.push(Self { groups, resources, names, verbs: other_verbs, urls: Vec::new() });
        } else {
            let (urls, others) = cut(&self.urls, &|url| has_url(&held.non_resource_urls, url));
            *spent = spent.saturating_add(self.urls.len().saturating_mul(held.non_resource_urls.len()));
            if urls.is_empty() {
                return None;
            }
            left.push(Self { urls: others, ..self.clone() });
            left.push(Self { urls, verbs: other_verbs, ..self.clone() });
        }
        left.retain(|part| !part.is_empty());
        Some(left)
    }

    /// Whether `held` has some of the entries of each list, so that it may grant a part of this.
    fn has_common_entries(&self, held: &Rule) -> bool {
        let on_resources = || {
            self.groups.iter().any(|group| has(&held.api_groups, group))
                && self.resources.iter().any(|resource| has_resource(&held.resources, resource))
        };
        self.verbs.iter().any(|verb| has(&held.verbs, verb)) && (!self.urls.is_empty() || on_resources())
    }

    /// How many rules about one thing it stands for, and how many bytes of text they have.
    fn split_size(&self) -> (usize, usize) {
        let lists = [&self.groups, &self.resources, &self.names, &self.urls];
        let count = lists.iter().map(|list| list.len().max(1)).fold(1, usize::saturating_mul);
        let bytes = |list: &[&str]| list.iter().map(|item| item.len()).fold(0_usize, usize::saturating_add);
        // Each entry of a list stands in as many of the rules as the other lists have combinations.
        let texts = lists.iter().map(|list| (count / list.len().max(1)).saturating_mul(bytes(list)));
        // An entry takes memory, however short it is.
        let verbs =
            bytes(&self.verbs).saturating_add(self.verbs.len().saturating_mul(32)).saturating_mul(count);
        (count, texts.fold(verbs, usize::saturating_add))
    }

    /// Rules about one path each, or one resource of one group with at most one name.
    fn split(&self) -> Vec<Rule> {
        type List = fn(&mut Rule) -> &mut BTreeSet<String>;
        let lists: [(&[&str], List); 4] = [
            (&self.groups, |rule| &mut rule.api_groups),
            (&self.resources, |rule| &mut rule.resources),
            (&self.names, |rule| &mut rule.resource_names),
            (&self.urls, |rule| &mut rule.non_resource_urls),
        ];
        let one = Rule { verbs: set(self.verbs.iter().copied()), ..Rule::default() };
        lists.into_iter().filter(|(items, _)| !items.is_empty()).fold(vec![one], |rules, (items, list)| {
            let with = |(rule, item): (&Rule, &&str)| {
                let mut rule = rule.clone();
                list(&mut rule).insert((*item).to_owned());
                rule
            };
            rules.iter().flat_map(|rule| items.iter().map(move |item| (rule, item))).map(with).collect()
        })
    }
}

impl From<Part<'_>> for Rule {
    fn from(part: Part<'_>) -> Self {
        Self {
            api_groups: set(part.groups),
            resources: set(part.resources),
            resource_names: set(part.names),
            verbs: set(part.verbs),
            non_resource_urls: set(part.urls),
        }
    }
}

/// Compares rules with those that are held. What all comparisons and reports of one cost together has limits.
#[derive(Debug, Default)]
pub struct Comparison {
    spent: usize,
    entries: usize,
    split_rules: usize,
    split_bytes: usize,
}

impl Comparison {
    /// The permissions of `needed` that are not held: by single resource and name with the verbs of each joined, sorted,
    /// and before these, as rules with several, those that would be too many.
    pub fn missing(&mut self, needed: &[Permission], held: &Held) -> Vec<Permission> {
        let mut split = Split::default();
        for Permission { namespace, rule } in needed {
            for part in self.left(rule, held.rules(namespace)) {
                split.add(namespace, part, self);
            }
        }
        let things = split.things.into_iter().map(|((namespace, thing), mut verbs)| {
            if verbs.contains("*") {
                verbs = set(["*"]);
            }
            (namespace, Rule { verbs, ..thing })
        });
        let all = split.unsplit.into_iter().chain(things);
        all.map(|(namespace, rule)| Permission { namespace, rule }).collect()
    }

    /// The parts of `rule` that none of `held` grants. Beyond the limits, parts that are not compared count as not granted.
    pub(crate) fn left<'a, 'h>(
        &mut self,
        rule: &'a Rule,
        held: impl Iterator<Item = &'h Rule>,
    ) -> Vec<Part<'a>> {
        let mut left = Part::of(rule);
        for held in held {
            let entries: usize = left.iter().map(Part::entries).sum();
            let is_too_much =
                self.entries.saturating_add(entries) > PART_ENTRIES_MAX || left.len() > PARTS_MAX;
            if left.is_empty() || is_too_much || self.spent > COMPARISONS_MAX {
                break;
            }
            let cut = left.into_iter().flat_map(|part| match part.without(held, &mut self.spent) {
                Some(less) => less,
                None => vec![part],
            });
            left = cut.collect();
        }
        self.entries = left.iter().map(Part::entries).fold(self.entries, usize::saturating_add);
        left
    }
}

/// Rules about one thing each, and those that would be too many or too large if they were split into such.
#[derive(Debug, Default)]
pub(crate) struct Split {
    /// Verbs by namespace and what they are on.
    pub(crate) things: BTreeMap<(String, Rule), BTreeSet<String>>,
    /// Rules with their namespaces.
    pub(crate) unsplit: BTreeSet<(String, Rule)>,
}

impl Split {
    /// Adds what a part grants in a namespace.
    pub(crate) fn add(&mut self, namespace: &str, part: Part<'_>, comparison: &mut Comparison) {
        let (count, bytes) = part.split_size();
        let rules = comparison.split_rules.saturating_add(count);
        let bytes = comparison.split_bytes.saturating_add(bytes);
        if rules > SPLIT_RULES_MAX || bytes > SPLIT_BYTES_MAX {
            self.unsplit.insert((namespace.to_owned(), part.into()));
            return;
        }
        (comparison.split_rules, comparison.split_bytes) = (rules, bytes);
        for mut thing in part.split() {
            let verbs = std::mem::take(&mut thing.verbs);
            self.things.entry((namespace.to_owned(), thing)).or_default().extend(verbs);
        }
    }
}

/// `*` stands for everything.
fn has(held: &BTreeSet<String>, wanted: &str) -> bool {
    held.contains("*") || held.contains(wanted)
}

/// `*` grants every resource, `*/status` the status of every resource.
fn has_resource(held: &BTreeSet<String>, wanted: &str) -> bool {
    has(held, wanted) || wanted.split_once('/').is_some_and(|(_, sub)| held.contains(&format!("*/{sub}")))
}

/// A `*` at the end of a path stands for anything.
fn has_url(held: &BTreeSet<String>, wanted: &str) -> bool {
    held.iter().any(|held| match held.strip_suffix('*') {
        Some(prefix) => wanted.starts_with(prefix),
        None => held == wanted,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use olm_object::Rule;

    use super::{Comparison, Part, grants, set};

    /// Every combination that a rule stands for: group, resource, name, verb.
    fn combinations(rule: &Rule) -> BTreeSet<[String; 4]> {
        let names = if rule.resource_names.is_empty() { set([""]) } else { rule.resource_names.clone() };
        let mut all = BTreeSet::new();
        for (group, resource) in
            rule.api_groups.iter().flat_map(|g| rule.resources.iter().map(move |r| (g, r)))
        {
            for (name, verb) in names.iter().flat_map(|n| rule.verbs.iter().map(move |v| (n, v))) {
                all.insert([group, resource, name, verb].map(Clone::clone));
            }
        }
        all
    }

    fn rule(groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]) -> Rule {
        let list = |items: &[&str]| set(items.iter().copied());
        Rule {
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            verbs: list(verbs),
            non_resource_urls: BTreeSet::new(),
        }
    }

    #[test]
    fn what_is_left_is_what_no_held_rule_has() {
        let wanted = rule(&["", "a", "b"], &["x", "y", "z"], &["n", "m"], &["get", "list", "watch"]);
        let held = [
            rule(&["", "c"], &["x", "y"], &["n"], &["get", "list"]),
            rule(&["a"], &["*"], &[], &["watch"]),
            rule(&["*"], &["z"], &["m", "q"], &["*"]),
            rule(&["b"], &["x"], &["q"], &["get"]),
        ];
        let left: Vec<Rule> =
            Comparison::default().left(&wanted, held.iter()).into_iter().map(Rule::from).collect();
        let mut expected = combinations(&wanted);
        expected.retain(|[group, resource, name, verb]| {
            let one = rule(&[group], &[resource], &[name], &[verb]);
            !held.iter().any(|held| grants(held, &one))
        });
        let found: Vec<_> = left.iter().flat_map(combinations).collect();
        assert_eq!(found.len(), expected.len(), "no combination is left twice");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }

    #[test]
    fn a_rule_for_every_name_is_not_cut_by_names() {
        let wanted = rule(&[""], &["x"], &[], &["get"]);
        assert_eq!(Part::of(&wanted)[0].without(&rule(&[""], &["x"], &["n"], &["get"]), &mut 0), None);
        assert_eq!(
            Part::of(&wanted)[0].without(&rule(&["*"], &["*"], &[], &["*"]), &mut 0),
            Some(Vec::new())
        );
    }
}
