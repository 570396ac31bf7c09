//! What is reported of a resolution and of what followed: upstream's conditions, and beside them `Ready` and `Stalled` with
//! one sentence.

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api_classic::{ClusterServiceVersion, InstallPlan, Subscription, SubscriptionStatus};

use super::{
    conditions::{self, whole_seconds},
    state, texts,
};
use crate::plan;

/// What became of a Subscription in a reconcile of its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Something is under way: upstream's conditions stay. The sentence says what, if that is not for the plan to say.
    Await(Option<String>),
    /// There is no solution, or no look for one.
    Unresolved {
        /// Upstream's reason.
        reason: &'static str,
        /// Upstream's message.
        message: String,
        /// One sentence for people.
        explanation: String,
    },
    /// A person has to do something first: reason and sentence.
    Held(&'static str, String),
    /// Bundles are being pulled: upstream's message, and the sentence.
    Unpacking(String),
    /// A bundle cannot be pulled, or used, or no InstallPlan made of it: upstream's reason and message, and the sentence.
    NotUnpacked {
        /// Upstream's reason.
        reason: &'static str,
        /// Upstream's message.
        message: String,
        /// One sentence for people.
        explanation: String,
        /// Whether it is tried again.
        is_retried: bool,
    },
    /// Everything that follows is done.
    Settled,
}

/// Reports an outcome in upstream's conditions.
pub fn report(subscription: &mut Subscription, outcome: &Outcome, now: Timestamp) {
    let status = subscription.status.get_or_insert_default();
    match outcome {
        Outcome::Await(_) => {}
        Outcome::Unresolved { reason, message, .. } => {
            conditions::remove(status, &[texts::UNPACKING, texts::UNPACK_FAILED]);
            conditions::set(status, [texts::RESOLUTION_FAILED, "True", reason, message], now);
        }
        Outcome::Unpacking(message) => {
            conditions::remove(status, &[texts::RESOLUTION_FAILED]);
            conditions::set(status, [texts::UNPACKING, "True", texts::UNPACKING_IN_PROGRESS, message], now);
        }
        Outcome::NotUnpacked { reason, message, .. } => {
            conditions::remove(status, &[texts::RESOLUTION_FAILED, texts::UNPACKING]);
            conditions::set(status, [texts::UNPACK_FAILED, "True", reason, message], now);
        }
        Outcome::Held(..) | Outcome::Settled => {
            let done = [texts::RESOLUTION_FAILED, texts::UNPACKING, texts::UNPACK_FAILED];
            conditions::remove(status, &done);
        }
    }
}

/// Notes the InstallPlan that was made for a Subscription, and the version that it brings.
pub fn planned(subscription: &mut Subscription, csv: &str, plan: &InstallPlan) {
    let status = subscription.status.get_or_insert_default();
    state::refer(status, plan);
    status.current_csv = Some(csv.to_owned());
    status.state = Some(texts::UPGRADE_PENDING.to_owned());
    status.install_plan_generation = plan.spec.generation;
}

/// What `Ready` says.
struct Summary {
    is_ready: bool,
    is_stalled: bool,
    reason: &'static str,
    message: String,
}

impl Summary {
    fn waits(reason: &'static str, message: String) -> Self {
        Self { is_ready: false, is_stalled: false, reason, message }
    }

    fn stalls(reason: &'static str, message: String) -> Self {
        Self { is_stalled: true, ..Self::waits(reason, message) }
    }
}

/// Sums a Subscription up in `Ready` and `Stalled`. `csv` is the current version and `plan` the InstallPlan, as far as they
/// exist.
pub fn conclude(
    subscription: &mut Subscription,
    outcome: &Outcome,
    (csv, plan): (Option<&ClusterServiceVersion>, Option<&InstallPlan>),
    now: Timestamp,
) {
    let status = subscription.status.get_or_insert_default();
    let Summary { is_ready, is_stalled, reason, message } = summary(status, outcome, csv, plan);
    let ready = if is_ready { "True" } else { "False" };
    conditions::set(status, [texts::READY, ready, reason, &message], now);
    if is_stalled {
        conditions::set(status, [texts::STALLED, "True", reason, &message], now);
    } else {
        conditions::remove(status, &[texts::STALLED]);
    }
}

