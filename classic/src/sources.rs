//! The controller of CatalogSources: reads their content, serves it to the other parts by way of [`Contents`], and reports.
//!
//! Every replica reads the content; the leader alone writes: statuses, images of templates, Services. A source that breaks
//! keeps the content that it had, and no source waits for another one.

mod act;
mod config_maps;
pub(crate) mod content;
mod metrics;
mod pods;
mod reconcile;
mod replicas;
mod servers;
mod shares;
mod version;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use catalogd::{CatalogStore, Fetcher};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        reflector::ObjectRef,
        watcher::{self, Event},
    },
};
use olm_api_classic::{
    CatalogSource,
    names::{CATALOG_SOURCE_LABEL, MANAGED_LABEL, UPDATE_LABEL},
};
use olm_classic_core::source::{
    pod::Settings as PodSettings, service::SLICE_WRITER_LABEL, target::PodPolicy,
};
use olm_image::Puller;
use olm_registry::Proxy;
use olm_runtime::{
    BackoffLimits, Chance, Clock, ControllerMetrics, ControllerSettings, Interests, JobEnded, MemoryBudget,
    ObjectWriter, Source, object_key, on_change, run_controller,
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{Contents, SourceKey, readings::Readings};
use content::FetchJobs;
#[cfg(test)]
pub(crate) use content::OneFile;
pub(crate) use content::{is_of_image, is_of_source, namespace_of, slot};
pub(crate) use metrics::SourceMetrics;
use reconcile::Reconciler;
use replicas::Replicas;
pub(crate) use shares::Shares;

/// Name of the controller in logs and metrics.
pub(crate) const CONTROLLER: &str = "catalogsource";
/// Sources reconciled at the same time; none of them waits for a registry.
const CONCURRENCY: u16 = 4;
/// Memory of ingests that run at the same time.
pub(crate) const INGEST_BYTES: usize = 2 * (64 << 20);
/// How long a process that starts waits for the content of all sources before it reports that it is ready.
const FIRST_READING_MAX: Duration = Duration::from_mins(2);
/// How long failed fetches wait: a registry that is down for a night is found again soon after.
const BACKOFF_MAX: Duration = Duration::from_mins(5);

/// What wakes a CatalogSource besides its own changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    /// This replica leads from now on, there are other credentials, or the version of Kubernetes changed.
    Part,
    /// The job of the source with this key has ended.
    Job(String),
    /// A ConfigMap with content, by namespace and name.
    ConfigMap(String),
    /// An object that belongs to sources of this namespace, by namespace and name.
    Object(String),
}

impl olm_runtime::Interest for Interest {
    fn is_shared(&self) -> bool {
        matches!(self, Self::Part)
    }
}

/// What the administrator has chosen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// The address of this process, where clients of the registry API reach it; without it Services have no endpoints.
    pub(crate) advertised: Option<SocketAddr>,
    /// When images run in Pods.
    pub(crate) pods: PodPolicy,
    /// Images and user of those Pods.
    pub(crate) pod_settings: PodSettings,
    /// The proxy to registry servers.
    pub(crate) proxy: Option<Proxy>,
    /// The namespace of the program.
    pub(crate) system_namespace: String,
    /// Whether the store has ClusterCatalogs too, which are another controller's.
    pub(crate) beside_cluster_catalogs: bool,
}

/// The controller, before it runs.
pub(crate) struct Sources {
    pub(crate) client: Client,
    pub(crate) store: Arc<CatalogStore>,
    pub(crate) contents: Contents,
    pub(crate) readings: Readings,
    /// For ingests.
    pub(crate) memory: MemoryBudget,
    pub(crate) puller: Puller,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Chance,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) source_metrics: SourceMetrics,
    pub(crate) options: Options,
    /// Changes when there are other credentials.
    pub(crate) woken: watch::Receiver<()>,
}

impl Sources {
    /// Runs until `shutdown`. Nothing is written while `leader` is false.
    pub(crate) async fn run(self, leader: watch::Receiver<bool>, shutdown: CancellationToken) {
        let interests = Interests::default();
        let version = version::Version::default();
        let (jobs, visits) = self.jobs(&interests);
        let replicas = Replicas::default();
        let reconciler = self.reconciler((&jobs, visits), &version, &replicas, leader.clone());
        let source = Source::<CatalogSource>::all(self.client.clone(), &self.chance);
        let (known, forgets) = (source.store.clone(), reconciler.clone());
        let source = source.observed(move |object| {
            let key = SourceKey::of(object);
            if known.get(&ObjectRef::new(&key.name).within(&key.namespace)).is_none() {
                forgets.forget(&key);
            }
        });
        // A template without a version would be reported as one that cannot be resolved.
        let source = source.gated(version.known());
        let starting = {
            let (store, known, listed) = (self.store.clone(), source.store.clone(), source.listed());
            let contents = self.contents.clone();
            let has_others = self.options.beside_cluster_catalogs;
            async move {
                listed.await;
                // What cannot be decoded is not reconciled.
                let decoded = known.state().into_iter().filter(|object| object.0.is_ok());
                contents.listed(decoded.map(|object| SourceKey::of(&*object)));
                let exists = move |slot: &str| {
                    let is_other = has_others && !content::is_of_source(slot);
                    is_other
                        || known.state().iter().any(|object| content::slot(&SourceKey::of(&**object)) == slot)
                };
                content::collect(store, exists).await;
                tokio::time::sleep(FIRST_READING_MAX).await;
                contents.give_up();
            }
        };
        let starting = shutdown.run_until_cancelled(starting);
        let settings = ControllerSettings {
            name: CONTROLLER,
            concurrency: CONCURRENCY,
            backoff: BackoffLimits::default(),
            chance: self.chance.clone(),
        };
        let waking = async {
            let waking = self.wake(&interests, &jobs, &version, leader, &shutdown);
            tokio::join!(waking, self.follow_replicas(&replicas, &interests, &shutdown));
        };
        let controller =
            run_controller(settings, source, &interests, self.metrics.clone(), shutdown.clone(), reconciler);
        tokio::join!(controller, waking, starting);
    }

