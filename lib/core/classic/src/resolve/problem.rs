//! What has to hold: a variable for each Subscription and each candidate that can be reached, and constraints on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use olm_api_classic::Subscription;
use olm_dependencies::Work;
use olm_object::GroupVersionKind;

use super::{
    ResolveError,
    installed::installed,
    universe::{Candidate, Need, Universe},
};
use crate::graph::{Entry, PROPERTY_DEPRECATED, PackageSnapshot, Snapshot};

/// The place of a variable.
pub(super) type Variable = usize;

/// Meaning of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject<'a> {
    /// A Subscription, by its place.
    Subscription(usize),
    Candidate(Candidate<'a>),
}

/// A statement about variables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    Mandatory(Variable),
    Prohibited(Variable),
    /// If the first is chosen, so is one of the others; they are in order of preference.
    AnyOf(Variable, Rc<[Variable]>),
    Conflict(Variable, Variable),
    AtMostOne(Vec<Variable>),
}

impl Rule {
    /// The variables in it.
    pub(super) fn variables(&self) -> Vec<Variable> {
        match self {
            Self::Mandatory(one) | Self::Prohibited(one) => vec![*one],
            Self::Conflict(one, other) => vec![*one, *other],
            Self::AnyOf(subject, candidates) => {
                std::iter::once(*subject).chain(candidates.iter().copied()).collect()
            }
            Self::AtMostOne(members) => members.clone(),
        }
    }
}

/// Why a Subscription has no candidates at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Catalog,
    Package,
    Channel,
    StartingCsv,
}

/// Where a constraint comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// The Subscription, or the ClusterServiceVersion that no Subscription refers to, exists.
    Exists,
    Missing(Missing),
    /// The candidates of a Subscription.
    Candidates,
    Deprecated,
    /// Something that a bundle requires, in upstream's words.
    Requires(Rc<str>),
    /// A bundle and the one that it would replace.
    Replaces,
    Kind(GroupVersionKind),
    Package(String),
}

#[derive(Debug)]
pub(super) struct Constraint {
    pub(super) rule: Rule,
    pub(super) origin: Origin,
}

/// Variables and constraints.
pub(super) struct Problem<'a> {
    pub(super) universe: Universe<'a>,
    pub(super) subscriptions: Vec<&'a Subscription>,
    pub(super) subjects: Vec<Subject<'a>>,
    pub(super) constraints: Vec<Constraint>,
    /// Variables of which something cannot be read.
    pub(super) faults: BTreeMap<Variable, ResolveError>,
    /// The installed ClusterServiceVersions that bundles replace.
    pub(super) replaced: BTreeMap<Variable, usize>,
    variables: BTreeMap<Subject<'a>, Variable>,
    /// Variables whose requirements have not been read.
    unread: Vec<Variable>,
    met: BTreeMap<(Option<usize>, String, String), Result<Met, ResolveError>>,
}

/// A need in upstream's words, and the variables that meet it.
type Met = (Rc<str>, Rc<[Variable]>);

impl<'a> Problem<'a> {
    /// The variables and constraints of these Subscriptions and of what is installed. One that takes too much of the work
    /// leaves enough for the others.
    pub(super) fn new(universe: Universe<'a>, subscriptions: Vec<&'a Subscription>, steps: &mut u64) -> Self {
        let mut problem = Self {
            universe,
            subscriptions,
            subjects: Vec::new(),
            constraints: Vec::new(),
            faults: BTreeMap::new(),
            replaced: BTreeMap::new(),
            variables: BTreeMap::new(),
            unread: Vec::new(),
            met: BTreeMap::new(),
        };
        for at in 0..problem.subscriptions.len() {
            let variable = problem.variable(Subject::Subscription(at));
            problem.add(Rule::Mandatory(variable), Origin::Exists);
        }
        let installed: Vec<_> = (0..problem.universe.installed.len())
            .map(|at| problem.variable(Subject::Candidate(Candidate::Installed(at))))
            .collect();
        for (at, variable) in installed.into_iter().enumerate() {
            if !problem.universe.installed[at].is_subscribed {
                problem.add(Rule::Mandatory(variable), Origin::Exists);
            }
            if let Some(fault) = problem.universe.installed[at].fault.clone() {
                problem.faults.insert(variable, fault);
            }
            super::with_share(steps, |work| problem.read(work));
        }
        for at in 0..problem.subscriptions.len() {
            super::with_share(steps, |work| {
                if let Err(fault) = problem.subscribe(at, work) {
                    problem.faults.insert(at, fault);
                }
                problem.read(work);
            });
        }
        problem.exclude();
        problem
    }

    fn variable(&mut self, subject: Subject<'a>) -> Variable {
        let next = self.subjects.len();
        let variable = *self.variables.entry(subject).or_insert(next);
        if variable == next {
            self.subjects.push(subject);
            if matches!(subject, Subject::Candidate(_)) {
                self.unread.push(variable);
            }
        }
        variable
    }

