//! Whether requirements are met.

use olm_fbc::Property;
use olm_object::GroupVersionKind;
use olm_semver::Version;

use crate::{
    Requirement, Work,
    requirement::{Predicate, provided_kinds},
};

/// A bundle that is installed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InstalledBundle<'a> {
    /// Its package.
    pub package: &'a str,
    /// Its version; one that cannot be parsed lies in no range.
    pub version: Option<&'a Version>,
    /// Its properties, as its catalog or it itself declares them.
    pub properties: &'a [Property],
}

/// Whether what is installed meets the requirement. `served` says which kinds the cluster serves.
///
/// An expression that fails is not met, as in OLM Classic. The answer means nothing if the `work` was too much.
pub fn is_met(
    requirement: &Requirement,
    installed: &[InstalledBundle<'_>],
    served: &dyn Fn(&GroupVersionKind) -> bool,
    work: &Work,
) -> bool {
    match &requirement.predicate {
        Predicate::Not(members) => !installed
            .iter()
            .any(|present| members.iter().any(|member| holds(&member.predicate, present, work))),
        predicate => {
            installed.iter().any(|present| holds(predicate, present, work)) || is_served(predicate, served)
        }
    }
}

/// The requirements that are not met, in their order.
pub fn unmet<'a>(
    requirements: &'a [Requirement],
    installed: &[InstalledBundle<'_>],
    served: &dyn Fn(&GroupVersionKind) -> bool,
    work: &Work,
) -> Vec<&'a Requirement> {
    requirements.iter().filter(|one| !is_met(one, installed, served, work)).collect()
}

/// Whether the statement is true of one bundle.
pub(crate) fn holds(predicate: &Predicate, present: &InstalledBundle<'_>, work: &Work) -> bool {
    match predicate {
        Predicate::Package { name, range } => {
            name == present.package
                && range
                    .as_ref()
                    .is_none_or(|range| present.version.is_some_and(|version| range.contains(version)))
        }
        Predicate::Kind(kind) => provided_kinds(present.properties).any(|provided| provided == *kind),
        Predicate::Expression(expression) => expression.holds(present.properties, work),
        Predicate::All(members) => members.iter().all(|member| holds(&member.predicate, present, work)),
        Predicate::Any(members) => members.iter().any(|member| holds(&member.predicate, present, work)),
        Predicate::Not(members) => !members.iter().any(|member| holds(&member.predicate, present, work)),
    }
}

/// Whether the cluster meets a statement that is about nothing but kinds.
fn is_served(predicate: &Predicate, served: &dyn Fn(&GroupVersionKind) -> bool) -> bool {
    match predicate {
        Predicate::Kind(kind) => served(kind),
        Predicate::All(members) => members.iter().all(|member| is_served(&member.predicate, served)),
        Predicate::Any(members) => members.iter().any(|member| is_served(&member.predicate, served)),
        Predicate::Package { .. } | Predicate::Expression(_) | Predicate::Not(_) => false,
    }
}
