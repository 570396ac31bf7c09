//! Webhooks that a policy keeps go on being served and trusted, with the certificate that stays beside them.

use kube::api::PropagationPolicy;
use olm_api::{ConditionType::DeletionPolicy, names::OWNER_UID_ANNOTATION};
use olm_test::prelude::*;

use super::{by, gone, sets};
use crate::webhooks::{admitted, bundle, injected, scenario, secret, server::WebhookServer};

/// The Secret of before, with its certificate as it was.
async fn kept(scenario: &Scenario<'_>, before: &Secret) -> Result<Secret> {
    let secret = secret(scenario).await?;
    ensure!(secret.uid() == before.uid() && secret.data == before.data, "the certificate is another");
    ensure!(secret.metadata.deletion_timestamp.is_none(), "the Secret is being deleted");
    Ok(secret)
}

async fn outlives(propagation: PropagationPolicy) -> Result<()> {
    let scenario = scenario(World::shared().await?, "keptcert").await?;
    let server = WebhookServer::start(&scenario).await?;
    scenario.installed("1.0.0").await?;
    bundle::create_as_v1(&scenario).await?;
    wait::until("the webhooks to be reached", DEADLINE, || admitted(&scenario, &server)).await?;
    let (before, bundles) = (secret(&scenario).await?, injected(&scenario).await?);

    scenario.annotate("deletion-policy", "Orphan".into()).await?;
    scenario.shows(DeletionPolicy, "True/Orphan/").await?;
    let formed = kept(&scenario, &before).await?;
    ensure!(formed.owner_references().is_empty(), "the Secret has owners: {:?}", formed.metadata);
    let extension = scenario.extensions().get(&scenario.name).await?;
    ensure!(formed.annotations().get(OWNER_UID_ANNOTATION) == extension.uid().as_ref(), "no owner's UID");
    scenario.extensions().delete(&scenario.name, &by(propagation.clone())).await?;
    gone(&scenario).await?;
    wait::until("the revision to be nobody's, or gone", COLLECTED, || async {
        let mut sets = sets(&scenario).await?;
        if propagation == PropagationPolicy::Orphan {
            sets.retain(|set| !set.owner_references().is_empty());
        }
        wait::check(sets.is_empty(), || format!("{} revisions", sets.len()))
    })
    .await?;

    // Every single request is answered; nothing was written again.
    kept(&scenario, &before).await?;
    ensure!(injected(&scenario).await? == bundles, "another authority is trusted");
    admitted(&scenario, &server).await.context("after the deletion")?;

    // A later extension goes on with the certificate, and takes it along when it goes.
    scenario.install(&scenario.name, json!({}), "1.0.0").await?;
    let later = scenario.extensions().get(&scenario.name).await?.uid();
    // A revision that stood by itself counts as installed before it has looked at its Secret again.
    wait::until("the Secret to be the later extension's", DEADLINE, || async {
        let adopted = kept(&scenario, &before).await?;
        let owner = adopted.owner_references().first().map(|owner| owner.uid.clone());
        let marked = adopted.annotations().contains_key(OWNER_UID_ANNOTATION);
        wait::check(owner == later && !marked, || format!("owner {owner:?}, not {later:?}; kept: {marked}"))
    })
    .await?;
    ensure!(injected(&scenario).await? == bundles, "another authority is trusted");
    admitted(&scenario, &server).await.context("after the adoption")?;
    // Until its revision has given the objects their owner back, the extension's deletion is refused.
    scenario.reports(DeletionPolicy, str::is_empty).await?;
    scenario.uninstall().await
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_webhooks_are_served_and_a_later_extension_goes_on_with_their_certificate() -> Result<()> {
    outlives(PropagationPolicy::Background).await
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_webhooks_are_served_after_a_deletion_without_dependents() -> Result<()> {
    outlives(PropagationPolicy::Orphan).await
}
