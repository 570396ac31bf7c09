//! Metadata of what plans depend on: permissions that may be lost or granted, Subscriptions, OperatorGroups, and what may
//! end a failure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use olm_api_classic::{CatalogSource, ClusterServiceVersion, OperatorGroup, Subscription};
use olm_runtime::{AccountRef, Accounts, Chance, Interests};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Interest;

/// Kinds that are watched.
const KINDS: usize = 10;

/// Namespaces, names and UIDs of the objects of each kind. Clones are the same.
#[derive(Clone)]
pub(super) struct Known(Arc<Inner>);

/// UIDs by namespace and name.
type Uids = BTreeMap<(String, String), String>;

struct Inner {
    objects: Mutex<BTreeMap<String, Uids>>,
    /// How many kinds have been listed.
    listed: watch::Sender<BTreeSet<String>>,
}

impl Default for Known {
    fn default() -> Self {
        let (listed, _) = watch::channel(BTreeSet::new());
        Self(Arc::new(Inner { objects: Mutex::default(), listed }))
    }
}

/// What has become of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change<'a> {
    /// It is new, with this UID.
    Added(&'a str),
    /// It is different, with this UID.
    Modified(&'a str),
    Gone,
}

/// The key of an object that a plan has made.
pub(super) fn object_key(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}")
}

impl Known {
    /// Waits until all kinds have been listed.
    pub(super) fn listed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut listed = self.0.listed.subscribe();
        async move {
            // The sender lives as long as the controller.
            let _ = listed.wait_for(|listed| listed.len() == KINDS).await;
        }
    }

    /// Whether an object exists.
    pub(super) fn has(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        self.0.objects.lock().get(kind).is_some_and(|of| of.contains_key(&key))
    }

    /// Whether one of the Subscriptions of a namespace has one of these UIDs.
    pub(super) fn has_subscription(&self, namespace: &str, uids: &[&str]) -> bool {
        let objects = self.0.objects.lock();
        let mut of = objects.get("Subscription").into_iter().flatten();
        of.any(|((within, _), uid)| within == namespace && uids.contains(&uid.as_str()))
    }

    /// Follows all kinds until `shutdown`.
    pub(super) async fn follow(
        &self,
        client: &Client,
        chance: &Chance,
        accounts: &Accounts,
        interests: &Interests<Interest>,
        shutdown: &CancellationToken,
    ) {
        let permission = |kind: &'static str| {
            let (interests, accounts) = (interests.clone(), accounts.clone());
            move |namespace: &str, name: &str, change: Change<'_>| {
                if kind == "ServiceAccount" {
                    let account = AccountRef { namespace: namespace.to_owned(), name: name.to_owned() };
                    match change {
                        Change::Added(uid) | Change::Modified(uid) => accounts.forget_others(&account, uid),
                        Change::Gone => accounts.forget(&account),
                    }
                }
                interests.fire(&Interest::Object(object_key(kind, namespace, name)));
                interests.fire(&Interest::Permissions);
            }
        };
        let namespace = || {
            let interests = interests.clone();
            move |namespace: &str, _: &str, _: Change<'_>| {
                interests.fire(&Interest::Namespace(namespace.to_owned()));
            }
        };
        let definition = |_: &str, _: &str, _: Change<'_>| interests.fire(&Interest::Definitions);
        let catalog = |_: &str, _: &str, _: Change<'_>| interests.fire(&Interest::Catalogs);
        // Plans depend on whether one exists, not on its status, which changes often.
        let operator = |namespace: &str, _: &str, change: Change<'_>| {
            if !matches!(change, Change::Modified(_)) {
                interests.fire(&Interest::Operators(namespace.to_owned()));
            }
        };
        tokio::join!(
            self.kind::<ServiceAccount>(client, chance, permission("ServiceAccount"), shutdown),
            self.kind::<Role>(client, chance, permission("Role"), shutdown),
            self.kind::<RoleBinding>(client, chance, permission("RoleBinding"), shutdown),
            self.kind::<ClusterRole>(client, chance, permission("ClusterRole"), shutdown),
            self.kind::<ClusterRoleBinding>(client, chance, permission("ClusterRoleBinding"), shutdown),
            self.kind::<Subscription>(client, chance, namespace(), shutdown),
            self.kind::<OperatorGroup>(client, chance, namespace(), shutdown),
            self.kind::<CustomResourceDefinition>(client, chance, definition, shutdown),
            self.kind::<CatalogSource>(client, chance, catalog, shutdown),
            self.kind::<ClusterServiceVersion>(client, chance, operator, shutdown),
        );
    }

    /// Follows a kind; `changed` is called with namespace and name of each object that changes.
    async fn kind<K>(
        &self,
        client: &Client,
        chance: &Chance,
        changed: impl Fn(&str, &str, Change<'_>),
        shutdown: &CancellationToken,
    ) where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let kind = K::kind(&()).into_owned();
        let api = Api::<PartialObjectMeta<K>>::all(client.clone());
        let mut events = std::pin::pin!(chance.watch(api, watcher::Config::default()));
        let mut listing = BTreeMap::new();
        while let Some(Some(event)) = shutdown.run_until_cancelled(events.next()).await {
            match event {
                Ok(Event::Apply(object)) => {
                    let (key, uid) = entry(&object);
                    let mut objects = self.0.objects.lock();
                    let before = objects.entry(kind.clone()).or_default().insert(key.clone(), uid.clone());
                    drop(objects);
                    let is_new = before.as_ref() != Some(&uid);
                    changed(
                        &key.0,
                        &key.1,
                        if is_new { Change::Added(&uid) } else { Change::Modified(&uid) },
                    );
                }
                Ok(Event::Delete(object)) => {
                    let (key, _) = entry(&object);
                    self.0.objects.lock().entry(kind.clone()).or_default().remove(&key);
                    changed(&key.0, &key.1, Change::Gone);
                }
                Ok(Event::Init) => listing.clear(),
                Ok(Event::InitApply(object)) => listing.extend([entry(&object)]),
                Ok(Event::InitDone) => {
                    let all = std::mem::take(&mut listing);
                    let before = self.0.objects.lock().insert(kind.clone(), all.clone()).unwrap_or_default();
                    for key in before.keys().filter(|key| !all.contains_key(*key)) {
                        changed(&key.0, &key.1, Change::Gone);
                    }
                    for (key, uid) in all.iter().filter(|(key, uid)| before.get(*key) != Some(*uid)) {
                        changed(&key.0, &key.1, Change::Added(uid));
                    }
                    self.0.listed.send_modify(|listed| {
                        listed.insert(kind.clone());
                    });
                }
                Err(error) => tracing::debug!(%error, kind, "watch interrupted"),
            }
        }
    }
}

fn entry(object: &impl Resource) -> ((String, String), String) {
    ((object.namespace().unwrap_or_default(), object.name_any()), object.uid().unwrap_or_default())
}
