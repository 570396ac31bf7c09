//! What follows from a resolution for the Subscriptions that were resolved together.

use std::collections::BTreeSet;

use kube::ResourceExt;
use olm_api_classic::{ClusterServiceVersion, Subscription};
use olm_go::Quoted;

use super::{conditions, texts};
use crate::{
    graph::OrderError,
    resolve::{GeneratedSubscription, Part, ResolveError, Solution, Unresolved},
};

/// The annotation of a Subscription: what happens to operators that its bundle requires.
pub const DEPENDENCIES_ANNOTATION: &str = "olm.classic/dependencies";
/// Approval of InstallPlans by a person.
pub const MANUAL: &str = "Manual";
/// Approval of InstallPlans by nobody.
pub const AUTOMATIC: &str = "Automatic";

/// What happens to required operators that are not installed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependencies {
    /// They are installed, with Subscriptions of their own.
    #[default]
    Install,
    /// They are named, for a person to subscribe to.
    Propose,
    /// They must be there.
    Check,
}

impl Dependencies {
    /// What a Subscription asks for.
    ///
    /// # Errors
    /// The annotation has another value.
    pub fn of(subscription: &Subscription) -> Result<Self, String> {
        match subscription.annotations().get(DEPENDENCIES_ANNOTATION).map(String::as_str) {
            None | Some("Install") => Ok(Self::Install),
            Some("Propose") => Ok(Self::Propose),
            Some("Check") => Ok(Self::Check),
            Some(other) => Err(format!(
                "the annotation {DEPENDENCIES_ANNOTATION} is {}: set it to Install, Propose or Check, or remove it",
                Quoted(other)
            )),
        }
    }
}

/// What follows for Subscriptions that were resolved together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Everything is installed.
    Settled,
    /// Something is under way; what is reported stays.
    Await,
    /// There is no solution.
    Failed {
        /// Upstream's reason.
        reason: &'static str,
        /// Upstream's message.
        message: String,
        /// One sentence for people.
        explanation: String,
    },
    /// A person has to subscribe to what is required, or to allow it: reason and sentence.
    Held(&'static str, String),
    /// An InstallPlan is made.
    Install(Solution),
}

/// What follows for the Subscriptions of a part. `all` are those of the namespace.
pub fn decide(part: &Part, all: &[Subscription], csvs: &[ClusterServiceVersion]) -> Decision {
    let members = members(part, all);
    let has_open_plans = members.iter().any(|one| is_being_installed(one));
    // A plan was made for each, and is not carried out yet.
    if has_open_plans || !members.is_empty() && members.iter().all(|one| awaits_plan(one)) {
        return Decision::Await;
    }
    let solution = match &part.outcome {
        Err(Unresolved::Conflict(_)) if members.iter().any(|one| is_upgraded(one, csvs)) => {
            return Decision::Await;
        }
        Err(error @ Unresolved::Conflict(conflict)) => {
            return Decision::Failed {
                reason: texts::NOT_SATISFIABLE,
                message: error.to_string(),
                explanation: conflict.explanation.clone(),
            };
        }
        Err(error @ Unresolved::Errors(errors)) => {
            return Decision::Failed {
                reason: texts::RESOLUTION_PREVENTED,
                message: error.to_string(),
                explanation: explained(errors),
            };
        }
        Ok(solution) => solution,
    };
    if members.is_empty() {
        return Decision::Await;
    }
    if solution.updates.is_empty() {
        return Decision::Settled;
    }
    let mut wanted = Dependencies::Install;
    for member in &members {
        match Dependencies::of(member) {
            Ok(of_member) => wanted = wanted.max(of_member),
            Err(error) => {
                return Decision::Held(
                    "InvalidAnnotation",
                    format!("Subscription {}: {error}", member.name_any()),
                );
            }
        }
    }
    match wanted {
        Dependencies::Propose if !solution.generated.is_empty() => {
            Decision::Held("DependenciesProposed", proposal(&solution.generated))
        }
        Dependencies::Check if !solution.generated.is_empty() => {
            Decision::Held("DependenciesNotInstalled", demand(&solution.generated))
        }
        _ => Decision::Install(solution.clone()),
    }
}

