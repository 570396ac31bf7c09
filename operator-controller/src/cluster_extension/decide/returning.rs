//! Back to the revision that was installed before, because another one missed its deadline and the update policy has
//! `onFailure: Return`.
//!
//! - It is a rollback that nobody asked for, so it is done only where nothing is lost by it: the CRDs come back too, and
//!   stored objects have to fit them as they are.
//! - The new revision records what failed. As long as that is what the spec and the catalogs ask for, it is not tried again.

use jiff::SignedDuration;
use kube::ResourceExt;
use olm_api::{
    Reason,
    names::{REINSTALL_ANNOTATION, RETRY_ANNOTATION, RETURNED_FROM_ANNOTATION, ROLLBACK_TO_ANNOTATION},
    v1::ClusterExtension,
    v1alpha1::OnFailure,
};
use olm_objectset::sha256;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Decision,
    hold::{Held, Pending},
    inputs_digest, is_made_from, rollback,
};
use crate::{
    cluster_extension::{
        Context,
        act::extension_plan,
        observe::{
            Observed,
            revisions::{BundleRecord, Revision, Revisions},
        },
        plan::{self, Planned},
        report::{Cause, CauseKind, Report, StepError},
    },
    cluster_object_set::report::is_late,
    facts::update_policies::InForce,
    interest::Interest,
};

/// How soon an obstacle is checked again; not every remedy comes with an event.
const OBSTACLE_RETRY: SignedDuration = SignedDuration::from_mins(2);
/// How soon it is tried again after an error that may pass.
const ERROR_RETRY: SignedDuration = SignedDuration::from_secs(10);

/// What an earlier revision took the place of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failed {
    /// The number of the revision.
    revision: i64,
    version: String,
    /// Digest of what it was made of; nothing if the spec had changed by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<String>,
}

/// What is to be done about a roll-out that takes long.
#[derive(Debug, PartialEq)]
enum Due<'a> {
    /// Nothing: it may take its time, or the policy lets it stay.
    Nothing,
    /// There is no revision that could take its place, for this reason.
    Nowhere(&'static str),
    /// The second takes the place of the first.
    Return(&'a Revision, &'a Revision),
}

fn due(on_failure: OnFailure, revisions: &Revisions) -> Due<'_> {
    let late = revisions.latest_active().filter(|latest| !latest.succeeded() && is_late(&latest.set));
    match (late, revisions.installed()) {
        (Some(_), _) if on_failure == OnFailure::Stay => Due::Nothing,
        (None, _) => Due::Nothing,
        (Some(late), _) if late.rolled_back_to().is_some() => Due::Nowhere("it is itself the way back"),
        (Some(_), None) => Due::Nowhere("no earlier revision has rolled out"),
        (Some(late), Some(installed)) => Due::Return(late, installed),
    }
}

/// Digest of what a person or a catalog can change about the attempt to roll a bundle out.
fn attempt(extension: &ClusterExtension, bundle: &BundleRecord) -> String {
    let annotation = |name: &str| extension.annotations().get(name);
    sha256(&json!([
        [bundle.name, bundle.version, bundle.release, bundle.reference],
        extension.spec,
        annotation(REINSTALL_ANNOTATION),
        annotation(RETRY_ANNOTATION),
    ]))
}

/// The record of the failure of this attempt, unless its bundle has rolled out since.
fn recorded(revisions: &Revisions, bundle: &BundleRecord, attempt: &str) -> Option<Failed> {
    let records = revisions.all().iter().rev().filter_map(|revision| {
        let failed: Failed = serde_json::from_str(revision.annotation(RETURNED_FROM_ANNOTATION)?).ok()?;
        Some((revision.number, failed))
    });
    let (number, failed) =
        records.into_iter().find(|(_, failed)| failed.attempt.as_deref() == Some(attempt))?;
    let has_rolled_out = |revision: &Revision| {
        revision.number > number
            && revision.succeeded()
            && revision.rolled_back_to().is_none()
            && revision.bundle == *bundle
    };
    (!revisions.all().iter().any(has_rolled_out)).then_some(failed)
}

