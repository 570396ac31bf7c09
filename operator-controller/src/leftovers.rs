//! Objects of an upstream installation that are still in effect, reported once, at the start.
//!
//! Applying manifests removes nothing, and whoever swaps the images of an installation applies none. Our manifests
//! bring these objects emptied, under upstream's names; until they are applied, log and Events name what stands in the
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

/// It fails closed, and nobody answers it any more.
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
const NO_PERMISSION: &str = "this program runs without the permissions of its manifests: apply config/install.yaml with \
    --server-side --force-conflicts";

/// An object that is still in effect.
struct Leftover {
    reference: ObjectReference,
    text: &'static str,
}

/// Looks for leftovers and reports them in the log and as Events. A catalogd is one where the catalogs are `embedded`
/// in this program.
pub(crate) async fn report(client: Client, system_namespace: &str, embedded: bool, events: &Events) {
    let catalogd = embedded.then_some(system_namespace);
    for found in [
        webhook(client.clone()).await,
        cluster_admin(client.clone()).await,
        warning(client.clone()).await,
        other_catalogd(client.clone(), catalogd).await,
    ] {
        match found {
            Ok(Some(Leftover { reference, text })) => {
                let kind = reference.kind.as_deref().unwrap_or_default();
                let name = reference.name.as_deref().unwrap_or_default();
                tracing::warn!(kind, name, "left behind by an earlier installation: {text}");
                events.leftover(&reference, text).await;
            }
            Ok(None) => {}
            Err(error) if is_forbidden(&error) => tracing::warn!(
                error = api_text(&error),
                "could not check for leftovers of an earlier installation: {NO_PERMISSION}"
            ),
            Err(error) => {
                let error = api_text(&error);
                tracing::warn!(error, "could not check for leftovers of an earlier installation");
            }
        }
    }
}

type Found = Result<Option<Leftover>, kube::Error>;

async fn webhook(client: Client) -> Found {
    let object: Option<MutatingWebhookConfiguration> = named(Api::all(client), WEBHOOK).await?;
    let asks = |w: &MutatingWebhookConfiguration| w.webhooks.as_ref().is_some_and(|list| !list.is_empty());
    Ok(object.filter(|w| asks(w) && !emptied(w)).map(|object| {
        leftover(
            &object,
            "no ClusterCatalog can be written while it asks a server that is gone: apply config/install.yaml with \
             --server-side --force-conflicts, which empties it, or delete it",
        )
    }))
}

async fn cluster_admin(client: Client) -> Found {
    let object: Option<ClusterRoleBinding> = named(Api::all(client), CLUSTER_ADMIN).await?;
    let binds = |b: &ClusterRoleBinding| b.subjects.as_ref().is_some_and(|list| !list.is_empty());
    Ok(object.filter(binds).map(|object| {
        leftover(
            &object,
            "it gives this program permissions on the whole cluster that it does not need: apply config/install.yaml \
             with --server-side --force-conflicts, which empties it, or delete it",
        )
    }))
}

async fn warning(client: Client) -> Found {
    let object: Option<ValidatingAdmissionPolicyBinding> = named(Api::all(client), WARNING).await?;
    Ok(object.filter(|object| !emptied(object)).map(|object| {
        leftover(
            &object,
            "it warns that spec.serviceAccount is ignored, which it is not: apply config/install.yaml with \
             --server-side --force-conflicts, or delete it",
        )
    }))
}

async fn other_catalogd(client: Client, namespace: Option<&str>) -> Found {
    let Some(namespace) = namespace else { return Ok(None) };
    let object: Option<Deployment> = named(Api::namespaced(client, namespace), CATALOGD).await?;
    let runs = |d: &Deployment| d.spec.as_ref().is_none_or(|spec| spec.replicas != Some(0));
    Ok(object.filter(runs).map(|object| {
        leftover(
            &object,
            "it works on the same catalogs, and this program leaves them to it while it holds their lease: apply \
             config/install.yaml with --server-side --force-conflicts, which scales it to 0 replicas, or delete it",
        )
    }))
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// Ours, which replaced upstream's and does nothing.
fn emptied(object: &impl Resource) -> bool {
    object.annotations().contains_key(EMPTIED)
}

fn leftover<K: Resource<DynamicType = ()>>(object: &K, text: &'static str) -> Leftover {
    Leftover { reference: object.object_ref(&()), text }
}

/// An object by its name; listed, because the program may list these kinds and not get them.
async fn named<K>(api: Api<K>, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned,
{
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let listed = bounded(api.list(&params)).await?;
    Ok(listed.items.into_iter().find(|object| object.name_any() == name))
}
