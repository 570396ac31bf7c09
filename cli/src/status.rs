//! `olm status`: what runs, what is pending, and why.

pub(crate) mod facts;

use std::io::Write;

use anyhow::bail;
use clap::Args;
use kube::ResourceExt;
use olm_api::v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_runtime::connect;

use self::facts::Status;
use crate::{
    cluster::{Cluster, list},
    output::{self, Format},
};

/// The help text below the options.
pub(crate) const HELP: &str =
    "Without a name: one line for each ClusterExtension. With a name: its conditions, revisions and catalogs.

Examples:
  olm status
  olm status lighthouse
  olm status -o json";

/// `olm status`
#[derive(Debug, Args)]
pub(crate) struct StatusCommand {
    /// Name of the ClusterExtension; default: all
    extension: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl StatusCommand {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let client = connect(self.cluster.config().await?)?;
        let catalogs: Vec<ClusterCatalog> = list(&client).await?;
        let sets: Vec<ClusterObjectSet> = list(&client).await?;
        let mut extensions: Vec<ClusterExtension> = list(&client).await?;
        if let Some(name) = &self.extension {
            extensions.retain(|extension| extension.name_any() == *name);
            if extensions.is_empty() {
                bail!("there is no ClusterExtension {name:?}: `olm status` lists all");
            }
        }
        let status = Status::of(&extensions, &sets, &catalogs);
        output::answer(out, self.output, &status, |status| {
            let text = if self.extension.is_some() { status.detail() } else { status.table() };
            text.trim_end().to_owned()
        })
    }
}
