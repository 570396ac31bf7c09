//! The cluster that a command asks: by `--kubeconfig` and `--context`, else as kubectl finds it.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use olm_runtime::cluster_config;

/// Which cluster, and as whom.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Cluster {
    /// Configuration of the cluster; else KUBECONFIG, ~/.kube/config, or the pod's own account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the configuration to use instead of its current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Cluster {
    /// Whether a flag names the cluster.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The configuration for a client.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let Some(context) = &self.context else {
            return Ok(cluster_config(self.kubeconfig.as_deref()).await?);
        };
        let file = match &self.kubeconfig {
            Some(path) => {
                Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig {}", path.display()))?
            }
            None => Kubeconfig::read()
                .context("--context needs a kubeconfig: give --kubeconfig or set KUBECONFIG")?,
        };
        let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(file, &options).await;
        let mut config = config.with_context(|| format!("--context {context}"))?;
        // A command that waits for a quarter of an hour helps nobody.
        config.default_retry = false;
        Ok(config)
    }
}
