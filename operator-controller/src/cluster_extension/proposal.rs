//! A pass that ends with its plan, for who only wants to read it.

use olm_plan::Plan;
use olm_runtime::AccountRef;

use crate::cluster_extension::annotations;
use crate::cluster_extension::decide::{Proposal, Steps};
use crate::cluster_extension::observe::identity;
use crate::cluster_extension::observe::service_account as validate;
use crate::cluster_extension::report::{Progress, StepError};

/// What a pass would do.
pub(crate) enum Outcome {
    /// No new revision, and why.
    Nothing(String),
    /// A new revision, unless something in the plan stands in the way.
    Revision(Box<Plan>),
}

/// Runs the steps up to the plan.
///
/// # Errors
/// Those of the pass.
pub(crate) async fn propose(
    steps: &Steps<'_>,
    default_account: Option<&AccountRef>,
    progress: &mut Progress,
) -> Result<Outcome, StepError> {
    let account = validate::acceptable(steps.extension, default_account)
        .map_err(|errors| StepError::Validation { errors, terminal: true, advice: None })?;
    let revisions = steps.revisions().await.map_err(StepError::Revisions)?;
    progress.notes.extend(annotations::in_force(steps.extension));
    progress.notes.extend(identity::note(steps.extension, default_account));
    let refusal = identity::refusal(steps.extension, &account, steps.controller()).await;
    let refusal = refusal.unwrap_or_else(|error| {
        let unknown =
            "It is not known whether namespace and service account are those that the extension began to use";
        progress.notes.push(format!("{unknown}: {error}."));
        None
    });
    let proposal = match (steps.propose(&account, &revisions, progress).await, &refusal) {
        (Ok(proposal), _) => proposal,
        // The controller does not get as far as that.
        (Err(_), Some(refusal)) => return Err(refusal.clone()),
        (Err(error), None) => return Err(error),
    };
    let blocked = refusal.map(|refusal| refusal.to_string());
    let is_new = matches!(proposal, Proposal::Revision { .. });
    progress.notes.extend(blocked.iter().filter(|_| !is_new).map(|blocked| format!("Blocked: {blocked}")));
    Ok(match proposal {
        Proposal::Revision { mut planned, .. } => {
            planned.plan.refusal = blocked;
            Outcome::Revision(Box::new(planned.plan))
        }
        Proposal::Nothing { why } | Proposal::Keep { why } => Outcome::Nothing(why),
        Proposal::Refresh { .. } => Outcome::Nothing(match revisions.latest_active() {
            Some(latest) if revisions.installed() == Some(latest) => {
                format!("{} is installed as revision {}", latest.bundle.name, latest.name)
            }
            Some(latest) => format!("{} is rolling out as revision {}", latest.bundle.name, latest.name),
            None => "nothing is wanted".to_owned(),
        }),
    })
}
