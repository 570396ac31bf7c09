//! Whether a revision that exists may act as another ServiceAccount from now on.
//!
//! It holds objects that were written down earlier. They are written with the rights of the account that is given to it:
//! so it must be known that they are those that the extension asks for, and that only the controller could write them. Otherwise a new revision is made.

use kube::{Api, ResourceExt};
use olm_api::v1::{ClusterObjectSet, ObservedPhase};
use olm_objectset::Phase;
use olm_runtime::{api_text, bounded};

use crate::{
    cluster_extension::{
        Context,
        act::helm_release::observed_phases,
        observe::{Observed, revisions::Revision, takeover::is_revision},
        report::Cause,
    },
    cluster_object_set::content,
    facts::policies::Enforcement,
};

/// Whether `revision`, which is to hold `phases`, acts as the account or may be made to.
///
/// # Errors
/// Something is not known yet, or could not be read.
pub(crate) async fn may_act_as(
    cx: &Context,
    observed: &Observed<'_>,
    revision: &Revision,
    phases: &[Phase],
) -> Result<bool, Cause> {
    if cx.only_plans || revision.account.as_ref() == Some(&observed.account) {
        return Ok(true);
    }
    match cx.guard.enforcement() {
        Enforcement::InForce => {}
        Enforcement::Unknown => return Err(Cause::transient(Enforcement::UNKNOWN)),
        Enforcement::Broken => return Ok(false),
    }
    Ok(stored(cx, observed, revision).await? == Some(observed_phases(phases)))
}

/// Whether `revision` may be made to act as the account although what it is to hold is not known now: it holds what
/// it was carried out with.
pub(crate) async fn is_what_it_was(cx: &Context, observed: &Observed<'_>, revision: &Revision) -> bool {
    if revision.account.as_ref() == Some(&observed.account) {
        return true;
    }
    let stored = async || stored(cx, observed, revision).await.ok().flatten();
    cx.guard.enforcement() == Enforcement::InForce
        && !revision.observed_phases().is_empty()
        && stored().await.as_deref() == Some(revision.observed_phases())
}

/// The digests of what a revision holds in the cluster, if that can be used.
async fn stored(
    cx: &Context,
    observed: &Observed<'_>,
    revision: &Revision,
) -> Result<Option<Vec<ObservedPhase>>, Cause> {
    // Read anew, because a user who may act as the account would write what the store has not shown yet.
    let api: Api<ClusterObjectSet> = Api::all(cx.controller());
    let set = bounded(api.get(&revision.name)).await.map_err(|e| Cause::transient(api_text(&e)))?;
    if set.uid().as_ref() != Some(&revision.uid) || !is_revision(observed.extension, &set) {
        return Ok(None);
    }
    let client = cx.accounts.client(&observed.account).await.ok();
    match content::load(&set, &cx.contents, client.as_ref()).await {
        Ok(phases) => {
            let digests = content::digests(&phases);
            Ok(content::verify(&set, &digests).is_ok().then_some(digests))
        }
        Err(error) if error.is_blocking() => Ok(None),
        Err(error) => Err(Cause::transient(error)),
    }
}