/// A sentence about a bundle that is not tried again.
pub(crate) fn note(observed: &Observed<'_>, bundle: &BundleRecord) -> Option<String> {
    let Failed { revision, version, .. } =
        recorded(&observed.revisions, bundle, &attempt(observed.extension, bundle))?;
    Some(format!(
        "{version} missed its deadline as revision {revision} and is replaced by the revision before: it is tried again when the spec, its image in the catalog or the annotation {RETRY_ANNOTATION} changes."
    ))
}

/// What waits because it has failed before. Plans show it all the same.
///
/// # Errors
/// The kept plans, which are out of date, cannot be read.
pub(crate) async fn held(
    cx: &Context,
    observed: &Observed<'_>,
    bundle: &BundleRecord,
) -> Result<Option<Held>, Cause> {
    let Some(sentence) = note(observed, bundle).filter(|_| !cx.only_plans) else { return Ok(None) };
    let present = extension_plan::list(cx, observed.extension).await.map_err(Cause::transient)?;
    let stalled = Some(Reason::ProgressDeadlineExceeded);
    let pending = Pending { sentence, stalled, ..Pending::default() };
    Ok(Some(Held { bundle: bundle.clone(), pending, plan: None, present }))
}

/// A revision that takes the place of the one that failed, if that is due and nothing is in the way; the report says what
/// is.
pub(crate) async fn decide(cx: &Context, observed: &Observed<'_>, report: &mut Report) -> Option<Decision> {
    let InForce::Policy(policy) = cx.update_policies.in_force(observed.extension) else { return None };
    let (failed, target) = match due(policy.on_failure, &observed.revisions) {
        Due::Nothing => return None,
        Due::Nowhere(why) => {
            let latest = observed.revisions.last_number();
            report.notes.push(format!(
                "Revision {latest} missed its deadline and nothing takes its place, because {why}: correct what keeps it from rolling out, or let the extension choose another version."
            ));
            return None;
        }
        Due::Return(failed, target) => (failed, target),
    };
    match planned(cx, observed, (failed, target), &report.notes).await {
        Ok(planned) => {
            report.notes.clone_from(&planned.notes);
            Some(Decision::Revise(Box::new(planned)))
        }
        Err(cause) => {
            report.notes.push(stays((failed, target), &policy.name, &cause.text));
            let passes = cause.kind == CauseKind::Transient;
            let wait = if passes { ERROR_RETRY } else { OBSTACLE_RETRY };
            report.resumes = observed.now.checked_add(wait).ok();
            observed.wanted.add([Interest::Rbac]);
            None
        }
    }
}

async fn planned(
    cx: &Context,
    observed: &Observed<'_>,
    (failed, target): (&Revision, &Revision),
    notes: &[String],
) -> Result<Planned, Cause> {
    let Observed { extension, account, .. } = observed;
    // What the spec asked for when it failed may be something else than it asks for now.
    let is_asked_for = is_made_from(failed, &inputs_digest(cx, observed, &failed.bundle), account);
    let record = Failed {
        revision: failed.number,
        version: failed.bundle.display_version(),
        attempt: is_asked_for.then(|| attempt(extension, &failed.bundle)),
    };
    let record = serde_json::to_string(&record).map_err(Cause::transient)?;
    let cause = |error| match error {
        StepError::Bundle { cause, .. } => cause,
        error => Cause::terminal(error),
    };
    let (draft, more) = rollback::bring_back(cx, observed, target, Some(record)).await.map_err(cause)?;
    let notes: Vec<String> = notes.iter().cloned().chain(more).collect();
    let mut planned = plan::plan(cx, observed, draft, &notes).await?;
    planned.obstacle.take().map_or(Ok(planned), Err)
}

/// Says that nothing takes the place of a revision that failed, and the ways forward.
fn stays((failed, target): (&Revision, &Revision), policy: &str, why: &str) -> String {
    let of = |one: &Revision| format!("revision {} ({})", one.number, one.bundle.display_version());
    format!(
        "Update policy {policy} lets {} take the place of {}, which missed its deadline, but {}. Correct what keeps revision {} from rolling out, let the extension choose another version, or set the annotation {ROLLBACK_TO_ANNOTATION} to {}, which leaves CRDs as they are.",
        of(target),
        of(failed),
        why.trim_end_matches('.'),
        failed.number,
        target.number,
    )
}

#[cfg(test)]
mod tests;
