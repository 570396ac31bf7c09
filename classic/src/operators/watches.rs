//! The watches of the controllers of operators, and what their events wake.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

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
    Api, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        reflector::ObjectRef,
        watcher::{self, Event},
    },
};
use olm_api_classic::{
    ClusterServiceVersion, OLMConfig, Operator, OperatorCondition, OperatorGroup, Subscription,
    SubscriptionStatus,
    names::{
        COPIED_FROM_LABEL, OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL, PROVIDED_APIS_ANNOTATION,
    },
};
use olm_classic_core::{components::labels_of, csv::copied};
use olm_runtime::{Interests, Source, object_key, on_change};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{Interest, Operators, Stores};

/// The watches that feed them.
pub(super) struct Sources {
    pub(super) csvs: Source<ClusterServiceVersion>,
    pub(super) groups: Source<OperatorGroup>,
    pub(super) configs: Source<OLMConfig>,
    pub(super) namespaces: Source<Namespace>,
    pub(super) bindings: Source<ClusterRoleBinding>,
    pub(super) subscriptions: Source<Subscription>,
    pub(super) operators: Source<Operator>,
}

impl Sources {
    pub(super) fn stores(&self) -> Stores {
        Stores {
            csvs: self.csvs.store.clone(),
            groups: self.groups.store.clone(),
            configs: self.configs.store.clone(),
            namespaces: self.namespaces.store.clone(),
            bindings: self.bindings.store.clone(),
            subscriptions: self.subscriptions.store.clone(),
            operators: self.operators.store.clone(),
        }
    }

    /// Lets reconciles begin when everything has been listed.
    /// The future ends then, too.
    pub(super) fn gated(self) -> (Self, impl Future<Output = ()>) {
        let (groups, csvs, configs) = (self.groups.listed(), self.csvs.listed(), self.configs.listed());
        let (namespaces, bindings) = (self.namespaces.listed(), self.bindings.listed());
        let (subscriptions, operators) = (self.subscriptions.listed(), self.operators.listed());
        let all = futures::FutureExt::shared(async move {
            tokio::join!(groups, csvs, configs, namespaces, bindings, subscriptions, operators);
        });
        let gated = Self {
            csvs: self.csvs.gated(all.clone()),
            groups: self.groups.gated(all.clone()),
            configs: self.configs.gated(all.clone()),
            subscriptions: self.subscriptions.gated(all.clone()),
            ..self
        };
        (gated, all)
    }
}

impl Operators {
    /// The watched kinds. Their changes wake the objects of their namespace; `gone` is notified of groups that are deleted.
    pub(super) fn sources(&self, interests: &Interests<Interest>, gone: Arc<Notify>) -> Sources {
        let (client, config) = (|| self.client.clone(), watcher::Config::default);
        let fired = interests.clone();
        let configs = Source::<OLMConfig>::all(client(), &self.chance);
        let (operators, in_names) = (Source::<Operator>::all(client(), &self.chance), interests.clone());
        let store = operators.store.clone();
        let operators = operators.observed(move |operator| {
            if store.get(&ObjectRef::new(&operator.name_any())).is_none() {
                in_names.fire(&Interest::Operator(operator.name_any()));
            }
        });
        let namespaces = Source::<Namespace>::all(client(), &self.chance);
        let bindings = Source::trimmed(client(), &self.chance, config(), trim_binding);
        Sources {
            csvs: self.csvs(interests),
            groups: self.groups(interests, gone),
            configs: configs.observed(move |_| fired.fire(&Interest::Settings)),
            namespaces: namespaces.observed(labelled(interests)),
            bindings: bindings.observed(labelled(interests)),
            subscriptions: self.subscriptions(interests),
            operators,
        }
    }

