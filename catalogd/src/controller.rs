//! The ClusterCatalog controller: every replica holds the content that the catalogs' statuses name, the leader writes
//! the statuses.
//!
//! Observe, decide, act, report: [`decide`] decides whether the source has to be checked, [`crate::status`] computes
//! the status, and the rest performs it. Jobs ([`fetch`]) resolve references and ingest content, so that no catalog
//! waits for the registry of another one. Followers ingest exactly the digest in `status.resolvedSource` and write
//! nothing. Content is kept by digest: a restart needs no pull, and a check that finds the same digest ingests
//! nothing.

mod decide;
mod fetch;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Client, Resource, ResourceExt, api::ObjectMeta};
use olm_api::{
    ConditionType,
    names::{CATALOG_NAME_LABEL, CATALOGD_FIELD_MANAGER, DELETE_SERVER_CACHE_FINALIZER},
    v1::{AvailabilityMode, ClusterCatalog, ClusterCatalogStatus},
};
use olm_runtime::{Clock, EventPublisher, Job, MemoryBudget, Next, ObjectWriter, PANIC_REPORT, Reconciler};
use tokio::sync::watch;

use crate::{
    CatalogSource, CatalogStore, CatalogdError, Generation, Interest,
    status::{Facts, Outcome, Served, status},
};
use decide::{Check, decide, poll_interval};
pub use fetch::{FetchJobs, Fetched, Fetcher, Pulling, in_progress};

/// Longest value of a label.
const LABEL_BYTES_MAX: usize = 63;

/// Everything a reconcile needs.
pub(crate) struct CatalogReconciler {
    pub(crate) store: Arc<CatalogStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) leader: watch::Receiver<bool>,
    /// `<scheme>://<host>/catalogs`.
    pub(crate) base_url: String,
    events: EventPublisher,
    fetcher: Arc<Fetcher>,
    source: Arc<dyn CatalogSource>,
    jobs: FetchJobs,
    objects: ObjectWriter<ClusterCatalog>,
}

/// The state of a catalog's content.
enum Observed {
    /// The content of the source is here.
    Settled {
        /// Time until the next check.
        wait: Option<Duration>,
        /// Digest reference of content that was ingested just now.
        unpacked: Option<String>,
    },
    /// A job fetches it.
    Pulling {
        /// Progress, once there is some to report.
        message: Option<String>,
        /// Time until progress is reported again.
        again: Duration,
    },
    /// It cannot be fetched now.
    Failed { error: Arc<CatalogdError>, next: Next },
}

impl From<CatalogdError> for Observed {
    fn from(error: CatalogdError) -> Self {
        let text = error.to_string();
        let next = if error.is_terminal() { Next::Blocked(text) } else { Next::Retry(text) };
        Self::Failed { error: Arc::new(error), next }
    }
}

impl Reconciler for CatalogReconciler {
    type Object = ClusterCatalog;
    type Interest = Interest;

    const CONDITION: &'static str = ConditionType::Serving.as_str();

    fn state(catalog: &ClusterCatalog) -> Option<(&str, &str)> {
        catalog.status.as_ref()?.conditions.state(ConditionType::Serving)
    }

    /// As far as that is this replica's part.
    async fn reconcile(&self, catalog: &ClusterCatalog) -> (Next, BTreeSet<Interest>) {
        let interests = [Interest::Part, Interest::Job(catalog.name_any())];
        (self.next(catalog).await, interests.into())
    }

    /// As far as that is this replica's part.
    async fn report_panic(&self, catalog: &ClusterCatalog) {
        if !*self.leader.borrow() {
            return;
        }
        let outcome = Outcome::Failed { message: PANIC_REPORT, terminal: false, advice: None };
        match self.report(&catalog.name_any(), catalog, outcome).await {
            Ok(Some(_)) => self.warn(catalog, false, PANIC_REPORT).await,
            Ok(None) => {}
            Err(error) => tracing::warn!(catalog = catalog.name_any(), %error, "reporting a panic"),
        }
    }
}

impl CatalogReconciler {
    pub(crate) fn new(
        client: Client,
        store: Arc<CatalogStore>,
        (source, memory): (Arc<dyn CatalogSource>, MemoryBudget),
        clock: Arc<dyn Clock>,
        leader: watch::Receiver<bool>,
        base_url: String,
        jobs: FetchJobs,
    ) -> Self {
        let events = EventPublisher::new(client.clone(), "catalogd", None);
        let fetcher = Arc::new(Fetcher::new(Arc::clone(&store), Arc::clone(&clock), memory));
        let objects = ObjectWriter::new(client, CATALOGD_FIELD_MANAGER, Arc::clone(&clock));
        Self { store, clock, leader, base_url, events, fetcher, source, jobs, objects }
    }

