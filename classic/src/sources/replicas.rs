//! The replicas that answer the registry API: those that the Service of the program leads to.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api, Client, ResourceExt,
    runtime::watcher::{self, Event},
};
use olm_classic_core::source::service::{SERVICE_LABEL, ready_addresses};
use olm_runtime::Chance;
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

/// The Service of the manifests that leads to the registry API of all replicas.
const SERVICE: &str = "catalog-operator";
/// Most EndpointSlices that are looked at; one has a hundred addresses.
const SLICES_MAX: usize = 10;

/// The replicas that answer. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Replicas(Arc<RwLock<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Addresses by EndpointSlice.
    slices: BTreeMap<String, BTreeSet<IpAddr>>,
    is_listed: bool,
}

impl Replicas {
    /// The addresses behind the Services of catalogs: that of this replica, and those of others which are ready. None are known
    /// before they were listed.
    pub(super) fn addresses(&self, own: SocketAddr) -> Option<BTreeSet<IpAddr>> {
        let known = self.0.read();
        let others = known.slices.values().flatten().filter(|address| address.is_ipv4() == own.is_ipv4());
        known.is_listed.then(|| others.copied().chain([own.ip()]).collect())
    }

    /// Follows the Service of the program until `shutdown`; `changed` is called when other replicas answer.
    pub(super) async fn follow(
        &self,
        (client, chance): (&Client, &Chance),
        namespace: &str,
        own: SocketAddr,
        changed: impl Fn(),
        shutdown: &CancellationToken,
    ) {
        let api = Api::<EndpointSlice>::namespaced(client.clone(), namespace);
        let config = watcher::Config::default().labels(&format!("{SERVICE_LABEL}={SERVICE}"));
        let mut events = std::pin::pin!(chance.watch(api, config));
        let mut listed = BTreeMap::new();
        while let Some(Some(event)) = shutdown.run_until_cancelled(events.next()).await {
            let before = self.addresses(own);
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(slice)) => take(&mut listed, &slice, own.port()),
                Ok(Event::InitDone) => {
                    let slices = std::mem::take(&mut listed);
                    *self.0.write() = Known { slices, is_listed: true };
                }
                Ok(Event::Apply(slice)) => take(&mut self.0.write().slices, &slice, own.port()),
                Ok(Event::Delete(slice)) => drop(self.0.write().slices.remove(&slice.name_any())),
                Err(error) => tracing::debug!(%error, "watch interrupted"),
            }
            if self.addresses(own) != before {
                changed();
            }
        }
    }
}

/// Takes the addresses of a slice, of replicas on this port: all are behind one port of a Service.
fn take(slices: &mut BTreeMap<String, BTreeSet<IpAddr>>, slice: &EndpointSlice, port: u16) {
    let name = slice.name_any();
    if slices.len() < SLICES_MAX || slices.contains_key(&name) {
        slices.insert(name, ready_addresses(slice, port));
    }
}
