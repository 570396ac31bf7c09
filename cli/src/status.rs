//! `olm status`: what runs, what is pending, and why.

mod facts;

use std::io::Write;

use anyhow::{Context as _, bail};
use clap::Args;
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_api::v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_runtime::{bounded, connect};

use self::facts::Status;
use crate::{
    cluster::Cluster,
    output::{self, Format},
};

/// What `olm status --help` says beside the options.
pub(crate) const HELP: &str =
    "Without a name: every ClusterExtension on a line. With one: its conditions, revisions and catalogs.

Examples:
  olm status
  olm status lighthouse
  olm status -o json";

/// `olm status`
#[derive(Debug, Args)]
pub(crate) struct StatusCommand {
    /// The ClusterExtension; without it all of them
    extension: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl StatusCommand {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let client = connect(self.cluster.config().await?)?;
        let catalogs: Vec<ClusterCatalog> = list(&client, "ClusterCatalogs").await?;
        let sets: Vec<ClusterObjectSet> = list(&client, "ClusterObjectSets").await?;
        let mut extensions: Vec<ClusterExtension> = list(&client, "ClusterExtensions").await?;
        if let Some(name) = &self.extension {
            extensions.retain(|extension| extension.name_any() == *name);
            if extensions.is_empty() {
                bail!("there is no ClusterExtension {name:?}: `olm status` lists those there are");
            }
        }
        let status = Status::of(&extensions, &sets, &catalogs);
        output::answer(out, self.output, &status, |status| {
            let text = if self.extension.is_some() { status.detail() } else { status.table() };
            text.trim_end().to_owned()
        })
    }
}

async fn list<K>(client: &Client, what: &'static str) -> anyhow::Result<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let listed =
        bounded(api.list(&ListParams::default())).await.with_context(|| format!("listing {what}"))?;
    let mut items = listed.items;
    items.sort_by_key(ResourceExt::name_any);
    Ok(items)
}
