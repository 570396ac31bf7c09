//! The watches of the controllers of operators, and what their events wake.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        core::v1::{Namespace, Secret, Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
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
        COPIED_FROM_LABEL, MANAGED_LABEL, OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL,
        PROVIDED_APIS_ANNOTATION,
    },
};
use olm_classic_core::{components::labels_of, csv::copied};
use olm_runtime::{Interests, Source, object_key, on_change};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{Interest, Operators, Stores};
use crate::{cluster_service_versions::Ensured, operator_groups::owner_of};

/// The watches that feed them.
pub(super) struct Sources {
    pub(super) csvs: Source<ClusterServiceVersion>,
    pub(super) groups: Source<OperatorGroup>,
    pub(super) configs: Source<OLMConfig>,
    pub(super) namespaces: Source<Namespace>,
    pub(super) bindings: Source<ClusterRoleBinding>,
    pub(super) subscriptions: Source<Subscription>,
    pub(super) operators: Source<Operator>,
    pub(super) validating: Source<ValidatingWebhookConfiguration>,
    pub(super) mutating: Source<MutatingWebhookConfiguration>,
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
            validating: self.validating.store.clone(),
            mutating: self.mutating.store.clone(),
        }
    }

    /// Lets reconciles begin when everything has been listed.
    /// The future ends then, too.
    pub(super) fn gated(self) -> (Self, impl Future<Output = ()>) {
        let (groups, csvs, configs) = (self.groups.listed(), self.csvs.listed(), self.configs.listed());
        let (namespaces, bindings) = (self.namespaces.listed(), self.bindings.listed());
        let (subscriptions, operators) = (self.subscriptions.listed(), self.operators.listed());
        let (validating, mutating) = (self.validating.listed(), self.mutating.listed());
        let all = futures::FutureExt::shared(async move {
            tokio::join!(groups, csvs, configs, namespaces, bindings);
            tokio::join!(subscriptions, operators, validating, mutating);
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
    pub(super) fn sources(&self, wakes: &Fired, gone: &Arc<Notify>) -> Sources {
        let (client, config) = (|| self.client.clone(), watcher::Config::default);
        let interests = &wakes.interests;
        let fired = interests.clone();
        let configs = Source::<OLMConfig>::all(client(), &self.chance);
        let (operators, in_names) = (Source::<Operator>::all(client(), &self.chance), interests.clone());
        let store = operators.store.clone();
        let operators = operators.observed(move |operator| {
            if store.get(&ObjectRef::new(&operator.name_any())).is_none() {
                in_names.fire(&Interest::Operator(operator.name_any()));
            }
        });
        let of_operators = || config().labels(&of_operators());
        let validating = Source::<ValidatingWebhookConfiguration>::trimmed(
            client(),
            &self.chance,
            of_operators(),
            |configuration| configuration.webhooks = None,
        );
        let mutating = Source::<MutatingWebhookConfiguration>::trimmed(
            client(),
            &self.chance,
            of_operators(),
            |configuration| configuration.webhooks = None,
        );
        Sources {
            csvs: self.csvs(wakes, gone.clone()),
            groups: self.groups(interests, gone.clone()),
            configs: configs.observed(move |_| fired.fire(&Interest::Settings)),
            namespaces: self.namespaces(wakes),
            bindings: self.bindings(wakes),
            subscriptions: self.subscriptions(wakes),
            operators,
            validating: validating.observed(belonging(wakes)),
            mutating: mutating.observed(belonging(wakes)),
        }
    }

    fn namespaces(&self, wakes: &Fired) -> Source<Namespace> {
        let namespaces = Source::<Namespace>::all(self.client.clone(), &self.chance);
        let (components, known, store) =
            (belonging(wakes), Mutex::new(BTreeMap::new()), namespaces.store.clone());
        let fired = wakes.interests.clone();
        namespaces.observed(move |namespace| {
            components(namespace);
            let name = namespace.name_any();
            let exists = store.get(&ObjectRef::new(&name)).is_some();
            let mut known = known.lock();
            let before = match namespace.uid().filter(|_| exists) {
                Some(uid) => known.insert(name.clone(), Some(uid)),
                None => known.remove(&name),
            };
            if before.as_ref() != known.get(&name) {
                fired.fire(&Interest::Namespace(name));
            }
        })
    }

    fn bindings(&self, wakes: &Fired) -> Source<ClusterRoleBinding> {
        let config = watcher::Config::default();
        let bindings = Source::trimmed(self.client.clone(), &self.chance, config, trim_binding);
        let (belongs, known) = (belonging(wakes), Mutex::new(BTreeMap::<String, BTreeSet<String>>::new()));
        let (fired, store) = (wakes.interests.clone(), bindings.store.clone());
        bindings.observed(move |binding| {
            belongs(binding);
            let name = binding.name_any();
            let namespaces: BTreeSet<String> =
                binding.subjects.iter().flatten().filter_map(namespace_of).collect();
            let before = known.lock().remove(&name).unwrap_or_default();
            for namespace in before.union(&namespaces) {
                fired.fire(&Interest::ClusterPermissions(namespace.clone()));
            }
            if store.get(&ObjectRef::new(&name)).is_some() {
                known.lock().insert(name, namespaces);
            }
        })
    }

    fn subscriptions(&self, wakes: &Fired) -> Source<Subscription> {
        let config = watcher::Config::default();
        let source = Source::trimmed(self.client.clone(), &self.chance, config, trim_subscription);
        let (fired, known, components) =
            (wakes.interests.clone(), Mutex::new(BTreeMap::new()), belonging::<Subscription>(wakes));
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

    fn csvs(&self, wakes: &Fired, gone: Arc<Notify>) -> Source<ClusterServiceVersion> {
        let config = watcher::Config::default();
        let csvs = Source::trimmed(self.client.clone(), &self.chance, config, copied::trim);
        let (fired, metrics, store) = (wakes.interests.clone(), self.csv_metrics.clone(), csvs.store.clone());
        let components = belonging(wakes);
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
            if !exists {
                gone.notify_one();
            }
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
        wakes: &Fired,
        leader: watch::Receiver<bool>,
        shutdown: &CancellationToken,
    ) {
        let interests = &wakes.interests;
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
        let cluster_role = |_: String, name: String| interests.fire(&Interest::ClusterRole(name));
        let (of_operators, managed) = (of_operators(), format!("{MANAGED_LABEL}=true"));
        let changed = Changed { operators: self, wakes, shutdown };
        // Deployments and conditions are looked up by name, which wakes by their name.
        tokio::join!(
            on_change(leader, shutdown, || interests.fire(&Interest::Part)),
            changed.follow::<Deployment>(&of_operators, components, object()),
            changed.follow::<OperatorCondition>("", components, object()),
            changed.follow::<ServiceAccount>("", components, namespaced(Interest::Permissions)),
            changed.follow::<Role>("", belongs, namespaced(Interest::Permissions)),
            changed.follow::<RoleBinding>("", belongs, namespaced(Interest::Permissions)),
            changed.follow::<ClusterRole>("", belongs, cluster_role),
            changed.follow::<Secret>(&managed, belongs, |_, _| {}),
            changed.follow::<Service>(&managed, belongs, |_, _| {}),
            changed.follow::<CustomResourceDefinition>("", components, definition()),
            changed.follow::<APIService>("", components, definition()),
        );
    }
}

/// What changes wake, and what they make be ensured again.
#[derive(Clone)]
pub(super) struct Fired {
    pub(super) interests: Interests<Interest>,
    pub(super) ensured: Ensured,
}

impl Fired {
    fn fire(&self, interest: &Interest) {
        self.ensured.changed(interest);
        self.interests.fire(interest);
    }
}

/// Selects what is labelled as an operator's.
fn of_operators() -> String {
    format!("{OWNER_KIND_LABEL}=ClusterServiceVersion")
}

/// The Operator objects that an object is a component of.
fn components(meta: &ObjectMeta) -> Vec<Interest> {
    labels_of(meta).map(|label| Interest::Component(label.clone())).collect()
}

/// Those, and the operators that it belongs to, by labels or as their owner references say, and the definitions of which
/// it is a role.
fn belongs(meta: &ObjectMeta) -> Vec<Interest> {
    let mut found = components(meta);
    if let Some(labels) = &meta.labels
        && let [Some(kind), Some(namespace), Some(name)] = owner_of(labels)
        && kind == "ClusterServiceVersion"
    {
        found.push(Interest::Belongings(format!("{namespace}/{name}")));
    }
    for owner in meta.owner_references.iter().flatten() {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        match owner.kind.as_str() {
            // An OperatorCondition has the name of its operator.
            "ClusterServiceVersion" | "OperatorCondition" => {
                found.push(Interest::Belongings(format!("{namespace}/{}", owner.name)));
            }
            "CustomResourceDefinition" | "APIService" => {
                found.push(Interest::Definition(owner.name.clone()));
            }
            _ => {}
        }
    }
    found
}

/// The namespace whose ServiceAccounts a subject names; the empty name for those of all.
fn namespace_of(subject: &Subject) -> Option<String> {
    match subject.kind.as_str() {
        "ServiceAccount" => subject.namespace.clone(),
        "Group" if ["system:authenticated", "system:serviceaccounts"].contains(&subject.name.as_str()) => {
            Some(String::new())
        }
        "Group" => subject.name.strip_prefix("system:serviceaccounts:").map(str::to_owned),
        _ => {
            let account = subject.name.strip_prefix("system:serviceaccount:")?;
            account.split_once(':').map(|(namespace, _)| namespace.to_owned())
        }
    }
}

/// Watches of which only names and what they wake are kept.
struct Changed<'a> {
    operators: &'a Operators,
    wakes: &'a Fired,
    shutdown: &'a CancellationToken,
}

impl Changed<'_> {
    /// Calls `fire` with namespace and name of every object with a label that changes, and wakes the interests that are
    /// found in it, or were when it was last seen.
    async fn follow<K>(
        &self,
        labels: &str,
        found_in: fn(&ObjectMeta) -> Vec<Interest>,
        fire: impl Fn(String, String),
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let api = Api::<PartialObjectMeta<K>>::all(self.operators.client.clone());
        let config = watcher::Config::default().labels(labels);
        let mut events = std::pin::pin!(self.operators.chance.watch(api, config));
        // What goes while the watch is interrupted is missing from the next list.
        let (mut known, mut listed) = (BTreeMap::new(), BTreeMap::new());
        let key = |object: &PartialObjectMeta<K>| (object.namespace().unwrap_or_default(), object.name_any());
        let wake = |(namespace, name): &(String, String), found: Option<&Vec<Interest>>| {
            fire(namespace.clone(), name.clone());
            found.into_iter().flatten().for_each(|interest| self.wakes.fire(interest));
        };
        while let Some(Some(event)) = self.shutdown.run_until_cancelled(events.next()).await {
            match event {
                Ok(Event::Apply(object)) => {
                    let key = key(&object);
                    let before = known.insert(key.clone(), found_in(&object.metadata));
                    wake(&key, before.as_ref());
                    wake(&key, known.get(&key));
                }
                Ok(Event::Delete(object)) => wake(&key(&object), known.remove(&key(&object)).as_ref()),
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(key(&object), found_in(&object.metadata));
                }
                Ok(Event::InitDone) => {
                    for (key, found) in known.iter().chain(&listed) {
                        wake(key, Some(found));
                    }
                    known = std::mem::take(&mut listed);
                }
                Err(error) => tracing::debug!(%error, "watch interrupted"),
            }
        }
    }
}

/// Wakes what an object belongs to, or belonged to when it was last seen.
fn belonging<K: Resource<DynamicType = ()>>(wakes: &Fired) -> impl Fn(&K) + Send + Sync + 'static {
    let (wakes, known) = (wakes.clone(), Mutex::new(BTreeMap::<String, Vec<Interest>>::new()));
    move |object| {
        let (found, key) = (belongs(object.meta()), object_key(object));
        let mut known = known.lock();
        let before = known.remove(&key).unwrap_or_default();
        before.iter().chain(&found).for_each(|interest| wakes.fire(interest));
        if !found.is_empty() {
            known.insert(key, found);
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
