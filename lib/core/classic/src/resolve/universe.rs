//! All candidates: the bundles of the catalogs that a namespace sees, and what is installed in it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use olm_api_classic::{ClusterServiceVersion, Subscription};
use olm_dependencies::{Common, InstalledBundle, Requirement, Work};
use olm_fbc::{PROPERTY_CONSTRAINT, PROPERTY_GVK_REQUIRED, PROPERTY_PACKAGE_REQUIRED, Property};
use olm_object::GroupVersionKind;

use super::{Catalog, Request, ResolveError, installed::Installed};
use crate::graph::{Bundle, Entry, LABEL, LABEL_REQUIRED, OrderError, PackageSnapshot};

/// A candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Candidate<'a> {
    /// An installed ClusterServiceVersion, by its place.
    Installed(usize),
    /// A bundle in a channel of a catalog, which is given by its place.
    Bundle { catalog: usize, package: &'a str, channel: &'a str, name: &'a str },
}

/// What a candidate needs another one to be.
#[derive(Debug)]
pub(super) enum Need {
    Requirement(Requirement),
    Label(String),
}

impl Need {
    /// Whether properties of a type say that something is needed.
    pub(super) fn is_declared_by(kind: &str) -> bool {
        [PROPERTY_GVK_REQUIRED, PROPERTY_PACKAGE_REQUIRED, PROPERTY_CONSTRAINT, LABEL_REQUIRED]
            .contains(&kind)
    }

    /// What a property says is needed; `None` for a property that says something else.
    pub(super) fn of(
        property: &Property,
        work: &Work,
    ) -> Result<Option<Self>, olm_dependencies::RequirementError> {
        if property.kind == LABEL_REQUIRED {
            return Ok(Some(Self::Label(label(property).unwrap_or_default().to_owned())));
        }
        Ok(Requirement::declared(property, work)?.map(Self::Requirement))
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Requirement(requirement) => requirement.classic_text(),
            Self::Label(label) => format!("with label: {label}"),
        }
    }
}

/// The label of a property: text, or an object with it.
fn label(property: &Property) -> Option<&str> {
    property.value.as_str().or_else(|| property.value.get("label")?.as_str())
}

type ChannelKey<'a> = (usize, &'a str, &'a str);

/// All candidates.
pub(super) struct Universe<'a> {
    pub(super) namespace: &'a str,
    /// Catalogs that the namespace sees, by namespace and name.
    pub(super) catalogs: Vec<&'a Catalog<'a>>,
    pub(super) installed: Vec<Installed>,
    /// Packages with a bundle that provides a kind, each with its catalog.
    providers: BTreeMap<&'a GroupVersionKind, BTreeSet<(usize, &'a str)>>,
    orders: BTreeMap<ChannelKey<'a>, Rc<Result<Vec<&'a Entry>, OrderError>>>,
    properties: BTreeMap<(usize, &'a str, &'a str), Rc<Vec<Property>>>,
}

