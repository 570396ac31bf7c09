//! Nothing is left of operators that were removed: neither in their namespaces nor in the cluster.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::admissionregistration::v1::MutatingWebhookConfiguration,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, PartialObjectMeta},
    core::ObjectMeta,
    discovery::verbs,
};
use olm_api::names::OWNER_NAME_LABEL;
use olm_test::wait;

use crate::{
    expected::OPERATORS,
    place::{ACCOUNT, Place},
};

/// The cluster's garbage collector learns of new kinds every 30 s only, and goes slower after a miss.
const COLLECTED: Duration = Duration::from_mins(6);

/// Waits until nothing is left but what the cluster's garbage collector has still to collect: the ReplicaSets and
/// Pods of Deployments that are gone, for which it takes minutes when kinds come and go.
pub(crate) async fn none(place: &Place) -> Result<()> {
    let namespaces: BTreeSet<&str> = OPERATORS.iter().map(|operator| operator.package).collect();
    wait::until("everything of the operators to be gone", COLLECTED, || async {
        let discovery =
            kube::Discovery::new(place.client.clone()).run_aggregated().await.context("discovery")?;
        let mut left = Vec::new();
        for group in discovery.groups() {
            for (resource, capabilities) in group.recommended_resources() {
                if !capabilities.supports_operation(verbs::LIST) || group.name() == "metrics.k8s.io" {
                    continue;
                }
                let api: Api<DynamicObject> = Api::all_with(place.client.clone(), &resource);
                let Ok(list) = api.list_metadata(&ListParams::default()).await else { continue };
                let ours = list.items.iter().filter(|item| is_left(&resource.kind, item, &namespaces));
                left.extend(ours.map(|item| {
                    format!("{} {}/{}", resource.kind, item.namespace().unwrap_or_default(), item.name_any())
                }));
            }
        }
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })
    .await
}

/// Waits until no webhook and no kind of an operator is there that others would notice.
pub(crate) async fn nothing_that_matters_to_others(place: &Place) -> Result<()> {
    let ours = ListParams::default().labels(OWNER_NAME_LABEL);
    wait::until("webhooks and kinds of other operators to be gone", COLLECTED, || async {
        let mut left = names(&Api::<MutatingWebhookConfiguration>::all(place.client.clone()), &ours).await?;
        left.extend(names(&Api::<CustomResourceDefinition>::all(place.client.clone()), &ours).await?);
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })
    .await
}

async fn names<K>(api: &Api<K>, params: &ListParams) -> Result<Vec<String>>
where
    K: ResourceExt + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Ok(api.list_metadata(params).await?.items.iter().map(|item| item.name_any()).collect())
}

/// Whether an object is an operator's: by our label, or because it is in an operator's namespace, nobody's dependent,
/// and neither the cluster nor the administrator put it there.
fn is_left(kind: &str, item: &PartialObjectMeta<DynamicObject>, namespaces: &BTreeSet<&str>) -> bool {
    let metadata: &ObjectMeta = &item.metadata;
    let labels = metadata.labels.as_ref();
    if labels.is_some_and(|labels| labels.contains_key(OWNER_NAME_LABEL)) {
        return true;
    }
    let inside = metadata.namespace.as_deref().is_some_and(|namespace| namespaces.contains(namespace));
    let name = metadata.name.as_deref().unwrap_or_default();
    let known = match kind {
        "Event" => true,
        "ConfigMap" => name == "kube-root-ca.crt",
        "ServiceAccount" => name == "default" || name == ACCOUNT,
        "Role" | "RoleBinding" => name == ACCOUNT,
        _ => false,
    };
    let dependent = metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
    inside && !known && !dependent
}
