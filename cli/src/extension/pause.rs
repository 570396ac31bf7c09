//! `olm pause` and `olm resume`.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::names::PAUSED_ANNOTATION;
use operator_controller::is_paused;
use serde_json::json;

use super::{change::change, revisions::extension};
use crate::cluster::Cluster;

/// The help text of `olm pause` below the options.
pub(crate) const PAUSE_HELP: &str = "Examples:
  olm pause lighthouse
  olm pause lighthouse --until 2030-01-31T08:00:00Z";

/// The help text of `olm resume` below the options.
pub(crate) const RESUME_HELP: &str = "Examples:
  olm resume lighthouse";

/// `olm pause`
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Name of the ClusterExtension
    extension: String,
    /// When the pause ends, such as 2030-01-31T08:00:00Z; default: with olm resume
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    #[command(flatten)]
    cluster: Cluster,
}

/// `olm resume`
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Name of the ClusterExtension
    extension: String,
    #[command(flatten)]
    cluster: Cluster,
}

impl Pause {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(until) = self.until.filter(|until| *until <= Timestamp::now()) {
            bail!("--until {until}: this time is over, so nothing would be paused: give a later one");
        }
        let client = self.cluster.client().await?;
        let seen = extension(&client, &self.extension).await?;
        let value = self.until.map_or("true".to_owned(), |until| until.to_string());
        let patch = json!({"metadata": {"annotations": {PAUSED_ANNOTATION: value}}});
        change(&client, &seen, patch).await?;
        let name = &self.extension;
        match self.until {
            Some(until) => writeln!(out, "{name}: no upgrades until {until}")?,
            None => writeln!(out, "{name}: no upgrades until \"olm resume {name}\"")?,
        }
        Ok(())
    }
}

impl Resume {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let client = self.cluster.client().await?;
        let seen = extension(&client, &self.extension).await?;
        let name = &self.extension;
        if !seen.annotations().contains_key(PAUSED_ANNOTATION) {
            writeln!(out, "{name}: is not paused")?;
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {PAUSED_ANNOTATION: null}}});
        let was_paused = is_paused(&seen, Timestamp::now());
        change(&client, &seen, patch).await?;
        let result = if was_paused { "upgrades continue" } else { "the pause was over already" };
        writeln!(out, "{name}: {result}")?;
        Ok(())
    }
}