    fn subscriptions(&self, interests: &Interests<Interest>) -> Source<Subscription> {
        let config = watcher::Config::default();
        let source = Source::trimmed(self.client.clone(), &self.chance, config, trim_subscription);
        let (fired, known, components) =
            (interests.clone(), Mutex::new(BTreeMap::new()), labelled::<Subscription>(interests));
        let store = source.store.clone();
        source.observed(move |subscription| {
            components(subscription);
            let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
            let exists = store.get(&ObjectRef::new(&name).within(&namespace)).is_some();
            let installed = subscription.status.as_ref().and_then(|status| status.installed_csv.clone());
            let state = exists.then(|| (subscription.spec.config.clone(), installed));
            let key = object_key(subscription);
            let before = match state.clone() {
                Some(state) => known.lock().insert(key, state),
                None => known.lock().remove(&key),
            };
            if before != state {
                fired.fire(&Interest::Subscriptions(namespace));
            }
        })
    }

    fn csvs(&self, interests: &Interests<Interest>) -> Source<ClusterServiceVersion> {
        let config = watcher::Config::default();
        let csvs = Source::trimmed(self.client.clone(), &self.chance, config, copied::trim);
        let (fired, metrics, store) = (interests.clone(), self.csv_metrics.clone(), csvs.store.clone());
        let components = labelled(interests);
        csvs.observed(move |csv: &ClusterServiceVersion| {
            components(csv);
            let namespace = csv.namespace().unwrap_or_default();
            if let Some(from) = csv.labels().get(COPIED_FROM_LABEL) {
                fired.fire(&Interest::CopyOf(format!("{from}/{}", csv.name_any())));
                fired.fire(&Interest::Copies);
                return;
            }
            let exists = store.get(&ObjectRef::new(&csv.name_any()).within(&namespace)).is_some();
            metrics.set(csv, exists);
            if copied::is_for_all(csv) {
                fired.fire(&Interest::Copies);
            }
            fired.fire(&Interest::Original(object_key(csv)));
            fired.fire(&Interest::Csvs(namespace));
        })
    }

    fn groups(&self, interests: &Interests<Interest>, gone: Arc<Notify>) -> Source<OperatorGroup> {
        let groups = Source::<OperatorGroup>::all(self.client.clone(), &self.chance);
        let (fired, known, store) = (interests.clone(), Mutex::new(BTreeMap::new()), groups.store.clone());
        groups.observed(move |group| {
            let namespace = group.namespace().unwrap_or_default();
            fired.fire(&Interest::Groups(namespace.clone()));
            let provided = group.annotations().get(PROVIDED_APIS_ANNOTATION).cloned();
            let reach = group.status.as_ref().map(|status| status.namespaces.clone());
            let is_gone = group.metadata.deletion_timestamp.is_some();
            let state = Some((provided, reach, is_gone));
            if known.lock().insert(object_key(group), state.clone()) != Some(state) {
                fired.fire(&Interest::Intersections);
            }
            if store.get(&ObjectRef::new(&group.name_any()).within(&namespace)).is_none() {
                gone.notify_one();
            }
        })
    }

    /// Wakes objects for what changes beside them, until `shutdown`.
    pub(super) async fn wake(
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
        let of_operators = format!("{OWNER_KIND_LABEL}=ClusterServiceVersion");
        let changed = Changed { operators: self, interests, shutdown };
        tokio::join!(
            on_change(leader, shutdown, || interests.fire(&Interest::Part)),
            changed.follow::<Deployment>(&of_operators, object()),
            changed.follow::<OperatorCondition>("", object()),
            changed.follow::<ServiceAccount>("", namespaced(Interest::Permissions)),
            changed.follow::<Role>("", namespaced(Interest::Permissions)),
            changed.follow::<RoleBinding>("", namespaced(Interest::Permissions)),
            changed.follow::<CustomResourceDefinition>("", definition()),
            changed.follow::<APIService>("", definition()),
        );
    }
}

/// Watches of which only the names and labels of objects are kept.
struct Changed<'a> {
    operators: &'a Operators,
    interests: &'a Interests<Interest>,
    shutdown: &'a CancellationToken,
}

