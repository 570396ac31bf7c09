//! Few rules that grant exactly what many granted.

use std::collections::{BTreeMap, BTreeSet};

use olm_object::Rule;

use crate::part::{Comparison, Split, set};

/// The same permissions in fewer rules: what another rule grants is dropped, then verbs, names and resources of rules
/// that differ in nothing else are joined. Sorted. Rules that would be too many if they were split stay as they are.
pub(crate) fn compact(rules: impl IntoIterator<Item = Rule>, also_held: &[Rule]) -> Vec<Rule> {
    let (mut comparison, mut split) = (Comparison::default(), Split::default());
    for rule in rules {
        for part in comparison.left(&rule, also_held.iter()) {
            split.add("", part, &mut comparison);
        }
    }
    let things = split.things;
    let rule = |(_, thing): &(String, Rule), verbs: &BTreeSet<String>| {
        let verbs = if verbs.contains("*") { set(["*"]) } else { verbs.clone() };
        Rule { verbs, ..thing.clone() }
    };
    let rules: Vec<Rule> = things.iter().map(|(thing, verbs)| rule(thing, verbs)).collect();
    // Only these can grant permissions of another rule: those with wildcards, and the one for all names of the same thing.
    let wide: Vec<&Rule> = rules
        .iter()
        .filter(|rule| rule.has_wildcard())
        .chain(split.unsplit.iter().map(|(_, rule)| rule))
        .collect();
    let mut comparison = Comparison::default();
    let mut kept = BTreeSet::new();
    for one in &rules {
        let unnamed = Rule { resource_names: BTreeSet::new(), verbs: BTreeSet::new(), ..one.clone() };
        let unnamed =
            things.get_key_value(&(String::new(), unnamed)).map(|(thing, verbs)| rule(thing, verbs));
        let others = wide.iter().copied().chain(unnamed.as_ref()).filter(|other| *other != one);
        kept.extend(comparison.left(one, others).into_iter().map(Rule::from));
    }
    let names = joined_names(kept);
    let resources = joined(names, |rule| &mut rule.resources);
    let mut urls = joined(resources, |rule| &mut rule.non_resource_urls);
    urls.extend(split.unsplit.into_iter().map(|(_, rule)| rule));
    urls.into_iter().collect()
}

/// Rules that are equal but for one list, joined into one with all its items.
fn joined(rules: BTreeSet<Rule>, list: fn(&mut Rule) -> &mut BTreeSet<String>) -> BTreeSet<Rule> {
    let mut by_rest: BTreeMap<Rule, BTreeSet<String>> = BTreeMap::new();
    for mut rule in rules {
        let items = std::mem::take(list(&mut rule));
        by_rest.entry(rule).or_default().extend(items);
    }
    let rejoined = by_rest.into_iter().map(|(mut rule, items)| {
        *list(&mut rule) = items;
        rule
    });
    rejoined.collect()
}

/// Like [`joined`] for names, but a rule without names, which is about all, stays apart.
fn joined_names(rules: BTreeSet<Rule>) -> BTreeSet<Rule> {
    let (named, all): (BTreeSet<Rule>, BTreeSet<Rule>) =
        rules.into_iter().partition(|rule| !rule.resource_names.is_empty());
    let mut rules = joined(named, |rule| &mut rule.resource_names);
    rules.extend(all);
    rules
}

#[cfg(test)]
mod tests {
    use olm_object::Rule;

    use super::compact;

    #[test]
    fn rules_are_joined_without_granting_more() {
        let rules = [
            Rule::new("", "pods", Some("a"), &["get"]),
            Rule::new("", "pods", Some("b"), &["get"]),
            Rule::new("", "pods", None, &["create"]),
            Rule::new("", "services", None, &["create"]),
            Rule::new("", "pods", Some("a"), &["create"]),
        ];
        let wanted = [
            Rule {
                resource_names: ["a", "b"].map(str::to_owned).into(),
                ..Rule::new("", "pods", None, &["get"])
            },
            Rule {
                resources: ["pods", "services"].map(str::to_owned).into(),
                ..Rule::new("", "pods", None, &["create"])
            },
        ];
        assert_eq!(compact(rules, &[]), wanted);
    }

    #[test]
    fn what_is_held_already_is_left_out() {
        let held = [Rule::new("*", "*", None, &["get"])];
        let rules = [Rule::new("", "pods", Some("a"), &["delete", "get"])];
        assert_eq!(compact(rules, &held), [Rule::new("", "pods", Some("a"), &["delete"])]);
    }
}
