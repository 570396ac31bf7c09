//! Writes to the cluster for a source: its image, the owner of its ConfigMap, its Service.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    net::{IpAddr, SocketAddr},
};

use k8s_openapi::api::{
    core::v1::{ConfigMap, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, Preconditions},
    core::NamespaceResourceScope,
};
use olm_api_classic::{
    CatalogSource,
    names::{MANAGED_LABEL, SERVICE_HASH_LABEL},
};
use olm_classic_core::source::service;
use olm_runtime::{api_text, bounded, if_exists, patch_as, post_as};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

/// Field manager of all writes.
pub(super) const FIELD_MANAGER: &str = "olm-classic";

/// The answer to the change of an immutable part.
const IMMUTABLE: u16 = 422;

/// Sets the image of a source. Returns the source after that.
pub(super) async fn set_image(
    client: &Client,
    source: &CatalogSource,
    image: &str,
) -> Result<Option<CatalogSource>, String> {
    let api = Api::<CatalogSource>::namespaced(client.clone(), &namespace(source));
    let patch = json!({
        "metadata": {"resourceVersion": source.metadata.resource_version},
        "spec": {"image": image},
    });
    let written =
        if_exists(api.patch(&source.name_any(), &patch_as(FIELD_MANAGER), &Patch::Merge(patch))).await;
    written.map_err(|error| api_text(&error))
}

/// Makes a source an owner of its ConfigMap, and marks the map as the user's. Returns the map after that.
pub(super) async fn own_config_map(
    client: &Client,
    source: &CatalogSource,
    map: &ConfigMap,
) -> Result<Option<ConfigMap>, String> {
    let is_marked = map.labels().get(MANAGED_LABEL).is_some_and(|value| value == "false");
    if is_marked && service::is_owned(&map.metadata, source) {
        return Ok(None);
    }
    let mut owners = map.metadata.owner_references.clone().unwrap_or_default();
    if !service::is_owned(&map.metadata, source) {
        owners.push(service::owner(source));
    }
    let patch = json!({"metadata": {
        "resourceVersion": map.metadata.resource_version,
        "labels": {MANAGED_LABEL: "false"},
        "ownerReferences": owners,
    }});
    let api = Api::<ConfigMap>::namespaced(client.clone(), &namespace(source));
    let written = if_exists(api.patch(&map.name_any(), &patch_as(FIELD_MANAGER), &Patch::Merge(patch))).await;
    written.map_err(|error| api_text(&error))
}

/// Makes the Service of a source be there, and the addresses behind it, if this process has one. Objects of the same names
/// that belong to others are left alone.
///
/// # Errors
/// The text names the object.
pub(super) async fn ensure_service(
    client: &Client,
    source: &CatalogSource,
    name: &str,
    advertised: Option<(SocketAddr, Option<BTreeSet<IpAddr>>)>,
    selects_pods: bool,
) -> Result<(), String> {
    let wanted = service::service(source, name, selects_pods);
    let hash = |service: &Service| service.labels().get(SERVICE_HASH_LABEL).cloned();
    ensure(client, source, &wanted, Differs::Remade, |found| hash(found) == hash(&wanted)).await?;
    let Some((own, replicas)) = advertised.filter(|_| !selects_pods) else { return Ok(()) };
    let addresses = replicas.clone().unwrap_or_else(|| BTreeSet::from([own.ip()]));
    let wanted = service::endpoints(source, name, &addresses, own.port());
    let is_same = |found: &EndpointSlice| {
        let there = service::ready_addresses(found, own.port());
        // Until the replicas are known, those that the leader before knew stay.
        if replicas.is_some() { there == addresses } else { there.contains(&own.ip()) }
    };
    ensure(client, source, &wanted, Differs::Replaced, is_same).await
}

/// What becomes of an object that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Differs {
    /// It is made anew, as its immutable parts may be what differs.
    Remade,
    /// It is replaced if that is possible, so that it is never gone.
    Replaced,
}

/// Makes an object of a source be there.
pub(super) async fn ensure<K>(
    client: &Client,
    source: &CatalogSource,
    wanted: &K,
    differs: Differs,
    is_same: impl Fn(&K) -> bool,
) -> Result<(), String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api = Api::<K>::namespaced(client.clone(), &namespace(source));
    let (kind, name) = (K::kind(&()), wanted.name_any());
    let failed = |error: kube::Error| format!("{kind} {name}: {}", api_text(&error));
    if let Some(found) = bounded(api.get_opt(&name)).await.map_err(failed)? {
        if !service::is_owned(found.meta(), source) {
            return Err(format!(
                "{kind} {}/{name} exists and does not belong to this CatalogSource: delete it, or give the CatalogSource another name",
                namespace(source)
            ));
        }
        if is_same(&found) {
            return Ok(());
        }
        if differs == Differs::Replaced {
            let mut changed = wanted.clone();
            changed.meta_mut().resource_version = found.resource_version();
            match bounded(api.replace(&name, &post_as(FIELD_MANAGER), &changed)).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == IMMUTABLE => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let preconditions = Preconditions { uid: found.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        if_exists(api.delete(&name, &params)).await.map_err(failed)?;
    }
    bounded(api.create(&post_as(FIELD_MANAGER), wanted)).await.map(|_| ()).map_err(failed)
}

pub(super) fn namespace(source: &CatalogSource) -> String {
    source.namespace().unwrap_or_default()
}
