//! Removes content that belongs to no catalog: of catalogs deleted while this replica was away, or never
//! finished by a killed process.

use std::{sync::Arc, time::Duration};

use kube::{
    ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use olm_api::v1::ClusterCatalog;
use olm_runtime::Guarded;
use tokio_util::sync::CancellationToken;

use crate::{CatalogStore, controller::announced, is_catalog_name};

/// Collects once the catalogs are known, then every `interval`, until `shutdown`.
pub(crate) async fn run(
    catalogs: Store<Guarded<ClusterCatalog>>,
    store: Arc<CatalogStore>,
    interval: Duration,
    shutdown: CancellationToken,
) {
    tokio::select! {
        () = shutdown.cancelled() => return,
        ready = catalogs.wait_until_ready() => if ready.is_err() { return },
    }
    for catalog in catalogs.state() {
        if let Ok(catalog) = &catalog.0
            && store.generation(&catalog.name_any()).is_none()
        {
            store.announce(&catalog.name_any(), announced(catalog.status.as_ref()));
        }
    }
    store.set_synced();
    loop {
        collect(&catalogs, &store).await;
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

async fn collect(catalogs: &Store<Guarded<ClusterCatalog>>, store: &Arc<CatalogStore>) {
    let (store, catalogs) = (Arc::clone(store), catalogs.clone());
    let exists = move |name: &str| !is_catalog_name(name) || catalogs.get(&ObjectRef::new(name)).is_some();
    match tokio::task::spawn_blocking(move || store.retain(exists)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "collecting content that belongs to no catalog"),
        Err(error) => tracing::error!(%error, "collecting content that belongs to no catalog"),
    }
}
