//! Few rules that grant exactly what many granted.

use std::collections::{BTreeMap, BTreeSet};

use crate::rule::Rule;

/// The same rights in fewer rules: what another rule grants is dropped, then verbs, names and resources of rules
/// that differ in nothing else are joined. Sorted.
pub(crate) fn compact(rules: impl IntoIterator<Item = Rule>, also_held: &[Rule]) -> Vec<Rule> {
    let atoms: BTreeSet<Rule> = rules.into_iter().flat_map(|rule| rule.atoms()).collect();
    let superfluous = |atom: &Rule| {
        also_held.iter().any(|held| held.grants(atom))
            || atoms.iter().any(|other| other != atom && other.grants(atom))
    };
    let kept: BTreeSet<Rule> = atoms.iter().filter(|atom| !superfluous(atom)).cloned().collect();
    let verbs = joined(kept, |rule| &mut rule.verbs);
    let names = joined_names(verbs);
    let resources = joined(names, |rule| &mut rule.resources);
    let urls = joined(resources, |rule| &mut rule.non_resource_urls);
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
    use super::compact;
    use crate::rule::Rule;

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