impl Changed<'_> {
    /// Calls `fire` with namespace and name of every object with a label that changes. Operator objects wake when one of
    /// theirs does.
    async fn follow<K>(&self, labels: &str, fire: impl Fn(String, String))
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let api = Api::<PartialObjectMeta<K>>::all(self.operators.client.clone());
        let config = watcher::Config::default().labels(labels);
        let mut events = std::pin::pin!(self.operators.chance.watch(api, config));
        // What goes while the watch is interrupted is missing from the next list.
        let (mut known, mut listed) = (BTreeMap::new(), BTreeMap::new());
        let key = |object: &PartialObjectMeta<K>| (object.namespace().unwrap_or_default(), object.name_any());
        let labels =
            |object: &PartialObjectMeta<K>| -> Vec<String> { labels_of(&object.metadata).cloned().collect() };
        let wake = |(namespace, name): &(String, String), components: Option<&Vec<String>>| {
            fire(namespace.clone(), name.clone());
            for label in components.into_iter().flatten() {
                self.interests.fire(&Interest::Component(label.clone()));
            }
        };
        while let Some(Some(event)) = self.shutdown.run_until_cancelled(events.next()).await {
            match event {
                Ok(Event::Apply(object)) => {
                    let key = key(&object);
                    let before = known.insert(key.clone(), labels(&object));
                    wake(&key, before.as_ref());
                    wake(&key, known.get(&key));
                }
                Ok(Event::Delete(object)) => wake(&key(&object), known.remove(&key(&object)).as_ref()),
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(key(&object), labels(&object));
                }
                Ok(Event::InitDone) => {
                    for (key, components) in known.iter().chain(&listed) {
                        wake(key, Some(components));
                    }
                    known = std::mem::take(&mut listed);
                }
                Err(error) => tracing::debug!(%error, "watch interrupted"),
            }
        }
    }
}

/// Wakes the Operator objects that an object belongs to, or belonged to when it was last seen.
fn labelled<K: Resource<DynamicType = ()>>(
    interests: &Interests<Interest>,
) -> impl Fn(&K) + Send + Sync + 'static {
    let (fired, known) = (interests.clone(), Mutex::new(BTreeMap::<String, Vec<String>>::new()));
    move |object| {
        let labels: Vec<String> = labels_of(object.meta()).cloned().collect();
        let key = object_key(object);
        let mut known = known.lock();
        let before = known.remove(&key).unwrap_or_default();
        for label in before.iter().chain(&labels) {
            fired.fire(&Interest::Component(label.clone()));
        }
        if !labels.is_empty() {
            known.insert(key, labels);
        }
    }
}

/// Calls `fire` when an object of a store has changed, until `shutdown`.
pub(super) async fn follow<K>(source: Source<K>, fire: impl Fn(), shutdown: &CancellationToken)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let mut names = source.into_names();
    while let Some(Some(_)) = shutdown.run_until_cancelled(names.next()).await {
        fire();
    }
}

/// Leaves who is bound to what, and whose it is.
fn trim_binding(binding: &mut ClusterRoleBinding) {
    let mut labels: BTreeMap<String, String> =
        labels_of(&binding.metadata).map(|label| (label.clone(), String::new())).collect();
    let own = binding.metadata.labels.iter().flatten();
    let of_owner =
        own.filter(|(key, _)| [OWNER_KIND_LABEL, OWNER_NAMESPACE_LABEL, OWNER_LABEL].contains(&key.as_str()));
    labels.extend(of_owner.map(|(key, value)| (key.clone(), value.clone())));
    (binding.metadata.labels, binding.metadata.annotations) = (Some(labels), None);
    binding.metadata.owner_references = None;
}

/// Leaves what installs an operator.
fn trim_subscription(subscription: &mut Subscription) {
    subscription.metadata.annotations = None;
    subscription.status = subscription.status.take().map(|status| SubscriptionStatus {
        installed_csv: status.installed_csv,
        install_plan_ref: status.install_plan_ref,
        ..SubscriptionStatus::default()
    });
}
