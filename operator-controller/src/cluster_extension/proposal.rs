//! The plan of an extension's next revision, without carrying it out.

use olm_api::v1::ClusterExtension;
use olm_render::CertificateProvider;

use super::{
    Context, annotations,
    decide::{Decision, decide},
    observe::{self, Observed, identity, service_account},
    plan::Planned,
    report::{Outcome, StepError},
};
use crate::{
    interest::Wanted,
    plan::{NewRevision, Next},
    webhook_certificates,
};

/// A planned revision, with all that its ServiceAccount writes.
fn revision(Planned { plan, draft, .. }: Planned) -> NewRevision {
    let secrets = (draft.certificate_provider == Some(CertificateProvider::BuiltIn))
        .then(|| webhook_certificates::secrets(&draft.phases));
    let phases = draft.phases.into_iter().chain(secrets);
    NewRevision {
        plan,
        version: draft.bundle.version,
        properties: draft.catalog_properties,
        objects: phases.flat_map(|phase| phase.objects).collect(),
    }
}

/// What the controller would do next for an extension.
///
/// # Errors
/// Those of a reconcile.
pub(crate) async fn propose(cx: &Context, extension: &ClusterExtension) -> Result<Next, StepError> {
    let default_account = cx.settings.default_account();
    let default_account = default_account.as_ref();
    let account = service_account::acceptable(extension, default_account)
        .map_err(|errors| StepError::Validation { errors, terminal: true, advice: None })?;
    let revisions = observe::revisions(cx, extension).map_err(StepError::Revisions)?;
    let mut notes: Vec<String> = annotations::in_force(extension).into_iter().collect();
    notes.extend(identity::note(extension, default_account));
    let refusal = identity::refusal(extension, &account, cx.controller()).await;
    let refusal = refusal.unwrap_or_else(|error| {
        let unknown =
            "Cannot tell whether namespace and service account are those that the extension used first";
        notes.push(format!("{unknown}: {error}."));
        None
    });
    let (now, account_uid, platform, wanted) = (cx.clock.now(), None, None, &Wanted::default());
    let observed = Observed {
        extension,
        account,
        account_uid,
        revisions,
        platform,
        untidy_until: None,
        notes,
        now,
        wanted,
    };
    let (report, decision) = decide(cx, &observed).await;
    let (mut notes, latest) = (report.notes, observed.revisions.latest_active());
    let why = match (decision, report.outcome) {
        (None, Outcome::Failed(error)) => return Err(refusal.unwrap_or(error)),
        (Some(Decision::Revise(mut planned)), _) => {
            planned.plan.refusal = refusal.map(|refusal| refusal.to_string());
            return Ok(Next::Revision(Box::new(revision(*planned))));
        }
        (
            Some(
                Decision::Wait(Outcome::Pulling { why, .. } | Outcome::Away { why, .. })
                | Decision::Keep { why },
            ),
            _,
        ) => why,
        (Some(Decision::Refresh { .. } | Decision::Wait(_) | Decision::Hold(_)) | None, _) => match latest {
            Some(latest) if observed.revisions.installed() == Some(latest) => {
                format!("{} is installed as revision {}", latest.bundle.name, latest.name)
            }
            Some(latest) => format!("{} is rolling out as revision {}", latest.bundle.name, latest.name),
            None => "nothing is wanted".to_owned(),
        },
    };
    notes.extend(refusal.map(|refusal| format!("Blocked: {refusal}")));
    Ok(Next::Nothing { why, notes })
}
