//! Resolution: which bundles the Subscriptions of a namespace install, together with everything that these require.
//!
//! The constraints are upstream's, and so is the order in which candidates are preferred: the first solution of that order
//! is the answer. Where there is none, the answer is a [`Conflict`]: constraints that contradict each other and of which
//! none can be left out, in upstream's words, and a sentence for people.
//!
//! Subscriptions that share no candidate, package or kind are resolved apart ([`Scope::Related`]), so that one that cannot
//! be resolved holds up no others.

mod candidates;
mod conflict;
mod explain;
mod installed;
mod parts;
mod problem;
mod search;
mod solution;
#[cfg(test)]
mod tests;
mod universe;

use std::{collections::BTreeSet, fmt};

use olm_api_classic::{ClusterServiceVersion, OperatorGroup, Subscription, UpgradeStrategy};
use olm_dependencies::{RequirementError, Work};
use olm_semver::SkipRange;
use thiserror::Error;

pub use self::{
    candidates::{CandidateAnswer, candidates},
    installed::Unowned,
};
use self::{problem::Problem, universe::Universe};
use crate::{
    graph::{OrderError, Snapshot},
    limits::{CONFLICT_BYTES_MAX, RESOLUTION_STEPS_MAX, RESOLUTION_STEPS_MIN},
};

/// The annotation of an OperatorGroup whose namespace does not see the global catalogs.
const EXCLUDE_GLOBAL_ANNOTATION: &str = "olm.operatorframework.io/exclude-global-namespace-resolution";

/// The annotation of a Subscription with the range of versions that it may install, for example `>=1.2.0 <2.0.0`.
pub const VERSION_RANGE_ANNOTATION: &str = "olm.classic/version-range";

/// A namespace: what it asks for, and what it has.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Name of the namespace.
    pub namespace: &'a str,
    /// The namespace of global catalogs, if this one sees them: see [`global_namespace`].
    pub global: Option<&'a str>,
    /// The Subscriptions of the namespace.
    pub subscriptions: &'a [Subscription],
    /// The ClusterServiceVersions of the namespace.
    pub csvs: &'a [ClusterServiceVersion],
    /// What is resolved together.
    pub scope: Scope,
    /// Whether a version that failed may be replaced: see [`fails_forward`].
    pub fails_forward: bool,
}

/// What is resolved together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    /// What shares a candidate, a package or a kind.
    #[default]
    Related,
    /// The whole namespace, as upstream does.
    Namespace,
}

/// A catalog.
#[derive(Debug, Clone, Copy)]
pub struct Catalog<'a> {
    /// Namespace of the CatalogSource.
    pub namespace: &'a str,
    /// Name of the CatalogSource.
    pub name: &'a str,
    /// Priority of the CatalogSource.
    pub priority: i32,
    /// The content, or why it cannot be read.
    pub content: Result<&'a Snapshot, &'a str>,
}

/// Subscriptions that were resolved together, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Names of the Subscriptions, in the order of their creation. There is none where what is installed without a
    /// Subscription requires something.
    pub subscriptions: Vec<String>,
    /// The solution, or why there is none.
    pub outcome: Result<Solution, Unresolved>,
}

/// What is to be installed. Empty when everything is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Solution {
    /// Bundles to install, by name.
    pub bundles: Vec<Bundle>,
    /// Subscriptions and the ClusterServiceVersion that becomes the current one of each.
    pub updates: Vec<(String, String)>,
    /// Subscriptions to make for bundles that no Subscription asks for.
    pub generated: Vec<GeneratedSubscription>,
}

/// A bundle to install.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Name of the bundle and of its ClusterServiceVersion.
    pub name: String,
    /// Package.
    pub package: String,
    /// Channel.
    pub channel: String,
    /// Name of the CatalogSource.
    pub catalog: String,
    /// Namespace of the CatalogSource.
    pub catalog_namespace: String,
    /// Image reference; empty for a bundle that is in the catalog as a whole.
    pub image: String,
    /// Name of the ClusterServiceVersion that it replaces; for a first installation that of its channel.
    pub replaces: String,
}

/// A Subscription to make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GeneratedSubscription {
    /// Name.
    pub name: String,
    /// Package.
    pub package: String,
    /// Channel.
    pub channel: String,
    /// Name of the CatalogSource.
    pub catalog: String,
    /// Namespace of the CatalogSource.
    pub catalog_namespace: String,
    /// The ClusterServiceVersion to begin with.
    pub starting_csv: String,
}

/// Why Subscriptions have no solution.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unresolved {
    /// The constraints contradict each other: nothing helps but a change of the Subscriptions, of what is installed, or of
    /// the catalogs.
    #[error("constraints not satisfiable: {0}")]
    Conflict(Conflict),
    /// Something cannot be read, or takes too much work.
    #[error("{}", aggregate(.0))]
    Errors(Vec<ResolveError>),
}

/// Constraints that contradict each other. Displays in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The constraints in upstream's words, sorted.
    pub lines: Vec<String>,
    /// Names of the Subscriptions in them.
    pub subscriptions: Vec<String>,
    /// One sentence for people: cause and remedy.
    pub explanation: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.lines.join(", ");
        match all.get(..all.floor_char_boundary(CONFLICT_BYTES_MAX)) {
            Some(shown) if shown.len() < all.len() => write!(f, "{shown}…"),
            _ => f.write_str(&all),
        }
    }
}

