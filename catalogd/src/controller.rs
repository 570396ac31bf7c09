//! The ClusterCatalog controller: every replica holds what the catalogs' statuses say, the leader says it.
//!
//! Observe, decide, act, report: [`decide`] says whether the source has to be looked at, [`crate::status`]
//! what the status is to say, and the rest performs it. Followers ingest exactly the digest in
//! `status.resolvedSource` and write nothing. What is held is kept by digest, so that a restart needs no
//! pull and a look that finds the same digest ingests nothing.

mod decide;
mod events;
mod fetch;
mod write;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use olm_api::{
    names::DELETE_SERVER_CACHE_FINALIZER,
    v1::{AvailabilityMode, ClusterCatalog, ClusterCatalogStatus},
};
use olm_runtime::{Next, PANIC_REPORT};
use tokio::sync::{Semaphore, watch};

use crate::{
    CatalogSource, CatalogStore, CatalogdError, Clock, Generation, Pinned, Resolution,
    limits::CONCURRENT_INGESTS,
    status::{Facts, Outcome, Served, status},
};
use decide::{Look, decide};
use events::Events;
use fetch::Told;

/// Everything a reconcile needs.
pub(crate) struct Reconciler {
    pub(crate) api: Api<ClusterCatalog>,
    pub(crate) store: Arc<CatalogStore>,
    pub(crate) source: Arc<dyn CatalogSource>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) leader: watch::Receiver<bool>,
    /// `<scheme>://<host>/catalogs`.
    pub(crate) base_url: String,
    events: Events,
    ingests: Semaphore,
    /// The versions that were written with a failure, by catalog, the last one last: their events are no reason to try
    /// again.
    echoes: Mutex<BTreeMap<String, Vec<String>>>,
    /// Digests whose content was at fault, by catalog: trying again would only fetch the same again.
    refused: Mutex<BTreeMap<String, Refused>>,
}

struct Refused {
    reference: String,
    pinned: Pinned,
    text: String,
    terminal: bool,
}

/// What a look at a source came to.
#[derive(Default)]
struct Looked {
    /// When to look again.
    wait: Option<Duration>,
    /// Digest reference of content that was brought here.
    unpacked: Option<String>,
}

