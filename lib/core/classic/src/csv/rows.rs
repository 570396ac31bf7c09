//! The table of the state machine: its rows in the order of their evaluation.

use jiff::{SignedDuration, Timestamp};
use olm_api_classic::ClusterServiceVersion;

use super::{
    Phase, View,
    install_status::{InstallPhase, install_status},
    requirements::Requirements,
    step::{Again, Effect, Outcome},
    texts::{self, message, reason},
    view::{Availability, Fact},
    webhooks,
};
use crate::group::{
    membership::{Group, Membership},
    modes,
    provided::{self, Outcome as Apis},
    targets,
};

type Row = Result<Outcome, Fact>;

/// How long an installation may take to become healthy.
const INSTALL_MAX: SignedDuration = SignedDuration::from_mins(5);
/// How long a failed installation rests: after the first failure, and at most. Upstream begins anew at once, and again.
const RETRY: SignedDuration = SignedDuration::from_secs(10);
const RETRY_MAX: SignedDuration = SignedDuration::from_mins(5);

/// Evaluates the rows for an operator.
///
/// # Errors
/// The fact that the next row needs.
pub(super) fn outcome(csv: &ClusterServiceVersion, view: &View, now: Timestamp) -> Row {
    let status = csv.status.as_ref();
    let phase = Phase::of(status.and_then(|status| status.phase.as_deref()));
    let because = status.and_then(|status| status.reason.as_deref()).unwrap_or_default();
    if because == reason::INSTALL_FAILED_NO_RETRY {
        return Ok(if *View::get(view.revived.as_ref(), Fact::Revived)? {
            Outcome::to(Phase::Pending, reason::CLUSTER_CHANGE, message::CLUSTER_CHANGE)
        } else {
            Outcome::stay()
        });
    }
    let group = match of_group(csv, view)? {
        Ok(group) => group,
        Err(outcome) => return Ok(*outcome),
    };
    match phase {
        Phase::None => Ok(Outcome::to(Phase::Pending, reason::REQUIREMENTS_UNKNOWN, message::UNKNOWN)),
        Phase::Pending => pending(csv, view),
        Phase::InstallReady => install_ready(csv, view),
        Phase::Installing => installing(csv, view, now),
        Phase::Succeeded => succeeded(csv, view, now),
        Phase::Failed => failed(csv, view, group, because, now),
        Phase::Replacing => replacing(view, group),
        Phase::Deleting => Ok(Outcome::stay().with(Effect::Delete)),
        Phase::Unknown => Ok(Outcome::stay()),
    }
}

/// The rows before the table: the OperatorGroup, or what its absence or its namespaces come to.
fn of_group<'v>(
    csv: &ClusterServiceVersion,
    view: &'v View,
) -> Result<Result<&'v Group, Box<Outcome>>, Fact> {
    let failed = |reason, message: &str| Ok(Err(Box::new(Outcome::to(Phase::Failed, reason, message))));
    let apis = match provided::apis(csv) {
        Ok(apis) => apis,
        Err(error) => return Ok(Err(Box::new(Outcome::stay().again(Again::Blocked(error))))),
    };
    let group = match View::get(view.membership.as_ref(), Fact::Membership)? {
        Membership::None => return failed(reason::NO_GROUP, message::NO_GROUP),
        Membership::Several => return failed(reason::TOO_MANY_GROUPS, message::TOO_MANY_GROUPS),
        Membership::Unsettled => return Ok(Err(Box::new(Outcome::stay()))),
        Membership::Of(group) => group,
    };
    let known = csv.metadata.annotations.as_ref();
    let is_annotated =
        group.annotations().iter().all(|(key, value)| known.and_then(|all| all.get(*key)) == value.as_ref());
    let annotate = Effect::Annotate(Box::new(group.clone()));
    if targets::annotation(&group.targets).is_none() {
        let outcome = Outcome::to(Phase::Failed, reason::NO_TARGETS, message::NO_TARGETS);
        return Ok(Err(Box::new(if is_annotated { outcome } else { outcome.with(annotate) })));
    }
    if !is_annotated {
        return Ok(Err(Box::new(Outcome::stay().with(annotate))));
    }
    let install_modes = csv.spec.install_modes.as_deref().unwrap_or_default();
    if let Err(text) = modes::unique(install_modes) {
        return failed(reason::INVALID_MODES, &text);
    }
    let own = csv.metadata.namespace.as_deref().unwrap_or_default();
    if let Err(text) = modes::supports(install_modes, own, &group.targets) {
        return failed(reason::UNSUPPORTED_GROUP, &text);
    }
    let intersecting = View::get(view.intersecting.as_ref(), Fact::Intersecting)?;
    let stopped = |reason, message| {
        Ok(Err(Box::new(Outcome::to(Phase::Failed, reason, message).with(Effect::DeleteDeployments))))
    };
    match provided::decide(&apis.provided, group, intersecting) {
        Apis::Continue => Ok(Ok(group)),
        Apis::CannotModifyStatic => stopped(reason::STATIC_GROUP, message::STATIC_GROUP),
        Apis::Conflict => stopped(reason::GROUP_CONFLICT, message::GROUP_CONFLICT),
        Apis::Provide(apis) => Ok(Err(Box::new(Outcome::stay().with(Effect::Provide(apis))))),
    }
}

