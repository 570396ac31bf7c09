//! What is resolved together: the constraints of the whole namespace, or of Subscriptions that have something in common.

use std::collections::{BTreeMap, BTreeSet};

use olm_dependencies::Work;

use super::{
    ResolveError, Scope, Unresolved, conflict,
    problem::{Origin, Problem, Rule, Subject, Variable},
    solution::Chosen,
    universe::Candidate,
};

/// Constraints that are resolved together.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// The Subscriptions, by their place.
    pub(super) subscriptions: Vec<usize>,
    variables: BTreeSet<Variable>,
    constraints: Vec<usize>,
}

/// All constraints.
pub(super) fn whole(problem: &Problem<'_>) -> Together {
    Together {
        subscriptions: (0..problem.subscriptions.len()).collect(),
        variables: (0..problem.subjects.len()).collect(),
        constraints: (0..problem.constraints.len()).collect(),
    }
}

/// Constraints that have a variable in common, directly or by others. Those of which nothing must be are left out.
pub(super) fn related(problem: &Problem<'_>) -> Vec<Together> {
    let mut sets = Sets((0..problem.subjects.len()).collect());
    for constraint in &problem.constraints {
        let variables = constraint.rule.variables();
        for pair in variables.windows(2) {
            sets.join(pair[0], pair[1]);
        }
    }
    let mut parts: BTreeMap<usize, Together> = BTreeMap::new();
    for variable in 0..problem.subjects.len() {
        let part = parts.entry(sets.of(variable)).or_default();
        part.variables.insert(variable);
        if let Subject::Subscription(at) = problem.subjects[variable] {
            part.subscriptions.push(at);
        }
    }
    for (number, constraint) in problem.constraints.iter().enumerate() {
        if let Some(variable) = constraint.rule.variables().first() {
            parts.entry(sets.of(*variable)).or_default().constraints.push(number);
        }
    }
    let is_mandatory = |one: &usize| matches!(problem.constraints[*one].rule, Rule::Mandatory(_));
    let mut parts: Vec<_> =
        parts.into_values().filter(|part| part.constraints.iter().any(is_mandatory)).collect();
    parts.sort_by(|a, b| a.subscriptions.cmp(&b.subscriptions));
    parts
}

impl Together {
    /// The constraints, by their place.
    pub(super) fn constraints(&self) -> impl Iterator<Item = usize> {
        self.constraints.iter().copied()
    }

    pub(super) fn resolve(
        &self,
        problem: &Problem<'_>,
        scope: Scope,
        work: &Work,
    ) -> Result<Chosen, Unresolved> {
        let catalogs = problem.universe.catalogs.iter();
        let unread: Vec<_> =
            catalogs.filter_map(|one| Some(ResolveError::of_catalog(one, one.content.err()?))).collect();
        let faults = problem.faults.iter().filter(|(variable, _)| self.variables.contains(variable));
        let (installed, others): (Vec<_>, Vec<_>) =
            faults.partition(|(variable, _)| is_installed(problem, **variable));
        let texts = |faults: Vec<(&Variable, &ResolveError)>| {
            faults.into_iter().map(|(_, fault)| fault.clone()).collect()
        };
        if !installed.is_empty() {
            return Err(Unresolved::Errors(texts(installed)));
        }
        if scope == Scope::Namespace && !unread.is_empty() {
            return Err(Unresolved::Errors(unread));
        }
        if !others.is_empty() {
            return Err(Unresolved::Errors(texts(others)));
        }
        let solved = conflict::solve(problem, &self.constraints, work)
            .map_err(|error| Unresolved::Errors(vec![error]))?;
        if !unread.is_empty() && self.could_differ(problem, solved.as_ref().ok()) {
            return Err(Unresolved::Errors(unread));
        }
        solved.map_err(Unresolved::Conflict)
    }

    /// Whether the content of a catalog that cannot be read could change the answer: there are requirements, which it might
    /// meet. It cannot where each choice was the first one, and each requirement is met by what is installed or by the
    /// bundle's own catalog, which are preferred to all other catalogs.
    fn could_differ(&self, problem: &Problem<'_>, solved: Option<&Chosen>) -> bool {
        let requires = |one: &usize| matches!(problem.constraints[*one].origin, Origin::Requires(_));
        if !self.constraints.iter().any(requires) {
            return false;
        }
        let Some((chosen, true)) = solved else { return true };
        let catalog = |variable: Variable| match problem.subjects[variable] {
            Subject::Candidate(Candidate::Bundle { catalog, .. }) => Some(catalog),
            _ => None,
        };
        chosen.iter().any(|(of, variable)| {
            let Some(constraint) = of.filter(requires).map(|of| &problem.constraints[of]) else {
                return false;
            };
            let Rule::AnyOf(subject, _) = constraint.rule else { return true };
            catalog(*variable).is_some() && catalog(*variable) != catalog(subject)
        })
    }
}

fn is_installed(problem: &Problem<'_>, variable: Variable) -> bool {
    matches!(problem.subjects[variable], Subject::Candidate(Candidate::Installed(_)))
}

/// Disjoint sets of variables.
struct Sets(Vec<usize>);

impl Sets {
    fn of(&mut self, mut variable: usize) -> usize {
        while self.0[variable] != variable {
            self.0[variable] = self.0[self.0[variable]];
            variable = self.0[variable];
        }
        variable
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.of(one), self.of(other));
        self.0[one.max(other)] = one.min(other);
    }
}
