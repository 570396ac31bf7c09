//! Has kube-apiserver trust the server behind an APIService: keeps the authorities of its serving certificate there.
//!
//! The APIService itself belongs to the manifests: one that a program wrote would stay when the program is removed, and
//! break discovery for everybody.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::{
    ByteString, api::core::v1::ConfigMap, kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::watcher::{self, Event},
};
use olm_runtime::{Chance, api_text, bounded};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::Names;

/// Where the serving certificate's authorities are in their ConfigMap.
const AUTHORITIES_KEY: &str = "ca.crt";
/// Between two attempts to write.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// An APIService, and where the authorities for its server are published.
#[derive(Debug, Clone)]
pub struct Registration {
    /// The group and version.
    pub names: Names,
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// The ConfigMap that the serving certificate's authorities are published in.
    pub authorities: String,
    /// Who writes them to the APIService.
    pub field_manager: &'static str,
}

/// What the cluster has.
#[derive(Debug, Default)]
struct Seen {
    /// The authorities that are published.
    published: Option<Vec<u8>>,
    /// The authorities that the APIService names, if it exists.
    named: Option<Vec<u8>>,
}

impl Seen {
    /// The authorities that the APIService should name and does not.
    fn due(&self) -> Option<&[u8]> {
        self.published
            .as_deref()
            .filter(|published| self.named.as_deref().is_some_and(|named| named != *published))
    }
}

impl Registration {
    /// The name of the APIService.
    pub fn name(&self) -> String {
        format!("{}.{}", self.names.version, self.names.group)
    }

    /// Follows the authorities, and the APIService that is to name them, until `shutdown`.
    pub async fn run(self, client: Client, chance: Chance, shutdown: CancellationToken) {
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let api: Api<APIService> = Api::all(client.clone());
        let maps: Api<ConfigMap> = Api::namespaced(client, &self.namespace);
        let mut services = chance.watch(api.clone(), named(&self.name())).boxed();
        let mut maps = chance.watch(maps, named(&self.authorities)).boxed();
        let mut seen = Seen::default();
        let mut failed = false;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(RETRY_INTERVAL), if failed => {}
                Some(event) = services.next() => self.note_service(event, &mut seen),
                Some(event) = maps.next() => self.note_map(event, &mut seen),
            }
            failed = false;
            let Some(authorities) = seen.due().map(<[u8]>::to_vec) else { continue };
            match self.write(&api, &authorities).await {
                Ok(()) => seen.named = Some(authorities),
                Err(error) => {
                    tracing::warn!(
                        error,
                        api_service = self.name(),
                        "caBundle of the APIService not written"
                    );
                    failed = true;
                }
            }
        }
    }

    fn note_service(&self, event: watcher::Result<Event<APIService>>, seen: &mut Seen) {
        match event {
            Ok(Event::Apply(service) | Event::InitApply(service)) => {
                let bundle = service.spec.and_then(|spec| spec.ca_bundle);
                seen.named = Some(bundle.unwrap_or_default().0);
            }
            Ok(Event::Init) => seen.named = None,
            Ok(Event::InitDone) if seen.named.is_some() => {}
            Ok(Event::InitDone | Event::Delete(_)) => {
                seen.named = None;
                let name = self.name();
                tracing::warn!(
                    "APIService {name} does not exist: apply the manifests again to serve its kinds"
                );
            }
            Err(error) => tracing::warn!(%error, "watching APIService {}", self.name()),
        }
    }

    fn note_map(&self, event: watcher::Result<Event<ConfigMap>>, seen: &mut Seen) {
        match event {
            Ok(Event::Apply(map) | Event::InitApply(map)) => {
                let pem = map.data.and_then(|mut data| data.remove(AUTHORITIES_KEY)).unwrap_or_default();
                if pem.is_empty() {
                    let (namespace, name) = (&self.namespace, &self.authorities);
                    tracing::warn!("ConfigMap {namespace}/{name} has no {AUTHORITIES_KEY}");
                } else {
                    seen.published = Some(pem.into_bytes());
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "watching ConfigMap {}/{}", self.namespace, self.authorities);
            }
        }
    }

    /// Writes nothing but the authorities. An APIService that is gone is not made: the apply is no whole object.
    async fn write(&self, api: &Api<APIService>, authorities: &[u8]) -> Result<(), String> {
        let patch = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": self.name() },
            "spec": { "caBundle": ByteString(authorities.to_vec()) },
        });
        let params = PatchParams::apply(self.field_manager).force();
        let written = bounded(api.patch(&self.name(), &params, &Patch::Apply(patch))).await;
        written.map_err(|error| api_text(&error))?;
        tracing::info!(api_service = self.name(), "caBundle of the APIService written");
        Ok(())
    }
}
