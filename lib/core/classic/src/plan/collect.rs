//! Which plans of a namespace are deleted.

use std::collections::BTreeSet;

use kube::ResourceExt;
use olm_api_classic::{InstallPlan, Subscription};

use super::texts;

/// Plans that a namespace keeps.
pub const PLANS_MAX: usize = 5;
/// Plans that are deleted at a time.
const DELETED_MAX: usize = 5;

/// Names and UIDs of the plans to delete: those whose Subscriptions are all gone, and of more than five the ones of the
/// lowest generations, then the oldest, then by name. A plan that a Subscription names, or that is not over, stays.
pub fn collectable(plans: &[&InstallPlan], subscriptions: &[&Subscription]) -> Vec<(String, String)> {
    let uids: BTreeSet<String> = subscriptions.iter().filter_map(|one| one.uid()).collect();
    let named: BTreeSet<&str> = subscriptions
        .iter()
        .filter_map(|one| one.status.as_ref()?.install_plan_ref.as_ref()?.name.as_deref())
        .collect();
    let mut alive: Vec<&InstallPlan> =
        plans.iter().copied().filter(|plan| plan.metadata.deletion_timestamp.is_none()).collect();
    let is_orphan = |plan: &InstallPlan| {
        let mut owners =
            plan.owner_references().iter().filter(|owner| owner.kind == "Subscription").peekable();
        owners.peek().is_some() && owners.all(|owner| !uids.contains(&owner.uid))
    };
    let mut collected: Vec<&InstallPlan> = alive.iter().copied().filter(|plan| is_orphan(plan)).collect();
    alive.retain(|plan| !is_orphan(plan));
    alive.sort_by_key(|plan| {
        let created = plan.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (plan.spec.generation, created, plan.name_any())
    });
    let surplus = alive.len().saturating_sub(PLANS_MAX);
    let is_over = |plan: &InstallPlan| {
        let phase = plan.status.as_ref().map_or("", |status| status.phase.as_str());
        [texts::COMPLETE, texts::FAILED].contains(&phase) && !named.contains(plan.name_any().as_str())
    };
    collected.extend(alive.into_iter().take(surplus).filter(|plan| is_over(plan)));
    collected.truncate(DELETED_MAX);
    collected.into_iter().filter_map(|plan| Some((plan.name_any(), plan.uid()?))).collect()
}

/// Whether a later plan has taken the place of this one: it holds a ClusterServiceVersion for a Subscription of this plan,
/// or one of the same name.
pub fn is_superseded(plan: &InstallPlan, plans: &[&InstallPlan]) -> bool {
    let owners: BTreeSet<&str> = plan.owner_references().iter().map(|owner| owner.uid.as_str()).collect();
    plans.iter().any(|other| {
        let shares = || {
            let names = &plan.spec.cluster_service_version_names;
            other.owner_references().iter().any(|owner| owners.contains(owner.uid.as_str()))
                || other.spec.cluster_service_version_names.iter().any(|name| names.contains(name))
        };
        other.metadata.deletion_timestamp.is_none()
            && other.spec.generation > plan.spec.generation
            && shares()
    })
}
