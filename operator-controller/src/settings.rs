//! What the administrator sets for all extensions: the ConfigMap that the admission policies read as well, or the
//! flags of a process without policies.

use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    runtime::watcher::{self, Event},
};
use olm_runtime::{AccountRef, Chance};
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;

use crate::admission::{DEFAULT_ACCOUNT_KEY, SETTINGS_CONFIG_MAP};

/// The settings in force; clones see a change at once.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    default_account: Arc<RwLock<Option<AccountRef>>>,
    /// Set when the ConfigMap was read, or need not be.
    known: Arc<SetOnce<()>>,
    /// A flag named the account: the ConfigMap is not asked.
    fixed: bool,
}

impl Settings {
    /// `default_account` is what a flag said.
    pub(crate) fn new(default_account: Option<AccountRef>) -> Self {
        let fixed = default_account.is_some();
        let known = Arc::new(if fixed { SetOnce::new_with(Some(())) } else { SetOnce::new() });
        Self { default_account: Arc::new(RwLock::new(default_account)), known, fixed }
    }

    /// Waits until the settings are known.
    pub(crate) async fn known(&self) {
        self.known.wait().await;
    }

    /// Whether the settings are known: until then, nothing follows from there being no default account.
    pub(crate) fn are_known(&self) -> bool {
        self.known.initialized()
    }

    /// The account of extensions that name none.
    pub(crate) fn default_account(&self) -> Option<AccountRef> {
        self.default_account.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it differs from what was in force.
    fn set(&self, account: Option<AccountRef>) -> bool {
        let mut present = self.default_account.write().unwrap_or_else(PoisonError::into_inner);
        let differs = *present != account;
        *present = account;
        drop(present);
        // It may be known already.
        let is_first = self.known.set(()).is_ok();
        differs || is_first
    }

    /// Follows the ConfigMap until `stop`; `changed` is called after every change.
    pub(crate) async fn follow(
        &self,
        client: Client,
        chance: &Chance,
        namespace: &str,
        changed: impl AsyncFn(),
        stop: CancellationToken,
    ) {
        if self.fixed {
            return;
        }
        let api: Api<ConfigMap> = Api::namespaced(client, namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={SETTINGS_CONFIG_MAP}"));
        let mut events = chance.watch(api, config).boxed();
        // A list without the ConfigMap says so only by its end.
        let mut listed = None;
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = events.next() => event,
            };
            let account = match event {
                None => return,
                Some(Ok(Event::Apply(map))) => account_of(&map),
                Some(Ok(Event::Delete(_))) => None,
                Some(Ok(Event::Init)) => {
                    listed = None;
                    continue;
                }
                Some(Ok(Event::InitApply(map))) => {
                    listed = account_of(&map);
                    continue;
                }
                Some(Ok(Event::InitDone)) => listed.take(),
                Some(Err(error)) => {
                    tracing::debug!(%error, "watch of the settings interrupted");
                    continue;
                }
            };
            if self.set(account) {
                changed().await;
            }
        }
    }
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
    use super::*;

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
