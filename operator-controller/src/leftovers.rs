//! Objects of an upstream installation that are still in effect, reported once, at the start.
//!
//! Applying manifests removes nothing, and an administrator who swaps the images of an installation applies none. Our manifests
//! bring these objects emptied, under upstream's names; until they are applied, log and Events name what is in the
//! way and what to apply. Nothing is changed here.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use olm_runtime::{api_text, bounded};
use serde_json::Value;

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
    let fills = |list: &Value| list.as_array().is_some_and(|items| !items.is_empty());
    let asks = |object: &DynamicObject| fills(&object.data["webhooks"]) && !emptied(object);
    let text = "no ClusterCatalog can be written while it asks a server that is gone: apply config/install.yaml with \
                --server-side --force-conflicts, which empties it, or delete it";
    let kind = ("admissionregistration.k8s.io", "MutatingWebhookConfiguration");
    let mut found = vec![look(client, (kind, None, WEBHOOK), asks, text).await];
    let binds = |object: &DynamicObject| fills(&object.data["subjects"]);
    let text = "it gives this program permissions on the whole cluster that it does not need: apply \
                config/install.yaml with --server-side --force-conflicts, which empties it, or delete it";
    let kind = ("rbac.authorization.k8s.io", "ClusterRoleBinding");
    found.push(look(client, (kind, None, CLUSTER_ADMIN), binds, text).await);
    let warns = |object: &DynamicObject| !emptied(object);
    let text = "it warns that spec.serviceAccount is ignored, which it is not: apply config/install.yaml with \
                --server-side --force-conflicts, or delete it";
    let kind = ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding");
    found.push(look(client, (kind, None, WARNING), warns, text).await);
    if embedded {
        let runs = |object: &DynamicObject| object.data["spec"]["replicas"] != 0;
        let text = "it works on the same catalogs, and this program leaves them to it while it holds their lease: apply \
                    config/install.yaml with --server-side --force-conflicts, which scales it to 0 replicas, or delete \
                    it";
        let kind = ("apps", "Deployment");
        found.push(look(client, (kind, Some(system_namespace), CATALOGD), runs, text).await);
    }
    found.into_iter().filter_map(Result::transpose).collect()
}

/// The object of this kind, namespace and name, if it is in effect. The kinds have no types here: those of Pods, which a
/// Deployment contains, are a hundredth of the program.
async fn look(
    client: &Client,
    ((group, kind), namespace, name): ((&str, &str), Option<&str>, &str),
    is_in_effect: impl Fn(&DynamicObject) -> bool,
    text: &'static str,
) -> Result<Option<Leftover>, kube::Error> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    // Listed, because the program may list these kinds and not get them.
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let listed = bounded(api.list(&params)).await?;
    let found = listed.items.iter().find(|object| object.name_any() == name);
    let found = found.filter(|object| is_in_effect(object));
    Ok(found.map(|object| Leftover { object: object.object_ref(&resource), text }))
}

/// Ours, which replaced upstream's and does nothing.
fn emptied(object: &impl Resource) -> bool {
    object.annotations().contains_key(EMPTIED)
}
