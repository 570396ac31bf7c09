//! Writes to the cluster: InstallPlans, statuses, Events.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Client, ResourceExt};
use olm_api_classic::{InstallPlan, Subscription};
use olm_classic_core::subscription::{conditions, install_plan::Draft, state, texts};
use olm_runtime::{EventPublisher, ObjectWriter, api_text, bounded, post_as};

use crate::install_plans::Seals;

/// Field manager of all writes.
pub(super) const FIELD_MANAGER: &str = "olm-classic";

/// Makes the plan of a draft, unless it was made before the process ended.
///
/// # Errors
/// The API server's answer.
pub(super) async fn ensure_plan(
    client: &Client,
    (writer, seals): (&ObjectWriter<InstallPlan>, &Seals),
    draft: &Draft<'_>,
    plans: &[InstallPlan],
    now: Timestamp,
) -> Result<InstallPlan, String> {
    let plan = match draft.orphaned(plans) {
        Some(plan) => plan.clone(),
        None => create(client, draft).await?,
    };
    if !state::phase(&plan).is_empty() {
        return Ok(plan);
    }
    let mut status = draft.status();
    seals.seal(&plan, &mut status, now).await?;
    Ok(writer.set_status(&plan, status).await?.unwrap_or(plan))
}

async fn create(client: &Client, draft: &Draft<'_>) -> Result<InstallPlan, String> {
    let api = Api::<InstallPlan>::namespaced(client.clone(), draft.namespace);
    let wanted = draft.plan();
    match bounded(api.create(&post_as(FIELD_MANAGER), &wanted)).await {
        Ok(plan) => Ok(plan),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let found = bounded(api.get(&wanted.name_any())).await.map_err(|error| api_text(&error))?;
            if draft.orphaned([&found]).is_none() {
                return Err(format!(
                    "InstallPlan {} exists and was not made for these Subscriptions: delete it",
                    found.name_any()
                ));
            }
            Ok(found)
        }
        Err(error) => Err(api_text(&error)),
    }
}

/// Publishes what has become wrong with a Subscription: on its namespace what concerns its resolution, as upstream does, and
/// on itself what concerns its bundles. The sentence with what helps comes first, upstream's text after it.
pub(super) async fn publish(events: &EventPublisher, before: &Subscription, after: &Subscription) {
    let namespace = after.namespace().unwrap_or_default();
    let of_namespace = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Namespace".to_owned()),
        name: Some(namespace.clone()),
        ..ObjectReference::default()
    };
    let own = ObjectReference {
        api_version: Some("operators.coreos.com/v1alpha1".to_owned()),
        kind: Some("Subscription".to_owned()),
        name: Some(after.name_any()),
        namespace: Some(namespace),
        uid: after.uid(),
        ..ObjectReference::default()
    };
    for (condition, about) in [(texts::RESOLUTION_FAILED, &of_namespace), (texts::UNPACK_FAILED, &own)] {
        let message = |subscription: &Subscription| {
            let status = subscription.status.as_ref()?;
            let found = conditions::find(status, condition).filter(|one| one.status == "True")?;
            Some(found.message.clone().unwrap_or_default())
        };
        if let Some(text) = message(after).filter(|text| message(before).as_ref() != Some(text)) {
            events.publish(about, true, condition, &with_sentence(after, text)).await;
        }
    }
}

/// A text of upstream's after the sentence that says what is wrong, unless that has it already.
fn with_sentence(subscription: &Subscription, text: String) -> String {
    let ready = subscription.status.as_ref().and_then(|status| conditions::find(status, texts::READY));
    let sentence = ready.filter(|ready| ready.status == "False").and_then(|ready| ready.message.as_deref());
    match sentence {
        None => text,
        Some(sentence) if sentence.contains(&text) => sentence.to_owned(),
        Some(sentence) => format!("{sentence} {text}"),
    }
}
