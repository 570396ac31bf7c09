//! The role *olm*: the controllers of ClusterServiceVersions, OperatorGroups, Operators and the OLMConfig, which read each
//! other's objects.
//!
//! They run on the leader alone. What they watch beside their own objects only wakes them: it is read when a row of the
//! state machine needs it.

mod watches;

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Namespace,
    rbac::v1::ClusterRoleBinding,
};
use kube::{Client, Resource, ResourceExt, runtime::reflector::Store};
use olm_api_classic::{ClusterServiceVersion, OLMConfig, Operator, OperatorGroup, Subscription};
use olm_runtime::{
    Accounts, BackoffLimits, Chance, Clock, ControllerMetrics, ControllerSettings, EventPublisher, Guarded,
    Interests, ObjectWriter, run_controller,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster_service_versions::{self, CsvMetrics, Ensured},
    components::{Adoption, Components},
    olm_configs, operator_groups,
};
use watches::{Fired, follow};

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
    /// A ClusterRoleBinding that names ServiceAccounts of this namespace, or with the empty name those of all.
    ClusterPermissions(String),
    /// The rules of a ClusterRole, by name.
    ClusterRole(String),
    /// A namespace that comes or goes, by name.
    Namespace(String),
    /// Something that belongs to an operator, by namespace and name of the operator.
    Belongings(String),
    /// A CustomResourceDefinition or an APIService, by name.
    Definition(String),
    /// The configuration that Subscriptions of this namespace give their operators.
    Subscriptions(String),
    /// The end of an Operator object, by name.
    Operator(String),
    /// An object with this label of an Operator object.
    Component(String),
    /// The OLMConfig.
    Settings,
    /// A copy that comes or goes, or an operator for all namespaces.
    Copies,
    /// A copy of an operator, by namespace and name of the operator.
    CopyOf(String),
    /// The operator that a copy was made of, by namespace and name.
    Original(String),
}

impl olm_runtime::Interest for Interest {
    fn is_shared(&self) -> bool {
        !matches!(self, Self::Object(_))
    }
}

/// A store of objects; those that do not parse are left out.
pub(crate) type Objects<K> = Store<Guarded<K>>;

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

/// The namespaces that exist, and are not about to go.
pub(crate) fn live(namespaces: &Objects<Namespace>) -> BTreeSet<String> {
    let live = |namespace: &Namespace| namespace.metadata.deletion_timestamp.is_none();
    let all = namespaces.state();
    let parsed = all.iter().filter_map(|namespace| namespace.0.as_ref().ok());
    parsed.filter(|namespace| live(namespace)).map(ResourceExt::name_any).collect()
}

/// The controllers, before they run.
pub(crate) struct Operators {
    pub(crate) client: Client,
    pub(crate) accounts: Accounts,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Chance,
    pub(crate) events: EventPublisher,
    pub(crate) csv_metrics: CsvMetrics,
    pub(crate) metrics_of_csvs: ControllerMetrics,
    pub(crate) metrics_of_groups: ControllerMetrics,
    pub(crate) metrics_of_configs: ControllerMetrics,
    pub(crate) metrics_of_adoption: ControllerMetrics,
    pub(crate) metrics_of_components: ControllerMetrics,
}

/// The objects that the controllers read of each other.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) csvs: Objects<ClusterServiceVersion>,
    pub(crate) groups: Objects<OperatorGroup>,
    pub(crate) configs: Objects<OLMConfig>,
    pub(crate) namespaces: Objects<Namespace>,
    /// What is bound in all namespaces.
    pub(crate) bindings: Objects<ClusterRoleBinding>,
    pub(crate) subscriptions: Objects<Subscription>,
    pub(crate) operators: Objects<Operator>,
    /// Whose webhook configurations there are; without the webhooks.
    pub(crate) validating: Objects<ValidatingWebhookConfiguration>,
    pub(crate) mutating: Objects<MutatingWebhookConfiguration>,
}

