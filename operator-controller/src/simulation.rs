//! A world for the loops in which one seed has one course: a clock that jumps, and an API server that is a function.

mod answers;
mod api_server;
mod consent;
mod faults;
mod process;
mod properties;
mod request;
mod store;

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use olm_bundle::MEMORY_BYTES_MAX;
use olm_bundles::Bundles;
use olm_image::{Puller, PullerConfig};
use olm_runtime::{Accounts, Chance, Clock, MemoryBudget, Metrics};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::{
    Gates, ProviderSetting,
    content::Content,
    facts::{platform::Platform, policies::Guard},
    metrics::DriftRepairs,
    operator::{Loops, Options},
};

pub(crate) use self::{
    api_server::ApiServer,
    faults::Rates,
    process::Process,
    properties::{FOREIGN_LABEL, condition},
};

/// Time as the runtime counts it, from the epoch on.
pub(crate) struct Since(pub(crate) Instant);

impl Clock for Since {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.0.elapsed()).unwrap_or_default();
        Timestamp::UNIX_EPOCH + passed
    }

    fn random(&self) -> f64 {
        0.5
    }
}

/// The program's own wiring over a server; bundles lie in a folder as pulled ones do.
pub(crate) fn loops(
    client: Client,
    (seed, concurrency): (u64, u16),
    clock: Arc<dyn Clock>,
    (content, folder): (Content, PathBuf),
) -> Loops {
    let mut registry = Registry::default();
    let puller = Puller::new(PullerConfig::new(&folder));
    Loops {
        accounts: Accounts::of(client.clone(), client),
        content,
        bundles: Bundles::new(&puller, folder, MemoryBudget::new(MEMORY_BYTES_MAX)).unwrap(),
        metrics: Metrics::register(&mut registry),
        guard: Guard::new(&mut registry),
        platform: Arc::new(Platform::default()),
        repairs: DriftRepairs::default(),
        options: Options {
            system_namespace: SYSTEM_NAMESPACE.to_owned(),
            identity: "test".to_owned(),
            default_account: None,
            catalog_deadline: Duration::from_mins(1),
            features: Gates::default().features(ProviderSetting::Auto),
            certificate_lifetime: Duration::from_hours(1),
            concurrency,
        },
        clock,
        chance: Chance::seeded(seed),
    }
}

/// Where the program of a simulation runs.
pub(crate) const SYSTEM_NAMESPACE: &str = "system";

/// One thread and a clock that is still until everybody waits, and jumps then.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}
