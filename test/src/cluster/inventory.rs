//! What a cluster holds, of whatever kind.

use anyhow::{Context, Result};
use kube::{
    Api, Client, Discovery,
    api::{DynamicObject, ListParams},
    core::{ObjectMeta, Status},
    discovery::{ApiGroup, verbs},
};

/// The kind and the metadata of every object that `params` select.
///
/// The kinds are asked for in one request: other tests' kinds come and go meanwhile, and a group that went between
/// two requests would be an error. A kind that went after that one is left out; its objects went before it.
///
/// # Errors
/// When the API server answers anything but a list, or that it doesn't know the kind.
pub async fn inventory(client: &Client, params: &ListParams) -> Result<Vec<(String, ObjectMeta)>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await.context("discovery")?;
    let mut found = Vec::new();
    for (resource, capabilities) in discovery.groups().flat_map(ApiGroup::recommended_resources) {
        if !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        match api.list_metadata(params).await {
            Ok(list) => {
                found.extend(list.items.into_iter().map(|item| (resource.kind.clone(), item.metadata)));
            }
            Err(kube::Error::Api(answer)) if is_gone(&answer) => {}
            Err(error) => return Err(error).context(format!("listing {}", resource.plural)),
        }
    }
    Ok(found)
}

/// Whether a kind is not served, or not any more.
fn is_gone(answer: &Status) -> bool {
    answer.code == 404 || answer.code == 405
}
