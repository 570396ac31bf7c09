//! Whether a planned revision is written now: the update policy of the extension is asked.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use olm_api::{
    Reason,
    names::{APPROVED_PLAN_ANNOTATION, CATALOG_ANNOTATION},
    v1alpha1::{ExtensionPlan, ExtensionPlanSpec, OnFailure},
};
use olm_plan::{Change as ObjectChange, Plan, record};
use olm_policy::{Approved, Change, Kind, Permit, Policy, Risk, Wait, permit, sentence};
use olm_semver::Version;

use super::Decision;
use crate::{
    cluster_extension::{
        Context,
        act::extension_plan,
        observe::{
            Observed,
            revisions::{BundleRecord, Revision},
        },
        plan::Planned,
        report::Cause,
    },
    facts::update_policies::InForce,
    interest::Interest,
};

/// How soon the policies are asked for again while they cannot be read, should no event come.
const UNKNOWN_RETRY: SignedDuration = SignedDuration::from_mins(1);

/// What follows where the policy asks for what the spec makes impossible.
const NO_DEADLINE: &str = " It has onFailure: Return, which has no effect until spec.progressDeadlineMinutes is set: without it no roll-out counts as failed.";

/// A sentence about the policy that is in force.
pub(crate) fn in_force(cx: &Context, observed: &Observed<'_>) -> Option<String> {
    match cx.update_policies.in_force(observed.extension) {
        InForce::Nothing => None,
        InForce::Unknown => cx
            .only_plans
            .then(|| "The update policies could not be read: what they hold back is not known.".to_owned()),
        InForce::Policy(policy) => {
            let has_deadline = observed.extension.spec.progress_deadline_minutes.is_some();
            let never = (policy.on_failure == OnFailure::Return && !has_deadline).then_some(NO_DEADLINE);
            Some(format!("Update policy {} is in force.{}", policy.name, never.unwrap_or_default()))
        }
        InForce::Invalid { name, why, .. } => {
            Some(format!("Update policy {name} is in force and has to be corrected: {why}."))
        }
    }
}

/// A change that waits.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pending {
    /// What it waits for, in one sentence.
    pub(crate) sentence: String,
    /// What else is to be said of it, and what to do.
    pub(crate) notes: Vec<String>,
    /// Why nothing happens before a person acts; nothing if it passes by itself.
    pub(crate) stalled: Option<Reason>,
    /// When this is worth another look by time alone.
    pub(crate) look_again: Option<Timestamp>,
}

/// What is to be done about a change that waits.
pub(crate) struct Held {
    /// The bundle of the revision that is held.
    pub(crate) bundle: BundleRecord,
    pub(crate) pending: Pending,
    /// The plan that is to be kept, if there is one; nothing is written if it is there.
    pub(crate) plan: Option<ExtensionPlanSpec>,
    /// The plans there are of the extension.
    pub(crate) present: Vec<ExtensionPlan>,
}

/// The decision on a planned revision.
///
/// # Errors
/// The plan is not whole, or the kept plans cannot be read.
pub(crate) async fn ask(
    cx: &Context,
    observed: &Observed<'_>,
    planned: Planned,
    kind: Kind,
) -> Result<Decision, Cause> {
    // Who only plans is shown the plan, and what is in the way of it is reported before anything else.
    if cx.only_plans || planned.obstacle.is_some() {
        return Ok(Decision::Revise(Box::new(planned)));
    }
    let is_install = kind == Kind::Update && observed.revisions.installed().is_none();
    let kind = if is_install { Kind::Install } else { kind };
    let version = planned.draft.bundle.display_version();
    let policy = match cx.update_policies.in_force(observed.extension) {
        InForce::Nothing => return Ok(Decision::Revise(Box::new(planned))),
        InForce::Unknown | InForce::Invalid { installs: false, .. } if is_install => {
            return Ok(Decision::Revise(Box::new(planned)));
        }
        InForce::Unknown => {
            let look_again = observed.now.checked_add(UNKNOWN_RETRY).ok();
            let sentence = sentence(&version, &[Wait::Unknown], observed.now);
            return Ok(without_plan(planned, Pending { sentence, look_again, ..Pending::default() }));
        }
        InForce::Invalid { name, why, .. } => {
            let text = sentence(&version, &[Wait::Invalid { why }], observed.now);
            let (sentence, stalled) = (named(&text, &name), Some(Reason::Blocked));
            return Ok(without_plan(planned, Pending { sentence, stalled, ..Pending::default() }));
        }
        InForce::Policy(policy) => policy,
    };
    if kind == Kind::Install && !policy.installs {
        return Ok(Decision::Revise(Box::new(planned)));
    }
    by_policy(cx, observed, planned, (&policy, kind)).await
}

