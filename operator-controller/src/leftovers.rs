//! Objects of an upstream installation that are still in effect, reported once, at the start.
//!
//! Applying manifests removes nothing, and an administrator who swaps the images of an installation applies none. Our manifests
//! bring these objects emptied, under upstream's names; until they are applied, log and Events name what is in the
//! way and what to apply. Nothing is changed here.

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding},
    apps::v1::Deployment,
    core::v1::ObjectReference,
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

/// A leftover, and what to do about it.
pub(crate) struct Leftover {
    object: ObjectReference,
    text: &'static str,
}

/// Looks for leftovers and reports them in the log and as Events. A catalogd is one where the catalogs are `embedded`
/// in this program.
pub(crate) async fn report(client: Client, system_namespace: &str, embedded: bool, events: &Events) {
    for found in look_for_all(&client, system_namespace, embedded).await {
        match found {
            Ok(Leftover { object, text }) => {
                let [kind, name] =
                    [&object.kind, &object.name].map(|part| part.as_deref().unwrap_or_default());
                tracing::warn!(kind, name, "left behind by an earlier installation: {text}");
                events.leftover(&object, text).await;
            }
            Err(error) => {
                let is_forbidden = matches!(&error, kube::Error::Api(status) if status.is_forbidden());
                let remedy = if is_forbidden { NO_PERMISSION } else { "" };
                let error = api_text(&error);
                tracing::warn!(error, "could not check for leftovers of an earlier installation{remedy}");
            }
        }
    }
}

/// The objects that an upstream installation left behind and that are still in effect, each with what to do about it.
///
/// # Errors
/// One of them could not be looked for.
pub async fn leftovers(client: &Client, system_namespace: &str) -> Result<Vec<(String, String)>, String> {
    let found = look_for_all(client, system_namespace, true).await.into_iter();
    let named = |Leftover { object: ObjectReference { kind, name, .. }, text }: Leftover| {
        (format!("{} {}", kind.unwrap_or_default(), name.unwrap_or_default()), text.to_owned())
    };
    found.map(|found| found.map(named).map_err(|error| api_text(&error))).collect()
}

async fn look_for_all(
    client: &Client,
    system_namespace: &str,
    embedded: bool,
) -> Vec<Result<Leftover, kube::Error>> {
    let asks = |w: &MutatingWebhookConfiguration| {
        w.webhooks.as_ref().is_some_and(|list| !list.is_empty()) && !emptied(w)
    };
    let text = "no ClusterCatalog can be written while it asks a server that is gone: apply config/install.yaml with \
                --server-side --force-conflicts, which empties it, or delete it";
    let mut found = vec![look(Api::all(client.clone()), WEBHOOK, asks, text).await];
    let binds = |b: &ClusterRoleBinding| b.subjects.as_ref().is_some_and(|list| !list.is_empty());
    let text = "it gives this program permissions on the whole cluster that it does not need: apply \
                config/install.yaml with --server-side --force-conflicts, which empties it, or delete it";
    found.push(look(Api::all(client.clone()), CLUSTER_ADMIN, binds, text).await);
    let warns = |b: &ValidatingAdmissionPolicyBinding| !emptied(b);
    let text = "it warns that spec.serviceAccount is ignored, which it is not: apply config/install.yaml with \
                --server-side --force-conflicts, or delete it";
    found.push(look(Api::all(client.clone()), WARNING, warns, text).await);
    if embedded {
        let runs = |d: &Deployment| d.spec.as_ref().is_none_or(|spec| spec.replicas != Some(0));
        let text = "it works on the same catalogs, and this program leaves them to it while it holds their lease: apply \
                    config/install.yaml with --server-side --force-conflicts, which scales it to 0 replicas, or delete \
                    it";
        found.push(look(Api::namespaced(client.clone(), system_namespace), CATALOGD, runs, text).await);
    }
    found.into_iter().filter_map(Result::transpose).collect()
}

/// The object of this name, if it is in effect.
async fn look<K>(
    api: Api<K>,
    name: &str,
    is_in_effect: impl Fn(&K) -> bool,
    text: &'static str,
) -> Result<Option<Leftover>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    // Listed, because the program may list these kinds and not get them.
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let listed = bounded(api.list(&params)).await?;
    let found = listed.items.iter().find(|object| object.name_any() == name);
    let found = found.filter(|object| is_in_effect(object));
    Ok(found.map(|object| Leftover { object: object.object_ref(&()), text }))
}

/// Ours, which replaced upstream's and does nothing.
fn emptied(object: &impl Resource) -> bool {
    object.annotations().contains_key(EMPTIED)
}
