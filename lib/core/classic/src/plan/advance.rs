//! The phases of a plan: what is done next, and what the result comes to.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time};
use olm_api_classic::{InstallPlan, InstallPlanCondition, InstallPlanStatus, Step};

use super::{AccountError, digest, texts};

/// How long errors are tried again before a plan has failed, unless the administrator chose another time.
pub const RETRY_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

/// What is known of a plan before it is carried out.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// The plan.
    pub plan: &'a InstallPlan,
    /// The ServiceAccount of the namespace's OperatorGroup.
    pub account: &'a Result<Option<ObjectReference>, AccountError>,
    /// Whether the program has written the steps ([`super::sealed_text`]).
    pub is_sealed: bool,
    /// Whether a later plan has taken the place of this one.
    pub is_superseded: bool,
    /// The time.
    pub now: Timestamp,
}

/// What is done with a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it has no status yet, or is over.
    Ignore,
    /// The status is written; nothing else until something changes.
    Report,
    /// The status is written, and what caused it is tried again.
    Retry,
    /// Its steps are carried out.
    Execute,
    /// It is complete: permissions that were lost are made again.
    Restore,
}

/// The error of a plan's steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong.
    pub text: String,
    /// What a person can do.
    pub remedy: String,
    /// Whether a permission is missing: the plan does not fail, but waits for it.
    pub is_forbidden: bool,
}

/// What became of the steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The steps, with their states.
    pub steps: Vec<Step>,
    /// The error that ended the attempt.
    pub failure: Option<Failure>,
    /// What is waited for, if not for CRDs: a bundle that is being pulled.
    pub waits_for: Option<String>,
}

/// Whether a person approved a plan: by its spec, or by the digest of its steps.
pub fn is_approved(plan: &InstallPlan) -> bool {
    let digest = || {
        let steps = plan.status.as_ref().map(|status| status.plan.as_slice()).unwrap_or_default();
        digest::digest(&plan.spec.cluster_service_version_names, steps)
    };
    let annotations = plan.metadata.annotations.as_ref();
    let approved = annotations.and_then(|all| all.get(texts::APPROVED_DIGEST_ANNOTATION));
    plan.spec.approved || approved.is_some_and(|approved| *approved == digest())
}

/// What is done with a plan, and its status until then.
pub fn begin(view: &View<'_>) -> (InstallPlanStatus, Action) {
    let mut status = view.plan.status.clone().unwrap_or_default();
    let phase = status.phase.clone();
    if status.plan.is_empty() && status.bundle_lookups.is_empty() {
        return (status, Action::Ignore);
    }
    if phase == texts::COMPLETE {
        let action = if view.is_sealed { Action::Restore } else { Action::Ignore };
        return (status, action);
    }
    if phase == texts::FAILED && (view.is_superseded || !view.is_sealed) {
        return (status, Action::Ignore);
    }
    if !view.is_sealed {
        let text = "The steps of this InstallPlan are not those that olm-classic wrote, so they are not carried out. Delete the InstallPlan: if a Subscription needs one, another is made.";
        summarize(&mut status, texts::NOT_SEALED, text, true, view.now);
        return (status, Action::Report);
    }
    match view.account {
        Err(error) => {
            let text = error.to_string();
            set(&mut status, [texts::INSTALLED, "False", texts::CHECK_FAILED, &text], view.now);
            let text = format!(
                "The ServiceAccount of this namespace cannot be found out: {text}. {}",
                error.remedy()
            );
            summarize(&mut status, texts::CHECK_FAILED, &text, true, view.now);
            return (status, Action::Retry);
        }
        Ok(account) => {
            status.conditions.retain(|one| !is_of(one, texts::INSTALLED, texts::CHECK_FAILED));
            if status.attenuated_service_account_ref != *account {
                status.attenuated_service_account_ref.clone_from(account);
                return (status, Action::Report);
            }
        }
    }
    if !is_approved(view.plan) {
        texts::REQUIRES_APPROVAL.clone_into(&mut status.phase);
        let digest = digest::digest(&view.plan.spec.cluster_service_version_names, &status.plan);
        let text = format!(
            "Waits for approval: set spec.approved to true, or the annotation {} to {digest}.",
            texts::APPROVED_DIGEST_ANNOTATION
        );
        summarize(&mut status, texts::REQUIRES_APPROVAL, &text, false, view.now);
        return (status, Action::Report);
    }
    if phase == texts::FAILED {
        return (status, Action::Execute);
    }
    if phase != texts::INSTALLING {
        texts::INSTALLING.clone_into(&mut status.phase);
        status.message = None;
    }
    if status.start_time.is_none() {
        status.start_time = Some(Time(view.now));
    }
    (status, Action::Execute)
}