/// The decision of a policy that can be read.
async fn by_policy(
    cx: &Context,
    observed: &Observed<'_>,
    planned: Planned,
    (policy, kind): (&Policy, Kind),
) -> Result<Decision, Cause> {
    let version = planned.draft.bundle.display_version();
    is_whole(&planned.plan).map_err(Cause::transient)?;
    let present = extension_plan::list(cx, observed.extension).await.map_err(Cause::transient)?;
    let digest = planned.plan.digest();
    let first_possible = present
        .iter()
        .filter(|plan| plan.spec.to.version == version)
        .map(|plan| plan.spec.first_possible.0)
        .min()
        .unwrap_or(observed.now);
    let risks = risks(observed.revisions.installed(), &planned);
    let approved = observed.extension.annotations().get(APPROVED_PLAN_ANNOTATION).map(String::as_str);
    let change = Change { kind, version: &version, digest: &digest, first_possible, risks: &risks, approved };
    let name = observed.extension.name_any();
    let answer = cx
        .update_policies
        .take_turn(policy, &name, &cx.sets, |others| permit(policy, &change, others, observed.now));
    let stalled = answer.needs_a_person().then_some(Reason::ApprovalRequired);
    let Permit::Wait { waits, look_again } = answer else {
        return Ok(Decision::Revise(Box::new(planned)));
    };
    let is_turn = |wait: &Wait| matches!(wait, Wait::Concurrency { .. } | Wait::Halted { .. });
    if waits.iter().any(is_turn) {
        // Every change of a revision fires one of them.
        observed.wanted.add([Interest::Installed, Interest::Removed]);
    }
    let uid = observed.extension.uid().unwrap_or_default();
    let from_catalog = observed.revisions.installed().and_then(|r| r.annotation(CATALOG_ANNOTATION));
    let before = present.iter().max_by_key(|plan| plan.metadata.creation_timestamp.as_ref().map(|t| t.0));
    let spec = record(&planned.plan, &uid, from_catalog, first_possible, before.map(|plan| &plan.spec));
    // The plan that is there knows what it took the place of.
    let kept = present.iter().find(|plan| plan.spec.digest == digest).map(|plan| plan.spec.clone());
    let spec = kept.unwrap_or(spec);
    let pending = Pending {
        sentence: named(&sentence(&version, &waits, observed.now), &policy.name),
        notes: notes(&name, &spec, &waits),
        stalled,
        look_again,
    };
    Ok(Decision::Hold(Box::new(Held { bundle: planned.draft.bundle, pending, plan: Some(spec), present })))
}

fn without_plan(planned: Planned, pending: Pending) -> Decision {
    let bundle = planned.draft.bundle;
    Decision::Hold(Box::new(Held { bundle, pending, plan: None, present: Vec::new() }))
}

fn named(sentence: &str, policy: &str) -> String {
    format!("{sentence} (update policy {policy}).")
}

/// What a person who approves has to know.
fn notes(extension: &str, spec: &ExtensionPlanSpec, waits: &[Wait]) -> Vec<String> {
    let approval = waits.iter().find_map(|wait| match wait {
        Wait::Approval { digest, approved, .. } => Some((digest, approved)),
        _ => None,
    });
    let Some((digest, approved)) = approval else { return Vec::new() };
    let mut notes = Vec::new();
    if let Approved::Another(other) = approved {
        let known = spec.supersedes.as_ref().filter(|before| before.digest == *other);
        let since = known
            .map_or_else(String::new, |before| format!(" Since then: {}.", before.differences.join("; ")));
        notes.push(format!("The plan that is approved would not be rolled out any more.{since}"));
    }
    notes.push(format!(
        "To approve the plan after reading it (\"olm plan {extension}\"), set the annotation {APPROVED_PLAN_ANNOTATION} to {digest}, as \"olm approve {extension}\" does."
    ));
    notes
}

/// Whether all is known that the digest covers. What could not be read for a moment would make another plan.
fn is_whole(plan: &Plan) -> Result<(), String> {
    let unknown = |what: &str| Err(format!("the plan that the update policy asks for is not whole: {what}"));
    let Some(objects) = plan.objects.known() else { return unknown("the objects are not known") };
    if let Some(object) = objects.iter().find(|object| object.change == ObjectChange::Unknown) {
        let why = object.note.clone().unwrap_or_default();
        return unknown(&format!("{}: {why}", object.object()));
    }
    if plan.operator_permissions.known().is_none() || plan.crds.known().is_none() {
        return unknown("what is installed could not be read");
    }
    Ok(())
}

/// What a person should see before the plan is rolled out.
fn risks(installed: Option<&Revision>, planned: &Planned) -> Vec<Risk> {
    let major = |text: &str| text.parse::<Version>().ok().map(|version| version.major());
    let majors = installed
        .and_then(|revision| Some((major(&revision.bundle.version)?, major(&planned.draft.bundle.version)?)));
    let majors = majors.filter(|(from, to)| from != to);
    let major = majors.map(|(from, to)| Risk::MajorVersion { from, to });
    let increase = planned.plan.operator_permissions.known().map_or(&[][..], |one| &one.increase);
    let mut dangers: Vec<String> = increase.iter().flat_map(|one| &one.dangers).cloned().collect();
    dangers.sort();
    dangers.dedup();
    let permissions = (!dangers.is_empty()).then_some(Risk::Permissions(dangers));
    let crds: Vec<String> =
        planned.plan.crds.known().into_iter().flatten().map(|finding| finding.name.clone()).collect();
    let crds = (!crds.is_empty()).then_some(Risk::Crds(crds));
    let created = &planned.plan.dependencies;
    let created = (!created.is_empty()).then(|| Risk::Dependencies(created.clone()));
    major.into_iter().chain(permissions).chain(crds).chain(created).collect()
}
