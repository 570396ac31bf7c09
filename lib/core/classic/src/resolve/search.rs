//! The search: choices in upstream's order, constraints propagated after each, and what was refuted learned.
//!
//! A choice is made of the candidates of one constraint, which are tried in their order; choices come first in, first out,
//! and those of a chosen candidate go to the end. The first solution of that order is the answer. What is learned from a
//! contradiction only saves the work of finding it again: it never changes the answer.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

use olm_dependencies::Work;

use super::{
    ResolveError,
    problem::{Rule, Variable},
};

/// What a search found.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The variables that were chosen, each with the constraint whose candidate it is; none for those that must be. Second,
    /// whether each was the first of its candidates.
    Satisfied(Vec<(Option<usize>, Variable)>, bool),
    /// Constraints that contradict each other.
    Unsatisfiable(BTreeSet<usize>),
}

/// A variable that is true, or one that is false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Literal(usize);

impl Literal {
    fn new(variable: usize, is_true: bool) -> Self {
        Self(2 * variable + usize::from(!is_true))
    }

    fn variable(self) -> usize {
        self.0 / 2
    }

    fn is_positive(self) -> bool {
        self.0.is_multiple_of(2)
    }

    fn negated(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// Literals of which one holds, and the constraints that say so.
#[derive(Debug)]
struct Clause {
    literals: Vec<Literal>,
    of: Rc<[usize]>,
}

/// Why a variable has its value.
#[derive(Debug, Clone, Copy)]
enum Reason {
    Chosen,
    Clause(usize),
    /// Of this group another variable is true.
    Group(usize, usize),
}

/// Candidates of which one is to be chosen.
#[derive(Debug, Clone)]
struct Choice {
    of: Option<usize>,
    candidates: Rc<[usize]>,
}

/// A choice that was made; without a variable when one of its candidates had been chosen before.
#[derive(Debug)]
struct Made {
    choice: Choice,
    variable: Option<usize>,
    children: usize,
}

struct Search<'w> {
    work: &'w Work,
    clauses: Vec<Clause>,
    /// Clauses by the literals that are watched: two of each.
    watches: Vec<Vec<usize>>,
    /// Sets of which at most one is true, each with its constraint.
    groups: Vec<(usize, Vec<usize>)>,
    groups_of: Vec<Vec<usize>>,
    choices_of: Vec<Vec<Choice>>,
    values: Vec<Option<bool>>,
    reasons: Vec<Reason>,
    /// The level at which a variable was chosen.
    chosen: Vec<Option<usize>>,
    trail: Vec<Literal>,
    /// The first of the trail that is not propagated.
    next: usize,
    /// Where the trail of each level begins.
    levels: Vec<usize>,
    open: VecDeque<Choice>,
    made: Vec<Made>,
}

/// A contradiction: literals that are all false though one must hold, and the constraints that say so.
type Contradiction = (Vec<Literal>, Rc<[usize]>);

/// The first solution of these constraints, each with its number. What must be is chosen first, in the order of the
/// constraints.
///
/// # Errors
/// The work is too much.
pub(super) fn search<'p>(
    constraints: impl Iterator<Item = (usize, &'p Rule)>,
    work: &Work,
) -> Result<Verdict, ResolveError> {
    let mut names: BTreeMap<Variable, usize> = BTreeMap::new();
    let mut search = Search::new(work);
    let mut contradiction = None;
    for (number, rule) in constraints {
        let literals = search.add(number, rule, &mut names)?;
        if let Some(literals) = literals {
            let found = search.add_clause(literals, [number].into());
            contradiction = contradiction.or(found);
        }
    }
    let variables: Vec<Variable> = {
        let mut all: Vec<_> = names.into_iter().map(|(variable, local)| (local, variable)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, variable)| variable).collect()
    };
    search.run(contradiction, &variables)
}

impl<'w> Search<'w> {
    fn new(work: &'w Work) -> Self {
        Self {
            work,
            clauses: Vec::new(),
            watches: Vec::new(),
            groups: Vec::new(),
            groups_of: Vec::new(),
            choices_of: Vec::new(),
            values: Vec::new(),
            reasons: Vec::new(),
            chosen: Vec::new(),
            trail: Vec::new(),
            next: 0,
            levels: Vec::new(),
            open: VecDeque::new(),
            made: Vec::new(),
        }
    }

    fn spend(&self, steps: usize) -> Result<(), ResolveError> {
        self.work.spend(steps).map_err(|_| ResolveError::Work)
    }

    fn local(&mut self, variable: Variable, names: &mut BTreeMap<Variable, usize>) -> usize {
        let next = names.len();
        let local = *names.entry(variable).or_insert(next);
        if local == self.values.len() {
            self.values.push(None);
            self.reasons.push(Reason::Chosen);
            self.chosen.push(None);
            self.choices_of.push(Vec::new());
            self.groups_of.push(Vec::new());
            self.watches.extend([Vec::new(), Vec::new()]);
        }
        local
    }

