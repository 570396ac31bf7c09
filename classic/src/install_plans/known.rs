//! Metadata of what plans depend on: permissions that may be lost or granted, Subscriptions, OperatorGroups.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use olm_api_classic::{OperatorGroup, Subscription};
use olm_runtime::{AccountRef, Accounts, Chance, Interests};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Interest;

/// Kinds that are watched.
const KINDS: usize = 7;

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
            move |namespace: &str, name: &str, uid: Option<&str>| {
                if kind == "ServiceAccount" {
                    let account = AccountRef { namespace: namespace.to_owned(), name: name.to_owned() };
                    match uid {
                        Some(uid) => accounts.forget_others(&account, uid),
                        None => accounts.forget(&account),
                    }
                }
                interests.fire(&Interest::Object(object_key(kind, namespace, name)));
                interests.fire(&Interest::Permissions);
            }
        };
        let namespace = || {
            let interests = interests.clone();
            move |namespace: &str, _: &str, _: Option<&str>| {
                interests.fire(&Interest::Namespace(namespace.to_owned()));
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
        );
    }

    /// Follows a kind; `changed` is called with namespace and name of each change, and the UID unless it is gone.
    async fn kind<K>(
        &self,
        client: &Client,
        chance: &Chance,
        changed: impl Fn(&str, &str, Option<&str>),
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
                    self.0.objects.lock().entry(kind.clone()).or_default().insert(key.clone(), uid.clone());
                    changed(&key.0, &key.1, Some(&uid));
                }
                Ok(Event::Delete(object)) => {
                    let (key, _) = entry(&object);
                    self.0.objects.lock().entry(kind.clone()).or_default().remove(&key);
                    changed(&key.0, &key.1, None);
                }
                Ok(Event::Init) => listing.clear(),
                Ok(Event::InitApply(object)) => listing.extend([entry(&object)]),
                Ok(Event::InitDone) => {
                    let all = std::mem::take(&mut listing);
                    let before = self.0.objects.lock().insert(kind.clone(), all.clone()).unwrap_or_default();
                    for key in before.keys().filter(|key| !all.contains_key(*key)) {
                        changed(&key.0, &key.1, None);
                    }
                    for (key, uid) in all.iter().filter(|(key, uid)| before.get(*key) != Some(*uid)) {
                        changed(&key.0, &key.1, Some(uid));
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
