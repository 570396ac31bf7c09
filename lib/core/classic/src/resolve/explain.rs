//! One sentence for people: what prevents a solution, and what helps.

use std::collections::BTreeSet;

use olm_api_classic::Subscription;
use olm_go::Quoted;
use olm_text::{cut, did_you_mean, one_line};

use super::problem::{Missing, Origin, Problem, Rule, Variable};
use crate::limits::EXPLANATION_CHARACTERS_MAX;

/// Causes that are named; the others are counted.
const CAUSES_MAX: usize = 3;

/// The sentence about constraints that contradict each other.
pub(super) fn sentence(problem: &Problem<'_>, conflict: &BTreeSet<usize>) -> String {
    let missing = conflict.iter().find_map(|one| {
        let constraint = &problem.constraints[*one];
        let Origin::Missing(missing) = constraint.origin else { return None };
        let subscription = problem.subscription(*constraint.rule.variables().first()?)?;
        Some(nothing_to_choose(problem, subscription, missing))
    });
    let sentence = missing.unwrap_or_else(|| contradiction(problem, conflict));
    cut(&one_line(&sentence), EXPLANATION_CHARACTERS_MAX).into_owned()
}

/// The sentence about a Subscription that names something that is not there.
fn nothing_to_choose(problem: &Problem<'_>, subscription: &Subscription, missing: Missing) -> String {
    let spec = &subscription.spec;
    let name = Quoted(super::name(subscription));
    let catalog = format!("{}/{}", spec.source_namespace, spec.source);
    let package = Quoted(&spec.name);
    let at = problem
        .universe
        .catalogs
        .iter()
        .position(|one| one.namespace == spec.source_namespace && one.name == spec.source);
    let suggestion = |wanted: &str, names: Vec<&str>| {
        did_you_mean(wanted, names).map_or_else(String::new, |question| format!(". {question}"))
    };
    let channels = at.and_then(|at| problem.universe.package(at, &spec.name));
    let channels = channels.map(|package| &package.graph.channels);
    match missing {
        Missing::Catalog if at.is_some() => format!(
            "Subscription {name} names the CatalogSource {catalog}, which has no bundles: use another one, or wait for content"
        ),
        Missing::Catalog => format!(
            "Subscription {name} names the CatalogSource {catalog}, which namespace {} does not see: correct spec.source and \
             spec.sourceNamespace",
            Quoted(problem.universe.namespace)
        ),
        Missing::Package => {
            let names = at.map(|at| problem.universe.packages(at).map(|(name, _)| name).collect());
            format!(
                "Subscription {name} asks for package {package}, which the CatalogSource {catalog} does not have: correct \
                 spec.name{}",
                suggestion(&spec.name, names.unwrap_or_default())
            )
        }
        Missing::Channel => {
            let names: Vec<_> = channels.into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
            format!(
                "Subscription {name} asks for channel {} of package {package}, which the CatalogSource {catalog} does not \
                 have: set spec.channel to {}",
                Quoted(spec.channel.as_deref().unwrap_or_default()),
                either(&names)
            )
        }
        Missing::StartingCsv => {
            let wanted = spec.starting_csv.as_deref().unwrap_or_default();
            let entries =
                channels.into_iter().flat_map(|all| all.values()).flat_map(|one| one.entries.keys());
            format!(
                "Subscription {name} starts with {}, which no channel that it may use has: correct or remove \
                 spec.startingCSV{}",
                Quoted(wanted),
                suggestion(wanted, entries.map(String::as_str).collect())
            )
        }
    }
}

/// The sentence about things that exclude each other.
fn contradiction(problem: &Problem<'_>, conflict: &BTreeSet<usize>) -> String {
    let (mut subscriptions, mut csvs, mut causes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut is_unmet, mut is_exclusive) = (false, false);
    for one in conflict {
        let constraint = &problem.constraints[*one];
        let first: Variable = constraint.rule.variables().first().copied().unwrap_or_default();
        match &constraint.origin {
            Origin::Exists if problem.subscription(first).is_some() => {
                subscriptions.push(problem.name(first));
            }
            Origin::Exists => csvs.push(problem.name(first)),
            Origin::Requires(what) => {
                let is_missing =
                    matches!(&constraint.rule, Rule::AnyOf(_, candidates) if candidates.is_empty());
                is_unmet |= is_missing;
                let nowhere = if is_missing { ", and there is none" } else { "" };
                causes.push((
                    !is_missing,
                    format!("{} requires an operator {what}{nowhere}", problem.name(first)),
                ));
            }
            Origin::Deprecated => {
                causes.push((false, format!("{} is deprecated", problem.identifier(first))));
            }
            Origin::Kind(kind) => {
                is_exclusive = true;
                causes.push((true, format!("only one operator of a namespace may provide {kind}")));
            }
            Origin::Package(package) => {
                is_exclusive = true;
                causes.push((
                    true,
                    format!("only one bundle of package {package} may be installed in a namespace"),
                ));
            }
            Origin::Replaces | Origin::Candidates | Origin::Missing(_) => {}
        }
    }
    causes.sort();
    let more = causes.len().saturating_sub(CAUSES_MAX);
    let mut causes: Vec<String> = causes.into_iter().take(CAUSES_MAX).map(|(_, cause)| cause).collect();
    if more > 0 {
        causes.push(format!("and {more} more such constraints"));
    }
    if causes.is_empty() {
        causes.push(no_choice(problem, conflict));
    }
    let remedy = match (is_unmet, is_exclusive, csvs.is_empty(), subscriptions.len()) {
        (_, true, false, 1..) => {
            format!("delete ClusterServiceVersion {} or the Subscription", either(&csvs))
        }
        (true, ..) => {
            "add a catalog that offers what is required, or choose another channel or version".to_owned()
        }
        (_, true, _, 2..) => "remove one of the Subscriptions, or install it in another namespace".to_owned(),
        _ => "choose another channel or version".to_owned(),
    };
    let quoted = |names: &[&str]| names.iter().map(|name| Quoted(name).to_string()).collect::<Vec<_>>();
    let mut who = Vec::new();
    if !subscriptions.is_empty() {
        who.push(format!("Subscription {}", quoted(&subscriptions).join(" and ")));
    }
    if !csvs.is_empty() {
        who.push(format!(
            "the installed ClusterServiceVersion {}, which has no Subscription,",
            quoted(&csvs).join(" and ")
        ));
    }
    let who = who.join(" together with ");
    format!("there is no solution for {who} because {}: {remedy}", causes.join("; "))
}

/// Why nothing can be chosen where no constraint says why.
fn no_choice(problem: &Problem<'_>, conflict: &BTreeSet<usize>) -> String {
    let has_range = conflict.iter().any(|one| {
        let variables = problem.constraints[*one].rule.variables();
        let subscription = variables.first().and_then(|one| problem.subscription(*one));
        subscription.is_some_and(|one| matches!(super::version_range(one), Ok(Some(_))))
    });
    let within = if has_range { " within its annotation olm.classic/version-range" } else { "" };
    format!("no bundle of the channel{within} can be chosen")
}

/// Names as alternatives: `a, b or c`.
fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => Quoted(only).to_string(),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|name| Quoted(name).to_string()).collect();
            format!("{} or {}", first.join(", "), Quoted(last))
        }
    }
}