    /// Adds a constraint, except for the clause that it may be.
    fn add(
        &mut self,
        number: usize,
        rule: &Rule,
        names: &mut BTreeMap<Variable, usize>,
    ) -> Result<Option<Vec<Literal>>, ResolveError> {
        Ok(Some(match rule {
            Rule::Mandatory(variable) => {
                let variable = self.local(*variable, names);
                self.open.push_back(Choice { of: None, candidates: [variable].into() });
                vec![Literal::new(variable, true)]
            }
            Rule::Prohibited(variable) => vec![Literal::new(self.local(*variable, names), false)],
            Rule::Conflict(one, other) => {
                [one, other].map(|variable| Literal::new(self.local(*variable, names), false)).into()
            }
            Rule::AnyOf(subject, candidates) => {
                self.spend(candidates.len())?;
                let subject = self.local(*subject, names);
                let candidates: Rc<[usize]> =
                    candidates.iter().map(|candidate| self.local(*candidate, names)).collect();
                let distinct: BTreeSet<usize> = candidates.iter().copied().collect();
                if !candidates.is_empty() {
                    self.choices_of[subject].push(Choice { of: Some(number), candidates });
                }
                if distinct.contains(&subject) {
                    return Ok(None);
                }
                let candidates = distinct.into_iter().map(|candidate| Literal::new(candidate, true));
                std::iter::once(Literal::new(subject, false)).chain(candidates).collect()
            }
            Rule::AtMostOne(members) => {
                self.spend(members.len())?;
                let members: Vec<_> = members.iter().map(|member| self.local(*member, names)).collect();
                for member in &members {
                    self.groups_of[*member].push(self.groups.len());
                }
                self.groups.push((number, members));
                return Ok(None);
            }
        }))
    }

    /// Adds a clause whose first literal is not false, or that is of one literal only.
    fn add_clause(&mut self, literals: Vec<Literal>, of: Rc<[usize]>) -> Option<Contradiction> {
        let (first, number) = (*literals.first()?, self.clauses.len());
        if let [first, second, ..] = literals[..] {
            self.watches[first.0].push(number);
            self.watches[second.0].push(number);
            self.clauses.push(Clause { literals, of });
            return None;
        }
        let contradiction = (self.value(first) == Some(false)).then(|| (literals.clone(), Rc::clone(&of)));
        self.clauses.push(Clause { literals, of });
        if self.value(first).is_none() {
            self.set(first, Reason::Clause(number));
        }
        contradiction
    }

    fn value(&self, literal: Literal) -> Option<bool> {
        self.values[literal.variable()].map(|value| value == literal.is_positive())
    }

    fn set(&mut self, literal: Literal, reason: Reason) {
        self.values[literal.variable()] = Some(literal.is_positive());
        self.reasons[literal.variable()] = reason;
        self.trail.push(literal);
    }

    fn run(
        mut self,
        mut contradiction: Option<Contradiction>,
        variables: &[Variable],
    ) -> Result<Verdict, ResolveError> {
        let mut is_first = true;
        loop {
            if contradiction.is_none() {
                contradiction = self.propagate()?;
            }
            if let Some(found) = contradiction.take() {
                is_first = false;
                let (chosen, of) = self.analyze(found)?;
                if chosen.is_empty() {
                    return Ok(Verdict::Unsatisfiable(of));
                }
                self.learn(&chosen, of.into_iter().collect());
            } else if !self.choose() {
                break;
            }
        }
        let made = self.made.iter().filter_map(|made| Some((&made.choice, made.variable?)));
        let is_first = is_first && made.clone().all(|(choice, variable)| choice.candidates[0] == variable);
        let chosen = made.map(|(choice, variable)| (choice.of, variables[variable]));
        Ok(Verdict::Satisfied(chosen.collect(), is_first))
    }

    /// Draws all conclusions from the values there are.
    fn propagate(&mut self) -> Result<Option<Contradiction>, ResolveError> {
        while let Some(literal) = self.trail.get(self.next).copied() {
            self.next += 1;
            self.spend(1)?;
            if literal.is_positive()
                && let Some(contradiction) = self.propagate_groups(literal.variable())?
            {
                return Ok(Some(contradiction));
            }
            if let Some(contradiction) = self.propagate_clauses(literal.negated())? {
                return Ok(Some(contradiction));
            }
        }
        Ok(None)
    }