/// A strategy that cannot be used.
fn invalid_strategy(cause: &str) -> Outcome {
    Outcome::to(Phase::Failed, reason::INVALID_STRATEGY, texts::invalid_strategy(cause))
}

/// Why the install strategy cannot be used, if it cannot.
pub(super) fn strategy_error(csv: &ClusterServiceVersion) -> Option<String> {
    let strategy = &csv.spec.install.strategy;
    (strategy != "deployment")
        .then(|| format!("unrecognized install strategy {strategy:?}: it has to be deployment"))
}

fn requirements(view: &View) -> Result<Result<&Requirements, &String>, Fact> {
    Ok(View::get(view.requirements.as_ref(), Fact::Requirements)?.as_ref())
}

fn pending(csv: &ClusterServiceVersion, view: &View) -> Row {
    let replaced = View::get(view.replaced.as_ref(), Fact::Replaced)?.as_ref();
    if let Some(Err(cause)) = replaced.map(|replaced| &replaced.upgradeable) {
        return Ok(Outcome::to(Phase::Pending, reason::NOT_UPGRADEABLE, texts::not_upgradeable(cause)));
    }
    let found = match requirements(view)? {
        Ok(found) => found,
        Err(cause) => return Ok(invalid_strategy(cause)),
    };
    let list = &found.statuses;
    if !found.met {
        let unmet = Outcome::to(Phase::Pending, reason::REQUIREMENTS_NOT_MET, message::NOT_MET);
        return Ok(unmet.requirements(list).again(Again::Retry(message::NOT_MET.to_owned())));
    }
    let failed = |reason, message: &str| Ok(Outcome::to(Phase::Failed, reason, message).requirements(list));
    if let Err(text) = webhooks::check(csv) {
        return failed(reason::INVALID_WEBHOOK, text);
    }
    if *View::get(view.crd_conflict.as_ref(), Fact::CrdConflict)? {
        return failed(reason::OWNER_CONFLICT, message::CRD_CONFLICT);
    }
    if !View::get(view.api_services.as_ref(), Fact::ApiServices)?.unadoptable.is_empty() {
        return failed(reason::OWNER_CONFLICT, message::UNADOPTABLE);
    }
    if replaced.is_some_and(|replaced| replaced.phase != Phase::Replacing) {
        return Ok(Outcome::stay().requirements(list));
    }
    Ok(Outcome::to(Phase::InstallReady, reason::ALL_REQUIREMENTS_MET, message::ALL_MET).requirements(list))
}

fn install_ready(csv: &ClusterServiceVersion, view: &View) -> Row {
    if let Some(cause) = strategy_error(csv) {
        return Ok(invalid_strategy(&cause));
    }
    Ok(match View::get(view.installed.as_ref(), Fact::Installed)? {
        Err(fault) => {
            let reason =
                if fault.is_unrecoverable { reason::INSTALL_FAILED_NO_RETRY } else { reason::INSTALL_FAILED };
            Outcome::to(Phase::Failed, reason, texts::install_failed(&fault.message))
        }
        Ok(installed) => Outcome {
            certificates: installed.certificates,
            ..Outcome::to(Phase::Installing, reason::INSTALL_SUCCEEDED, message::INSTALLED)
        },
    })
}

