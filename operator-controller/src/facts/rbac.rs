//! Roles, bindings and ServiceAccounts: what lacks a permission is retried when one of them changes, and what acts
//! as a ServiceAccount is reconciled when that is created, deleted, or deleted and created again.
//!
//! The watches carry metadata: of ServiceAccounts the UID counts, of everything else the fact of a change.

use futures::StreamExt;
use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{Client, ResourceExt, runtime::watcher::Event};
use olm_runtime::{AccountRef, Accounts, Chance, Metadata};
use tokio_util::sync::CancellationToken;

use super::watched::{Changes, Entries, add};
use crate::interest::{Interest, Interests};

/// ServiceAccounts that came, went, or are others under their names, with the UIDs that they have now; none where something
/// else changed.
type Changed = Vec<(AccountRef, Option<String>)>;

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
    let mut uids = Entries::default();
    add::<ServiceAccount, _>(&mut changes, &client, chance, move |event| {
        uids.take(event, |one| Some(uid(one)))
    });
    add::<Role, _>(&mut changes, &client, chance, |event| rule(&event));
    add::<RoleBinding, _>(&mut changes, &client, chance, |event| rule(&event));
    add::<ClusterRole, _>(&mut changes, &client, chance, |event| rule(&event));
    add::<ClusterRoleBinding, _>(&mut changes, &client, chance, |event| rule(&event));
    while let Some(Some(changed)) = stop.run_until_cancelled(changes.next()).await {
        for (account, uid) in changed {
            match uid {
                Some(uid) => accounts.forget_others(&account, &uid),
                None => accounts.forget(&account),
            }
            interests.fire(&Interest::ServiceAccount(account));
        }
        interests.fire(&Interest::Rbac);
    }
}

/// The UID of a ServiceAccount.
fn uid(account: &Metadata) -> (AccountRef, String) {
    let named = AccountRef { namespace: account.namespace().unwrap_or_default(), name: account.name_any() };
    (named, account.uid().unwrap_or_default())
}

/// What an event means of the other kinds.
fn rule(event: &Event<Metadata>) -> Option<Changed> {
    matches!(event, Event::Apply(_) | Event::Delete(_) | Event::InitDone).then(Changed::new)
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectMeta, PartialObjectMetaExt as _};

    use super::*;

    fn meta(name: &str, uid: &str) -> Metadata {
        let (name, namespace, uid) = (Some(name.to_owned()), Some("n".to_owned()), Some(uid.to_owned()));
        ObjectMeta { name, namespace, uid, ..ObjectMeta::default() }.into_response_partial()
    }

    #[test]
    fn an_account_that_comes_goes_or_is_another_one_is_news() {
        let mut uids = Entries::default();
        let mut take = |event| {
            let changed = uids.take(event, |one| Some(uid(one)))?;
            Some(changed.into_iter().map(|(account, uid)| (account.name, uid)).collect::<Vec<_>>())
        };
        let is = |name: &str, uid: &str| (name.to_owned(), Some(uid.to_owned()));
        let gone = |name: &str| (name.to_owned(), None);
        let none = || Some(Vec::new());
        assert_eq!(take(Event::Init), None);
        for name in ["a", "b"] {
            assert_eq!(take(Event::InitApply(meta(name, "1"))), None);
        }
        assert_eq!(take(Event::InitDone), Some(vec![is("a", "1"), is("b", "1")]));
        assert_eq!(take(Event::Apply(meta("a", "1"))), none(), "only its labels changed");
        assert_eq!(take(Event::Apply(meta("a", "2"))), Some(vec![is("a", "2")]));
        assert_eq!(take(Event::Apply(meta("c", "1"))), Some(vec![is("c", "1")]));
        assert_eq!(take(Event::Delete(meta("c", "1"))), Some(vec![gone("c")]));
        assert_eq!(take(Event::Delete(meta("c", "1"))), none());
        // While the watch was interrupted one was deleted and another one deleted and created again.
        for changed in [Some(vec![gone("b"), is("a", "3")]), none()] {
            assert_eq!(take(Event::Init), None);
            assert_eq!(take(Event::InitApply(meta("a", "3"))), None);
            assert_eq!(take(Event::InitDone), changed);
        }
    }

    #[test]
    fn a_change_of_another_kind_names_no_account() {
        let role = || meta("role", "1");
        assert_eq!(rule(&Event::Apply(role())), Some(Vec::new()));
        assert_eq!(rule(&Event::Delete(role())), Some(Vec::new()));
        assert_eq!(rule(&Event::InitApply(role())), None);
    }
}
