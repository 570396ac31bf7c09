//! Wakes who depends on permissions: a ServiceAccount, role or binding that appears or changes may be what somebody waits
//! for, and a ServiceAccount that is deleted ends what was done with it.
//!
//! Only the fact of a change is used, so the watches carry metadata and keep nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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

/// Who acts as a ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum User {
    /// The ClusterExtension of this name.
    Extension(String),
    /// The ClusterObjectSet of this name.
    Set(String),
}

/// Who is woken when permissions or ServiceAccounts change.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    users: Mutex<BTreeMap<User, Need>>,
}

#[derive(Debug, Default)]
struct Need {
    /// Whether something is in the way that any change may remove.
    waits: bool,
    /// The ServiceAccount it acts as.
    account: Option<AccountRef>,
}

impl Waiting {
    /// Whether `user` is to be woken by every change.
    pub(crate) fn waits(&self, user: &User, waits: bool) {
        self.users().entry(user.clone()).or_default().waits = waits;
    }

    /// `user` is to be woken when this ServiceAccount is deleted.
    pub(crate) fn acts_as(&self, user: User, account: &AccountRef) {
        self.users().entry(user).or_default().account = Some(account.clone());
    }

    /// Nothing wakes `user` any more.
    pub(crate) fn forget(&self, user: &User) {
        self.users().remove(user);
    }

    /// Who waits, or acts as a ServiceAccount that is gone; and those ServiceAccounts.
    fn affected(&self, is_gone: impl Fn(&AccountRef) -> bool) -> (Vec<User>, BTreeSet<AccountRef>) {
        let mut gone = BTreeSet::new();
        let mut affected = Vec::new();
        for (user, need) in &*self.users() {
            let lost = need.account.as_ref().filter(|account| is_gone(account));
            gone.extend(lost.cloned());
            if need.waits || lost.is_some() {
                affected.push(user.clone());
            }
        }
        (affected, gone)
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<User, Need>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the sets that wait.
    pub(crate) async fn wake_sets(&self, sets: &mpsc::Sender<String>) {
        let waiting: Vec<String> = self
            .users()
            .iter()
            .filter_map(|(user, need)| match user {
                User::Set(name) if need.waits => Some(name.clone()),
                _ => None,
            })
            .collect();
        for name in waiting {
            // A closed channel means that the process is ending.
            let _ = sets.send(name).await;
        }
    }
}

/// What a watch has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// Something appeared or changed.
    Some,
    /// The ServiceAccount was deleted.
    Deleted(AccountRef),
    /// These are all ServiceAccounts: others may have been deleted while nobody watched.
    All(BTreeSet<AccountRef>),
}

/// Changes that came together.
#[derive(Debug, Default)]
struct Gathered {
    deleted: BTreeSet<AccountRef>,
    all: Option<BTreeSet<AccountRef>>,
}

impl Gathered {
    fn add(&mut self, change: Change) {
        match change {
            Change::Some => {}
            Change::Deleted(account) => {
                self.deleted.insert(account);
            }
            Change::All(accounts) => self.all = Some(accounts),
        }
    }

    fn is_gone(&self, account: &AccountRef) -> bool {
        self.deleted.contains(account) || self.all.as_ref().is_some_and(|all| !all.contains(account))
    }
}

/// What is made of the ServiceAccounts that are seen.
pub(crate) struct Seen {
    /// Whose tokens are forgotten when their ServiceAccount is gone, or another one has the name.
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
                waiting.waits(&User::Extension(extension.name_any()), true);
            }
        }
    }
}

/// Watches ServiceAccounts, roles and bindings. At every change it sends the names of those who wait, and of those whose
/// ServiceAccount was deleted; the token of such a ServiceAccount is forgotten.
pub(crate) async fn run(
    client: Client,
    chance: &Chance,
    waiting: Arc<Waiting>,
    seen: Seen,
    extensions: mpsc::Sender<String>,
    sets: mpsc::Sender<String>,
    shutdown: CancellationToken,
) {
    let accounts = seen.accounts.clone();
    let mut changes = SelectAll::new();
    let note = waiting.clone();
    let see = move |found: &PartialObjectMeta<ServiceAccount>| seen.account(found, &note);
    changes.push(changed_accounts(client.clone(), chance, see).boxed());
    changes.push(changed::<Role>(client.clone(), chance).boxed());
    changes.push(changed::<RoleBinding>(client.clone(), chance).boxed());
    changes.push(changed::<ClusterRole>(client.clone(), chance).boxed());
    changes.push(changed::<ClusterRoleBinding>(client, chance).boxed());
    loop {
        let mut gathered = Gathered::default();
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(one) = changes.next() => gathered.add(one),
        }
        let time = tokio::time::sleep(GATHER);
        tokio::pin!(time);
        loop {
            tokio::select! {
                () = &mut time => break,
                Some(one) = changes.next() => gathered.add(one),
            }
        }
        let (affected, gone) = waiting.affected(|account| gathered.is_gone(account));
        for account in &gone {
            accounts.forget(account);
        }
        for user in affected {
            // A closed channel means that the process is ending.
            let _ = match user {
                User::Extension(name) => extensions.send(name).await,
                User::Set(name) => sets.send(name).await,
            };
        }
    }
}