fn summary(
    status: &SubscriptionStatus,
    outcome: &Outcome,
    csv: Option<&ClusterServiceVersion>,
    plan: Option<&InstallPlan>,
) -> Summary {
    match outcome {
        Outcome::Held(reason, text) => return Summary::stalls(reason, sentence(text)),
        Outcome::NotUnpacked { reason, explanation, is_retried: true, .. } => {
            return Summary::waits(reason, sentence(explanation));
        }
        Outcome::Unresolved { reason, explanation, .. }
        | Outcome::NotUnpacked { reason, explanation, .. } => {
            return Summary::stalls(reason, sentence(explanation));
        }
        Outcome::Unpacking(text) => return Summary::waits("Unpacking", sentence(text)),
        Outcome::Await(Some(text)) => return Summary::waits("Pending", sentence(text)),
        Outcome::Await(None) | Outcome::Settled => {}
    }
    let current = status.current_csv.as_deref().unwrap_or_default();
    match (csv, plan) {
        // A plan that makes the version before it fails at another step has more to say than the version.
        (Some(_), Some(plan)) if has_problem(plan) => of_plan(plan, current),
        (Some(csv), _) => of_csv(csv),
        (None, Some(plan)) => of_plan(plan, current),
        (None, None) if current.is_empty() => {
            Summary::waits("Pending", "No version has been chosen yet.".to_owned())
        }
        (None, None) => {
            Summary::waits("Pending", format!("ClusterServiceVersion {current} does not exist yet."))
        }
    }
}

/// Whether an InstallPlan has failed, or says what it cannot do.
fn has_problem(plan: &InstallPlan) -> bool {
    let phase = state::phase(plan);
    let is_open = phase != "Complete";
    phase == state::PLAN_PHASE_FAILED || is_open && plan.status.as_ref().and_then(plan::problem).is_some()
}

/// What the InstallPlan that brings a version says of itself.
fn of_plan(plan: &InstallPlan, current: &str) -> Summary {
    let name = plan.name_any();
    let status = plan.status.as_ref();
    let phase = state::phase(plan);
    if phase == "Complete" {
        let text = format!(
            "ClusterServiceVersion {current}, which InstallPlan {name} made, is gone: delete the Subscription and create it \
             again to install it anew."
        );
        return Summary::stalls("ClusterServiceVersionMissing", text);
    }
    let problem = status.and_then(plan::problem);
    if phase == state::PLAN_PHASE_FAILED {
        let own = || state::installed(plan).and_then(|condition| condition.message.as_deref());
        let own = problem.map(|(_, text)| text).or_else(own).filter(|own| !own.is_empty());
        let text = format!("InstallPlan {name} failed: {}", sentence(own.unwrap_or("it does not say why")));
        return Summary::stalls(texts::PLAN_FAILED, text);
    }
    let ready = status.and_then(plan::ready);
    if let Some((reason, text)) = problem {
        let is_stalled = status.is_some_and(plan::is_stalled);
        let message =
            format!("InstallPlan {name}, which brings {current}, cannot continue: {}", sentence(text));
        return Summary { is_ready: false, is_stalled, reason, message };
    }
    if phase == "RequiresApproval" {
        let text = format!(
            "InstallPlan {name}, which brings {current}, waits for approval: set its spec.approved to true."
        );
        return Summary::waits("RequiresApproval", text);
    }
    let message = match ready.filter(|text| !text.is_empty()) {
        None => format!("InstallPlan {name} brings {current}."),
        Some(text) => format!("InstallPlan {name} brings {current}: {}", sentence(text)),
    };
    Summary::waits("Installing", message)
}

/// What the installed version says of itself.
fn of_csv(csv: &ClusterServiceVersion) -> Summary {
    let name = csv.name_any();
    let status = csv.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let own = status.and_then(|status| status.message.as_deref()).unwrap_or_default();
    match phase {
        "Succeeded" => Summary {
            is_ready: true,
            is_stalled: false,
            reason: "Installed",
            message: format!("{name} is installed."),
        },
        "Failed" => Summary::stalls("Failed", format!("{name} failed: {}", sentence(own))),
        "" => Summary::waits("Installing", format!("{name} has not been checked yet.")),
        phase if own.is_empty() => Summary::waits("Installing", format!("{name} is in phase {phase}.")),
        phase => Summary::waits("Installing", format!("{name} is in phase {phase}: {}", sentence(own))),
    }
}

/// A text as a sentence of its own.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with(['.', '?', '!']) { text.to_owned() } else { format!("{text}.") }
}

/// Dates a status that is different from before. One that is the same keeps its date, and is not written.
pub fn dated(before: &SubscriptionStatus, subscription: &mut Subscription, now: Timestamp) {
    let status = subscription.status.get_or_insert_default();
    status.last_updated.clone_from(&before.last_updated);
    if status != before || status.last_updated.is_none() {
        status.last_updated = Some(whole_seconds(now));
    }
}

#[cfg(test)]
mod tests;
