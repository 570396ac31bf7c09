//! Bundles that need each other.
//!
//! Each waits for the others, so none would ever be installed. A requirement therefore also counts as met by a bundle
//! that is chosen but not installed yet, if both lie on a cycle and nothing outside of the cycle is missing.
//! Where there is no cycle, the bundles that meet requirements are installed first.

use std::collections::{BTreeMap, BTreeSet};

use olm_object::GroupVersionKind;

use crate::{InstalledBundle, Requirement, Work, evaluate, is_met};

/// A bundle that is chosen for an extension and not installed yet.
#[derive(Debug, Clone, Copy)]
pub struct PendingBundle<'a> {
    /// Name of the extension.
    pub extension: &'a str,
    /// The bundle.
    pub bundle: InstalledBundle<'a>,
    /// Its requirements.
    pub requirements: &'a [Requirement],
}

/// Whether `extension`, one of those `waiting`, can be installed: all it needs is installed, or lies with it on a cycle
/// of which nothing else is missing.
pub fn can_proceed(
    extension: &str,
    waiting: &[PendingBundle<'_>],
    installed: &[InstalledBundle<'_>],
    served: &dyn Fn(&GroupVersionKind) -> bool,
) -> bool {
    let needs = edges(waiting, installed, served);
    let reachable = |from: usize| -> Option<BTreeSet<usize>> {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(one) = open.pop() {
            for next in needs.get(&one)?.as_ref()? {
                if seen.insert(*next) {
                    open.push(*next);
                }
            }
        }
        Some(seen)
    };
    let Some(start) = waiting.iter().position(|one| one.extension == extension) else { return false };
    let Some(needed) = reachable(start) else { return false };
    needed.iter().all(|one| *one == start || reachable(*one).is_some_and(|back| back.contains(&start)))
}

/// For each of those waiting the others that meet its unmet requirements; `None` when one is met by none of them, or
/// only by such that have unmet requirements themselves.
fn edges(
    waiting: &[PendingBundle<'_>],
    installed: &[InstalledBundle<'_>],
    served: &dyn Fn(&GroupVersionKind) -> bool,
) -> BTreeMap<usize, Option<BTreeSet<usize>>> {
    // Each has a share of the work, so that the expressions of one do not delay the others.
    let work = Work::shares(waiting.len());
    let unmet: Vec<Vec<&Requirement>> = waiting
        .iter()
        .zip(&work)
        .map(|(one, work)| evaluate::unmet(one.requirements, installed, served, work))
        .collect();
    let mut alive: BTreeSet<usize> = (0..waiting.len()).collect();
    loop {
        let providers = |requirement: &Requirement, work: &Work| -> BTreeSet<usize> {
            let meets = |other: &usize| {
                !requirement.is_conflict() && is_met(requirement, &[waiting[*other].bundle], &|_| false, work)
            };
            alive.iter().copied().filter(meets).collect()
        };
        let needed = |index: &usize| -> Option<BTreeSet<usize>> {
            let own = &work[*index];
            let each: Vec<_> = unmet[*index].iter().map(|requirement| providers(requirement, own)).collect();
            let is_met = own.check().is_ok() && each.iter().all(|one| !one.is_empty());
            is_met.then(|| each.into_iter().flatten().collect())
        };
        let found: BTreeMap<usize, Option<BTreeSet<usize>>> =
            alive.iter().map(|index| (*index, needed(index))).collect();
        let stuck: Vec<usize> =
            found.iter().filter(|(_, needed)| needed.is_none()).map(|(index, _)| *index).collect();
        if stuck.is_empty() {
            return found;
        }
        alive.retain(|index| !stuck.contains(index));
    }
}
