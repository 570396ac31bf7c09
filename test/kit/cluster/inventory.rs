//! What a cluster holds, of whatever kind.

use crate::prelude::*;
use kube::{
    Discovery,
    api::ObjectList,
    core::{ObjectMeta, Status},
    discovery::{ApiGroup, verbs},
};

/// How long a kind whose webhook is gone may take to do without it.
const CONVERTIBLE: Duration = Duration::from_secs(10);

/// The kind and the metadata of every object that `params` select.
///
/// # Errors
/// When the API server answers anything but a list, or that it doesn't know the kind.
pub async fn inventory(client: &Client, params: &ListParams) -> Result<Vec<(String, ObjectMeta)>> {
    let mut found = Vec::new();
    for resource in listable(client).await? {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let items = listed(&resource, || api.list_metadata(params)).await?;
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
        let items = listed(&resource, || api.list(params)).await?;
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

/// The objects of a kind. One that went after discovery is left out; its objects went before it. One that another test is
/// removing cannot be converted for a moment, between the end of its webhook and its own.
async fn listed<T: Clone, L>(resource: &ApiResource, list: impl Fn() -> L) -> Result<Vec<T>>
where
    L: Future<Output = Result<ObjectList<T>, kube::Error>>,
{
    wait::until(&format!("{} to be listed", resource.plural), CONVERTIBLE, || async {
        match list().await {
            Ok(list) => Ok(list.items),
            Err(kube::Error::Api(answer)) if is_gone(&answer) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// Whether a kind is not served, or not any more.
fn is_gone(answer: &Status) -> bool {
    answer.code == 404 || answer.code == 405
}