/// Why Subscriptions could not be resolved.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// A catalog cannot be read. The text is upstream's.
    #[error("error using catalogsource {namespace}/{name}: {cause}")]
    Catalog {
        /// Namespace of the CatalogSource.
        namespace: String,
        /// Name of the CatalogSource.
        name: String,
        /// Why.
        cause: String,
    },
    /// The entries of a channel have no order.
    #[error(transparent)]
    Order(OrderError),
    /// A requirement of a bundle cannot be understood.
    #[error("bundle {bundle}: {cause}")]
    Requirement {
        /// Identifier of the bundle.
        bundle: String,
        /// Why.
        cause: RequirementError,
    },
    /// The properties of an installed ClusterServiceVersion cannot be read.
    #[error(
        "clusterserviceversion {csv}: annotation operatorframework.io/properties: {cause}: correct or remove it"
    )]
    Properties {
        /// The ClusterServiceVersion.
        csv: String,
        /// Why.
        cause: String,
    },
    /// An annotation of a Subscription cannot be followed.
    #[error(
        "subscription {subscription}: annotation {VERSION_RANGE_ANNOTATION}: {cause}: correct or remove it"
    )]
    VersionRange {
        /// The Subscription.
        subscription: String,
        /// Why.
        cause: String,
    },
    /// The work is too much.
    #[error(
        "resolution takes more than {RESOLUTION_STEPS_MAX} steps: name a channel and startingCSV in the Subscriptions, or use \
         catalogs with fewer bundles, alternatives and olm.constraint properties"
    )]
    Work,
}

impl ResolveError {
    fn of_catalog(catalog: &Catalog<'_>, cause: &str) -> Self {
        let (namespace, name) = (catalog.namespace.to_owned(), catalog.name.to_owned());
        Self::Catalog { namespace, name, cause: cause.to_owned() }
    }
}

/// Errors as Go's aggregate prints them: each text once.
fn aggregate(errors: &[ResolveError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if let [only] = &texts[..] { only.clone() } else { format!("[{}]", texts.join(", ")) }
}

/// The namespace has no OperatorGroup, or several. The text is upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected 1 OperatorGroup in the namespace, found {0}")]
pub struct GroupError(
    /// How many there are.
    pub usize,
);

/// The namespace of global catalogs if a namespace with these OperatorGroups sees them.
///
/// # Errors
/// There is not exactly one OperatorGroup.
pub fn global_namespace<'g>(
    groups: &[OperatorGroup],
    global: &'g str,
) -> Result<Option<&'g str>, GroupError> {
    let [group] = groups else { return Err(GroupError(groups.len())) };
    let annotation = group.metadata.annotations.as_ref().and_then(|all| all.get(EXCLUDE_GLOBAL_ANNOTATION));
    Ok((annotation.map(String::as_str) != Some("true")).then_some(global))
}

/// Whether versions that failed may be replaced in a namespace with these OperatorGroups.
pub fn fails_forward(groups: &[OperatorGroup]) -> bool {
    let [group] = groups else { return false };
    group.spec.upgrade_strategy == UpgradeStrategy::TechPreviewUnsafeFailForward
}

/// Resolves the Subscriptions of a namespace. The same input in another order gives the same answer.
pub fn resolve<'a>(request: &Request<'a>, catalogs: &'a [Catalog<'a>]) -> Vec<Part> {
    let (problem, mut steps) = problem(request, catalogs);
    let csvs: BTreeSet<&str> = request.csvs.iter().filter_map(|csv| csv.metadata.name.as_deref()).collect();
    let outcome = |part: parts::Together| {
        let subscriptions = part.subscriptions.iter().map(|at| name(problem.subscriptions[*at]).to_owned());
        let outcome = with_share(&mut steps, |work| part.resolve(&problem, request.scope, work));
        Part {
            subscriptions: subscriptions.collect(),
            outcome: outcome.map(|chosen| Solution::of(&problem, &chosen, &csvs)),
        }
    };
    together(&problem, request.scope).into_iter().map(outcome).collect()
}

/// The constraints of a namespace, and the steps that are left.
fn problem<'a>(request: &Request<'a>, catalogs: &'a [Catalog<'a>]) -> (Problem<'a>, u64) {
    let mut subscriptions: Vec<&Subscription> = request.subscriptions.iter().collect();
    subscriptions.sort_by_key(|one| {
        let created = one.metadata.creation_timestamp.as_ref().map(|created| created.0);
        (created, one.metadata.name.as_deref())
    });
    let universe = Universe::new(request, catalogs, &subscriptions);
    let mut steps = RESOLUTION_STEPS_MAX;
    let problem = Problem::new(universe, subscriptions, &mut steps);
    (problem, steps)
}

/// What is resolved together.
fn together(problem: &Problem<'_>, scope: Scope) -> Vec<parts::Together> {
    match scope {
        Scope::Namespace => vec![parts::whole(problem)],
        Scope::Related => parts::related(problem),
    }
}

/// Does something with half of the steps that are left, and with enough for a usual Subscription in any case.
fn with_share<T>(steps: &mut u64, act: impl FnOnce(&Work) -> T) -> T {
    let share = (*steps / 2).max(RESOLUTION_STEPS_MIN);
    let work = Work::of(share);
    let result = act(&work);
    *steps = steps.saturating_sub(share - work.left());
    result
}

fn name(subscription: &Subscription) -> &str {
    subscription.metadata.name.as_deref().unwrap_or_default()
}

/// The range of versions that a Subscription may install, if it has one.
fn version_range(subscription: &Subscription) -> Result<Option<SkipRange>, ResolveError> {
    let annotations = subscription.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|all| all.get(VERSION_RANGE_ANNOTATION)) else { return Ok(None) };
    let range = text.parse::<SkipRange>().map_err(|error| ResolveError::VersionRange {
        subscription: name(subscription).to_owned(),
        cause: error.to_string(),
    });
    range.map(Some)
}
