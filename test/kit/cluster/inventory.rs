//! What a cluster holds, of whatever kind.

use crate::prelude::*;
use kube::{
    Discovery,
    api::ObjectList,
    core::{ObjectMeta, Status},
    discovery::{ApiGroup, verbs},
};

/// The kind and the metadata of every object that `params` select.
///
/// # Errors
/// When the API server answers anything but a list, or that it doesn't know the kind.
pub async fn inventory(client: &Client, params: &ListParams) -> Result<Vec<(String, ObjectMeta)>> {
    let mut found = Vec::new();
    for resource in listable(client).await? {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let items = unless_gone(&resource, api.list_metadata(params).await)?;
        found.extend(items.into_iter().map(|item| (resource.kind.clone(), item.metadata)));
    }
    Ok(found)
}

/// Every object that `params` select, whole, with its kind.
///
/// # Errors
/// As [`inventory`].
pub async fn objects(client: &Client, params: &ListParams) -> Result<Vec<(ApiResource, DynamicObject)>> {
    let mut found = Vec::new();
    for resource in listable(client).await? {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let items = unless_gone(&resource, api.list(params).await)?;
        found.extend(items.into_iter().map(|item| (resource.clone(), item)));
    }
    Ok(found)
}

/// The kinds that can be listed, asked for in one request: other tests' kinds come and go meanwhile, and a group that
/// went between two requests would be an error.
async fn listable(client: &Client) -> Result<Vec<ApiResource>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await.context("discovery")?;
    let kinds = discovery.groups().flat_map(ApiGroup::recommended_resources);
    let lists = kinds.filter(|(_, capabilities)| capabilities.supports_operation(verbs::LIST));
    Ok(lists.map(|(resource, _)| resource).collect())
}

/// A kind that went after discovery is left out; its objects went before it.
fn unless_gone<T: Clone>(
    resource: &ApiResource,
    answer: Result<ObjectList<T>, kube::Error>,
) -> Result<Vec<T>> {
    match answer {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(answer)) if is_gone(&answer) => Ok(Vec::new()),
        Err(error) => Err(error).context(format!("listing {}", resource.plural)),
    }
}

/// Whether a kind is not served, or not any more.
fn is_gone(answer: &Status) -> bool {
    answer.code == 404 || answer.code == 405
}