fn installing(csv: &ClusterServiceVersion, view: &View, now: Timestamp) -> Row {
    if let Some(cause) = strategy_error(csv) {
        return Ok(invalid_strategy(&cause));
    }
    let otherwise = InstallPhase(Phase::Installing, reason::INSTALL_WAITING);
    let outcome = install_status(view, otherwise)?;
    let phase = outcome.target.as_ref().map(|target| target.phase);
    if matches!(phase, Some(Phase::Succeeded | Phase::Pending)) {
        return Ok(outcome);
    }
    let since = csv.status.as_ref().and_then(|status| status.last_transition_time.as_ref());
    let waited = since.map(|since| now.duration_since(since.0)).unwrap_or_default();
    if waited >= INSTALL_MAX {
        return Ok(Outcome::to(Phase::Failed, reason::INSTALL_CHECK_FAILED, message::TIMEOUT));
    }
    Ok(match outcome.again {
        Again::Await if phase == Some(Phase::Installing) => outcome.again(Again::After(INSTALL_MAX - waited)),
        _ => outcome,
    })
}

fn succeeded(csv: &ClusterServiceVersion, view: &View, now: Timestamp) -> Row {
    if let Some(next) = View::get(view.successor.as_ref(), Fact::Successor)? {
        let replaced =
            Outcome::to(Phase::Replacing, reason::BEING_REPLACED, texts::being_replaced(&next.name));
        return Ok(replaced.with(Effect::CountUpgrade));
    }
    if let Some(cause) = strategy_error(csv) {
        return Ok(invalid_strategy(&cause));
    }
    let services = View::get(view.api_services.as_ref(), Fact::ApiServices)?;
    let errors = [services.unadoptable.as_slice(), &services.faults].concat();
    if !errors.is_empty() {
        let text = texts::aggregated(&errors);
        return Ok(Outcome::to(Phase::Failed, reason::API_SERVICE_RESOURCES, text));
    }
    if *View::get(view.certificates_due.as_ref(), Fact::CertificatesDue)? {
        return Ok(Outcome::to(Phase::Pending, reason::CERTIFICATES, message::CERTIFICATES));
    }
    let found = match requirements(view)? {
        Ok(found) => found,
        Err(cause) => return Ok(invalid_strategy(cause)),
    };
    if !found.met {
        let lost = Outcome::to(Phase::Failed, reason::REQUIREMENTS_NOT_MET, message::NO_LONGER_MET);
        return Ok(lost.requirements(&found.statuses));
    }
    let outcome = install_status(view, InstallPhase(Phase::Failed, reason::UNHEALTHY))?;
    let is_fine = outcome.target.as_ref().is_some_and(|target| target.phase == Phase::Succeeded);
    let outcome = outcome.requirements(&found.statuses);
    Ok(if is_fine { outcome.with(Effect::EnsureApiRoles).again(until_rotation(csv, now)) } else { outcome })
}

/// The time to the next certificates. One that is over has been left by webhooks that are gone.
fn until_rotation(csv: &ClusterServiceVersion, now: Timestamp) -> Again {
    let at = csv.status.as_ref().and_then(|status| status.certs_rotate_at.as_ref());
    let left = at.map(|at| at.0.duration_since(now)).filter(SignedDuration::is_positive);
    left.map_or(Again::Await, Again::After)
}

