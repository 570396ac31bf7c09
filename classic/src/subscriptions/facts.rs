//! What is known of the cluster: the objects that a reconcile of a namespace reads, as their watches last saw them.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use futures::{StreamExt, future::BoxFuture};
use kube::{
    Client, Resource, ResourceExt,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher::Config,
    },
};
use olm_api_classic::{
    CatalogSource, ClusterServiceVersion, InstallPlan, NamedInstallStrategy, OperatorGroup, Subscription,
};
use olm_classic_core::source::status::{failure, is_healthy};
use olm_runtime::{Chance, ControllerMetrics, Guarded, Interests, Source, object_key};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::{Interest, SubscriptionMetrics};

/// The label of copies in other namespaces, which no reconcile reads.
const COPIED_LABEL: &str = "olm.copiedFrom";
/// The only annotation of a ClusterServiceVersion that a reconcile reads.
const PROPERTIES_ANNOTATION: &str = "operatorframework.io/properties";

/// The objects. Clones are the same.
#[derive(Clone)]
pub(super) struct Facts {
    pub(super) subscriptions: Objects<Subscription>,
    pub(super) csvs: Objects<ClusterServiceVersion>,
    pub(super) groups: Objects<OperatorGroup>,
    pub(super) plans: Objects<InstallPlan>,
    pub(super) sources: Objects<CatalogSource>,
}

/// The watches behind [`Facts`]: what drives them, and what ends when all objects have been listed once.
pub(super) struct Watches {
    pub(super) drives: Vec<BoxFuture<'static, ()>>,
    pub(super) listed: Vec<BoxFuture<'static, ()>>,
}

/// The objects of a kind.
pub(super) struct Objects<K: Resource<DynamicType = ()> + Clone + 'static>(Store<Guarded<K>>);

impl<K: Resource<DynamicType = ()> + Clone + 'static> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static> Objects<K> {
    /// Those of a namespace, by name. What does not parse is left out.
    pub(super) fn of(&self, namespace: &str) -> Vec<K> {
        let all = self.0.state();
        let own = all.iter().filter(|one| one.meta().namespace.as_deref() == Some(namespace));
        let mut own: Vec<K> = own.filter_map(|one| one.0.as_ref().ok().cloned()).collect();
        own.sort_by_key(ResourceExt::name_any);
        own
    }
}

impl Facts {
    /// Begins to watch; what changes wakes the namespaces that depend on it.
    pub(super) fn watch(
        client: &Client,
        chance: &Chance,
        interests: &Interests<Interest>,
        metrics: (&ControllerMetrics, &SubscriptionMetrics),
    ) -> (Self, Watches) {
        let mut watches = Watches { drives: Vec::new(), listed: Vec::new() };
        let any = Config::default;
        let (counted, fired) = (metrics.0.clone(), fires(interests));
        let (changes, of_plans, fired_of_plans) = (metrics.1.clone(), metrics.1.clone(), fires(interests));
        let facts = Self {
            subscriptions: watches.add(
                client,
                chance,
                (any(), |_| {}),
                move |one: &Subscription, is_gone| {
                    changes.subscription(one, is_gone);
                    if is_gone {
                        counted.objects().gone("Subscription", &object_key(one));
                    }
                    fired(one, is_gone);
                },
            ),
            csvs: watches.add(
                client,
                chance,
                (any().labels(&format!("!{COPIED_LABEL}")), trim_csv),
                fires(interests),
            ),
            groups: watches.add(client, chance, (any(), |_| {}), fires(interests)),
            plans: watches.add(client, chance, (any(), trim_plan), move |one: &InstallPlan, is_gone| {
                of_plans.plan(one, is_gone);
                fired_of_plans(one, is_gone);
            }),
            sources: watches.add(client, chance, (any(), trim_source), changed_sources(interests)),
        };
        (facts, watches)
    }
}

impl Watches {
    fn add<K>(
        &mut self,
        client: &Client,
        chance: &Chance,
        (config, trim): (Config, fn(&mut K)),
        changed: impl Fn(&K, bool) + Send + Sync + 'static,
    ) -> Objects<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let source = Source::<K>::trimmed(client.clone(), chance, config, trim);
        let store = source.store.clone();
        let known = store.clone();
        let source = source.observed(move |object| {
            let name = ObjectRef::new(&object.name_any()).within(&object.namespace().unwrap_or_default());
            changed(object, known.get(&name).is_none());
        });
        self.listed.push(Box::pin(source.listed()));
        self.drives.push(Box::pin(source.into_names().for_each(|_| std::future::ready(()))));
        Objects(store)
    }
}

/// Wakes the namespace of an object.
fn fires<K: Resource>(interests: &Interests<Interest>) -> impl Fn(&K, bool) + Send + Sync + 'static + use<K> {
    let interests = interests.clone();
    move |object: &K, _| {
        if let Some(namespace) = object.namespace() {
            interests.fire(&Interest::Objects(namespace));
        }
    }
}

/// Wakes the namespaces that see a CatalogSource, if something that they read of it has changed: polls of its image do not.
fn changed_sources(
    interests: &Interests<Interest>,
) -> impl Fn(&CatalogSource, bool) + Send + Sync + 'static + use<> {
    let (interests, known) = (interests.clone(), Arc::new(Mutex::new(BTreeMap::new())));
    move |source: &CatalogSource, is_gone| {
        let namespace = source.namespace().unwrap_or_default();
        let key = (namespace.clone(), source.name_any());
        let read = (source.uid(), source.metadata.generation, is_healthy(source), failure(source));
        let before = if is_gone { known.lock().remove(&key) } else { known.lock().insert(key, read.clone()) };
        if is_gone || before.as_ref() != Some(&read) {
            interests.fire(&Interest::Catalogs(namespace));
        }
    }
}

/// Leaves what resolution and reports read.
fn trim_csv(csv: &mut ClusterServiceVersion) {
    let spec = &mut csv.spec;
    (spec.description, spec.icon, spec.keywords, spec.maintainers) = (None, None, None, None);
    (spec.links, spec.related_images, spec.webhookdefinitions) = (None, None, None);
    (spec.annotations, spec.labels, spec.native_apis) = (None, None, None);
    spec.install = NamedInstallStrategy::default();
    for one in spec
        .customresourcedefinitions
        .iter_mut()
        .flat_map(|all| all.owned.iter_mut().chain(&mut all.required))
    {
        *one = olm_api_classic::CrdDescription {
            name: std::mem::take(&mut one.name),
            version: std::mem::take(&mut one.version),
            kind: std::mem::take(&mut one.kind),
            ..Default::default()
        };
    }
    if let Some(annotations) = &mut csv.metadata.annotations {
        annotations.retain(|name, _| name == PROPERTIES_ANNOTATION);
    }
    if let Some(status) = &mut csv.status {
        *status = olm_api_classic::ClusterServiceVersionStatus {
            phase: status.phase.take(),
            reason: status.reason.take(),
            message: status.message.take(),
            ..Default::default()
        };
    }
}

/// Leaves what a Subscription shows of its plan.
fn trim_plan(plan: &mut InstallPlan) {
    if let Some(status) = &mut plan.status {
        status.plan.clear();
    }
}

fn trim_source(source: &mut CatalogSource) {
    (source.spec.icon, source.spec.description) = (None, None);
}
