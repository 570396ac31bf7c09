//! The role *olm*: the controllers of ClusterServiceVersions and OperatorGroups, which read each other's objects.
//!
//! Both run on the leader alone. What they watch beside their own objects only wakes them: it is read when a row of the
//! state machine needs it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{
        reflector::{ObjectRef, Store},
        watcher::{self, Event},
    },
};
use olm_api_classic::{
    ClusterServiceVersion, OperatorCondition, OperatorGroup,
    names::{OWNER_KIND_LABEL, PROVIDED_APIS_ANNOTATION},
};
use olm_runtime::{
    Accounts, BackoffLimits, Chance, Clock, ControllerMetrics, ControllerSettings, EventPublisher, Interests,
    ObjectWriter, Source, object_key, on_change, run_controller,
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster_service_versions::{self, CsvMetrics},
    operator_groups,
};

/// Field manager of all writes.
pub(crate) const FIELD_MANAGER: &str = "olm-classic";
/// Objects reconciled at the same time, of each kind.
const CONCURRENCY: u16 = 4;

/// What wakes an operator or a group besides its own changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    /// This replica leads from now on.
    Part,
    /// A ClusterServiceVersion of this namespace.
    Csvs(String),
    /// An OperatorGroup of this namespace.
    Groups(String),
    /// The namespaces or APIs of any OperatorGroup.
    Intersections,
    /// The labels of a namespace.
    Namespaces,
    /// An object of an operator, or an OperatorCondition, by namespace and name.
    Object(String),
    /// A ServiceAccount, Role or RoleBinding of this namespace.
    Permissions(String),
    /// A ClusterRoleBinding.
    ClusterPermissions,
    /// A CustomResourceDefinition or an APIService, by name.
    Definition(String),
}

impl olm_runtime::Interest for Interest {
    fn is_shared(&self) -> bool {
        !matches!(self, Self::Object(_))
    }
}

/// A store of objects; those that do not parse are left out.
pub(crate) type Objects<K> = Store<DeserializeGuard<K>>;

/// The objects of a store in a namespace.
pub(crate) fn within<K>(store: &Objects<K>, namespace: &str) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let all = store.state();
    let parsed = all.iter().filter_map(|object| object.0.as_ref().ok());
    let mut found: Vec<K> =
        parsed.filter(|object| object.meta().namespace.as_deref() == Some(namespace)).cloned().collect();
    found.sort_by_key(ResourceExt::name_any);
    found
}

/// The objects of a store.
pub(crate) fn all<K: Resource<DynamicType = ()> + Clone + 'static>(store: &Objects<K>) -> Vec<K> {
    store.state().iter().filter_map(|object| object.0.as_ref().ok().cloned()).collect()
}

/// Both controllers, before they run.
pub(crate) struct Operators {
    pub(crate) client: Client,
    pub(crate) accounts: Accounts,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Chance,
    pub(crate) events: EventPublisher,
    pub(crate) csv_metrics: CsvMetrics,
    pub(crate) metrics_of_csvs: ControllerMetrics,
    pub(crate) metrics_of_groups: ControllerMetrics,
}

impl Operators {
    /// Runs until `shutdown`. Nothing is written while `leader` is false.
    pub(crate) async fn run(self, leader: watch::Receiver<bool>, shutdown: CancellationToken) {
        let interests = Interests::default();
        let (csvs, groups) = self.sources(&interests);
        let gone = Arc::new(Notify::new());
        let groups = {
            let (store, gone) = (groups.store.clone(), gone.clone());
            groups.observed(move |group: &OperatorGroup| {
                let namespace = group.namespace().unwrap_or_default();
                if store.get(&ObjectRef::new(&group.name_any()).within(&namespace)).is_none() {
                    gone.notify_one();
                }
            })
        };
        let namespaces = Source::<Namespace>::all(self.client.clone(), &self.chance);
        let names = namespaces.store.clone();
        let listed = {
            let (groups, csvs, namespaces) = (groups.listed(), csvs.listed(), namespaces.listed());
            async move { tokio::join!(groups, csvs, namespaces) }
        };
        let both = futures::FutureExt::shared(async move {
            listed.await;
        });
        let (csvs, groups) = (csvs.gated(both.clone()), groups.gated(both.clone()));
        let group_reconciler = operator_groups::Reconciler {
            client: self.client.clone(),
            groups: groups.store.clone(),
            csvs: csvs.store.clone(),
            namespaces: names,
            objects: Arc::new(self.writer()),
            clock: self.clock.clone(),
            leader: leader.clone(),
        };
        let csv_reconciler = cluster_service_versions::Reconciler {
            client: self.client.clone(),
            accounts: self.accounts.clone(),
            groups: groups.store.clone(),
            csvs: csvs.store.clone(),
            objects: Arc::new(self.writer()),
            conditions: Arc::new(self.writer()),
            clock: self.clock.clone(),
            events: self.events.clone(),
            metrics: self.csv_metrics.clone(),
            failed: Arc::default(),
            ensured: Arc::default(),
            leader: leader.clone(),
        };
        let sweeper = group_reconciler.clone();
        let token = || shutdown.clone();
        tokio::join!(
            run_controller(
                settings("operatorgroup", &self.chance),
                groups,
                &interests,
                self.metrics_of_groups.clone(),
                token(),
                group_reconciler
            ),
            run_controller(
                settings("clusterserviceversion", &self.chance),
                csvs,
                &interests,
                self.metrics_of_csvs.clone(),
                token(),
                csv_reconciler
            ),
            sweeper.sweep(both, gone, token()),
            self.follow(namespaces, &interests, &shutdown),
            self.wake(&interests, leader, &shutdown),
        );
    }