fn failed(csv: &ClusterServiceVersion, view: &View, group: &Group, because: &str, now: Timestamp) -> Row {
    if group.fails_forward
        && let Some(next) = View::get(view.successor.as_ref(), Fact::Successor)?
    {
        let replaced = Outcome::to(Phase::Replacing, reason::BEING_REPLACED, texts::fail_forward(&next.name));
        return Ok(replaced.with(Effect::CountUpgrade));
    }
    if let Some(cause) = strategy_error(csv) {
        return Ok(invalid_strategy(&cause));
    }
    let unknown = |message: &str| Ok(Outcome::to(Phase::Pending, reason::REQUIREMENTS_UNKNOWN, message));
    match because {
        reason::NO_TARGETS | reason::NO_GROUP | reason::TOO_MANY_GROUPS | reason::UNSUPPORTED_GROUP => {
            return unknown(message::GROUP_SUPPORTED);
        }
        reason::GROUP_CONFLICT => return unknown(message::NO_CONFLICT),
        reason::STATIC_GROUP => return unknown(message::STATIC_SUPPORTED),
        _ => {}
    }
    if let Some(outcome) = rests(csv, view, because, now)? {
        return Ok(outcome);
    }
    let found = requirements(view)?;
    if let Err(cause) = found
        && because != reason::INVALID_STRATEGY
    {
        return Ok(invalid_strategy(cause));
    }
    let list = found.map(|found| found.statuses.as_slice()).unwrap_or_default();
    if !found.is_ok_and(|found| found.met) {
        let unmet = Outcome::to(Phase::Pending, reason::REQUIREMENTS_NOT_MET, message::STILL_NOT_MET);
        return Ok(unmet.requirements(list));
    }
    let services = View::get(view.api_services.as_ref(), Fact::ApiServices)?;
    if !services.unadoptable.is_empty() {
        return Ok(Outcome::stay().requirements(list));
    }
    if !services.faults.is_empty() {
        let text = texts::aggregated(&services.faults);
        return Ok(Outcome::to(Phase::Pending, reason::API_SERVICE_REINSTALL, text));
    }
    if *View::get(view.certificates_due.as_ref(), Fact::CertificatesDue)? {
        return Ok(Outcome::to(Phase::Pending, reason::CERTIFICATES, message::CERTIFICATES_FAILED));
    }
    install_status(view, InstallPhase(Phase::Pending, reason::REINSTALL)).map(|out| out.requirements(list))
}

/// Whether a failed operator stays as it is, because what it failed of is still so, or to try again later. Upstream has
/// these end as other failures, and come back at once, for ever.
fn rests(
    csv: &ClusterServiceVersion,
    view: &View,
    because: &str,
    now: Timestamp,
) -> Result<Option<Outcome>, Fact> {
    match because {
        reason::OWNER_CONFLICT => {
            let conflict = *View::get(view.crd_conflict.as_ref(), Fact::CrdConflict)?
                || !View::get(view.api_services.as_ref(), Fact::ApiServices)?.unadoptable.is_empty();
            Ok(conflict.then(Outcome::stay))
        }
        reason::INVALID_WEBHOOK => Ok(webhooks::check(csv).is_err().then(Outcome::stay)),
        reason::INSTALL_FAILED => {
            let since = csv.status.as_ref().and_then(|status| status.last_transition_time.as_ref());
            let left = since.map(|since| rest(csv) - now.duration_since(since.0));
            let left = left.filter(SignedDuration::is_positive);
            Ok(left.map(|left| Outcome::stay().again(Again::After(left))))
        }
        _ => Ok(None),
    }
}

/// How long a failed installation rests: twice as long after each failure since the last installation that worked, as far as
/// the history goes back.
fn rest(csv: &ClusterServiceVersion) -> SignedDuration {
    let history = csv.status.iter().flat_map(|status| &status.conditions);
    let worked = |reason: &str| reason == reason::INSTALL_SUCCEEDED;
    let reasons: Vec<&str> = history.map(|one| one.reason.as_deref().unwrap_or_default()).collect();
    let since = reasons.iter().rev().take_while(|reason| !worked(reason));
    let failures = since.filter(|reason| **reason == reason::INSTALL_FAILED).count().max(1);
    let doubled = u32::try_from(failures - 1).unwrap_or(u32::MAX);
    let factor = 2_i32.checked_pow(doubled).unwrap_or(i32::MAX);
    RETRY.checked_mul(factor).unwrap_or(RETRY_MAX).min(RETRY_MAX)
}

fn replacing(view: &View, group: &Group) -> Row {
    if View::get(view.replaced.as_ref(), Fact::Replaced)?.is_some() {
        return Ok(Outcome::stay());
    }
    let Some(next) = View::get(view.successor.as_ref(), Fact::Successor)? else {
        return Ok(Outcome::stay().again(Again::Retry(message::NO_SUCCESSOR.to_owned())));
    };
    let phase = if group.fails_forward { next.newest } else { next.phase };
    Ok(if phase == Phase::Succeeded {
        Outcome::to(Phase::Deleting, reason::REPLACED, message::REPLACED)
    } else {
        Outcome::stay()
    })
}

/// Whether APIServices answer, for the rows of the install status.
pub(super) fn availability(view: &View) -> Result<&Availability, Fact> {
    Ok(&View::get(view.api_services.as_ref(), Fact::ApiServices)?.availability)
}
