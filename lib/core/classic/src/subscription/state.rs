//! The state of a Subscription: what became of the ClusterServiceVersion and the InstallPlan that it names.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use olm_api_classic::{InstallPlan, InstallPlanReference, Subscription, SubscriptionStatus};

use super::{conditions, texts};

/// The annotation of a Subscription that an InstallPlan made: the name of the InstallPlan.
pub const GENERATED_BY_ANNOTATION: &str = "olm.generated-by";
/// Phase of an InstallPlan that failed.
pub const PLAN_PHASE_FAILED: &str = "Failed";

/// What is known of the objects that a Subscription names.
#[derive(Debug, Clone, Copy, Default)]
pub struct Named<'a> {
    /// Whether the ClusterServiceVersion of `currentCSV` exists.
    pub has_csv: bool,
    /// The InstallPlan that [`plan_name`] answers, if it exists.
    pub plan: Option<&'a InstallPlan>,
    /// Whether versions that failed may be replaced.
    pub fails_forward: bool,
}

/// The name of the InstallPlan of a Subscription: the one in its status, or the one that made it.
pub fn plan_name(subscription: &Subscription) -> Option<&str> {
    let recorded =
        subscription.status.as_ref().and_then(|status| status.install_plan_ref.as_ref()?.name.as_deref());
    recorded.or_else(|| {
        let annotations = subscription.metadata.annotations.as_ref()?;
        annotations.get(GENERATED_BY_ANNOTATION).map(String::as_str)
    })
}

/// Brings the status up to what is known: reference of a generated Subscription, state, installed version, conditions of the
/// InstallPlan.
pub fn follow(subscription: &mut Subscription, named: &Named<'_>, now: Timestamp) {
    let starting = subscription.spec.starting_csv.clone();
    let status = subscription.status.get_or_insert_default();
    if status.install_plan_ref.is_none()
        && status.install_plan.is_none()
        && let Some(plan) = named.plan
    {
        refer(status, plan);
        status.current_csv = starting;
        status.state = Some(pending(named).to_owned());
    }
    if status.current_csv.as_ref().is_some_and(|name| !name.is_empty()) {
        if named.has_csv {
            status.installed_csv.clone_from(&status.current_csv);
            status.state = Some(texts::AT_LATEST_KNOWN.to_owned());
        } else {
            status.state = Some(pending(named).to_owned());
        }
    }
    follow_plan(status, named.plan, now);
}

fn pending(named: &Named<'_>) -> &'static str {
    let failed = named.fails_forward && named.plan.is_some_and(|plan| phase(plan) == PLAN_PHASE_FAILED);
    if failed { texts::UPGRADE_FAILED } else { texts::UPGRADE_PENDING }
}

/// The phase of an InstallPlan; empty before it has one.
pub fn phase(plan: &InstallPlan) -> &str {
    plan.status.as_ref().map_or("", |status| status.phase.as_str())
}

/// Notes the InstallPlan of a Subscription.
pub fn refer(status: &mut SubscriptionStatus, plan: &InstallPlan) {
    let (api_version, kind) = ("operators.coreos.com/v1alpha1".to_owned(), "InstallPlan".to_owned());
    status.install_plan = Some(InstallPlanReference {
        api_version: api_version.clone(),
        kind: kind.clone(),
        name: plan.name_any(),
        uuid: plan.uid().unwrap_or_default(),
    });
    status.install_plan_ref = Some(ObjectReference {
        api_version: Some(api_version),
        kind: Some(kind),
        name: Some(plan.name_any()),
        namespace: plan.namespace(),
        uid: plan.uid(),
        resource_version: plan.resource_version(),
        field_path: None,
    });
}

/// The conditions about the InstallPlan.
fn follow_plan(status: &mut SubscriptionStatus, plan: Option<&InstallPlan>, now: Timestamp) {
    if status.install_plan_ref.is_none() {
        return;
    }
    let Some(plan) = plan else {
        conditions::remove(status, &[texts::PLAN_PENDING, texts::PLAN_FAILED]);
        if status.state.as_deref() == Some(texts::UPGRADE_PENDING) {
            // Nothing will make the version that is waited for: another plan has to.
            conditions::remove(status, &[texts::PLAN_MISSING]);
            (status.install_plan_ref, status.install_plan) = (None, None);
            (status.current_csv, status.state) = (None, None);
        } else {
            conditions::set(status, [texts::PLAN_MISSING, "True", texts::PLAN_NOT_FOUND, ""], now);
        }
        return;
    };
    conditions::remove(status, &[texts::PLAN_MISSING]);
    let message = message(plan);
    let (shown, other, reason) = match phase(plan) {
        "Complete" => {
            conditions::remove(status, &[texts::PLAN_PENDING, texts::PLAN_FAILED]);
            return;
        }
        PLAN_PHASE_FAILED => {
            let reason = installed(plan).and_then(|condition| condition.reason.clone());
            let reason =
                reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| texts::PLAN_FAILED.to_owned());
            (texts::PLAN_FAILED, texts::PLAN_PENDING, reason)
        }
        "" => (texts::PLAN_PENDING, texts::PLAN_FAILED, texts::PLAN_NOT_RECONCILED.to_owned()),
        phase => (texts::PLAN_PENDING, texts::PLAN_FAILED, phase.to_owned()),
    };
    conditions::remove(status, &[other]);
    conditions::set(status, [shown, "True", &reason, &message], now);
}

/// The condition of a plan that sums it up.
pub(super) fn installed(plan: &InstallPlan) -> Option<&olm_api_classic::InstallPlanCondition> {
    let conditions = &plan.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_.as_deref() == Some("Installed"))
}

/// What a plan says of itself, else what its bundles wait for.
fn message(plan: &InstallPlan) -> String {
    let own = installed(plan).and_then(|condition| condition.message.clone());
    if let Some(own) = own.filter(|own| !own.is_empty()) {
        return own;
    }
    let lookups = plan.status.iter().flat_map(|status| &status.bundle_lookups);
    let pending = lookups
        .flat_map(|lookup| &lookup.conditions)
        .filter(|condition| condition.type_ == "BundleLookupPending" && condition.status == "True");
    let texts: Vec<_> = pending
        .filter_map(|condition| condition.message.as_deref().filter(|text| !text.is_empty()))
        .map(|text| format!("{}.", text.trim_end_matches('.')))
        .collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests;
