//! Wakes who depends on permissions: a ServiceAccount, role or binding that appears or changes may be what somebody waits
//! for, and a ServiceAccount that is deleted, or created again, ends what was done with it.
//!
//! The watches carry metadata: of ServiceAccounts the UID counts, of everything else the fact of a change.

use std::{
    collections::BTreeMap,
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
    runtime::watcher::{self, Event},
};
use olm_runtime::{AccountRef, Accounts, Chance};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

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
    /// The ServiceAccount it acts as, and its UID if it is bound to one.
    account: Option<(AccountRef, Option<String>)>,
}

impl Waiting {
    /// Whether `user` is to be woken by every change.
    pub(crate) fn waits(&self, user: &User, waits: bool) {
        self.users().entry(user.clone()).or_default().waits = waits;
    }

    /// `user` is to be woken when this ServiceAccount is deleted, and when another one than that of the UID has the name.
    pub(crate) fn acts_as(&self, user: User, account: &AccountRef, uid: Option<String>) {
        self.users().entry(user).or_default().account = Some((account.clone(), uid));
    }

    /// Nothing wakes `user` any more.
    pub(crate) fn forget(&self, user: &User) {
        self.users().remove(user);
    }

    /// Who waits, or has lost its ServiceAccount; those ServiceAccounts go to `lost`.
    fn affected(&self, seen: &Seen, lost: &mut Vec<AccountRef>) -> Vec<User> {
        let mut affected = Vec::new();
        for (user, need) in &*self.users() {
            let account = need.account.as_ref();
            let account = account.filter(|(account, uid)| seen.is_lost(account, uid.as_deref()));
            lost.extend(account.map(|(account, _)| account.clone()));
            if need.waits || account.is_some() {
                affected.push(user.clone());
            }
        }
        affected
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

/// What an event of a watch means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// Something other than a ServiceAccount appeared or changed.
    Some,
    /// The ServiceAccount has this UID now, or is gone.
    Account(AccountRef, Option<String>),
    /// These are all ServiceAccounts: others may have been deleted while nobody watched.
    All(BTreeMap<AccountRef, String>),
}

/// What was seen of ServiceAccounts, in changes that came together.
#[derive(Debug, Default)]
struct Seen {
    /// The UIDs of some; none of what is gone.
    changed: BTreeMap<AccountRef, Option<String>>,
    /// All that there were before these changes, if they were listed.
    all: Option<BTreeMap<AccountRef, String>>,
}

impl Change {
    /// Forgets tokens of ServiceAccounts that are gone or replaced, at once: the API server accepts them for some seconds.
    fn forget(&self, accounts: &Accounts) {
        match self {
            Self::Some => {}
            Self::Account(account, Some(uid)) => accounts.forget_others(account, uid),
            Self::Account(account, None) => accounts.forget(account),
            Self::All(all) => all.iter().for_each(|(account, uid)| accounts.forget_others(account, uid)),
        }
    }
}

impl Seen {
    fn add(&mut self, change: Change) {
        match change {
            Change::Some => {}
            Change::Account(account, uid) => drop(self.changed.insert(account, uid)),
            Change::All(all) => *self = Self { changed: BTreeMap::new(), all: Some(all) },
        }
    }