    async fn next(&self, catalog: &ClusterCatalog) -> Next {
        let name = catalog.name_any();
        if let Some(left) = self.objects.behind(catalog) {
            return Next::After(left);
        }
        let next = if *self.leader.borrow() {
            self.lead(&name, catalog).await
        } else {
            self.follow(&name, catalog).await.unwrap_or_else(|error| Next::Retry(error.to_string()))
        };
        if catalog.metadata.deletion_timestamp.is_none() && !self.jobs.is_running(&name) {
            self.store.set_tried(&name);
        }
        next
    }

    async fn follow(&self, name: &str, catalog: &ClusterCatalog) -> Result<Next, CatalogdError> {
        if is_gone(catalog) {
            self.remove(name).await?;
            return Ok(Next::Await);
        }
        let served = announced(catalog.status.as_ref());
        self.store.announce(name, served.clone());
        let wanted = served
            .map(|(reference, _)| reference)
            .filter(|reference| self.store.generation(name).is_none_or(|held| held.reference() != reference));
        let Some(reference) = wanted else {
            self.jobs.release(name);
            return Ok(Next::Await);
        };
        Ok(match self.fetch(name, &reference) {
            Job::Failed { error, wait, is_new: true } => Next::RetryAfter(error.to_string(), wait),
            Job::Failed { wait, .. } => Next::After(wait),
            Job::Running { .. } | Job::Done(_) => Next::Await,
        })
    }

    async fn lead(&self, name: &str, catalog: &ClusterCatalog) -> Next {
        if is_gone(catalog) {
            return self.retire(name, catalog).await.unwrap_or_else(|error| Next::Retry(error.to_string()));
        }
        let claimed = match self.claim(catalog).await {
            Ok(claimed) => claimed,
            Err(error) => return Next::Retry(error.to_string()),
        };
        let catalog = claimed.as_ref().unwrap_or(catalog);
        if self.store.generation(name).is_none() {
            self.store.announce(name, announced(catalog.status.as_ref()));
        }
        let observed = self.observe(name, catalog).await.unwrap_or_else(Observed::from);
        self.conclude(name, catalog, observed).await.unwrap_or_else(|error| Next::Retry(error.to_string()))
    }

    /// Reports the state of the content.
    async fn conclude(
        &self,
        name: &str,
        catalog: &ClusterCatalog,
        observed: Observed,
    ) -> Result<Next, CatalogdError> {
        match observed {
            Observed::Settled { wait, unpacked } => {
                self.report(name, catalog, Outcome::Succeeded).await?;
                // After the status: clients wait for that one.
                if let Some(reference) = unpacked {
                    let note = format!("Serving content of {reference}");
                    self.events.publish(&catalog.object_ref(&()), false, "Unpacked", &note).await;
                }
                Ok(wait.map_or(Next::Await, Next::After))
            }
            Observed::Pulling { message, again } => {
                if let Some(message) = message
                    && self.report(name, catalog, Outcome::Pulling { message: &message }).await?.is_some()
                {
                    let note = format!("Pulling {message}");
                    self.events.publish(&catalog.object_ref(&()), false, "Pulling", &note).await;
                }
                Ok(Next::After(again))
            }
            Observed::Failed { error, next } => {
                let (message, terminal) = (error.to_string(), error.is_terminal());
                let outcome = Outcome::Failed { message: &message, terminal, advice: error.advice() };
                if self.report(name, catalog, outcome).await?.is_some() {
                    self.warn(catalog, terminal, &message).await;
                }
                Ok(next)
            }
        }
    }

    /// Publishes that the catalog cannot be made as its spec says.
    async fn warn(&self, catalog: &ClusterCatalog, terminal: bool, message: &str) {
        let reason = if terminal { "Blocked" } else { "Retrying" };
        self.events.publish(&catalog.object_ref(&()), true, reason, message).await;
    }

    /// Removes the content of a catalog that is deleted or unavailable, then its finalizer.
    async fn retire(&self, name: &str, catalog: &ClusterCatalog) -> Result<Next, CatalogdError> {
        let deleted = catalog.metadata.deletion_timestamp.is_some();
        if deleted && !catalog.finalizers().iter().any(|name| name == DELETE_SERVER_CACHE_FINALIZER) {
            self.remove(name).await?;
            return Ok(Next::Await);
        }
        if let Err(error) = self.remove(name).await {
            let message = error.to_string();
            let outcome = Outcome::Failed { message: &message, terminal: false, advice: None };
            self.report(name, catalog, outcome).await?;
            return Err(error);
        }
        let outcome = if deleted { Outcome::Deleted } else { Outcome::Unavailable };
        let written = self.report(name, catalog, outcome).await?;
        let catalog = written.as_ref().unwrap_or(catalog);
        let released = self.objects.remove_finalizers(catalog, &[DELETE_SERVER_CACHE_FINALIZER]).await;
        released.map_err(CatalogdError::Api)?;
        Ok(Next::Await)
    }

