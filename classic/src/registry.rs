//! The registry API over the contents of CatalogSources: one server for all, which knows the catalog of a request by
//! the Service of its source.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catalogd::RegistryContent;
use olm_registry::{RegistryServer, Sources, service_of};
use olm_runtime::{HttpError, Process, listen};
use parking_lot::RwLock;
use tokio::sync::{broadcast::error::RecvError, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    Content, Contents, SourceKey,
    readings::{Catalog, Readings},
    sources::slot,
};

/// The catalogs that the server answers for.
#[derive(Debug, Default)]
pub(crate) struct Catalogs {
    /// By CatalogSource.
    known: RwLock<BTreeMap<SourceKey, Arc<Catalog>>>,
    changes: watch::Sender<()>,
}

impl Sources for Catalogs {
    type Content = RegistryContent;

    fn catalog(&self, authority: &str) -> Option<Arc<Catalog>> {
        let (service, namespace) = service_of(authority)?;
        let catalogs = self.known.read();
        let mut found = catalogs.iter().filter(|(key, _)| key.namespace == namespace);
        // A Service has no dots in its name.
        found.find(|(key, _)| key.name.replace('.', "-") == service).map(|(_, catalog)| Arc::clone(catalog))
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

/// Starts the server, and what follows the contents. Returns the port of the server.
///
/// # Errors
/// The address cannot be listened on.
pub(crate) fn start(
    process: &mut Process,
    (contents, readings): (Contents, Readings),
    address: &str,
) -> Result<u16, HttpError> {
    let (listener, catalogs) = (listen(address)?, Arc::new(Catalogs::default()));
    let port = listener.local_addr().map_err(HttpError::Serve)?.port();
    let (server, shutdown) = (RegistryServer::new(Arc::clone(&catalogs)), process.shutdown.clone());
    let ended = shutdown.clone();
    process.spawn("the registry API", async move {
        if let Err(error) = olm_registry::serve(listener, server, ended.clone()).await {
            tracing::error!(%error, "the registry API is not served any more");
            ended.cancel();
        }
    });
    process.spawn("the catalogs of the registry API", follow(catalogs, contents, readings, shutdown));
    Ok(port)
}

/// Keeps the catalogs as the contents are, until `shutdown`.
async fn follow(
    catalogs: Arc<Catalogs>,
    contents: Contents,
    readings: Readings,
    shutdown: CancellationToken,
) {
    let mut changes = contents.changes();
    let mut due: BTreeSet<SourceKey> = keys(&contents);
    loop {
        for key in std::mem::take(&mut due) {
            catalogs.take(&key, contents.get(&key), &readings).await;
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            change = changes.recv() => match change {
                Ok(key) => drop(due.insert(key)),
                Err(RecvError::Lagged(_)) => {
                    due = keys(&contents);
                    due.extend(catalogs.known.read().keys().cloned());
                }
                Err(RecvError::Closed) => return,
            },
        }
    }
}

fn keys(contents: &Contents) -> BTreeSet<SourceKey> {
    contents.all().into_iter().map(|(key, _)| key).collect()
}

impl Catalogs {
    fn set(&self, key: &SourceKey, catalog: Option<Arc<Catalog>>) {
        let mut known = self.known.write();
        match catalog {
            Some(catalog) => known.insert(key.clone(), catalog),
            None => known.remove(key),
        };
        drop(known);
        self.changes.send_replace(());
    }

    /// Takes the content of a CatalogSource. What cannot be read replaces nothing.
    async fn take(&self, key: &SourceKey, content: Option<Content>, readings: &Readings) {
        let Some(content) = content else {
            self.set(key, None);
            return;
        };
        let known = self.known.read().get(key).map(|known| Arc::clone(&known.content().0));
        if known.is_some_and(|known| Arc::ptr_eq(&known, &content.generation)) {
            return;
        }
        match read(key, &content, readings).await {
            Ok(catalog) => self.set(key, Some(catalog)),
            Err(problem) => {
                tracing::warn!(catalog_source = %key, problem, "the registry API cannot read the catalog");
            }
        }
    }
}

/// The packages of a catalog, which may have been read already.
async fn read(key: &SourceKey, content: &Content, readings: &Readings) -> Result<Arc<Catalog>, String> {
    let (generation, readings, slot) = (Arc::clone(&content.generation), readings.clone(), slot(key));
    let read = tokio::task::spawn_blocking(move || readings.of(&slot, &generation));
    let catalog = read.await.map_err(|error| error.to_string())??;
    for (package, problem) in catalog.faulty() {
        tracing::warn!(catalog_source = %key, package, problem, "an invalid package is left out of the registry API");
    }
    Ok(catalog)
}

#[cfg(test)]
mod tests;
