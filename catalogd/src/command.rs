//! The program: flags to configuration, and what it adds to the shell of a process.

use std::{error::Error, sync::Arc};

use clap::Parser;
use olm_runtime::{DEFAULT_TERMS, FeatureGates, LeaseLost, Process, ProcessFlags, SystemClock, log_gates};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{CatalogFlags, Catalogd, Config, LEASE, SERVING_SECRET, campaign};

/// The default address of catalog content.
const CATALOGS_ADDRESS: &str = ":8443";
/// The default address of metrics.
const METRICS_ADDRESS: &str = ":7443";

/// Serves the content of ClusterCatalogs.
#[derive(Debug, Clone, Parser)]
#[command(name = "catalogd", version, disable_version_flag = true, args_override_self = true)]
pub struct Command {
    /// Flags that every program has.
    #[command(flatten)]
    pub process: ProcessFlags,
    #[command(flatten)]
    catalogs: CatalogFlags,
}

impl Command {
    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Box<dyn Error + Send + Sync>> {
        let config = self.config()?;
        log_gates(config.gates());
        let settings =
            self.process.settings("catalogd", METRICS_ADDRESS, config.cache_dir.join("spool")).await?;
        let mut process = Process::new(settings, &shutdown)?;
        process.metrics.objects().register("olm_objects", &mut process.registry);
        let names = config.serving_names();
        let (puller, clock) = (Arc::new(process.puller.clone()), Arc::new(SystemClock));
        let client = process.client();
        let catalogd = Catalogd::new(config, client, puller, clock, &process.metrics, &mut process.registry)?;
        let (ready, woken) = (catalogd.clone(), catalogd.clone());
        process.follow_pull_secrets(move || woken.wake()).await;
        let tls = process.serve((SERVING_SECRET, &names), move || ready.ready()).await?;
        let address = self.catalogs.address(CATALOGS_ADDRESS);
        process.spawn_server("the server of catalogs", address, catalogd.router(), Some(tls))?;
        let led = lead(&process, catalogd).await;
        process.end().await?;
        Ok(led?)
    }

    /// The settings of catalogd itself.
    fn config(&self) -> Result<Config, Box<dyn Error + Send + Sync>> {
        let mut config = self.catalogs.config()?;
        config.apply_feature_gates(&FeatureGates::parse(&self.process.feature_gates)?)?;
        Ok(config)
    }
}

/// Runs the controller, as leader when this process is or need not be elected.
async fn lead(process: &Process, catalogd: Catalogd) -> Result<(), LeaseLost> {
    let shutdown = process.shutdown.clone();
    let (leader, leads) = watch::channel(!process.leader_elect());
    let ended = CancellationToken::new();
    let running = async {
        catalogd.run(leads, process.chance.clone(), shutdown.clone()).await;
        ended.cancel();
    };
    if !process.leader_elect() {
        running.await;
        drop(leader);
        return Ok(());
    }
    let elector = process.elector(LEASE, DEFAULT_TERMS);
    let election = async {
        let set_leader = |leads| {
            process.metrics.leading(leads);
            leader.send_replace(leads);
        };
        let led = campaign(&elector, set_leader, &ended, &shutdown).await;
        shutdown.cancel();
        led
    };
    tokio::join!(election, running).0
}

#[cfg(test)]
mod tests;
