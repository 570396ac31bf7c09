//! Carries a decision out: writes a revision, or the record of the latest one.

pub(crate) mod dependencies;
pub(crate) mod extension_plan;
pub(crate) mod helm_release;
pub(crate) mod revision;
pub(crate) mod secrets;

use olm_api::names::{
    ADDED_PERMISSIONS_ANNOTATION, CONTENT_DIGEST_ANNOTATION, CRD_CHANGES_ANNOTATION,
    CREATED_FIRST_ANNOTATION, INPUTS_DIGEST_ANNOTATION, PLAN_DIGEST_ANNOTATION, RENDERED_DIGEST_ANNOTATION,
};

use crate::cluster_extension::{
    Context, annotations,
    decide::{Decision, acting, hold::Held},
    observe::{Observed, revisions::Revision},
    plan::{Planned, permissions},
    report::{Cause, Created, Outcome, StepError},
};
use revision::NewRevision;

/// Carries a decision out; how the reconcile ends with it.
pub(crate) async fn act(cx: &Context, observed: &Observed<'_>, decision: Decision) -> Outcome {
    let latest = observed.revisions.latest_active();
    let (bundle, done) = match (decision, latest) {
        (Decision::Wait(outcome), _) => return outcome,
        (Decision::Revise(planned), _) => {
            let bundle = planned.draft.bundle.clone();
            (bundle, create(cx, observed, *planned).await)
        }
        (Decision::Hold(held), latest) => {
            let kept = hold(cx, observed, &held, latest).await.map_err(Cause::transient);
            (held.bundle.clone(), kept.map(|()| Outcome::Held(held.pending)))
        }
        (Decision::Keep { .. }, Some(latest)) => {
            let kept = async {
                keep(cx, observed, latest).await?;
                // What waits for the end of a pause waits on.
                match annotations::pause(observed.extension, observed.now) {
                    Some(_) => Ok(()),
                    None => extension_plan::remove_all(cx, observed.extension).await,
                }
            };
            (latest.bundle.clone(), kept.await.map(|()| Outcome::Settled).map_err(Cause::transient))
        }
        (Decision::Refresh { chosen, inputs }, Some(latest)) => {
            let origin = chosen.catalog.as_deref().map(|catalog| (catalog, chosen.properties.as_slice()));
            let account = Some(&observed.account);
            let refreshed = async {
                observed.writer(cx).refresh(latest, account, &inputs, origin).await?;
                // Nothing waits any more.
                extension_plan::remove_all(cx, observed.extension).await
            };
            (chosen.bundle, refreshed.await.map(|()| Outcome::Settled).map_err(Cause::transient))
        }
        (Decision::Keep { .. } | Decision::Refresh { .. }, None) => return Outcome::Settled,
    };
    done.unwrap_or_else(|cause| Outcome::Failed(StepError::Bundle { bundle, cause }))
}

/// Keeps what is there, and the plan of what waits.
async fn hold(
    cx: &Context,
    observed: &Observed<'_>,
    held: &Held,
    latest: Option<&Revision>,
) -> Result<(), String> {
    if let Some(latest) = latest {
        keep(cx, observed, latest).await?;
    }
    extension_plan::keep(cx, observed.extension, held).await
}

/// Brings the record of the latest revision up to date, although what it is to hold is not known now.
async fn keep(cx: &Context, observed: &Observed<'_>, latest: &Revision) -> Result<(), String> {
    let Some(inputs) = latest.annotation(INPUTS_DIGEST_ANNOTATION) else { return Ok(()) };
    let account = acting::is_what_it_was(cx, observed, latest).await.then_some(&observed.account);
    observed.writer(cx).refresh(latest, account, inputs, None).await
}

/// Writes the revision that was planned, unless something is in the way.
async fn create(cx: &Context, observed: &Observed<'_>, planned: Planned) -> Result<Outcome, Cause> {
    let Planned { plan, draft, number, crd_changes, crds_first, obstacle, .. } = planned;
    if let Some(cause) = obstacle {
        return Err(cause);
    }
    if let Some(dependencies) = draft.dependencies {
        dependencies::create(cx, observed.extension, &dependencies.create).await?;
        return Ok(Outcome::Failed(dependencies.waits));
    }
    let digest = plan.digest();
    let added_permissions = permissions::increase(&plan, &observed.revisions);
    let recorded = [
        (INPUTS_DIGEST_ANNOTATION, Some(draft.inputs_digest.as_str())),
        (RENDERED_DIGEST_ANNOTATION, Some(draft.rendered_digest.as_str())),
        (CONTENT_DIGEST_ANNOTATION, Some(plan.inputs.content_digest.as_str())),
        (PLAN_DIGEST_ANNOTATION, Some(digest.as_str())),
        (CRD_CHANGES_ANNOTATION, crd_changes.as_deref()),
        (CREATED_FIRST_ANNOTATION, crds_first.then_some("CustomResourceDefinition")),
        (ADDED_PERMISSIONS_ANNOTATION, added_permissions.as_deref()),
    ];
    let (account, planned) = (Some(&observed.account), Some(recorded.as_slice()));
    let new = NewRevision { number, draft: &draft, account, planned };
    let name = observed.writer(cx).create(&new, &observed.revisions).await.map_err(Cause::transient)?;
    Ok(Outcome::Created(Created { name, bundle: draft.bundle, catalog: draft.catalog, added_permissions }))
}
