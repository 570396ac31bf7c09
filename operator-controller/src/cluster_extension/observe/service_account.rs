//! What must hold for an extension before anything is done for it.

use kube::ResourceExt;
use olm_api::v1::ClusterExtension;
use olm_runtime::{AccountRef, Accounts, ClientError};

use crate::advice;
use crate::cluster_extension::annotations;
use crate::cluster_extension::observe::identity;
use crate::cluster_extension::plan::crds as crd_changes;
use crate::cluster_extension::report::StepError;
use crate::facts::settings::Settings;

/// Longest name: it becomes the value of a label.
const NAME_LENGTH_MAX: usize = 63;
const NO_ACCOUNT: &str = "spec.serviceAccount is not set and the cluster has no default service account: set spec.serviceAccount.name to a service account in spec.namespace";
const ACCOUNT_UNKNOWN: &str = "spec.serviceAccount is not set, and the cluster's default service account is not known because the controller cannot read its settings yet";

/// The account the extension acts as, if the extension can be worked on at all.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) async fn check(
    extension: &ClusterExtension,
    accounts: &Accounts,
    settings: &Settings,
) -> Result<AccountRef, StepError> {
    let mut errors = unsupported(extension);
    let account = account(extension, settings.default_account().as_ref());
    let mut terminal = !errors.is_empty();
    let mut advice = None;
    match &account {
        None if !settings.are_known() => errors.push(ACCOUNT_UNKNOWN.to_owned()),
        None => {
            terminal = true;
            errors.push(NO_ACCOUNT.to_owned());
        }
        Some(account) => {
            if let Err(error) = accounts.client(account).await {
                advice = advice::advice(&error);
                errors.push(match error {
                    ClientError::AccountNotFound { namespace, name, .. } => {
                        format!("service account {name:?} not found in namespace {namespace:?}")
                    }
                    other => format!("error getting service account: {other}"),
                });
            }
        }
    }
    match account {
        Some(account) if errors.is_empty() => Ok(account),
        _ => Err(StepError::Validation { errors, terminal, advice }),
    }
}

/// The account, if nothing is wrong with the extension itself; whether the account exists is not asked.
///
/// # Errors
/// What is wrong with the extension.
pub(crate) fn acceptable(
    extension: &ClusterExtension,
    default_account: Option<&AccountRef>,
) -> Result<AccountRef, Vec<String>> {
    let mut errors = unsupported(extension);
    let account = account(extension, default_account);
    if account.is_none() {
        errors.push(NO_ACCOUNT.to_owned());
    }
    match account {
        Some(account) if errors.is_empty() => Ok(account),
        _ => Err(errors),
    }
}

/// The account an extension names, else the default one that it began with, else the default.
pub(crate) fn account(
    extension: &ClusterExtension,
    default_account: Option<&AccountRef>,
) -> Option<AccountRef> {
    let named = extension.spec.service_account.as_ref().and_then(|a| a.name.clone());
    named
        .map(|name| AccountRef { namespace: extension.spec.namespace.clone(), name })
        .or_else(|| identity::first_default(extension))
        .or_else(|| default_account.cloned())
}

fn unsupported(extension: &ClusterExtension) -> Vec<String> {
    let mut errors = Vec::new();
    let name = extension.name_any();
    if name.len() > NAME_LENGTH_MAX {
        errors.push(format!(
            "metadata.name has {} characters, at most {NAME_LENGTH_MAX} are possible because it becomes a label: create the extension under a shorter name",
            name.len()
        ));
    }
    errors.extend(annotations::refused(extension));
    errors.extend(crd_changes::allowances(extension).err());
    errors
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use olm_api::{
        names::EXTENSIONS_PREFIX,
        v1::{ClusterExtensionSpec, ServiceAccountReference},
    };

    use super::*;

    fn extension(account: Option<&str>) -> ClusterExtension {
        let service_account = account.map(|name| ServiceAccountReference { name: Some(name.to_owned()) });
        let spec = ClusterExtensionSpec { namespace: "ns".into(), service_account, ..Default::default() };
        ClusterExtension::new("ext", spec)
    }

    #[test]
    fn the_named_account_lies_in_the_install_namespace() {
        let default = AccountRef { namespace: "system".into(), name: "default".into() };
        let named = account(&extension(Some("installer")), Some(&default)).unwrap();
        assert_eq!(named, AccountRef { namespace: "ns".into(), name: "installer".into() });
        assert_eq!(account(&extension(None), Some(&default)), Some(default));
        assert_eq!(account(&extension(None), None), None);
    }

    #[test]
    fn unsupported_requests_are_refused_by_name() {
        let mut long = extension(Some("a"));
        long.metadata.name = Some("x".repeat(64));
        long.metadata.annotations = Some(BTreeMap::from([
            (format!("{EXTENSIONS_PREFIX}pause"), "true".to_owned()),
            ("other".into(), "x".into()),
        ]));
        let errors = unsupported(&long);
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors[0].contains("64 characters"));
        assert!(errors[1].contains("extensions.olm.operatorframework.io/pause\""));
        assert!(unsupported(&extension(None)).is_empty());
    }
}
