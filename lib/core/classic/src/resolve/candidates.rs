//! What became of each bundle that a Subscription could have: the one that is chosen, and why each other one is not.

use std::collections::BTreeSet;

use olm_api_classic::Subscription;
use olm_dependencies::Work;
use olm_text::{cut, one_line};

use super::{
    Catalog, Conflict, Request, Unresolved, conflict, installed,
    parts::Together,
    problem::{Constraint, Origin, Problem, Rule, Subject, Variable},
    search::{Verdict, search},
    universe::Candidate,
};
use crate::{
    graph::{Channel, Entry},
    limits::{CANDIDATES_MAX, EXPLANATION_CHARACTERS_MAX},
};

/// Steps of the search for one candidate.
const STEPS: u64 = 200_000;

/// A bundle in a channel of the package that a Subscription asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateAnswer {
    /// Name of the bundle.
    pub name: String,
    /// Channel.
    pub channel: String,
    /// Whether it is to be installed.
    pub is_chosen: bool,
    /// Why it is chosen, or not.
    pub reason: String,
}

/// The bundles that a Subscription could have, in order of preference, and how many more there are. None where the
/// Subscription, its catalog or its package is not there.
pub fn candidates<'a>(
    request: &Request<'a>,
    catalogs: &'a [Catalog<'a>],
    subscription: &str,
) -> (Vec<CandidateAnswer>, usize) {
    let (mut problem, mut steps) = super::problem(request, catalogs);
    let Some(at) = problem.subscriptions.iter().position(|one| super::name(one) == subscription) else {
        return (Vec::new(), 0);
    };
    let part =
        super::together(&problem, request.scope).into_iter().find(|one| one.subscriptions.contains(&at));
    let Some(part) = part else { return (Vec::new(), 0) };
    let outcome = super::with_share(&mut steps, |work| part.resolve(&problem, request.scope, work));
    let chosen: BTreeSet<Variable> =
        outcome.iter().flat_map(|(chosen, _)| chosen).map(|(_, variable)| *variable).collect();
    let failure = outcome.err();
    let all = entries(&mut problem, at);
    let more = all.len().saturating_sub(CANDIDATES_MAX);
    let mut answers = Vec::new();
    for (channel, entry) in all.into_iter().take(CANDIDATES_MAX) {
        let variable = variable(&problem, at, channel, &entry.name);
        let is_chosen = variable.is_some_and(|one| chosen.contains(&one));
        let reason = match variable {
            None => not_offered(&problem, at, entry),
            Some(_) if is_chosen => "chosen".to_owned(),
            Some(variable) => left(&mut problem, &part, at, variable, (&chosen, failure.as_ref())),
        };
        let reason = cut(&one_line(&reason), EXPLANATION_CHARACTERS_MAX).into_owned();
        answers.push(CandidateAnswer {
            name: entry.name.clone(),
            channel: channel.to_owned(),
            is_chosen,
            reason,
        });
    }
    (answers, more)
}

/// The entries of the channels that a Subscription may use, each from its head; those of one without an order by name.
fn entries<'a>(problem: &mut Problem<'a>, at: usize) -> Vec<(&'a str, &'a Entry)> {
    let subscription = problem.subscriptions[at];
    let Some((catalog, package)) = place(problem, subscription) else { return Vec::new() };
    let Some(content) = problem.universe.package(catalog, package) else { return Vec::new() };
    let wanted = subscription.spec.channel.as_deref().unwrap_or_default();
    let channels: Vec<(&str, &Channel)> = content.graph.by_preference().collect();
    let mut all = Vec::new();
    for (name, channel) in channels.into_iter().filter(|(name, _)| wanted.is_empty() || wanted == *name) {
        match problem.universe.order((catalog, package, name)).as_ref() {
            Ok(order) => all.extend(order.iter().map(|entry| (name, *entry))),
            Err(_) => all.extend(channel.entries.values().map(|entry| (name, entry))),
        }
    }
    all
}