impl Reconciler {
    pub(crate) fn new(
        client: Client,
        store: Arc<CatalogStore>,
        source: Arc<dyn CatalogSource>,
        clock: Arc<dyn Clock>,
        leader: watch::Receiver<bool>,
        base_url: String,
    ) -> Self {
        let ingests = Semaphore::new(CONCURRENT_INGESTS);
        let events = Events::new(client.clone());
        let api = Api::all(client);
        Self {
            api,
            store,
            source,
            clock,
            leader,
            base_url,
            events,
            ingests,
            echoes: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Makes one catalog as its spec says, as far as that is this replica's part.
    pub(crate) async fn reconcile(&self, catalog: &ClusterCatalog) -> Next {
        let name = catalog.name_any();
        if self.is_echo(&name, catalog) {
            return Next::AsPlanned;
        }
        let next = if *self.leader.borrow() {
            self.lead(&name, catalog).await
        } else {
            self.follow(&name, catalog)
                .await
                .map_or_else(|error| Next::Retry(error.to_string()), |()| Next::Await)
        };
        if catalog.metadata.deletion_timestamp.is_none() {
            self.store.set_tried(&name);
        }
        next
    }

    /// Says on the catalog that its reconcile panicked, if that is this replica's part.
    pub(crate) async fn report_panic(&self, catalog: &ClusterCatalog) {
        if !*self.leader.borrow() {
            return;
        }
        let name = catalog.name_any();
        match self.report(&name, catalog, Outcome::Failed { message: PANIC_REPORT, terminal: false }).await {
            Ok(Some(written)) => {
                self.events.failed(catalog, false, PANIC_REPORT).await;
                self.echoes().insert(name, written.resource_version().into_iter().collect());
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(catalog = name, %error, "reporting a panic"),
        }
    }

    async fn follow(&self, name: &str, catalog: &ClusterCatalog) -> Result<(), CatalogdError> {
        if is_gone(catalog) {
            return self.remove(name).await;
        }
        let said = announced(catalog.status.as_ref());
        self.store.announce(name, said.clone());
        let Some((reference, _)) = said else { return Ok(()) };
        if self.store.generation(name).is_none_or(|held| held.reference() != reference) {
            self.ingest(name, &reference, Pinned::Yes, None).await?;
        }
        Ok(())
    }

    async fn lead(&self, name: &str, catalog: &ClusterCatalog) -> Next {
        if is_gone(catalog) {
            return self.retire(name, catalog).await.unwrap_or_else(|error| Next::Retry(error.to_string()));
        }
        let mut catalog = match self.claim(catalog).await {
            Ok(catalog) => catalog,
            Err(error) => return Next::Retry(error.to_string()),
        };
        if self.store.generation(name).is_none() {
            self.store.announce(name, announced(catalog.status.as_ref()));
        }
        let mut versions = Vec::new();
        let looked = self.look(name, &mut catalog, &mut versions).await;
        let next = match &looked {
            Ok(looked) => looked.wait.map_or(Next::Await, Next::After),
            Err(error) if error.is_terminal() => Next::Blocked(error.to_string()),
            Err(error) => Next::Retry(error.to_string()),
        };
        let message = looked.as_ref().err().map(ToString::to_string);
        let outcome = match (&message, &looked) {
            (Some(message), Err(error)) => Outcome::Failed { message, terminal: error.is_terminal() },
            _ => Outcome::Succeeded,
        };
        match self.report(name, &catalog, outcome).await {
            Ok(Some(written)) if message.is_some() => {
                if let (Some(message), Err(error)) = (&message, &looked) {
                    self.events.failed(&catalog, error.is_terminal(), message).await;
                }
                versions.push(written.resource_version().unwrap_or_default());
                self.echoes().insert(name.to_owned(), versions);
                next
            }
            Ok(_) => {
                // After the status: clients wait for that one.
                if let Ok(Looked { unpacked: Some(reference), .. }) = &looked {
                    self.events.unpacked(&catalog, reference).await;
                }
                next
            }
            Err(error) => Next::Retry(error.to_string()),
        }
    }

    /// Removes the content of a catalog that is deleted or not to be available, then lets go of it.
    async fn retire(&self, name: &str, catalog: &ClusterCatalog) -> Result<Next, CatalogdError> {
        let deleted = catalog.metadata.deletion_timestamp.is_some();
        if deleted && !has_finalizer(catalog) {
            self.remove(name).await?;
            return Ok(Next::Await);
        }
        if let Err(error) = self.remove(name).await {
            let message = error.to_string();
            self.report(name, catalog, Outcome::Failed { message: &message, terminal: false }).await?;
            return Err(error);
        }
        let outcome = if deleted { Outcome::Deleted } else { Outcome::Unavailable };
        self.report(name, catalog, outcome).await?;
        self.release(catalog).await?;
        Ok(Next::Await)
    }

    /// Looks at the source if it is time to, and brings its content here.
    /// `catalog` becomes the object as it was last written, `versions` all versions that were.
    async fn look(
        &self,
        name: &str,
        catalog: &mut ClusterCatalog,
        versions: &mut Vec<String>,
    ) -> Result<Looked, CatalogdError> {
        let image = catalog.spec.source.image.clone().ok_or(CatalogdError::NoImage("Image"))?;
        let interval = image.poll_interval_minutes.and_then(|minutes| u64::try_from(minutes).ok());
        let interval = interval.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
        let held = self.store.generation(name);
        let known = self.store.resolution(name);
        let now = self.clock.now();
        let look =
            decide(&image.ref_, interval, held.as_deref().map(Generation::reference), known.as_ref(), now);
        if let Look::Later(wait) = look {
            let wait = wait.map(|wait| jittered(wait, interval, self.clock.random()));
            return Ok(Looked { wait, unpacked: None });
        }
        let mut looked = Looked::default();
        let pinned = if image.ref_.contains('@') { Pinned::Yes } else { Pinned::No };
        let reference = self.source.resolve(&image.ref_).await.map_err(CatalogdError::Pull)?;
        if held.is_none_or(|held| held.reference() != reference) {
            self.ingest(name, &reference, pinned, Some(Told { catalog, versions })).await?;
            looked.unpacked = Some(reference.clone());
        }
        let resolution = Resolution { source: image.ref_.clone(), reference, polled_at: now };
        let (store, owned) = (Arc::clone(&self.store), name.to_owned());
        tokio::task::spawn_blocking(move || store.set_resolution(&owned, &resolution))
            .await?
            .map_err(CatalogdError::Store)?;
        looked.wait = interval.map(|interval| jittered(interval, Some(interval), self.clock.random()));
        Ok(looked)
    }

    async fn remove(&self, name: &str) -> Result<(), CatalogdError> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let (store, name) = (Arc::clone(&self.store), name.to_owned());
        tokio::task::spawn_blocking(move || store.remove(&name)).await?.map_err(CatalogdError::Remove)
    }

    /// Writes the status if it changed; answers the object as it is then, if it did.
    async fn report(
        &self,
        name: &str,
        catalog: &ClusterCatalog,
        outcome: Outcome<'_>,
    ) -> Result<Option<ClusterCatalog>, CatalogdError> {
        let held = self.store.generation(name);
        let image = catalog.spec.source.image.as_ref();
        let known = self.store.resolution(name);
        let served = held.as_deref().map(|held| Served {
            reference: held.reference(),
            unpacked_at: held.unpacked_at(),
            current: image.is_some_and(|image| {
                image.ref_ == held.reference()
                    || known.as_ref().is_some_and(|known| {
                        known.source == image.ref_ && known.reference == held.reference()
                    })
            }),
        });
        let base_url = format!("{}/{name}", self.base_url);
        let facts = Facts { generation: catalog.metadata.generation, served, outcome, base_url: &base_url };
        let before = catalog.status.clone().unwrap_or_default();
        let after = status(&before, &facts, self.clock.now());
        // What the leader holds is what all are to serve.
        if let Some(served) = served {
            self.store.announce(name, Some((served.reference.to_owned(), Some(served.unpacked_at))));
        }
        if after == before { Ok(None) } else { self.write_status(catalog, after).await.map(Some) }
    }

    /// Whether the object is as the last failure left it.
    fn is_echo(&self, name: &str, catalog: &ClusterCatalog) -> bool {
        let mut echoes = self.echoes();
        let Some(versions) = echoes.get(name) else { return false };
        let Some(version) = catalog.metadata.resource_version.as_ref() else { return false };
        let own = versions.iter().position(|own| own == version);
        // After an earlier one of our writes the last one is still to be seen.
        if own.is_none_or(|index| index + 1 == versions.len()) {
            echoes.remove(name);
        }
        own.is_some()
    }

    fn echoes(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Vec<String>>> {
        self.echoes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nothing of the catalog is to be served.
fn is_gone(catalog: &ClusterCatalog) -> bool {
    catalog.metadata.deletion_timestamp.is_some()
        || catalog.spec.availability_mode == AvailabilityMode::Unavailable
}

fn has_finalizer(catalog: &ClusterCatalog) -> bool {
    catalog.finalizers().iter().any(|finalizer| finalizer == DELETE_SERVER_CACHE_FINALIZER)
}

/// What a status says is served.
pub(crate) fn announced(status: Option<&ClusterCatalogStatus>) -> Option<(String, Option<Timestamp>)> {
    let status = status?;
    let reference = status.resolved_source.as_ref()?.image.ref_.clone();
    Some((reference, status.last_unpacked.as_ref().map(|time| time.0)))
}

/// Spreads looks by up to a hundredth of the interval, as the original does.
fn jittered(wait: Duration, interval: Option<Duration>, random: f64) -> Duration {
    wait + interval.unwrap_or_default().mul_f64(0.01 * random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
