//! Roles, bindings and ServiceAccounts: what lacks a permission is retried when one of them changes, and what acts
//! as a ServiceAccount is reconciled when that is created, deleted, or deleted and created again.
//!
//! The watches carry metadata: of ServiceAccounts the UID counts, of everything else the fact of a change.

use std::collections::BTreeMap;

use futures::StreamExt;
use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{Client, ResourceExt, api::PartialObjectMeta, runtime::watcher::Event};
use olm_runtime::{AccountRef, Accounts, Chance};
use tokio_util::sync::CancellationToken;

use super::watched::{Changes, add};
use crate::interest::{Interest, Interests};

/// What an event of a watch means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// Something other than a ServiceAccount changed.
    Rule,
    /// The ServiceAccount has this UID now, or is gone.
    Account(AccountRef, Option<String>),
    /// These are all ServiceAccounts: others may have been deleted while the watch was interrupted.
    All(BTreeMap<AccountRef, String>),
}

/// The UIDs of all ServiceAccounts.
#[derive(Debug, Default)]
struct AccountUids(BTreeMap<AccountRef, String>);

impl AccountUids {
    /// Takes note of a change; the ServiceAccounts that came, went, or are others under their names.
    fn update(&mut self, change: Change) -> Vec<AccountRef> {
        match change {
            Change::Rule => Vec::new(),
            Change::Account(account, uid) => {
                let before = match uid.clone() {
                    Some(uid) => self.0.insert(account.clone(), uid),
                    None => self.0.remove(&account),
                };
                if before == uid { Vec::new() } else { vec![account] }
            }
            Change::All(all) => {
                let before = std::mem::replace(&mut self.0, all);
                let gone = before.keys().filter(|account| !self.0.contains_key(*account));
                let other = self.0.iter().filter(|(account, uid)| before.get(*account) != Some(*uid));
                gone.chain(other.map(|(account, _)| account)).cloned().collect()
            }
        }
    }
}

/// Watches until `stop`. Tokens of ServiceAccounts that are gone or replaced are forgotten at once: the API server accepts
/// them for some seconds.
pub(crate) async fn run(
    client: Client,
    chance: &Chance,
    accounts: Accounts,
    interests: Interests,
    stop: CancellationToken,
) {
    let mut changes = Changes::new();
    let mut listed = BTreeMap::new();
    add(&mut changes, &client, chance, move |event| meaning(event, &mut listed));
    add(&mut changes, &client, chance, |event| rule::<Role>(&event));
    add(&mut changes, &client, chance, |event| rule::<RoleBinding>(&event));
    add(&mut changes, &client, chance, |event| rule::<ClusterRole>(&event));
    add(&mut changes, &client, chance, |event| rule::<ClusterRoleBinding>(&event));
    let mut known = AccountUids::default();
    while let Some(Some(change)) = stop.run_until_cancelled(changes.next()).await {
        for account in known.update(change) {
            match known.0.get(&account) {
                Some(uid) => accounts.forget_others(&account, uid),
                None => accounts.forget(&account),
            }
            interests.fire(&Interest::ServiceAccount(account));
        }
        interests.fire(&Interest::Rbac);
    }
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

/// The same for every other kind.
fn rule<K>(event: &Event<PartialObjectMeta<K>>) -> Option<Change> {
    matches!(event, Event::Apply(_) | Event::Delete(_) | Event::InitDone).then_some(Change::Rule)
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

    #[test]
    fn an_account_that_comes_goes_or_is_another_one_is_news() {
        let mut known = AccountUids::default();
        let mut news = |change| {
            let accounts = known.update(change);
            accounts.into_iter().map(|account| account.name).collect::<Vec<_>>()
        };
        let found = |name, uid: &str| Change::Account(account(name), Some(uid.to_owned()));
        let all = |accounts: &[(&str, &str)]| {
            Change::All(accounts.iter().map(|(name, uid)| (account(name), (*uid).to_owned())).collect())
        };
        let none: [&str; 0] = [];
        assert_eq!(news(all(&[("a", "1"), ("b", "1")])), ["a", "b"]);
        assert_eq!(news(found("a", "1")), none, "only its labels changed");
        assert_eq!(news(Change::Rule), none);
        assert_eq!(news(found("a", "2")), ["a"]);
        assert_eq!(news(found("c", "1")), ["c"]);
        assert_eq!(news(Change::Account(account("c"), None)), ["c"]);
        assert_eq!(news(Change::Account(account("c"), None)), none);
        // While the watch was interrupted one was deleted and another one deleted and created again.
        assert_eq!(news(all(&[("a", "3")])), ["b", "a"]);
        assert_eq!(news(all(&[("a", "3")])), none);
    }

    #[test]
    fn a_list_says_which_accounts_are_left() {
        let mut listed = BTreeMap::new();
        let one = |uid: &str| Change::Account(account("b"), Some(uid.to_owned()));
        assert_eq!(meaning(Event::Init, &mut listed), None);
        assert_eq!(meaning(Event::InitApply(meta("a", "1")), &mut listed), None);
        let all = BTreeMap::from([(account("a"), "1".to_owned())]);
        assert_eq!(meaning(Event::InitDone, &mut listed), Some(Change::All(all)));
        assert_eq!(meaning(Event::Apply(meta("b", "2")), &mut listed), Some(one("2")));
        assert_eq!(
            meaning(Event::Delete(meta("b", "2")), &mut listed),
            Some(Change::Account(account("b"), None))
        );
    }
}