/// The status of a plan after its steps were carried out as far as they could be. `timeout` is how long errors are tried
/// again.
pub fn finish(
    mut status: InstallPlanStatus,
    outcome: Outcome,
    timeout: SignedDuration,
    now: Timestamp,
) -> (InstallPlanStatus, Action) {
    status.plan = outcome.steps;
    let has_failed = status.phase == texts::FAILED;
    if let Some(failure) = outcome.failure {
        let began = status.start_time.as_ref().map_or(now, |time| time.0);
        let is_over = has_failed || now.duration_since(began) >= timeout;
        let reason = if failure.is_forbidden { texts::MISSING_PERMISSIONS } else { texts::COMPONENT_FAILED };
        let sentence = one_sentence(&failure);
        if failure.is_forbidden && !has_failed || !is_over {
            status.message = Some(texts::retrying(&failure.text));
            summarize(&mut status, reason, &sentence, failure.is_forbidden, now);
            return (status, Action::Retry);
        }
        texts::FAILED.clone_into(&mut status.phase);
        status.message = Some(failure.text.clone());
        set(&mut status, [texts::INSTALLED, "False", texts::COMPONENT_FAILED, &failure.text], now);
        summarize(&mut status, reason, &sentence, true, now);
        return (status, Action::Retry);
    }
    let waiting: Vec<&str> = status
        .plan
        .iter()
        .filter(|step| step.status == texts::WAITING_FOR_API)
        .map(|step| step.resource.name.as_str())
        .collect();
    let waits_for = outcome.waits_for.or_else(|| {
        (!waiting.is_empty()).then(|| format!("Waits for the API server to serve {}.", waiting.join(", ")))
    });
    if let Some(text) = waits_for {
        texts::INSTALLING.clone_into(&mut status.phase);
        status.message = None;
        summarize(&mut status, texts::INSTALLING, &text, false, now);
        return (status, Action::Retry);
    }
    texts::COMPLETE.clone_into(&mut status.phase);
    status.message = None;
    set(&mut status, [texts::INSTALLED, "True", "", ""], now);
    summarize(&mut status, texts::COMPLETE, "Everything is installed.", false, now);
    (status, Action::Report)
}

/// The error and the remedy as one text.
fn one_sentence(failure: &Failure) -> String {
    let text = failure.text.trim_end_matches('.');
    if failure.remedy.is_empty() { format!("{text}.") } else { format!("{text}. {}", failure.remedy) }
}

/// Reports a problem of a plan without changing its phase.
pub fn report(status: &mut InstallPlanStatus, reason: &str, text: &str, now: Timestamp) {
    summarize(status, reason, text, true, now);
}

fn find<'s>(status: &'s InstallPlanStatus, kind: &str) -> Option<&'s InstallPlanCondition> {
    status.conditions.iter().find(|one| one.type_.as_deref() == Some(kind))
}

/// What `Ready` says of a plan.
pub fn ready(status: &InstallPlanStatus) -> Option<&str> {
    find(status, texts::READY)?.message.as_deref()
}

/// Whether nothing goes on without a person.
pub fn is_stalled(status: &InstallPlanStatus) -> bool {
    find(status, texts::STALLED).is_some_and(|one| one.status.as_deref() == Some("True"))
}

/// Reason and sentence of what is wrong with a plan. What it waits for is not wrong.
pub fn problem(status: &InstallPlanStatus) -> Option<(&'static str, &str)> {
    const WRONG: [&str; 4] =
        [texts::CHECK_FAILED, texts::COMPONENT_FAILED, texts::MISSING_PERMISSIONS, texts::NOT_SEALED];
    let ready = find(status, texts::READY)?;
    let reason = WRONG.into_iter().find(|reason| ready.reason.as_deref() == Some(*reason))?;
    Some((reason, ready.message.as_deref().unwrap_or_default()))
}

fn summarize(status: &mut InstallPlanStatus, reason: &str, text: &str, is_stalled: bool, now: Timestamp) {
    let ready = if reason == texts::COMPLETE { "True" } else { "False" };
    set(status, [texts::READY, ready, reason, text], now);
    if is_stalled {
        set(status, [texts::STALLED, "True", reason, text], now);
    } else {
        status.conditions.retain(|one| one.type_.as_deref() != Some(texts::STALLED));
    }
}

fn is_of(condition: &InstallPlanCondition, kind: &str, reason: &str) -> bool {
    condition.type_.as_deref() == Some(kind) && condition.reason.as_deref() == Some(reason)
}

/// Sets type, status, reason and message of a condition. Its times change only with them.
fn set(status: &mut InstallPlanStatus, [kind, state, reason, message]: [&str; 4], now: Timestamp) {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let at = status.conditions.iter().position(|one| one.type_.as_deref() == Some(kind));
    let before = at.map(|at| status.conditions[at].clone());
    let mut condition = InstallPlanCondition {
        type_: text(kind),
        status: text(state),
        reason: text(reason),
        message: text(message),
        last_update_time: before.as_ref().and_then(|before| before.last_update_time.clone()),
        last_transition_time: before.as_ref().and_then(|before| before.last_transition_time.clone()),
    };
    if before.as_ref() == Some(&condition) {
        return;
    }
    condition.last_update_time = Some(Time(now));
    if before.is_none_or(|before| before.status != condition.status) {
        condition.last_transition_time = Some(Time(now));
    }
    match at {
        Some(at) => status.conditions[at] = condition,
        None => status.conditions.push(condition),
    }
}
