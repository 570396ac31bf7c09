//! Names what an installation of the original leaves behind in a cluster, once, at the start.
//!
//! Applying manifests removes nothing. Ours bring these objects emptied, under the original's names; who
//! installed in another way is told here what stands in the way and what to do about it. Nothing is changed.

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding},
    apps::v1::Deployment,
    core::v1::ObjectReference,
    rbac::v1::ClusterRoleBinding,
};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use olm_runtime::bounded;
use serde::de::DeserializeOwned;

use crate::{controllers::api_text, events::Events};

/// It fails closed, and nobody answers it any more.
const WEBHOOK: &str = "catalogd-mutating-webhook-configuration";
/// Rights that the program does not need.
const CLUSTER_ADMIN: &str = "operator-controller-cluster-admin-rolebinding";
/// A warning that is no longer true.
const WARNING: &str = "clusterextension-serviceaccount-deprecated";
/// Another program for the same catalogs.
const CATALOGD: &str = "catalogd-controller-manager";

/// Our manifests' annotation on what they bring emptied.
const EMPTIED: &str = "olm.operatorframework.io/emptied";

/// An object that is still in effect.
struct Leftover {
    reference: ObjectReference,
    text: &'static str,
}

/// Looks for leftovers and tells about them in the log and as Events. A catalogd is one where the catalogs are
/// `embedded` in this program.
pub(crate) async fn tell(client: Client, system_namespace: &str, embedded: bool, events: &Events) {
    match find(client, embedded.then_some(system_namespace)).await {
        Ok(found) => {
            for Leftover { reference, text } in found {
                let kind = reference.kind.as_deref().unwrap_or_default();
                let name = reference.name.as_deref().unwrap_or_default();
                tracing::warn!(kind, name, "left behind by an earlier installation: {text}");
                events.leftover(&reference, text).await;
            }
        }
        Err(error) => tracing::warn!(%error, "leftovers of an earlier installation could not be looked for"),
    }
}

async fn find(client: Client, catalogd_in: Option<&str>) -> Result<Vec<Leftover>, String> {
    let mut found = Vec::new();
    let webhooks: Option<MutatingWebhookConfiguration> = named(Api::all(client.clone()), WEBHOOK).await?;
    let asks = |w: &MutatingWebhookConfiguration| w.webhooks.as_ref().is_some_and(|list| !list.is_empty());
    if let Some(object) = webhooks.filter(|w| asks(w) && !emptied(w)) {
        found.push(leftover(
            &object,
            "no ClusterCatalog can be written while it asks for an answer that nobody gives: empty its list of webhooks or delete it",
        ));
    }
    let binding: Option<ClusterRoleBinding> = named(Api::all(client.clone()), CLUSTER_ADMIN).await?;
    if let Some(object) = binding.filter(|b| b.subjects.as_ref().is_some_and(|list| !list.is_empty())) {
        found.push(leftover(
            &object,
            "it gives this program rights over the whole cluster that it does not need: delete it",
        ));
    }
    let warning: Option<ValidatingAdmissionPolicyBinding> = named(Api::all(client.clone()), WARNING).await?;
    if let Some(object) = warning.filter(|w| !emptied(w)) {
        found.push(leftover(
            &object,
            "it warns that spec.serviceAccount is ignored, which it is not: delete it",
        ));
    }
    let catalogd: Option<Deployment> = match catalogd_in {
        Some(namespace) => named(Api::namespaced(client, namespace), CATALOGD).await?,
        None => None,
    };
    if let Some(object) = catalogd.filter(|d| d.spec.as_ref().is_none_or(|spec| spec.replicas != Some(0))) {
        found.push(leftover(
            &object,
            "it works on the same catalogs, and while it leads this program waits for its lease: scale it to 0 replicas or delete it",
        ));
    }
    Ok(found)
}

/// Ours, which stands where the original's was and does nothing.
fn emptied(object: &impl Resource) -> bool {
    object.annotations().contains_key(EMPTIED)
}

fn leftover<K: Resource<DynamicType = ()>>(object: &K, text: &'static str) -> Leftover {
    Leftover { reference: object.object_ref(&()), text }
}

/// An object by its name; listed, because the program may list these kinds and not get them.
async fn named<K>(api: Api<K>, name: &str) -> Result<Option<K>, String>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned,
{
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let listed = bounded(api.list(&params)).await.map_err(|e| api_text(&e))?;
    Ok(listed.items.into_iter().find(|object| object.name_any() == name))
}
