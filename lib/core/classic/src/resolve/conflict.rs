//! Why there is no solution: constraints that contradict each other and of which none can be left out, in upstream's words.

use std::collections::{BTreeMap, BTreeSet};

use olm_dependencies::Work;

use super::{
    Conflict, ResolveError, explain,
    problem::{Missing, Origin, Problem, Rule, Variable},
    search::{Verdict, search},
};

impl Conflict {
    /// A minimal part of constraints that contradict each other. What says most to the owners of Subscriptions is kept
    /// longest. When the work is too much, what has been left out by then is left out.
    pub(super) fn of(problem: &Problem<'_>, contradiction: &BTreeSet<usize>, work: &Work) -> Self {
        let latest = latest(problem);
        let mut kept: BTreeSet<usize> = contradiction.iter().map(|one| latest[&key(problem, *one)]).collect();
        let mut order: Vec<_> = kept.iter().map(|one| (about_subscription(problem, *one), *one)).collect();
        order.sort_by_cached_key(|(about, one)| (*about, std::cmp::Reverse(text(problem, *one))));
        for (_, one) in order {
            if !kept.contains(&one) {
                continue;
            }
            let others = kept.iter().filter(|other| **other != one);
            let others = others.map(|other| (*other, &problem.constraints[*other].rule));
            match search(others, work) {
                Ok(Verdict::Unsatisfiable(fewer)) => kept = fewer,
                Ok(Verdict::Satisfied(..)) => {}
                Err(_) => break,
            }
        }
        let mut lines: Vec<String> = kept.iter().map(|one| text(problem, *one)).collect();
        lines.sort();
        let subscriptions = kept.iter().flat_map(|one| problem.constraints[*one].rule.variables());
        let subscriptions: BTreeSet<&str> = subscriptions
            .filter(|one| problem.subscription(*one).is_some())
            .map(|one| problem.name(one))
            .collect();
        Self {
            lines,
            subscriptions: subscriptions.into_iter().map(str::to_owned).collect(),
            explanation: explain::sentence(problem, &kept),
        }
    }
}

/// Of constraints that say the same of a variable upstream names the last.
fn latest<'p>(problem: &'p Problem<'_>) -> BTreeMap<Key<'p>, usize> {
    (0..problem.constraints.len()).map(|one| (key(problem, one), one)).collect()
}

/// What a constraint says: one of these candidates must be chosen with the first, or another rule.
type Key<'p> = Result<(Variable, &'p [Variable]), &'p Rule>;

fn key<'p>(problem: &'p Problem<'_>, constraint: usize) -> Key<'p> {
    match &problem.constraints[constraint].rule {
        Rule::AnyOf(subject, candidates) => Ok((*subject, candidates)),
        Rule::Prohibited(subject) => Ok((*subject, &[])),
        rule => Err(rule),
    }
}

fn about_subscription(problem: &Problem<'_>, constraint: usize) -> bool {
    problem.constraints[constraint]
        .rule
        .variables()
        .first()
        .is_some_and(|one| problem.subscription(*one).is_some())
}

/// A constraint in upstream's words.
pub(super) fn text(problem: &Problem<'_>, constraint: usize) -> String {
    let constraint = &problem.constraints[constraint];
    let identifier = |variable: &Variable| problem.identifier(*variable);
    match (&constraint.origin, &constraint.rule) {
        (Origin::Requires(what), Rule::AnyOf(subject, _)) => {
            format!("bundle {} requires an operator {what}", problem.name(*subject))
        }
        (Origin::Candidates, Rule::AnyOf(subject, candidates)) => {
            let subscription = problem.name(*subject);
            match &candidates.iter().map(identifier).collect::<Vec<_>>()[..] {
                [] => format!("no operators found matching the criteria of subscription {subscription}"),
                [only] => format!("subscription {subscription} requires {only}"),
                [first @ .., last] => {
                    let first = first.join(", ");
                    format!("subscription {subscription} requires at least one of {first} or {last}")
                }
            }
        }
        (Origin::Kind(kind), Rule::AtMostOne(members)) => {
            let (group, version, kind) = (&kind.group, &kind.version, &kind.kind);
            format!("{} provide {kind} ({group}/{version})", sorted(members.iter().map(identifier)))
        }
        (Origin::Package(package), Rule::AtMostOne(members)) => {
            format!("{} originate from package {package}", sorted(members.iter().map(identifier)))
        }
        (_, Rule::Conflict(one, other)) => {
            format!("{} conflicts with {}", identifier(one), identifier(other))
        }
        (Origin::Missing(missing), rule) => missing_text(problem, *missing, rule),
        (Origin::Deprecated, rule) => {
            format!("bundle {} is deprecated", rule.variables().first().map(identifier).unwrap_or_default())
        }
        (_, rule) => {
            let variable = rule.variables().first().copied().unwrap_or_default();
            let name = problem.name(variable);
            if problem.subscription(variable).is_some() {
                format!("subscription {name} exists")
            } else {
                format!("clusterserviceversion {name} exists and is not referenced by a subscription")
            }
        }
    }
}

fn missing_text(problem: &Problem<'_>, missing: Missing, rule: &Rule) -> String {
    let subscription = rule.variables().first().and_then(|one| problem.subscription(*one));
    let Some(subscription) = subscription else { return String::new() };
    let (spec, name) = (&subscription.spec, super::name(subscription));
    let (package, channel) = (&spec.name, spec.channel.as_deref().unwrap_or_default());
    match missing {
        Missing::Catalog => {
            let (catalog, namespace) = (&spec.source, &spec.source_namespace);
            format!(
                "no operators found from catalog {catalog} in namespace {namespace} referenced by subscription {name}"
            )
        }
        Missing::Package => {
            format!(
                "no operators found in package {package} in the catalog referenced by subscription {name}"
            )
        }
        Missing::Channel => format!(
            "no operators found in channel {channel} of package {package} in the catalog referenced by subscription {name}"
        ),
        Missing::StartingCsv => {
            let csv = spec.starting_csv.as_deref().unwrap_or_default();
            format!(
                "no operators found with name {csv} in channel {channel} of package {package} in the catalog referenced by \
                 subscription {name}"
            )
        }
    }
}

/// Identifiers by name: `a, b and c`.
fn sorted(identifiers: impl Iterator<Item = String>) -> String {
    let mut all: Vec<_> = identifiers.collect();
    all.sort();
    match all.pop() {
        Some(last) if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// The first solution of some constraints of the problem, or a minimal conflict.
pub(super) fn solve(
    problem: &Problem<'_>,
    constraints: &[usize],
    work: &Work,
) -> Result<Result<super::solution::Chosen, Conflict>, ResolveError> {
    let rules = constraints.iter().map(|one| (*one, &problem.constraints[*one].rule));
    Ok(match search(rules, work)? {
        Verdict::Satisfied(chosen, is_first) => Ok((chosen, is_first)),
        Verdict::Unsatisfiable(contradiction) => Err(Conflict::of(problem, &contradiction, work)),
    })
}
