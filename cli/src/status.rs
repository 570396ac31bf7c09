//! `olm status`: what runs, what is pending, and why.

pub(crate) mod facts;

use std::{io::Write, time::Duration};

use clap::Args;
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use olm_api::v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use operator_controller::catalog_selected;

use self::facts::Status;
use crate::{
    classic::Classic,
    cluster::{Cluster, list, list_if_served},
    extension::revisions::absent,
    output::{self, Format},
};

/// The help text below the options.
pub(crate) const HELP: &str =
    "Without a name: one line for each ClusterExtension, and of OLM Classic for each CatalogSource, Subscription,
ClusterServiceVersion and InstallPlan that is not complete, with what is wrong below it. With a name: its conditions,
revisions, and the catalogs that it may use.

Examples:
  olm status
  olm status lighthouse
  olm status -w
  olm status -o json";

/// Time between two looks with `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);

/// `olm status`
#[derive(Debug, Args)]
pub(crate) struct StatusCommand {
    /// Name of the ClusterExtension; default: all
    extension: Option<String>,
    /// Only extensions that are installed in this namespace
    #[arg(long, short = 'n', value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Extensions of all namespaces, as without this flag
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Print it again whenever it changes
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    cluster: Cluster,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl StatusCommand {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let client = self.cluster.client().await?;
        let mut shown = String::new();
        loop {
            let mut written = Vec::new();
            output::answer(&mut written, self.output, &self.status(&client).await?, |status| {
                let text = if self.extension.is_some() { status.detail() } else { status.table() };
                text.trim_end().to_owned()
            })?;
            let mut text = String::from_utf8(written)?;
            if self.output == Format::Text && self.extension.is_none() {
                text = output::states(text, "STATE");
            }
            if text != shown {
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            if !self.watch {
                return Ok(());
            }
            shown = text;
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn status(&self, client: &Client) -> anyhow::Result<Status> {
        let classic = match &self.extension {
            None => Classic::of(client, self.namespace.as_deref()).await?,
            Some(_) => None,
        };
        let mut extensions: Vec<ClusterExtension> = match (list_if_served(client).await?, &classic) {
            (Some(found), _) => found,
            // A cluster with nothing but OLM Classic.
            (None, Some(_)) => return Ok(Status::of(&[], &[], &[], Timestamp::now()).with(classic)),
            (None, None) => list(client).await?,
        };
        let mut catalogs: Vec<ClusterCatalog> = list(client).await?;
        let sets: Vec<ClusterObjectSet> = list(client).await?;
        if let Some(namespace) = &self.namespace {
            extensions.retain(|extension| extension.spec.namespace == *namespace);
        }
        if let Some(name) = &self.extension {
            extensions.retain(|extension| extension.name_any() == *name);
            let Some(extension) = extensions.first() else { return Err(absent(name)) };
            catalogs.retain(|catalog| may_use(extension, catalog));
        }
        Ok(Status::of(&extensions, &sets, &catalogs, Timestamp::now()).with(classic))
    }
}

/// Whether the extension's selector selects the catalog.
pub(crate) fn may_use(extension: &ClusterExtension, catalog: &ClusterCatalog) -> bool {
    let selector = extension.spec.source.catalog.as_ref().and_then(|source| source.selector.as_ref());
    selector.is_none_or(|selector| catalog_selected(&catalog.name_any(), catalog.labels(), selector))
}