    /// Checks the source if it is time to, and has a job fetch its content.
    async fn observe(&self, name: &str, catalog: &ClusterCatalog) -> Result<Observed, CatalogdError> {
        let image = catalog.spec.source.image.clone().ok_or(CatalogdError::NoImage("Image"))?;
        let interval = poll_interval(image.poll_interval_minutes);
        let held = self.store.generation(name);
        let known = self.store.resolution(name);
        let held = held.as_deref().map(Generation::reference);
        let check = decide(&image.ref_, interval, held, known.as_ref(), self.clock.now());
        if let Check::Later(wait) = check
            && !self.jobs.has(name, &key(name, &image.ref_))
        {
            self.jobs.release(name);
            let wait = wait.map(|wait| jittered(wait, interval, self.clock.random()));
            return Ok(Observed::Settled { wait, unpacked: None });
        }
        let fetched = match self.fetch(name, &image.ref_) {
            Job::Done(fetched) => fetched,
            Job::Running { elapsed, progress, failed } => {
                let (message, again) = in_progress(&image.ref_, elapsed, progress.as_ref(), failed.is_some());
                return Ok(Observed::Pulling { message, again });
            }
            Job::Failed { error, wait, is_new } => {
                let next = match (error.is_terminal(), is_new) {
                    (true, true) => Next::Blocked(error.to_string()),
                    (true, false) => Next::Await,
                    (false, true) => Next::RetryAfter(error.to_string(), wait),
                    (false, false) => Next::After(wait),
                };
                return Ok(Observed::Failed { error, next });
            }
        };
        let unpacked = fetched.is_new.then(|| fetched.resolution.reference.clone());
        let (store, owned) = (Arc::clone(&self.store), name.to_owned());
        tokio::task::spawn_blocking(move || store.set_resolution(&owned, &fetched.resolution))
            .await?
            .map_err(CatalogdError::Store)?;
        let wait = interval.map(|interval| jittered(interval, Some(interval), self.clock.random()));
        Ok(Observed::Settled { wait, unpacked })
    }

    /// The state of the job that fetches a catalog's content from `source`.
    fn fetch(&self, name: &str, source: &str) -> Job<Fetched, Pulling, CatalogdError> {
        self.jobs.request(name, &key(name, source), |context| {
            let (fetcher, registry) = (Arc::clone(&self.fetcher), Arc::clone(&self.source));
            fetcher.fetch(name.to_owned(), source.to_owned(), registry, context)
        })
    }

    async fn remove(&self, name: &str) -> Result<(), CatalogdError> {
        // First: a job must not install content after the removal.
        self.jobs.release(name);
        self.fetcher.forget(name);
        let (store, name) = (Arc::clone(&self.store), name.to_owned());
        tokio::task::spawn_blocking(move || store.remove(&name)).await?.map_err(CatalogdError::Remove)
    }

    /// Writes the status if it changed; returns the catalog after that.
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
        // All replicas serve the leader's content, with the same time.
        if served.is_some() {
            self.store.announce(name, announced(Some(&after)));
        }
        let written = self.objects.set_status(catalog, after).await;
        written.map_err(|error| CatalogdError::Api(format!("writing status: {error}")))
    }

    /// Gives the catalog our finalizer and the label of its name.
    async fn claim(&self, catalog: &ClusterCatalog) -> Result<Option<ClusterCatalog>, CatalogdError> {
        let name = catalog.name_any();
        let label = |meta: &mut ObjectMeta| {
            // Label values are shorter than names may be; such a catalog is selected by other labels.
            if name.len() <= LABEL_BYTES_MAX {
                meta.labels.get_or_insert_default().insert(CATALOG_NAME_LABEL.to_owned(), name.clone());
            }
        };
        let claimed = self.objects.add_finalizers(catalog, &[DELETE_SERVER_CACHE_FINALIZER], label).await;
        claimed.map_err(CatalogdError::Api)
    }
}

/// The key of the job that fetches a catalog's content from a source.
fn key(name: &str, source: &str) -> String {
    format!("{name} {source}")
}

/// Whether the catalog is not to be served.
fn is_gone(catalog: &ClusterCatalog) -> bool {
    catalog.metadata.deletion_timestamp.is_some()
        || catalog.spec.availability_mode == AvailabilityMode::Unavailable
}

/// The content that a status names, with the time of its unpacking.
pub(crate) fn announced(status: Option<&ClusterCatalogStatus>) -> Option<(String, Option<Timestamp>)> {
    let status = status?;
    let reference = status.resolved_source.as_ref()?.image.ref_.clone();
    Some((reference, status.last_unpacked.as_ref().map(|time| time.0)))
}

/// Delays a check by up to a hundredth of the interval, as upstream.
fn jittered(wait: Duration, interval: Option<Duration>, random: f64) -> Duration {
    wait + interval.unwrap_or_default().mul_f64(0.01 * random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
