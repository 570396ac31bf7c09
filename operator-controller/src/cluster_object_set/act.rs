//! Carries a decision out: rolls the objects of a revision out, or tears them down.

mod crds;
pub(crate) mod executor;
mod left_out;
mod state;
mod target;
mod teardown;
mod watched;

use kube::ResourceExt;
use olm_api::{
    names::{TEARDOWN_FINALIZER, WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION},
    ownership::revision_of,
    v1::ClusterObjectSet,
};
use olm_objectset::DeletionPolicy;
use olm_render::CertificateProvider;

use crate::{
    cluster_object_set::{
        Context,
        decide::Decision,
        observe::{Observed, siblings},
        report::{Obstacle, Outcome, Report, has_succeeded, unhealthy_since},
        requeue, workloads,
    },
    deletion_policy::revision as deletion_policy,
    facts::kinds::Survey,
    webhook_certificates::{Keeper, Kept},
};
use executor::Executor;
pub(crate) use target::get;

/// Carries a decision out; how the reconcile ends with it.
pub(crate) async fn act(cx: &Context, observed: &Observed<'_>, decision: Decision) -> Report {
    if decision == Decision::Protect {
        let protected = cx.objects.add_finalizers(observed.set, &[TEARDOWN_FINALIZER], |_| {}).await;
        return protected.map_or_else(Outcome::Retrying, |_| Outcome::Recorded).into();
    }
    let executor = Executor::new(cx, observed, siblings::known(cx, observed.set));
    let policy = deletion_policy::settle(observed.set, &executor, &observed.phases).await;
    let report = if decision == Decision::RollOut {
        roll_out(observed, executor).await
    } else {
        match executor.tear_down(&observed.phases).await {
            Ok(true) => {
                // Nothing of it is watched any more: what the status says last must not name a watch that fails.
                cx.watches.release(&observed.set.uid().unwrap_or_default());
                Outcome::Archived.into()
            }
            Ok(false) => Outcome::Archiving.into(),
            Err(error) => Outcome::Retrying(format!("error archiving revision: {error}")).into(),
        }
    };
    Report { content: Some(observed.content.clone()), policy: report.policy.clone().or(policy), ..report }
}

async fn roll_out(observed: &Observed<'_>, mut executor: Executor<'_>) -> Report {
    match keep_certificates(executor.cx, observed).await {
        Ok(Kept { bundles, next }) => {
            executor.ca_bundles = bundles;
            let cx = executor.cx;
            let mut outcome = roll_out_phases(observed, executor).await.unwrap_or_else(Outcome::Retrying);
            if let Outcome::Incomplete { unhealthy, .. } = &mut outcome
                && requeue::are_pods_due(unhealthy_since(observed.set), cx.clock.now())
            {
                workloads::examine(cx, observed, unhealthy).await;
            }
            Report { certificates: next, ..outcome.into() }
        }
        Err(error) => {
            // The Secrets of webhooks have a form too.
            let policy = (!deletion_policy::is_settled(observed.set)).then(|| Err(error.clone()));
            Report { policy, ..Outcome::Retrying(error).into() }
        }
    }
}

/// The step of the built-in provider, for revisions that record it.
async fn keep_certificates(cx: &Context, observed: &Observed<'_>) -> Result<Kept, String> {
    let set = observed.set;
    let Some(extension) = revision_of(&set.metadata).filter(|_| has_built_in_certificates(set)) else {
        return Ok(Kept::default());
    };
    let keeper = Keeper {
        client: observed.client.clone(),
        discovery: &cx.discovery,
        watches: &cx.watches,
        memory: &cx.certificates,
        extension: (extension.name, extension.uid),
        kept: deletion_policy::policy(set) == DeletionPolicy::Orphan,
        lifetime: cx.certificate_lifetime,
    };
    keeper.keep(&observed.objects_of_webhooks().collect::<Vec<_>>(), cx.clock.now()).await
}

/// Rolls the phases out.
///
/// # Errors
/// A request failed that is not about one of the objects.
async fn roll_out_phases(observed: &Observed<'_>, mut executor: Executor<'_>) -> Result<Outcome, String> {
    let cx = executor.cx;
    let (set, survey) = (observed.set, left_out::check(cx, observed).await);
    hold(cx, observed, &survey);
    left_out::check_arrived(cx, observed, &survey).await?;
    let news = left_out::news(set, &survey.left_out);
    if let Some(news) = news.as_ref().filter(|news| !news.is_empty()) {
        left_out::write(cx, set, &survey.left_out, news).await?;
        return Ok(Outcome::Recorded);
    }
    let phases = &*left_out::without(&observed.phases, &survey.left_out);
    executor.awaited = survey.awaited;
    let (mut outcome, mut changed) = executor.roll_out(phases).await;
    if matches!(outcome.obstacle(), Some(Obstacle::Collision { with_set: true, .. })) {
        // The other owner may be a sibling that this process has not heard of yet, or gone for good.
        executor.siblings = siblings::listed(cx, set).await?;
        let (again, more) = executor.roll_out(phases).await;
        outcome = again;
        changed.extend(more);
    }
    left_out::report_changed(cx, set, &changed).await;
    if news.is_some() {
        // What has arrived is recorded when it is written: until then, it is known as left out.
        left_out::write(cx, set, &survey.left_out, &[]).await?;
        return Ok(Outcome::Recorded);
    }
    match outcome {
        // Until the status reports this revision as the installed one, the older one is: without it the extension would
        // look as if nothing were installed, and any version would do. The event of the status causes the next reconcile.
        Outcome::Complete if has_succeeded(set) => siblings::archive_older(cx, set).await?,
        // The kinds of a CRD that has just been applied can be watched from now on.
        Outcome::Incomplete { .. } => hold(cx, observed, &left_out::check(cx, observed).await),
        _ => {}
    }
    Ok(outcome)
}

/// Watches the revision's objects, and the Secrets of its webhook certificates.
fn hold(cx: &Context, observed: &Observed<'_>, survey: &Survey) {
    let mut watched = watched::objects(observed, &survey.known);
    if has_built_in_certificates(observed.set) {
        watched.extend(watched::certificates(observed));
    }
    cx.watches.hold(&observed.set.uid().unwrap_or_default(), &watched);
}

/// Whether the certificates of the revision's webhooks are made here.
fn has_built_in_certificates(set: &ClusterObjectSet) -> bool {
    let provider = set.annotations().get(WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION);
    provider.map(String::as_str) == Some(CertificateProvider::BuiltIn.as_str())
}
