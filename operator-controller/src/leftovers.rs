//! Objects of an upstream installation that are still in effect, reported once, at the start.
//!
//! Applying manifests removes nothing, and an administrator who swaps the images of an installation applies none. Our manifests
//! bring these objects emptied, under upstream's names; until they are applied, log and Events name what stands in the
//! way and what to apply. Nothing is changed here.

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding},
    apps::v1::Deployment,
    rbac::v1::ClusterRoleBinding,
};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use olm_runtime::{api_text, bounded};
use serde::de::DeserializeOwned;

use crate::events::Events;

/// It fails closed, and its server is gone.
const WEBHOOK: &str = "catalogd-mutating-webhook-configuration";
/// Permissions that the program does not need.
const CLUSTER_ADMIN: &str = "operator-controller-cluster-admin-rolebinding";
/// A warning that is no longer true.
const WARNING: &str = "clusterextension-serviceaccount-deprecated";
/// Another program for the same catalogs.
const CATALOGD: &str = "catalogd-controller-manager";

/// Our manifests' annotation on what they bring emptied.
const EMPTIED: &str = "olm.operatorframework.io/emptied";

/// Without the permissions of our manifests, nothing can be looked for.
const NO_PERMISSION: &str = ": this program runs without the permissions of its manifests: apply config/install.yaml with \
    --server-side --force-conflicts";

/// Looks for leftovers and reports them in the log and as Events. A catalogd is one where the catalogs are `embedded`
/// in this program.
pub(crate) async fn report(client: Client, system_namespace: &str, embedded: bool, events: &Events) {
    let asks = |w: &MutatingWebhookConfiguration| {
        w.webhooks.as_ref().is_some_and(|list| !list.is_empty()) && !emptied(w)
    };
    let text = "no ClusterCatalog can be written while it asks a server that is gone: apply config/install.yaml with \
                --server-side --force-conflicts, which empties it, or delete it";
    look(Api::all(client.clone()), WEBHOOK, asks, text, events).await;
    let binds = |b: &ClusterRoleBinding| b.subjects.as_ref().is_some_and(|list| !list.is_empty());
    let text = "it gives this program permissions on the whole cluster that it does not need: apply \
                config/install.yaml with --server-side --force-conflicts, which empties it, or delete it";
    look(Api::all(client.clone()), CLUSTER_ADMIN, binds, text, events).await;
    let warns = |b: &ValidatingAdmissionPolicyBinding| !emptied(b);
    let text = "it warns that spec.serviceAccount is ignored, which it is not: apply config/install.yaml with \
                --server-side --force-conflicts, or delete it";
    look(Api::all(client.clone()), WARNING, warns, text, events).await;
    if embedded {
        let runs = |d: &Deployment| d.spec.as_ref().is_none_or(|spec| spec.replicas != Some(0));
        let text = "it works on the same catalogs, and this program leaves them to it while it holds their lease: apply \
                    config/install.yaml with --server-side --force-conflicts, which scales it to 0 replicas, or delete \
                    it";
        look(Api::namespaced(client, system_namespace), CATALOGD, runs, text, events).await;
    }
}

/// Reports the object of this name if it is in effect.
async fn look<K>(api: Api<K>, name: &str, is_in_effect: impl Fn(&K) -> bool, text: &str, events: &Events)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    // Listed, because the program may list these kinds and not get them.
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    match bounded(api.list(&params)).await {
        Ok(listed) => {
            let found = listed.items.iter().find(|object| object.name_any() == name);
            if let Some(object) = found.filter(|object| is_in_effect(object)) {
                tracing::warn!(kind = %K::kind(&()), name, "left behind by an earlier installation: {text}");
                events.leftover(&object.object_ref(&()), text).await;
            }
        }
        Err(error) => {
            let is_forbidden = matches!(&error, kube::Error::Api(status) if status.is_forbidden());
            let remedy = if is_forbidden { NO_PERMISSION } else { "" };
            let error = api_text(&error);
            tracing::warn!(error, "could not check for leftovers of an earlier installation{remedy}");
        }
    }
}

/// Ours, which replaced upstream's and does nothing.
fn emptied(object: &impl Resource) -> bool {
    object.annotations().contains_key(EMPTIED)
}