impl<'a> Universe<'a> {
    pub(super) fn new(
        request: &Request<'a>,
        catalogs: &'a [Catalog<'a>],
        subscriptions: &[&Subscription],
    ) -> Self {
        let is_visible =
            |one: &&Catalog<'_>| one.namespace == request.namespace || Some(one.namespace) == request.global;
        let mut visible: Vec<_> = catalogs.iter().filter(is_visible).collect();
        visible.sort_by_key(|one| (one.namespace, one.name));
        let csvs: &[ClusterServiceVersion] = request.csvs;
        let mut universe = Self {
            namespace: request.namespace,
            catalogs: visible,
            installed: Installed::all(csvs, subscriptions, request.fails_forward),
            providers: BTreeMap::new(),
            orders: BTreeMap::new(),
            properties: BTreeMap::new(),
        };
        for catalog in 0..universe.catalogs.len() {
            for (package, content) in universe.packages(catalog) {
                for kind in content.bundles.values().flat_map(|bundle| &bundle.provided) {
                    universe.providers.entry(kind).or_default().insert((catalog, package));
                }
            }
        }
        universe
    }

    /// The packages of a catalog; none of one that could not be read.
    pub(super) fn packages(
        &self,
        catalog: usize,
    ) -> impl Iterator<Item = (&'a str, &'a PackageSnapshot)> + use<'a> {
        let content = self.catalogs[catalog].content.ok();
        content
            .into_iter()
            .flat_map(|content| &content.packages)
            .map(|(name, package)| (name.as_str(), package))
    }

    pub(super) fn package(&self, catalog: usize, package: &str) -> Option<&'a PackageSnapshot> {
        self.catalogs[catalog].content.ok()?.packages.get(package)
    }

    /// The bundle of a candidate; `None` for an installed one.
    pub(super) fn bundle(&self, candidate: Candidate<'a>) -> Option<(&'a Bundle, &'a Entry)> {
        let Candidate::Bundle { catalog, package, channel, name } = candidate else { return None };
        let package = self.package(catalog, package)?;
        Some((package.bundles.get(name)?, package.graph.channels.get(channel)?.entries.get(name)?))
    }

    pub(super) fn identifier(&self, candidate: Candidate<'_>) -> String {
        match candidate {
            Candidate::Installed(at) => format!("@existing/{}//{}", self.namespace, self.installed[at].name),
            Candidate::Bundle { catalog, channel, name, .. } => {
                let Catalog { namespace, name: catalog, .. } = self.catalogs[catalog];
                format!("{catalog}/{namespace}/{channel}/{name}")
            }
        }
    }

    /// The name of the ClusterServiceVersion.
    pub(super) fn name<'s>(&'s self, candidate: Candidate<'s>) -> &'s str {
        match candidate {
            Candidate::Installed(at) => &self.installed[at].name,
            Candidate::Bundle { name, .. } => name,
        }
    }

    /// The kinds that a candidate provides.
    pub(super) fn kinds(&self, candidate: Candidate<'a>) -> BTreeSet<GroupVersionKind> {
        match candidate {
            Candidate::Installed(at) => self.installed[at].kinds.clone(),
            Candidate::Bundle { .. } => {
                self.bundle(candidate).map(|(bundle, _)| bundle.provided.clone()).unwrap_or_default()
            }
        }
    }

    /// The package of a candidate; empty when it is not known.
    pub(super) fn package_of<'s>(&'s self, candidate: Candidate<'s>) -> &'s str {
        match candidate {
            Candidate::Installed(at) => &self.installed[at].package,
            Candidate::Bundle { package, .. } => package,
        }
    }

    /// The entries of a channel in their order.
    pub(super) fn order(&mut self, key: ChannelKey<'a>) -> Rc<Result<Vec<&'a Entry>, OrderError>> {
        if let Some(order) = self.orders.get(&key) {
            return Rc::clone(order);
        }
        let (catalog, package, channel) = key;
        let graph = self.package(catalog, package).and_then(|package| package.graph.channels.get(channel));
        let order = Rc::new(graph.map_or_else(|| Ok(Vec::new()), |graph| graph.order(package, channel)));
        self.orders.insert(key, Rc::clone(&order));
        order
    }

    /// The properties of a candidate.
    pub(super) fn properties(&mut self, candidate: Candidate<'a>) -> Rc<Vec<Property>> {
        let (catalog, package, name) = match candidate {
            Candidate::Installed(at) => return Rc::new(self.installed[at].properties.clone()),
            Candidate::Bundle { catalog, package, name, .. } => (catalog, package, name),
        };
        let bundle = self.package(catalog, package).and_then(|package| package.bundles.get(name));
        let read = || {
            let all = bundle.into_iter().flat_map(|bundle| &bundle.properties);
            let all = all.map(|one| Property {
                kind: one.kind.clone(),
                value: serde_json::from_str(&one.value).unwrap_or_default(),
            });
            Rc::new(all.collect())
        };
        Rc::clone(self.properties.entry((catalog, package, name)).or_insert_with(read))
    }

    /// The candidates that meet a need, in the order in which a candidate of the catalog `own` prefers them: what is
    /// installed, its own catalog, catalogs of higher priority, those of the namespace, then by name; in a catalog default
    /// channels first, then by package and channel; in a channel from its head.
    pub(super) fn meeting(
        &mut self,
        need: &Need,
        own: Option<usize>,
        work: &Work,
    ) -> Result<Vec<Candidate<'a>>, ResolveError> {
        let mut found = Vec::new();
        for at in 0..self.installed.len() {
            work.spend(1).map_err(|_| ResolveError::Work)?;
            if self.is_met_by(need, Candidate::Installed(at), work) {
                found.push(Candidate::Installed(at));
            }
        }
        found.sort_by_key(|one| (self.package_of(*one).to_owned(), *one));
        for catalog in self.by_preference(own) {
            let mut channels = Vec::new();
            for (package, content) in self.packages_for(need, catalog) {
                let mut names = BTreeSet::new();
                for (name, bundle) in &content.bundles {
                    work.spend(1 + bundle.provided.len()).map_err(|_| ResolveError::Work)?;
                    let candidate = Candidate::Bundle { catalog, package, channel: "", name };
                    if self.is_met_by(need, candidate, work) {
                        names.insert(name.as_str());
                    }
                }
                for (channel, graph) in &content.graph.channels {
                    work.spend(1).map_err(|_| ResolveError::Work)?;
                    if names.iter().any(|name| graph.entries.contains_key(*name)) {
                        let is_default = *channel == content.graph.default_channel;
                        channels.push((Reverse(is_default), package, channel.as_str(), names.clone()));
                    }
                }
            }
            channels.sort();
            for (_, package, channel, names) in channels {
                let order = self.order((catalog, package, channel));
                let entries = order.as_ref().as_ref().map_err(|error| ResolveError::Order(error.clone()))?;
                work.spend(entries.len()).map_err(|_| ResolveError::Work)?;
                let fitting = entries.iter().filter(|entry| names.contains(entry.name.as_str()));
                found.extend(fitting.map(|entry| Candidate::Bundle {
                    catalog,
                    package,
                    channel,
                    name: &entry.name,
                }));
            }
        }
        work.check().map_err(|_| ResolveError::Work)?;
        Ok(found)
    }

    fn by_preference(&self, own: Option<usize>) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.catalogs.len()).collect();
        all.sort_by_key(|at| {
            let Catalog { namespace, name, priority, .. } = *self.catalogs[*at];
            (own != Some(*at), Reverse(priority), namespace != self.namespace, namespace, name)
        });
        all
    }

    /// The packages of a catalog that may have what is needed.
    fn packages_for(&self, need: &Need, catalog: usize) -> Vec<(&'a str, &'a PackageSnapshot)> {
        let common = match need {
            Need::Requirement(requirement) => requirement.common(),
            Need::Label(_) => Common::Unknown,
        };
        match common {
            Common::Package(name) => {
                let content = self.catalogs[catalog].content.ok();
                let package = content.and_then(|content| content.packages.get_key_value(name));
                package.into_iter().map(|(name, package)| (name.as_str(), package)).collect()
            }
            Common::Kind(kind) => {
                let providers = self.providers.get(kind).into_iter().flatten();
                let names = providers.filter(|(of, _)| *of == catalog).map(|(_, name)| *name);
                names.filter_map(|name| Some((name, self.package(catalog, name)?))).collect()
            }
            Common::Unknown => self.packages(catalog).collect(),
        }
    }

    fn is_met_by(&mut self, need: &Need, candidate: Candidate<'a>, work: &Work) -> bool {
        let is_simple = match need {
            Need::Requirement(requirement) => match requirement.common() {
                Common::Kind(kind) if requirement.is_simple() => return self.provides(candidate, kind),
                _ => requirement.is_simple(),
            },
            Need::Label(_) => false,
        };
        let properties = if is_simple { Rc::default() } else { self.properties(candidate) };
        // Each look at a bundle reads all its properties.
        if work.spend(properties.len()).is_err() {
            return false;
        }
        let requirement = match need {
            Need::Requirement(requirement) => requirement,
            Need::Label(wanted) => {
                return properties.iter().any(|one| one.kind == LABEL && label(one) == Some(wanted));
            }
        };
        let version = match candidate {
            Candidate::Installed(at) => Some(&self.installed[at].version),
            Candidate::Bundle { catalog, package, name, .. } => {
                let bundle = self.package(catalog, package).and_then(|package| package.bundles.get(name));
                bundle.and_then(|bundle| bundle.version.as_ref())
            }
        };
        let package = self.package_of(candidate);
        requirement.is_met_by(&InstalledBundle { package, version, properties: &properties }, work)
    }

    fn provides(&self, candidate: Candidate<'a>, kind: &GroupVersionKind) -> bool {
        match candidate {
            Candidate::Installed(at) => self.installed[at].kinds.contains(kind),
            Candidate::Bundle { catalog, package, name, .. } => {
                let bundle = self.package(catalog, package).and_then(|package| package.bundles.get(name));
                bundle.is_some_and(|bundle| bundle.provided.contains(kind))
            }
        }
    }
}
