//! Wakes what waits for rights: a ServiceAccount, role or binding that appears or changes may heal it.
//!
//! Only the fact of a change is used, so the watches carry metadata and keep nothing.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt, stream::SelectAll};
use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::PartialObjectMeta,
    core::DeserializeGuard,
    runtime::{
        reflector::Store,
        watcher::{self, Event},
    },
};
use olm_api::v1::ClusterExtension;
use olm_runtime::{AccountRef, Accounts, Chance};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::controllers::cluster_extension::Record;

/// Changes that come together, as when a manifest is applied, wake once.
const GATHER: Duration = Duration::from_millis(50);

/// Who waits.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    extensions: Mutex<BTreeSet<String>>,
    sets: Mutex<BTreeSet<String>>,
}

impl Waiting {
    pub(crate) fn extension(&self, name: &str, waits: bool) {
        note(&self.extensions, name, waits);
    }

    pub(crate) fn set(&self, name: &str, waits: bool) {
        note(&self.sets, name, waits);
    }

    /// Wakes the sets that wait.
    pub(crate) async fn wake_sets(&self, sets: &mpsc::Sender<String>) {
        for name in all(&self.sets) {
            // A closed channel means that the process is ending.
            let _ = sets.send(name).await;
        }
    }
}

fn note(names: &Mutex<BTreeSet<String>>, name: &str, waits: bool) {
    let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
    if waits {
        names.insert(name.to_owned());
    } else {
        names.remove(name);
    }
}

fn all(names: &Mutex<BTreeSet<String>>) -> Vec<String> {
    names.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// What is made of the ServiceAccounts that are seen.
pub(crate) struct Seen {
    /// Whose tokens are forgotten when another ServiceAccount has the name.
    pub(crate) accounts: Accounts,
    /// Those that used the one before are woken.
    pub(crate) extensions: Store<DeserializeGuard<ClusterExtension>>,
}

impl Seen {
    fn account(&self, found: &PartialObjectMeta<ServiceAccount>, waiting: &Waiting) {
        let (Some(namespace), Some(uid)) = (found.namespace(), found.uid()) else { return };
        let account = AccountRef { namespace, name: found.name_any() };
        self.accounts.forget_others(&account, &uid);
        let state = self.extensions.state();
        for extension in state.iter().filter_map(|guarded| guarded.0.as_ref().ok()) {
            let used = Record::of(extension).filter(|record| record.account == account);
            if used.and_then(|record| record.service_account).is_some_and(|used| used != uid) {
                waiting.extension(&extension.name_any(), true);
            }
        }
    }
}

/// Watches accounts, roles and bindings, and sends the names of those who wait at every change.
pub(crate) async fn run(
    client: Client,
    chance: &Chance,
    waiting: Arc<Waiting>,
    seen: Seen,
    extensions: mpsc::Sender<String>,
    sets: mpsc::Sender<String>,
    shutdown: CancellationToken,
) {
    let mut changes = SelectAll::new();
    let note = waiting.clone();
    let account = move |found: &PartialObjectMeta<ServiceAccount>| seen.account(found, &note);
    changes.push(changed::<ServiceAccount, _>(client.clone(), chance, account).boxed());
    changes.push(changed::<Role, _>(client.clone(), chance, |_| {}).boxed());
    changes.push(changed::<RoleBinding, _>(client.clone(), chance, |_| {}).boxed());
    changes.push(changed::<ClusterRole, _>(client.clone(), chance, |_| {}).boxed());
    changes.push(changed::<ClusterRoleBinding, _>(client, chance, |_| {}).boxed());
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(()) = changes.next() => {}
        }
        let gathered = tokio::time::sleep(GATHER);
        tokio::pin!(gathered);
        loop {
            tokio::select! {
                () = &mut gathered => break,
                Some(()) = changes.next() => {}
            }
        }
        for (names, sender) in [(&waiting.extensions, &extensions), (&waiting.sets, &sets)] {
            for name in all(names) {
                // A closed channel means that the process is ending.
                let _ = sender.send(name).await;
            }
        }
    }
}

fn changed<K, F>(client: Client, chance: &Chance, seen: F) -> impl Stream<Item = ()> + Send + use<K, F>
where
    F: Fn(&PartialObjectMeta<K>) + Send,
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client);
    chance.watch(api, watcher::Config::default()).filter_map(move |event| {
        if let Ok(Event::Apply(found) | Event::InitApply(found)) = &event {
            seen(found);
        }
        let is_change = match event {
            Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => Some(()),
            Ok(Event::Init | Event::InitApply(_)) => None,
            Err(error) => {
                tracing::debug!(%error, "watch of access rules interrupted");
                None
            }
        };
        std::future::ready(is_change)
    })
}