impl Operators {
    /// Runs until `shutdown`. Nothing is written while `leader` is false.
    pub(crate) async fn run(self, leader: watch::Receiver<bool>, shutdown: CancellationToken) {
        let interests = Interests::default();
        let (gone, ensured) = (Arc::new(Notify::new()), Ensured::default());
        let fired = Fired { interests: interests.clone(), ensured: ensured.clone() };
        let (sources, listed) = self.sources(&fired, &gone).gated();
        let stores = sources.stores();
        let groups = self.group_reconciler(&stores, &leader);
        let (sweeper, token) = (groups.clone(), || shutdown.clone());
        let run = |name| settings(name, &self.chance);
        tokio::join!(
            run_controller(
                run("operatorgroup"),
                sources.groups,
                &interests,
                self.metrics_of_groups.clone(),
                token(),
                groups
            ),
            run_controller(
                run("clusterserviceversion"),
                sources.csvs,
                &interests,
                self.metrics_of_csvs.clone(),
                token(),
                self.csv_reconciler(&stores, ensured, &leader)
            ),
            run_controller(
                run("olmconfig"),
                sources.configs,
                &interests,
                self.metrics_of_configs.clone(),
                token(),
                self.config_reconciler(&stores, &leader)
            ),
            run_controller(
                run("adoption"),
                sources.subscriptions,
                &interests,
                self.metrics_of_adoption.clone(),
                token(),
                Adoption { client: self.client.clone(), stores: stores.clone(), leader: leader.clone() }
            ),
            run_controller(
                run("operator"),
                sources.operators,
                &interests,
                self.metrics_of_components.clone(),
                token(),
                self.components(&leader)
            ),
            sweeper.sweep(listed, gone, token()),
            follow(sources.namespaces, || interests.fire(&Interest::Namespaces), &shutdown),
            follow(sources.bindings, || {}, &shutdown),
            follow(sources.validating, || {}, &shutdown),
            follow(sources.mutating, || {}, &shutdown),
            self.wake(&fired, leader.clone(), &shutdown),
        );
    }

    fn group_reconciler(
        &self,
        stores: &Stores,
        leader: &watch::Receiver<bool>,
    ) -> operator_groups::Reconciler {
        operator_groups::Reconciler {
            client: self.client.clone(),
            stores: stores.clone(),
            objects: Arc::new(self.writer()),
            clock: self.clock.clone(),
            leader: leader.clone(),
        }
    }

    fn config_reconciler(&self, stores: &Stores, leader: &watch::Receiver<bool>) -> olm_configs::Reconciler {
        let (client, clock) = (self.client.clone(), self.clock.clone());
        olm_configs::Reconciler {
            stores: stores.clone(),
            objects: Arc::new(ObjectWriter::new(client, FIELD_MANAGER, clock.clone())),
            clock,
            leader: leader.clone(),
        }
    }

    fn csv_reconciler(
        &self,
        stores: &Stores,
        ensured: Ensured,
        leader: &watch::Receiver<bool>,
    ) -> cluster_service_versions::Reconciler {
        cluster_service_versions::Reconciler {
            client: self.client.clone(),
            accounts: self.accounts.clone(),
            stores: stores.clone(),
            objects: Arc::new(self.writer()),
            conditions: Arc::new(self.writer()),
            clock: self.clock.clone(),
            events: self.events.clone(),
            metrics: self.csv_metrics.clone(),
            failed: Arc::default(),
            ensured,
            announced: Arc::default(),
            leader: leader.clone(),
        }
    }

    fn components(&self, leader: &watch::Receiver<bool>) -> Components {
        let (client, clock) = (self.client.clone(), self.clock.clone());
        let objects = Arc::new(ObjectWriter::new(client.clone(), FIELD_MANAGER, clock));
        Components { client, objects, leader: leader.clone() }
    }

    fn writer<K>(&self) -> ObjectWriter<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + 'static,
    {
        ObjectWriter::namespaced(self.client.clone(), FIELD_MANAGER, self.clock.clone())
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