    /// Makes all others false in the groups of a variable that is true.
    fn propagate_groups(&mut self, variable: usize) -> Result<Option<Contradiction>, ResolveError> {
        for at in 0..self.groups_of[variable].len() {
            let group = self.groups_of[variable][at];
            let constraint = self.groups[group].0;
            self.spend(self.groups[group].1.len())?;
            for member in 0..self.groups[group].1.len() {
                let other = self.groups[group].1[member];
                match self.values[other] {
                    None => self.set(Literal::new(other, false), Reason::Group(group, variable)),
                    Some(true) if other != variable => {
                        let both = [variable, other].map(|one| Literal::new(one, false));
                        return Ok(Some((both.into(), [constraint].into())));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(None)
    }

    /// Finds another literal to watch in the clauses that watch this false one, or what follows.
    fn propagate_clauses(&mut self, literal: Literal) -> Result<Option<Contradiction>, ResolveError> {
        let watching = std::mem::take(&mut self.watches[literal.0]);
        let mut found = None;
        for (at, number) in watching.iter().copied().enumerate() {
            let length = self.clauses[number].literals.len();
            self.spend(1)?;
            if self.clauses[number].literals[0] == literal {
                self.clauses[number].literals.swap(0, 1);
            }
            let first = self.clauses[number].literals[0];
            let other =
                (2..length).find(|other| self.value(self.clauses[number].literals[*other]) != Some(false));
            self.spend(other.unwrap_or(length))?;
            if self.value(first) == Some(true) {
                self.watches[literal.0].push(number);
            } else if let Some(other) = other {
                self.clauses[number].literals.swap(1, other);
                let watched = self.clauses[number].literals[1];
                self.watches[watched.0].push(number);
            } else {
                self.watches[literal.0].push(number);
                if self.value(first).is_none() {
                    self.set(first, Reason::Clause(number));
                } else {
                    let clause = &self.clauses[number];
                    found = Some((clause.literals.clone(), Rc::clone(&clause.of)));
                    self.watches[literal.0].extend(&watching[at + 1..]);
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The choices that led to a contradiction, and the constraints that took part.
    fn analyze(
        &self,
        (mut literals, of): Contradiction,
    ) -> Result<(Vec<usize>, BTreeSet<usize>), ResolveError> {
        let mut constraints: BTreeSet<usize> = of.iter().copied().collect();
        let mut chosen = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some(literal) = literals.pop() {
            let variable = literal.variable();
            if !seen.insert(variable) {
                continue;
            }
            match self.reasons[variable] {
                Reason::Chosen => chosen.push(variable),
                Reason::Clause(number) => {
                    let clause = &self.clauses[number];
                    self.spend(clause.literals.len() + clause.of.len())?;
                    constraints.extend(clause.of.iter());
                    literals.extend(&clause.literals);
                }
                Reason::Group(group, by) => {
                    self.spend(1)?;
                    constraints.insert(self.groups[group].0);
                    literals.push(Literal::new(by, false));
                }
            }
        }
        Ok((chosen, constraints))
    }

    /// Undoes choices until one of these is open again, and excludes it together with the others.
    fn learn(&mut self, chosen: &[usize], of: Vec<usize>) {
        let mut chosen: Vec<_> = chosen.iter().map(|one| (self.chosen[*one], *one)).collect();
        chosen.sort_unstable_by(|a, b| b.cmp(a));
        let level = chosen.get(1).and_then(|(level, _)| *level).unwrap_or(0);
        while self.levels.len() > level {
            self.undo();
        }
        let literals: Vec<_> = chosen.iter().map(|(_, one)| Literal::new(*one, false)).collect();
        let (first, is_short, number) = (literals[0], literals.len() == 1, self.clauses.len());
        // A clause of one literal sets it itself.
        let _ = self.add_clause(literals, of.into());
        if !is_short {
            self.set(first, Reason::Clause(number));
        }
    }

    fn undo(&mut self) {
        let Some(made) = self.made.pop() else { return };
        if let Some(variable) = made.variable {
            self.chosen[variable] = None;
            let start = self.levels.pop().unwrap_or_default();
            for literal in self.trail.drain(start..) {
                self.values[literal.variable()] = None;
                self.reasons[literal.variable()] = Reason::Chosen;
            }
            self.next = start;
        }
        self.open.truncate(self.open.len() - made.children);
        self.open.push_front(made.choice);
    }

    /// Makes the next choice; `false` when there is none.
    fn choose(&mut self) -> bool {
        let Some(choice) = self.open.pop_front() else { return false };
        let is_made = choice.candidates.iter().any(|candidate| self.chosen[*candidate].is_some());
        // One is left: otherwise there would have been a contradiction.
        let possible = choice.candidates.iter().find(|candidate| self.values[**candidate] != Some(false));
        let variable = possible.copied().filter(|_| !is_made);
        let mut children = 0;
        if let Some(variable) = variable {
            self.levels.push(self.trail.len());
            self.chosen[variable] = Some(self.levels.len());
            if self.values[variable].is_none() {
                self.set(Literal::new(variable, true), Reason::Chosen);
            }
            children = self.choices_of[variable].len();
            self.open.extend(self.choices_of[variable].iter().cloned());
        }
        self.made.push(Made { choice, variable, children });
        true
    }
}