    fn writer<K>(&self) -> ObjectWriter<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + 'static,
    {
        ObjectWriter::namespaced(self.client.clone(), FIELD_MANAGER, self.clock.clone())
    }

    /// The watched kinds. Their changes wake the objects of their namespace.
    fn sources(
        &self,
        interests: &Interests<Interest>,
    ) -> (Source<ClusterServiceVersion>, Source<OperatorGroup>) {
        let csvs = Source::<ClusterServiceVersion>::all(self.client.clone(), &self.chance);
        let (fired, metrics, store) = (interests.clone(), self.csv_metrics.clone(), csvs.store.clone());
        let csvs = csvs.observed(move |csv| {
            let namespace = csv.namespace().unwrap_or_default();
            let exists = store.get(&ObjectRef::new(&csv.name_any()).within(&namespace)).is_some();
            metrics.set(csv, exists);
            fired.fire(&Interest::Csvs(namespace));
        });
        let groups = Source::<OperatorGroup>::all(self.client.clone(), &self.chance);
        let (fired, known) = (interests.clone(), Mutex::new(BTreeMap::new()));
        let groups = groups.observed(move |group| {
            fired.fire(&Interest::Groups(group.namespace().unwrap_or_default()));
            let provided = group.annotations().get(PROVIDED_APIS_ANNOTATION).cloned();
            let reach = group.status.as_ref().map(|status| status.namespaces.clone());
            let is_gone = group.metadata.deletion_timestamp.is_some();
            let state = Some((provided, reach, is_gone));
            if known.lock().insert(object_key(group), state.clone()) != Some(state) {
                fired.fire(&Interest::Intersections);
            }
        });
        (csvs, groups)
    }

    async fn follow(
        &self,
        namespaces: Source<Namespace>,
        interests: &Interests<Interest>,
        shutdown: &CancellationToken,
    ) {
        let mut names = namespaces.into_names();
        while let Some(Some(_)) = shutdown.run_until_cancelled(names.next()).await {
            interests.fire(&Interest::Namespaces);
        }
    }

    /// Wakes objects for what changes beside them, until `shutdown`.
    async fn wake(
        &self,
        interests: &Interests<Interest>,
        leader: watch::Receiver<bool>,
        shutdown: &CancellationToken,
    ) {
        let namespaced = |interest: fn(String) -> Interest| {
            let interests = interests.clone();
            move |namespace: String, _: String| interests.fire(&interest(namespace))
        };
        let object = || {
            let interests = interests.clone();
            move |namespace: String, name: String| {
                interests.fire(&Interest::Object(format!("{namespace}/{name}")));
            }
        };
        let definition = || {
            let interests = interests.clone();
            move |_: String, name: String| interests.fire(&Interest::Definition(name))
        };
        let cluster = |_: String, _: String| interests.fire(&Interest::ClusterPermissions);
        let of_operators = format!("{OWNER_KIND_LABEL}=ClusterServiceVersion");
        tokio::join!(
            on_change(leader, shutdown, || interests.fire(&Interest::Part)),
            self.changed::<Deployment>(&of_operators, object(), shutdown),
            self.changed::<OperatorCondition>("", object(), shutdown),
            self.changed::<ServiceAccount>("", namespaced(Interest::Permissions), shutdown),
            self.changed::<Role>("", namespaced(Interest::Permissions), shutdown),
            self.changed::<RoleBinding>("", namespaced(Interest::Permissions), shutdown),
            self.changed::<ClusterRoleBinding>("", cluster, shutdown),
            self.changed::<CustomResourceDefinition>("", definition(), shutdown),
            self.changed::<APIService>("", definition(), shutdown),
        );
    }

    /// Calls `fire` with namespace and name of every object with a label that changes, until `shutdown`.
    async fn changed<K>(&self, labels: &str, fire: impl Fn(String, String), shutdown: &CancellationToken)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let api = Api::<PartialObjectMeta<K>>::all(self.client.clone());
        let config = watcher::Config::default().labels(labels);
        let mut events = std::pin::pin!(self.chance.watch(api, config));
        // What goes while the watch is interrupted is missing from the next list.
        let (mut known, mut listed) = (BTreeSet::new(), BTreeSet::new());
        let key = |object: &PartialObjectMeta<K>| (object.namespace().unwrap_or_default(), object.name_any());
        while let Some(Some(event)) = shutdown.run_until_cancelled(events.next()).await {
            match event {
                Ok(Event::Apply(object)) => {
                    let (namespace, name) = key(&object);
                    known.insert((namespace.clone(), name.clone()));
                    fire(namespace, name);
                }
                Ok(Event::Delete(object)) => {
                    let key = key(&object);
                    known.remove(&key);
                    fire(key.0, key.1);
                }
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(key(&object));
                }
                Ok(Event::InitDone) => {
                    known.extend(listed.iter().cloned());
                    for (namespace, name) in &known {
                        fire(namespace.clone(), name.clone());
                    }
                    known = std::mem::take(&mut listed);
                }
                Err(error) => tracing::debug!(%error, "watch interrupted"),
            }
        }
    }
}

fn settings(name: &'static str, chance: &Chance) -> ControllerSettings {
    ControllerSettings {
        name,
        concurrency: CONCURRENCY,
        backoff: BackoffLimits::default(),
        chance: chance.clone(),
    }
}