/// Errors with what helps, each once.
fn explained(errors: &[ResolveError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = match remedy(error) {
            Some(remedy) => format!("{error}: {remedy}"),
            None => error.to_string(),
        };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join("; ")
}

/// What helps where the error does not say so.
fn remedy(error: &ResolveError) -> Option<String> {
    match error {
        ResolveError::Catalog { namespace, name, .. } => Some(format!(
            "correct CatalogSource {namespace}/{name}, whose status says more, or delete it if nothing needs it"
        )),
        ResolveError::Order(
            OrderError::NoHead { channel, package }
            | OrderError::Cycle { channel, package, .. }
            | OrderError::SeveralChains { channel, package, .. },
        ) => Some(format!(
            "the publisher of the catalog has to correct channel {} of package {}; until then set spec.channel to another one",
            Quoted(channel),
            Quoted(package)
        )),
        ResolveError::Requirement { .. } => Some(
            "the publisher of the bundle has to correct what it requires; until then set spec.channel to one without it, or use \
             another catalog"
                .to_owned(),
        ),
        ResolveError::Properties { .. } | ResolveError::VersionRange { .. } | ResolveError::Work => None,
    }
}

/// Whether nothing but the content of these catalogs, by namespace and name, prevents a resolution: they are read for the
/// first time. The sentence names them.
pub fn waits_for_catalogs(part: &Part, coming: &BTreeSet<(String, String)>) -> Option<String> {
    let Err(Unresolved::Errors(errors)) = &part.outcome else { return None };
    let mut names = BTreeSet::new();
    for error in errors {
        let ResolveError::Catalog { namespace, name, .. } = error else { return None };
        if !coming.contains(&(namespace.clone(), name.clone())) {
            return None;
        }
        names.insert(format!("{namespace}/{name}"));
    }
    let names: Vec<_> = names.into_iter().collect();
    Some(format!("the content of CatalogSource {} is being read", names.join(", ")))
}

/// The Subscriptions of a part.
pub fn members<'s>(part: &Part, all: &'s [Subscription]) -> Vec<&'s Subscription> {
    all.iter().filter(|one| part.subscriptions.contains(&one.name_any())).collect()
}

/// Whether InstallPlans of these Subscriptions are approved by a person: one of them asks for it.
pub fn approval<'s>(subscriptions: impl IntoIterator<Item = &'s Subscription>) -> &'static str {
    let manual = |one: &Subscription| one.spec.install_plan_approval.as_deref() == Some(MANUAL);
    if subscriptions.into_iter().any(manual) { MANUAL } else { AUTOMATIC }
}

/// Whether every Subscription has an InstallPlan that is not carried out: nothing is resolved then.
pub fn awaits_plan(subscription: &Subscription) -> bool {
    subscription.status.as_ref().is_some_and(|status| {
        status.state.as_deref() == Some(texts::UPGRADE_PENDING) && status.install_plan_ref.is_some()
    })
}

/// Whether the version that an InstallPlan brings exists while the plan is not over. Upstream resolves meanwhile. Here a plan
/// that its Subscription no longer names is not continued, so the next one would leave what this one still has to make
/// missing.
fn is_being_installed(subscription: &Subscription) -> bool {
    subscription.status.as_ref().is_some_and(|status| {
        status.state.as_deref() == Some(texts::AT_LATEST_KNOWN)
            && conditions::is_true(status, texts::PLAN_PENDING)
    })
}

/// Whether the installed version is replacing an earlier one that still exists. Upstream resolves meanwhile, finds that the
/// earlier version has no Subscription, and reports that.
fn is_upgraded(subscription: &Subscription, csvs: &[ClusterServiceVersion]) -> bool {
    let installed = subscription.status.as_ref().and_then(|status| status.installed_csv.as_ref());
    let Some(installed) = installed else { return false };
    let Some(csv) = csvs.iter().find(|csv| csv.name_any() == *installed) else { return false };
    let failed = csv.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Failed"));
    !failed && csvs.iter().any(|other| Some(other.name_any()) == csv.spec.replaces)
}

fn proposal(generated: &[GeneratedSubscription]) -> String {
    format!(
        "operators that are required would be installed by {}: create them, or set the annotation {DEPENDENCIES_ANNOTATION} to \
         Install",
        listed(generated)
    )
}

fn demand(generated: &[GeneratedSubscription]) -> String {
    format!(
        "operators that are required are not installed: install them, for example by {}, or set the annotation \
         {DEPENDENCIES_ANNOTATION} to Install",
        listed(generated)
    )
}

fn listed(generated: &[GeneratedSubscription]) -> String {
    let one = |one: &GeneratedSubscription| {
        format!(
            "a Subscription of package {}, channel {}, CatalogSource {}/{}, startingCSV {}",
            Quoted(&one.package),
            Quoted(&one.channel),
            one.catalog_namespace,
            one.catalog,
            Quoted(&one.starting_csv)
        )
    };
    generated.iter().map(one).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests;
