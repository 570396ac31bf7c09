//! Where the content of catalogs comes from: catalogd in this process, or one that runs on its own.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use catalogd::{
    CatalogChanged, CatalogDirectory, CatalogReader, Catalogd, HttpReader, RemoteCatalog, StoreError, Trust,
};
use kube::{
    Client, ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use olm_api::v1::ClusterCatalog;
use olm_image::DiskBudget;
use olm_runtime::{Guarded, SystemClock};
use tokio::{
    sync::{Mutex, broadcast, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// How often what could not be fetched is tried again, and folders with authorities are looked at.
const TICK: Duration = Duration::from_secs(5);
/// How often the published authority is read again while all is well.
const PUBLISHED_AGAIN: Duration = Duration::from_mins(10);

/// Names of changed catalogs that wait to be looked at.
const CHANGES: usize = 1024;

type Known = Store<Guarded<ClusterCatalog>>;

/// Where a catalogd on its own is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteCatalogd {
    /// Its address, `host[:port]`.
    pub address: String,
    /// Whose certificates it is trusted by.
    pub trust: Trust,
}

/// Where the content of catalogs comes from.
#[derive(Clone)]
pub(crate) enum Content {
    /// catalogd in this process.
    Embedded(Box<Catalogd>),
    /// A catalogd on its own.
    Remote(Remote),
    /// What a test gives.
    #[cfg(test)]
    Given(Arc<dyn CatalogReader>, broadcast::Sender<CatalogChanged>),
}

impl Content {
    pub(crate) fn reader(&self) -> Arc<dyn CatalogReader> {
        match self {
            Self::Embedded(catalogd) => Arc::new(catalogd.reader()),
            Self::Remote(remote) => remote.reader.clone(),
            #[cfg(test)]
            Self::Given(reader, _) => reader.clone(),
        }
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<CatalogChanged> {
        match self {
            Self::Embedded(catalogd) => catalogd.changes(),
            Self::Remote(remote) => remote.reader.store().changes(),
            #[cfg(test)]
            Self::Given(_, changes) => changes.subscribe(),
        }
    }

    /// A catalog has changed: the copy of a separate catalogd's content may be out of date.
    pub(crate) fn catalog_changed(&self, name: &str) {
        if let Self::Remote(remote) = self {
            // A full channel is made up for by the next look.
            let _ = remote.changed.try_send(name.to_owned());
        }
    }

    /// Tries again what failed for want of credentials.
    pub(crate) fn wake(&self) {
        if let Self::Embedded(catalogd) = self {
            catalogd.wake();
        }
    }

    /// Whether this replica may be sent requests.
    pub(crate) fn ready(&self) -> Result<(), String> {
        if let Self::Embedded(catalogd) = self { catalogd.ready() } else { Ok(()) }
    }

    /// Keeps the copies of a separate catalogd's content current.
    pub(crate) async fn follow(&self, known: Known, stop: CancellationToken) {
        if let Self::Remote(remote) = self {
            remote.follow(known, stop).await;
        } else {
            // That of this process follows by itself, on every replica.
            stop.cancelled().await;
        }
    }
}

/// The content of a catalogd on its own.
#[derive(Clone)]
pub(crate) struct Remote {
    trust: Trust,
    cluster: Client,
    directory: Arc<Directory>,
    reader: Arc<HttpReader>,
    /// Names of catalogs that changed.
    changed: mpsc::Sender<String>,
    changes: Arc<Mutex<mpsc::Receiver<String>>>,
}

impl Remote {
    /// Keeps copies below `cache_dir`.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub(crate) fn new(
        settings: &RemoteCatalogd,
        cluster: Client,
        cache_dir: &Path,
        disk: DiskBudget,
    ) -> Result<Self, StoreError> {
        let directory = Arc::new(Directory { address: settings.address.clone(), known: OnceLock::default() });
        let reader = HttpReader::new(directory.clone(), Arc::new(SystemClock), cache_dir, disk)?;
        let (changed, names) = mpsc::channel(CHANGES);
        Ok(Self {
            trust: settings.trust.clone(),
            cluster,
            directory,
            reader: Arc::new(reader),
            changed,
            changes: Arc::new(Mutex::new(names)),
        })
    }

    async fn follow(&self, known: Known, stop: CancellationToken) {
        let mut changes = self.changes.lock().await;
        // Once in the life of a process: a process that loses leadership ends.
        let _ = self.directory.known.set(known.clone());
        tokio::select! {
            () = stop.cancelled() => return,
            ready = known.wait_until_ready() => if ready.is_err() { return },
        }
        let mut trusted = None;
        let mut read_again = Instant::now();
        let mut tick = tokio::time::interval(TICK);
        loop {
            let one = tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => None,
                Some(name) = changes.recv() => Some(name),
            };
            if matches!(self.trust, Trust::Folder(_)) || trusted.is_none() || read_again <= Instant::now() {
                self.renew_trust(&mut trusted).await;
                read_again = Instant::now() + PUBLISHED_AGAIN;
            }
            let names = match one {
                Some(name) => vec![name],
                None => known.state().iter().map(|catalog| catalog.name_any()).collect(),
            };
            for name in names {
                if let Err(error) = self.reader.refresh(&name).await {
                    tracing::debug!(catalog = name, error, "catalog content is not here yet");
                    // Perhaps catalogd has another authority by now.
                    read_again = Instant::now();
                }
            }
            self.drop_copies(&known);
        }
    }

    async fn renew_trust(&self, trusted: &mut Option<[u8; 32]>) {
        match self.trust.load(&self.cluster).await {
            Ok((_, digest)) if *trusted == Some(digest) => {}
            Ok((client, digest)) => {
                tracing::info!("authorities of catalogd read");
                *trusted = Some(digest);
                self.reader.set_client(Ok(client));
            }
            // What was trusted before goes on to be.
            Err(error) if trusted.is_some() => tracing::warn!(%error, "keeping the authorities of catalogd"),
            Err(error) => {
                tracing::warn!(%error, "catalogs cannot be read yet");
                self.reader.set_client(Err(error.to_string()));
            }
        }
    }

    /// Removes copies of catalogs that are gone.
    fn drop_copies(&self, known: &Known) {
        for catalog in self.reader.store().catalogs() {
            if known.get(&ObjectRef::new(&catalog)).is_none()
                && let Err(error) = self.reader.store().remove(&catalog)
            {
                tracing::warn!(catalog, %error, "removing the copy of a catalog that is gone");
            }
        }
    }
}

/// The catalogs' statuses, read at one address.
struct Directory {
    address: String,
    known: OnceLock<Known>,
}

impl CatalogDirectory for Directory {
    fn find(&self, catalog: &str) -> Option<RemoteCatalog> {
        let found = self.known.get()?.get(&ObjectRef::new(catalog))?;
        let status = found.0.as_ref().ok()?.status.as_ref()?;
        let reference = status.resolved_source.as_ref()?.image.ref_.clone();
        Some(RemoteCatalog { base_url: format!("https://{}/catalogs/{catalog}", self.address), reference })
    }
}