    fn add(&mut self, rule: Rule, origin: Origin) {
        self.constraints.push(Constraint { rule, origin });
    }

    /// Reads the requirements of all candidates that were reached, and of those that they reach.
    fn read(&mut self, work: &Work) {
        while let Some(variable) = self.unread.pop() {
            if let Subject::Candidate(candidate) = self.subjects[variable]
                && let Err(fault) = self.require(variable, candidate, work)
            {
                self.faults.insert(variable, fault);
            }
        }
    }

    fn require(
        &mut self,
        variable: Variable,
        candidate: Candidate<'a>,
        work: &Work,
    ) -> Result<(), ResolveError> {
        let own = match candidate {
            Candidate::Installed(_) => None,
            Candidate::Bundle { catalog, .. } => Some(catalog),
        };
        let properties = self.universe.properties(candidate);
        work.spend(1 + properties.len()).map_err(|_| ResolveError::Work)?;
        if properties.iter().any(|property| property.kind == PROPERTY_DEPRECATED) {
            self.add(Rule::Prohibited(variable), Origin::Deprecated);
        }
        for property in properties.iter() {
            let Some(key) = key(property, own) else { continue };
            if !self.met.contains_key(&key) {
                let met = self.meeting(property, own, work);
                if matches!(met, Err(ResolveError::Work)) {
                    return Err(ResolveError::Work);
                }
                self.met.insert(key.clone(), met);
            }
            match &self.met[&key] {
                Ok((text, candidates)) => {
                    let rule = Rule::AnyOf(variable, Rc::clone(candidates));
                    let origin = Origin::Requires(Rc::clone(text));
                    work.spend(candidates.len()).map_err(|_| ResolveError::Work)?;
                    self.constraints.push(Constraint { rule, origin });
                }
                Err(ResolveError::Requirement { cause, .. }) => {
                    let bundle = self.universe.identifier(candidate);
                    return Err(ResolveError::Requirement { bundle, cause: cause.clone() });
                }
                Err(fault) => return Err(fault.clone()),
            }
        }
        Ok(())
    }

    fn meeting(
        &mut self,
        property: &olm_fbc::Property,
        own: Option<usize>,
        work: &Work,
    ) -> Result<Met, ResolveError> {
        let need = match Need::of(property, work) {
            Ok(Some(need)) => need,
            // Only properties of types that say what is needed come here.
            Ok(None) => return Ok((Rc::from(""), Rc::from([]))),
            Err(cause) => {
                work.check().map_err(|_| ResolveError::Work)?;
                return Err(ResolveError::Requirement { bundle: String::new(), cause });
            }
        };
        let found = self.universe.meeting(&need, own, work)?;
        let variables = found.into_iter().map(|one| self.variable(Subject::Candidate(one)));
        Ok((need.text().into(), variables.collect()))
    }