    /// Wakes sources for what changes beside them, until `shutdown`.
    async fn wake(
        &self,
        interests: &Interests<Interest>,
        jobs: &FetchJobs,
        version: &version::Version,
        leader: watch::Receiver<bool>,
        shutdown: &CancellationToken,
    ) {
        let fires = |interest: fn(String) -> Interest| {
            let interests = interests.clone();
            move |key: String| interests.fire(&interest(key))
        };
        tokio::join!(
            on_change(leader, shutdown, || interests.fire(&Interest::Part)),
            on_change(self.woken.clone(), shutdown, || {
                jobs.retry_now();
                interests.fire(&Interest::Part);
            }),
            version.follow(&self.client, shutdown, || interests.fire(&Interest::Part)),
            self.changed::<ConfigMap>(format!("{MANAGED_LABEL}=false"), fires(Interest::ConfigMap), shutdown),
            self.changed::<Service>(format!("{MANAGED_LABEL}=true"), fires(Interest::Object), shutdown),
            self.changed::<EndpointSlice>(
                format!("{SLICE_WRITER_LABEL}=olm-classic"),
                fires(Interest::Object),
                shutdown
            ),
            self.changed::<Pod>(CATALOG_SOURCE_LABEL.to_owned(), fires(Interest::Object), shutdown),
        );
    }

    /// Knows the replicas that the Services of sources lead to, until `shutdown`.
    async fn follow_replicas(
        &self,
        replicas: &Replicas,
        interests: &Interests<Interest>,
        shutdown: &CancellationToken,
    ) {
        let Some(own) = self.options.advertised else { return };
        let changed = || interests.fire(&Interest::Part);
        let namespace = &self.options.system_namespace;
        replicas.follow((&self.client, &self.chance), namespace, own, changed, shutdown).await;
    }

    /// The jobs that fetch images, and those that visit registry servers.
    fn jobs(&self, interests: &Interests<Interest>) -> (FetchJobs, servers::Visits) {
        let fired = interests.clone();
        let ended: JobEnded = Arc::new(move |key: &str| fired.fire(&Interest::Job(key.to_owned())));
        let backoff = BackoffLimits { longest: BACKOFF_MAX, ..BackoffLimits::default() };
        let fetches = FetchJobs::new(ended.clone(), backoff, self.chance.clone());
        (fetches, servers::Visits::new(ended, backoff, self.chance.clone()))
    }

    fn reconciler(
        &self,
        (jobs, visits): (&FetchJobs, servers::Visits),
        version: &version::Version,
        replicas: &Replicas,
        leader: watch::Receiver<bool>,
    ) -> Reconciler {
        let memory = self.memory.clone();
        Reconciler {
            client: self.client.clone(),
            store: self.store.clone(),
            contents: self.contents.clone(),
            readings: self.readings.clone(),
            replicas: replicas.clone(),
            puller: self.puller.clone(),
            servers: Arc::new(servers::Servers::new(
                self.store.clone(),
                self.puller.clone(),
                self.options.proxy.clone(),
                self.clock.clone(),
                memory.clone(),
            )),
            fetcher: Arc::new(Fetcher::new(self.store.clone(), self.clock.clone(), memory)),
            jobs: jobs.clone(),
            visits,
            failed_polls: Arc::default(),
            objects: Arc::new(ObjectWriter::namespaced(
                self.client.clone(),
                act::FIELD_MANAGER,
                self.clock.clone(),
            )),
            clock: self.clock.clone(),
            chance: self.chance.clone(),
            version: version.clone(),
            metrics: self.source_metrics.clone(),
            options: self.options.clone(),
            leader,
        }
    }

    /// Calls `fire` with the key of every object with a label that changes, until `shutdown`.
    async fn changed<K>(&self, labels: String, fire: impl Fn(String), shutdown: &CancellationToken)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        let api = Api::<PartialObjectMeta<K>>::all(self.client.clone());
        let config = watcher::Config::default().labels(&labels);
        let mut events = std::pin::pin!(self.chance.watch(api, config));
        while let Some(Some(event)) = shutdown.run_until_cancelled(events.next()).await {
            match event {
                Ok(Event::Apply(object) | Event::Delete(object) | Event::InitApply(object)) => {
                    fire(object_key(&object));
                    // A Pod's name is made up: it belongs to the source that a label names.
                    for source in [CATALOG_SOURCE_LABEL, UPDATE_LABEL]
                        .iter()
                        .filter_map(|label| object.labels().get(*label))
                    {
                        fire(format!("{}/{source}", object.namespace().unwrap_or_default()));
                    }
                }
                Ok(Event::Init | Event::InitDone) => {}
                Err(error) => tracing::debug!(%error, "watch interrupted"),
            }
        }
    }
}

impl SourceKey {
    /// The key of an object.
    pub(crate) fn of(object: &impl Resource) -> Self {
        Self { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }
}

/// A time of the API, in whole seconds.
pub(crate) fn now(clock: &Arc<dyn Clock>) -> Timestamp {
    let now = clock.now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
