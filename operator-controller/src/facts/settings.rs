//! What the administrator sets for all extensions: the ConfigMap that the admission policies read as well, or the
//! flags of a process without policies.

use std::future::ready;

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt as _};
use olm_runtime::{AccountRef, Chance};
use tokio_util::sync::CancellationToken;

use super::{Known, watched::object};
use crate::{
    admission::{DEFAULT_ACCOUNT_KEY, SETTINGS_CONFIG_MAP},
    interest::{Interest, Interests},
};

/// How long API servers may admit objects by a default account that was replaced: they learn of the settings by a watch.
/// Times have whole seconds, which takes away one of these.
const REPLACED: SignedDuration = SignedDuration::from_secs(2);

/// The account of those that name none.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DefaultAccount {
    account: AccountRef,
    /// When it was set, if the ConfigMap says so.
    since: Option<Timestamp>,
}

/// The settings in force; clones see a change at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// Known when the ConfigMap was read, or need not be.
    default_account: Known<Option<DefaultAccount>>,
    /// A flag named the account: the ConfigMap is not asked.
    fixed: bool,
}

impl Settings {
    /// `default_account` is what a flag said.
    pub(crate) fn new(default_account: Option<AccountRef>) -> Self {
        let settings = Self { fixed: default_account.is_some(), ..Self::default() };
        if let Some(account) = default_account {
            settings.default_account.set(Some(DefaultAccount { account, since: None }));
        }
        settings
    }

    /// Waits until the settings are known.
    pub(crate) async fn ready(&self) {
        self.default_account.ready().await;
    }

    /// Whether the settings are known: until then, nothing follows from there being no default account.
    pub(crate) fn are_known(&self) -> bool {
        self.default_account.get().is_some()
    }

    /// The account of extensions that name none.
    pub(crate) fn default_account(&self) -> Option<AccountRef> {
        self.default_account.get().flatten().map(|default| default.account)
    }

    /// The same account, if it was the one that admission asked about for whatever was created at `created` or changed
    /// since: it was the default before.
    pub(crate) fn default_account_checked_at(&self, created: Option<Timestamp>) -> Option<AccountRef> {
        let DefaultAccount { account, since } = self.default_account.get().flatten()?;
        let is_checked =
            since.zip(created).is_some_and(|(since, created)| created.duration_since(since) >= REPLACED);
        is_checked.then_some(account)
    }

    /// Follows the ConfigMap until `stop`.
    pub(crate) async fn follow(
        &self,
        client: Client,
        chance: &Chance,
        namespace: &str,
        interests: Interests,
        stop: CancellationToken,
    ) {
        if self.fixed {
            return;
        }
        let maps = object::<ConfigMap>(Api::namespaced(client, namespace), SETTINGS_CONFIG_MAP, chance);
        let following = maps.for_each(|map| {
            if self.default_account.set(map.as_ref().and_then(default_of)) {
                interests.fire(&Interest::Settings);
            }
            ready(())
        });
        // Nothing but its time ends it.
        let _ = stop.run_until_cancelled(following).await;
    }
}

fn default_of(map: &ConfigMap) -> Option<DefaultAccount> {
    Some(DefaultAccount { account: account_of(map)?, since: set_at(map) })
}

/// When the default account was set, or later. A manager that changes a field is its only owner, and later ones have joined, so
/// each of the owners set this very value, and its entry has a time after that.
fn set_at(map: &ConfigMap) -> Option<Timestamp> {
    let owners = map.metadata.managed_fields.iter().flatten().filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields["f:data"].get(format!("f:{DEFAULT_ACCOUNT_KEY}")).is_some())
    });
    owners.filter_map(|owner| owner.time.as_ref()).map(|time| time.0).min()
}

/// The default account that the settings name, if they do.
pub(crate) fn account_of(map: &ConfigMap) -> Option<AccountRef> {
    let namespace = map.namespace().unwrap_or_default();
    let text = map.data.as_ref()?.get(DEFAULT_ACCOUNT_KEY).filter(|text| !text.is_empty())?;
    match account(text, &namespace) {
        Ok(account) => Some(account),
        Err(error) => {
            tracing::error!("ConfigMap {SETTINGS_CONFIG_MAP:?}: {error}");
            None
        }
    }
}

/// Reads `[<namespace>/]<name>`; without a namespace the account lies in `system_namespace`.
///
/// # Errors
/// The text is of another form.
pub fn account(text: &str, system_namespace: &str) -> Result<AccountRef, String> {
    let (namespace, name) = text.split_once('/').unwrap_or((system_namespace, text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err(format!("{DEFAULT_ACCOUNT_KEY} must be of the form [<namespace>/]<name>: {text:?}"));
    }
    let account = AccountRef { namespace: namespace.to_owned(), name: name.to_owned() };
    account.check().map_err(|what| format!("{DEFAULT_ACCOUNT_KEY}: {what}"))?;
    Ok(account)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_default_account_is_for_what_was_created_after_it_was_set() {
        let entry = |manager: &str, second: i64, fields: serde_json::Value| {
            json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                   "time": at(second).to_string(), "fieldsV1": fields})
        };
        let data = json!({"f:data": {".": {}, "f:default-service-account": {}}});
        let settings = |entries: &[serde_json::Value]| {
            let map = json!({
                "metadata": {"name": "olmv1-settings", "namespace": "sys", "managedFields": entries},
                "data": {"default-service-account": "ns/a"},
            });
            let settings = Settings::new(None);
            settings.default_account.set(default_of(&serde_json::from_value(map).unwrap()));
            settings
        };
        let is_used = |settings: &Settings, created: i64| {
            assert!(settings.default_account().is_some());
            settings.default_account_checked_at(Some(at(created))).is_some()
        };
        // Another field is changed later, and another owner joins later.
        let labels = json!({"f:metadata": {"f:labels": {"f:a": {}}}});
        for later in [labels, data.clone()] {
            let known = settings(&[entry("admin", 100, data.clone()), entry("tool", 200, later)]);
            for (created, wanted) in
                [(0, false), (99, false), (100, false), (101, false), (102, true), (500, true)]
            {
                assert_eq!(is_used(&known, created), wanted, "{created}");
            }
            assert_eq!(known.default_account_checked_at(None), None);
        }
        // Nothing says when it was set.
        assert!(!is_used(&settings(&[]), 500));
        assert!(!is_used(&Settings::new(Some(account("ns/a", "sys").unwrap())), 500));
    }

    #[test]
    fn accounts_may_leave_out_the_namespace() {
        let in_system = account("a", "sys").unwrap();
        assert_eq!((in_system.namespace.as_str(), in_system.name.as_str()), ("sys", "a"));
        assert_eq!(account("ns/a", "sys").unwrap().namespace, "ns");
        for wrong in ["", "/a", "ns/", "a/b/c", "ns/A", "n.s/a", "ns/a?x="] {
            assert!(account(wrong, "sys").is_err(), "{wrong}");
        }
    }
}