    /// Whether the ServiceAccount is gone, or is another one than that of `uid`.
    fn is_lost(&self, account: &AccountRef, uid: Option<&str>) -> bool {
        let now = match (self.changed.get(account), &self.all) {
            (Some(now), _) => now.as_ref(),
            (None, Some(all)) => all.get(account),
            (None, None) => return false,
        };
        now.is_none_or(|now| uid.is_some_and(|uid| uid != now))
    }
}

/// Watches ServiceAccounts, roles and bindings. At every change it sends the names of those who wait, and of those whose
/// ServiceAccount was deleted or created again; the token of the one before is forgotten.
pub(crate) async fn run(
    client: Client,
    chance: &Chance,
    waiting: Arc<Waiting>,
    accounts: Accounts,
    extensions: mpsc::Sender<String>,
    sets: mpsc::Sender<String>,
    shutdown: CancellationToken,
) {
    let mut changes = SelectAll::new();
    changes.push(changed_accounts(client.clone(), chance).boxed());
    changes.push(changed::<Role>(client.clone(), chance).boxed());
    changes.push(changed::<RoleBinding>(client.clone(), chance).boxed());
    changes.push(changed::<ClusterRole>(client.clone(), chance).boxed());
    changes.push(changed::<ClusterRoleBinding>(client, chance).boxed());
    let mut changes = changes.inspect(|change| change.forget(&accounts));
    loop {
        let mut seen = Seen::default();
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(one) = changes.next() => seen.add(one),
        }
        let time = tokio::time::sleep(GATHER);
        tokio::pin!(time);
        loop {
            tokio::select! {
                () = &mut time => break,
                Some(one) = changes.next() => seen.add(one),
            }
        }
        let mut lost = Vec::new();
        let affected = waiting.affected(&seen, &mut lost);
        for account in &lost {
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

fn changed_accounts(client: Client, chance: &Chance) -> impl Stream<Item = Change> + Send + use<> {
    let api: Api<PartialObjectMeta<ServiceAccount>> = Api::all(client);
    let mut listed = BTreeMap::new();
    chance.watch(api, watcher::Config::default()).filter_map(move |event| {
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
    listed: &mut BTreeMap<AccountRef, String>,
) -> Option<Change> {
    let named = |one: &PartialObjectMeta<ServiceAccount>| AccountRef {
        namespace: one.namespace().unwrap_or_default(),
        name: one.name_any(),
    };
    match event {
        Event::Apply(one) => Some(Change::Account(named(&one), one.uid())),
        Event::Delete(one) => Some(Change::Account(named(&one), None)),
        Event::Init => {
            listed.clear();
            None
        }
        Event::InitApply(one) => {
            listed.insert(named(&one), one.uid().unwrap_or_default());
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

    fn meta(name: &str, uid: &str) -> PartialObjectMeta<ServiceAccount> {
        let mut meta = PartialObjectMeta::default();
        meta.metadata.name = Some(name.to_owned());
        meta.metadata.namespace = Some("n".to_owned());
        meta.metadata.uid = Some(uid.to_owned());
        meta
    }

    fn extension(name: &str) -> User {
        User::Extension(name.to_owned())
    }

    fn found(name: &str, uid: &str) -> Change {
        Change::Account(account(name), Some(uid.to_owned()))
    }

    fn deleted(name: &str) -> Change {
        Change::Account(account(name), None)
    }

    fn all(accounts: &[(&str, &str)]) -> Change {
        Change::All(accounts.iter().map(|(name, uid)| (account(name), (*uid).to_owned())).collect())
    }

    fn woken(waiting: &Waiting, changes: impl IntoIterator<Item = Change>) -> Vec<User> {
        let mut seen = Seen::default();
        changes.into_iter().for_each(|change| seen.add(change));
        waiting.affected(&seen, &mut Vec::new())
    }

    #[test]
    fn who_waits_is_woken_by_every_change_and_who_is_content_by_the_end_of_its_account() {
        let waiting = Waiting::default();
        let set = User::Set("content-1".to_owned());
        waiting.acts_as(extension("content"), &account("a"), None);
        waiting.acts_as(set.clone(), &account("a"), None);
        waiting.acts_as(extension("waits"), &account("b"), None);
        waiting.waits(&extension("waits"), true);

        assert_eq!(woken(&waiting, [Change::Some]), [extension("waits")]);
        let both = [extension("content"), extension("waits"), set.clone()];
        assert_eq!(woken(&waiting, [Change::Some, deleted("a")]), both);
        // Deleted while nobody watched.
        assert_eq!(woken(&waiting, [all(&[("b", "2")])]), both);
        waiting.waits(&extension("waits"), false);
        assert_eq!(woken(&waiting, [all(&[("a", "1")])]), [extension("waits")]);

        waiting.forget(&extension("content"));
        assert_eq!(woken(&waiting, [deleted("a")]), [set]);
    }

    #[test]
    fn who_is_bound_to_an_account_is_woken_when_another_one_has_its_name() {
        let waiting = Waiting::default();
        waiting.acts_as(extension("bound"), &account("a"), Some("1".to_owned()));
        waiting.acts_as(extension("unbound"), &account("a"), None);
        let none: [User; 0] = [];
        assert_eq!(woken(&waiting, [found("a", "1")]), none);
        assert_eq!(woken(&waiting, [found("a", "2")]), [extension("bound")]);
        assert_eq!(woken(&waiting, [all(&[("a", "2")])]), [extension("bound")]);
        assert_eq!(woken(&waiting, [deleted("a"), found("a", "2")]), [extension("bound")]);
        // What came last counts.
        assert_eq!(woken(&waiting, [deleted("a"), found("a", "1")]), none);
        assert_eq!(woken(&waiting, [found("a", "2"), all(&[("a", "1")])]), none);
        assert_eq!(woken(&waiting, [all(&[("a", "1")]), found("a", "2")]), [extension("bound")]);
        // It is bound to the new one now.
        waiting.acts_as(extension("bound"), &account("a"), Some("2".to_owned()));
        assert_eq!(woken(&waiting, [found("a", "2")]), none);
    }

    #[test]
    fn a_list_tells_which_accounts_are_left() {
        let mut listed = BTreeMap::new();
        assert_eq!(meaning(Event::Init, &mut listed), None);
        assert_eq!(meaning(Event::InitApply(meta("a", "1")), &mut listed), None);
        assert_eq!(meaning(Event::InitDone, &mut listed), Some(all(&[("a", "1")])));
        assert_eq!(meaning(Event::Apply(meta("b", "2")), &mut listed), Some(found("b", "2")));
        assert_eq!(meaning(Event::Delete(meta("b", "2")), &mut listed), Some(deleted("b")));
    }
}