fn changed<K>(client: Client, chance: &Chance) -> impl Stream<Item = Change> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client);
    chance.watch(api, watcher::Config::default()).filter_map(|event| async move {
        match event {
            Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => Some(Change::Some),
            Ok(Event::Init | Event::InitApply(_)) => None,
            Err(error) => {
                tracing::debug!(%error, "watch of access rules interrupted");
                None
            }
        }
    })
}

fn changed_accounts<F>(client: Client, chance: &Chance, see: F) -> impl Stream<Item = Change> + Send + use<F>
where
    F: Fn(&PartialObjectMeta<ServiceAccount>) + Send,
{
    let api: Api<PartialObjectMeta<ServiceAccount>> = Api::all(client);
    let mut listed = BTreeSet::new();
    chance.watch(api, watcher::Config::default()).filter_map(move |event| {
        if let Ok(Event::Apply(found) | Event::InitApply(found)) = &event {
            see(found);
        }
        std::future::ready(match event {
            Ok(event) => meaning(event, &mut listed),
            Err(error) => {
                tracing::debug!(%error, "watch of ServiceAccounts interrupted");
                None
            }
        })
    })
}

/// What an event of the ServiceAccounts' watch means; `listed` is what a list has shown so far.
fn meaning(
    event: Event<PartialObjectMeta<ServiceAccount>>,
    listed: &mut BTreeSet<AccountRef>,
) -> Option<Change> {
    let named = |one: &PartialObjectMeta<ServiceAccount>| AccountRef {
        namespace: one.namespace().unwrap_or_default(),
        name: one.name_any(),
    };
    match event {
        Event::Apply(_) => Some(Change::Some),
        Event::Delete(one) => Some(Change::Deleted(named(&one))),
        Event::Init => {
            listed.clear();
            None
        }
        Event::InitApply(one) => {
            listed.insert(named(&one));
            None
        }
        Event::InitDone => Some(Change::All(std::mem::take(listed))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str) -> AccountRef {
        AccountRef { namespace: "n".to_owned(), name: name.to_owned() }
    }

    fn meta(name: &str) -> PartialObjectMeta<ServiceAccount> {
        let mut meta = PartialObjectMeta::default();
        meta.metadata.name = Some(name.to_owned());
        meta.metadata.namespace = Some("n".to_owned());
        meta
    }

    fn extension(name: &str) -> User {
        User::Extension(name.to_owned())
    }

    fn woken(waiting: &Waiting, changes: impl IntoIterator<Item = Change>) -> Vec<User> {
        let mut gathered = Gathered::default();
        changes.into_iter().for_each(|change| gathered.add(change));
        waiting.affected(|account| gathered.is_gone(account)).0
    }

    #[test]
    fn who_waits_is_woken_by_every_change_and_who_is_content_by_the_end_of_its_account() {
        let waiting = Waiting::default();
        let set = User::Set("content-1".to_owned());
        waiting.acts_as(extension("content"), &account("a"));
        waiting.acts_as(set.clone(), &account("a"));
        waiting.acts_as(extension("waits"), &account("b"));
        waiting.waits(&extension("waits"), true);

        assert_eq!(woken(&waiting, [Change::Some]), [extension("waits")]);
        let both = [extension("content"), extension("waits"), set.clone()];
        assert_eq!(woken(&waiting, [Change::Some, Change::Deleted(account("a"))]), both);
        // Deleted while nobody watched.
        assert_eq!(woken(&waiting, [Change::All(BTreeSet::from([account("b")]))]), both);
        waiting.waits(&extension("waits"), false);
        assert_eq!(woken(&waiting, [Change::All(BTreeSet::from([account("a")]))]), [extension("waits")]);

        waiting.forget(&extension("content"));
        assert_eq!(woken(&waiting, [Change::Deleted(account("a"))]), [set]);
    }

    #[test]
    fn a_list_tells_which_accounts_are_left() {
        let mut listed = BTreeSet::new();
        assert_eq!(meaning(Event::Init, &mut listed), None);
        assert_eq!(meaning(Event::InitApply(meta("a")), &mut listed), None);
        assert_eq!(meaning(Event::InitDone, &mut listed), Some(Change::All(BTreeSet::from([account("a")]))));
        assert_eq!(meaning(Event::Apply(meta("b")), &mut listed), Some(Change::Some));
        assert_eq!(meaning(Event::Delete(meta("b")), &mut listed), Some(Change::Deleted(account("b"))));
    }
}