    /// Adds what a Subscription asks for.
    fn subscribe(&mut self, at: usize, work: &Work) -> Result<(), ResolveError> {
        let subscription = self.subscriptions[at];
        let spec = &subscription.spec;
        let of_catalog = |universe: &Universe<'a>| {
            universe
                .catalogs
                .iter()
                .position(|one| one.namespace == spec.source_namespace && one.name == spec.source)
        };
        let current = installed(subscription)
            .and_then(|name| self.universe.installed.iter().position(|one| one.name == *name));
        let catalog = of_catalog(&self.universe);
        if let Some(catalog) = catalog
            && let Err(cause) = self.universe.catalogs[catalog].content
        {
            return Err(ResolveError::of_catalog(self.universe.catalogs[catalog], cause));
        }
        let candidates = match catalog.ok_or(Missing::Catalog) {
            Ok(catalog) => self.candidates(subscription, catalog, current, work)?,
            Err(missing) => Err(missing),
        };
        let candidates = match candidates {
            Ok(candidates) => candidates,
            Err(missing) => {
                self.add(Rule::Prohibited(at), Origin::Missing(missing));
                return Ok(());
            }
        };
        let mut variables: Vec<_> =
            candidates.into_iter().map(|one| self.variable(Subject::Candidate(one))).collect();
        if let Some(current) = current {
            let replaced = self.variable(Subject::Candidate(Candidate::Installed(current)));
            for one in variables.iter().copied().collect::<BTreeSet<_>>() {
                self.replaced.insert(one, current);
                self.add(Rule::Conflict(one, replaced), Origin::Replaces);
            }
            variables.push(replaced);
        }
        self.add(Rule::AnyOf(at, variables.into()), Origin::Candidates);
        Ok(())
    }

    /// The bundles of a catalog that a Subscription may choose, in order of preference.
    fn candidates(
        &mut self,
        subscription: &'a Subscription,
        catalog: usize,
        current: Option<usize>,
        work: &Work,
    ) -> Result<Result<Vec<Candidate<'a>>, Missing>, ResolveError> {
        let has_entries = |(_, package): (&str, &PackageSnapshot)| !package.bundles.is_empty();
        if !self.universe.packages(catalog).any(has_entries) {
            return Ok(Err(Missing::Catalog));
        }
        let content: Option<&'a Snapshot> = self.universe.catalogs[catalog].content.ok();
        let found = content.and_then(|content| content.packages.get_key_value(&subscription.spec.name));
        let Some((package, content)) = found.filter(|(_, package)| !package.bundles.is_empty()) else {
            return Ok(Err(Missing::Package));
        };
        let wanted = subscription.spec.channel.as_deref().unwrap_or_default();
        let channels: Vec<_> = content
            .graph
            .by_preference()
            .filter(|(name, channel)| (wanted.is_empty() || wanted == *name) && !channel.entries.is_empty())
            .collect();
        if channels.is_empty() {
            return Ok(Err(Missing::Channel));
        }
        let starting = subscription.spec.starting_csv.as_deref();
        let starting = starting.filter(|name| !name.is_empty() && current.is_none());
        let mut ordered: Vec<&Entry> = Vec::new();
        for (name, channel) in &channels {
            work.spend(channel.entries.len()).map_err(|_| ResolveError::Work)?;
            match starting {
                Some(starting) => ordered.extend(channel.entries.get(starting)),
                None => match self.universe.order((catalog, package, name)).as_ref() {
                    Ok(order) => ordered.extend(order),
                    Err(error) => return Err(ResolveError::Order(error.clone())),
                },
            }
        }
        if ordered.is_empty() && starting.is_some() {
            return Ok(Err(Missing::StartingCsv));
        }
        if let Some(range) = super::version_range(subscription)? {
            ordered.retain(|entry| {
                let version = content.bundles.get(&entry.name).and_then(|bundle| bundle.version.as_ref());
                version.is_some_and(|version| range.contains(version))
            });
        }
        if let Some(current) = current {
            let current = &self.universe.installed[current];
            ordered.retain(|entry| {
                let range = entry.skip_range.parse::<olm_semver::SkipRange>();
                range.is_ok_and(|range| range.contains(&current.version)) || entry.supersedes(&current.name)
            });
        }
        let mut candidates = Vec::new();
        for entry in ordered {
            // A bundle is a candidate in each channel that has it.
            for (channel, graph) in &channels {
                if let Some((name, _)) = graph.entries.get_key_value(&entry.name) {
                    candidates.push(Candidate::Bundle { catalog, package, channel, name });
                }
            }
        }
        Ok(Ok(candidates))
    }

    /// Adds that there is one provider of a kind, and one bundle of a package.
    fn exclude(&mut self) {
        let mut kinds: BTreeMap<GroupVersionKind, Vec<Variable>> = BTreeMap::new();
        let mut packages: BTreeMap<String, Vec<Variable>> = BTreeMap::new();
        for (variable, subject) in self.subjects.iter().enumerate() {
            let Subject::Candidate(candidate) = *subject else { continue };
            for kind in self.universe.kinds(candidate) {
                kinds.entry(kind).or_default().push(variable);
            }
            let package = self.universe.package_of(candidate);
            if !package.is_empty() {
                packages.entry(package.to_owned()).or_default().push(variable);
            }
        }
        let kinds = kinds.into_iter().map(|(kind, members)| (Origin::Kind(kind), members));
        let packages = packages.into_iter().map(|(name, members)| (Origin::Package(name), members));
        for (origin, members) in kinds.chain(packages).filter(|(_, members)| members.len() > 1) {
            self.add(Rule::AtMostOne(members), origin);
        }
    }

    /// The identifier of a variable.
    pub(super) fn identifier(&self, variable: Variable) -> String {
        match self.subjects[variable] {
            Subject::Subscription(at) => format!("subscription:{}", super::name(self.subscriptions[at])),
            Subject::Candidate(candidate) => self.universe.identifier(candidate),
        }
    }

    /// The Subscription of a variable.
    pub(super) fn subscription(&self, variable: Variable) -> Option<&'a Subscription> {
        match self.subjects[variable] {
            Subject::Subscription(at) => Some(self.subscriptions[at]),
            Subject::Candidate(_) => None,
        }
    }

    /// The name of the Subscription or the ClusterServiceVersion of a variable.
    pub(super) fn name(&self, variable: Variable) -> &str {
        match self.subjects[variable] {
            Subject::Subscription(at) => super::name(self.subscriptions[at]),
            Subject::Candidate(candidate) => self.universe.name(candidate),
        }
    }
}

/// What the candidates of a requirement depend on: who asks, and the property; `None` for other properties.
fn key(property: &olm_fbc::Property, own: Option<usize>) -> Option<(Option<usize>, String, String)> {
    let is_need = Need::is_declared_by(&property.kind);
    is_need.then(|| (own, property.kind.clone(), property.value.to_string()))
}