/// The catalog and the package of a Subscription.
fn place<'a>(problem: &Problem<'a>, subscription: &'a Subscription) -> Option<(usize, &'a str)> {
    let spec = &subscription.spec;
    let is_named = |one: &&Catalog<'_>| one.namespace == spec.source_namespace && one.name == spec.source;
    let catalog = problem.universe.catalogs.iter().position(is_named)?;
    Some((catalog, spec.name.as_str()))
}

/// The candidates of a Subscription, in order of preference.
fn offered<'p>(problem: &'p Problem<'_>, at: usize) -> &'p [Variable] {
    let offered = problem.constraints.iter().find_map(|one| match (&one.origin, &one.rule) {
        (Origin::Candidates, Rule::AnyOf(subject, candidates)) if *subject == at => Some(&candidates[..]),
        _ => None,
    });
    offered.unwrap_or_default()
}

/// The variable of an entry, if the Subscription may choose it.
fn variable(problem: &Problem<'_>, at: usize, in_channel: &str, bundle: &str) -> Option<Variable> {
    offered(problem, at).iter().copied().find(|one| match problem.subjects[*one] {
        Subject::Candidate(Candidate::Bundle { channel, name, .. }) => {
            channel == in_channel && name == bundle
        }
        _ => false,
    })
}

/// Why an entry is no candidate of the Subscription.
fn not_offered(problem: &Problem<'_>, at: usize, entry: &Entry) -> String {
    let subscription = problem.subscriptions[at];
    let current = installed::installed(subscription);
    let current = current.and_then(|name| problem.universe.installed.iter().find(|one| one.name == *name));
    if let Some(fault) = problem.faults.get(&at) {
        return format!("not considered: {fault}");
    }
    if current.is_some_and(|current| current.name == entry.name) {
        return "installed".to_owned();
    }
    let starting = subscription.spec.starting_csv.as_deref().filter(|name| !name.is_empty());
    if let Some(starting) = starting.filter(|_| current.is_none())
        && starting != entry.name
    {
        return format!("spec.startingCSV is {starting}");
    }
    if let Ok(Some(range)) = super::version_range(subscription) {
        let package = place(problem, subscription)
            .and_then(|(catalog, package)| problem.universe.package(catalog, package));
        let version = package.and_then(|package| package.bundles.get(&entry.name)?.version.as_ref());
        if !version.is_some_and(|version| range.contains(version)) {
            return format!("outside the annotation {}", super::VERSION_RANGE_ANNOTATION);
        }
    }
    match current {
        Some(current) => format!("it does not replace, skip or cover in its skipRange {}", current.name),
        None => "the catalog has no bundle of this name".to_owned(),
    }
}

/// Why a candidate is not chosen.
fn left(
    problem: &mut Problem<'_>,
    part: &Together,
    at: usize,
    variable: Variable,
    (chosen, failure): (&BTreeSet<Variable>, Option<&Unresolved>),
) -> String {
    if let Some(Unresolved::Errors(_)) = failure {
        return "not considered: the resolution failed".to_owned();
    }
    let order = offered(problem, at);
    let place_of = |wanted: &dyn Fn(&Variable) -> bool| order.iter().position(wanted);
    let winner = place_of(&|one| chosen.contains(one));
    if let (Some(winner), Some(own)) = (winner, place_of(&|one| *one == variable))
        && winner < own
    {
        return format!("{} is preferred", problem.name(order[winner]));
    }
    let work = Work::of(STEPS);
    let extra = problem.constraints.len();
    problem.constraints.push(Constraint { rule: Rule::Mandatory(variable), origin: Origin::Exists });
    let all = part.constraints().chain([extra]);
    let verdict = search(all.map(|one| (one, &problem.constraints[one].rule)), &work);
    let reason = match verdict {
        Ok(Verdict::Satisfied(..)) => "the choice of another Subscription comes first".to_owned(),
        Ok(Verdict::Unsatisfiable(contradiction)) => {
            let assumed = conflict::text(problem, extra);
            let conflict = Conflict::of(problem, &contradiction, &work);
            let lines =
                conflict.lines.into_iter().filter(|line| *line != assumed && !line.ends_with(" exists"));
            lines.collect::<Vec<_>>().join("; ")
        }
        Err(_) => "to find out why takes too many steps".to_owned(),
    };
    problem.constraints.pop();
    reason
}
