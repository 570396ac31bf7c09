//! What becomes of each bundle that a Subscription could have: its namespace is resolved here, with the catalogs' images.

use std::sync::Arc;

use anyhow::Context as _;
use catalogd::RegistryContent;
use clap::ValueEnum;
use kube::{Api, Client, ResourceExt, api::ListParams, core::NamespaceResourceScope};
use olm_api_classic::{CatalogSource, ClusterServiceVersion, OperatorGroup, Subscription};
use olm_classic_core::{
    graph::Snapshot,
    registry_model::Catalog as Content,
    resolve::{Catalog, Request, Scope, candidates, fails_forward, global_namespace},
};
use olm_image::Reference;
use olm_runtime::bounded;
use serde::{Serialize, de::DeserializeOwned};

use crate::{catalogs::Held, sources::Registries};

/// A candidate.
#[derive(Debug, Serialize)]
pub(crate) struct CandidateView {
    pub(crate) name: String,
    pub(crate) channel: String,
    pub(crate) chosen: bool,
    /// Why it is chosen, or not.
    pub(crate) reason: String,
}

/// The candidates of a Subscription, how many more there are, and the catalogs that were not read, with the reasons.
pub(crate) type Candidates = (Vec<CandidateView>, usize, Vec<String>);

/// Where catalogs come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) registries: &'a Registries,
    /// The namespace of the catalogs that every namespace sees.
    pub(crate) global: &'a str,
    /// What is resolved together.
    pub(crate) scope: Scope,
}

/// What is resolved together, as the flag of olm-classic says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resolution {
    Related,
    Namespace,
}

impl From<Resolution> for Scope {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Related => Self::Related,
            Resolution::Namespace => Self::Namespace,
        }
    }
}

/// Resolves the namespace of a Subscription.
pub(crate) async fn read(
    client: &Client,
    access: Access<'_>,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Candidates> {
    let subscriptions: Vec<Subscription> = all(client, namespace).await.context("reading Subscriptions")?;
    let csvs: Vec<ClusterServiceVersion> =
        all(client, namespace).await.context("reading ClusterServiceVersions")?;
    let groups: Vec<OperatorGroup> = all(client, namespace).await.context("reading OperatorGroups")?;
    let global = global_namespace(&groups, access.global)?.map(str::to_owned);
    let mut sources: Vec<CatalogSource> = all(client, namespace).await.context("reading CatalogSources")?;
    if let Some(global) = global.as_deref().filter(|global| *global != namespace) {
        let more: Vec<CatalogSource> = all(client, global).await.context("reading CatalogSources")?;
        sources.extend(more);
    }
    let mut read = Vec::new();
    for source in &sources {
        let content = snapshot(source, access.registries).await.map_err(|error| format!("{error:#}"));
        read.push((source, source.namespace().unwrap_or_default(), source.name_any(), content));
    }
    let notes = read.iter().filter_map(|(_, namespace, name, content)| {
        let cause = content.as_ref().err()?;
        Some(format!("CatalogSource {namespace}/{name} is not read here: {cause}"))
    });
    let notes = notes.collect();
    let catalogs: Vec<Catalog<'_>> = read
        .iter()
        .map(|(source, namespace, name, content)| Catalog {
            namespace,
            name,
            priority: i32::try_from(source.spec.priority.unwrap_or_default()).unwrap_or_default(),
            content: content.as_ref().map_err(String::as_str),
        })
        .collect();
    let request = Request {
        namespace,
        global: global.as_deref(),
        subscriptions: &subscriptions,
        csvs: &csvs,
        scope: access.scope,
        fails_forward: fails_forward(&groups),
    };
    let (found, more) = candidates(&request, &catalogs, name);
    let view = found.into_iter().map(|one| CandidateView {
        name: one.name,
        channel: one.channel,
        chosen: one.is_chosen,
        reason: one.reason,
    });
    Ok((view.collect(), more, notes))
}

async fn all<K>(client: &Client, namespace: &str) -> Result<Vec<K>, kube::Error>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    Ok(bounded(api.list(&ListParams::default())).await?.items)
}

/// What resolution reads of the image of a CatalogSource.
async fn snapshot(source: &CatalogSource, registries: &Registries) -> anyhow::Result<Snapshot> {
    let image = source.spec.image.as_deref().filter(|image| !image.is_empty());
    let image = image.context("it has no image, and only the controller reads other content")?;
    // No file of this machine, whatever the text.
    let held = Held::of_image(Reference::parse(image)?, registries).await?;
    let work = move || -> anyhow::Result<Snapshot> {
        let content = Content::read(RegistryContent(Arc::clone(held.generation())), None)?;
        Ok(content.snapshot()?)
    };
    tokio::task::spawn_blocking(work).await?
}
