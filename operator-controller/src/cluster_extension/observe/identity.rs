//! Which namespace and ServiceAccount an extension uses, by UID: recorded on the extension at first use.
//!
//! Admission asks for the right to use a ServiceAccount when the extension is written. Names can be given to others
//! afterwards: the namespace or the ServiceAccount is deleted and created again, or another default ServiceAccount is
//! set. Then the extension is Blocked, or continues with the ServiceAccount it has, until it is written again: that is
//! another spec, which raises the generation, or an extension without the record. Like the spec, the record is guarded at
//! admission: a user who writes or removes it must be able to use the ServiceAccount that is used from then on.

use std::{collections::BTreeMap, sync::LazyLock};

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{Api, Client, ResourceExt, api::Patch};
use olm_api::{
    names::{IDENTITY_ANNOTATION, PROGRAM_FIELD_MANAGER, SERVICE_ACCOUNT_UID_ANNOTATION},
    v1::ClusterExtension,
};
use olm_runtime::{AccountRef, api_text, bounded, if_exists, patch_as};
use regex::Regex;
use serde_json::json;

use crate::cluster_extension::{
    Context,
    act::revision::RevisionWriter,
    observe::{
        revisions::{Revision, Revisions, account_annotations},
        service_account as validate,
    },
    report::StepError,
};

/// The text for a UID that is not known yet.
const UNKNOWN: &str = "-";
/// Last part of a record whose ServiceAccount is the default one. The admission policies look for it.
pub(crate) const FROM_DEFAULT: &str = "from=default";
const FROM_SPEC: &str = "from=spec";
/// The form of a record, as a regular expression, which the admission policies have too.
pub(crate) const FORM: &str = "^([a-z0-9.-]{1,63})/([a-z0-9.-]{1,253}) namespace=([0-9A-Za-z-]{1,64}) \
                               serviceaccount=([0-9A-Za-z-]{1,64}) generation=([0-9]{1,18}) (from=spec|from=default)$";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) account: AccountRef,
    /// The extension names none, and this was the default one.
    pub(crate) is_default: bool,
    /// UID of the install namespace, once it was seen.
    pub(crate) namespace: Option<String>,
    /// UID of the ServiceAccount, once it was seen.
    pub(crate) service_account: Option<String>,
    /// Generation of the extension for which this holds.
    pub(crate) generation: i64,
}

impl Record {
    /// The record of an extension, if it has one that can be read.
    pub(crate) fn of(extension: &ClusterExtension) -> Option<Self> {
        Self::parse(extension.annotations().get(IDENTITY_ANNOTATION)?)
    }

    /// Reads the value of the annotation.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        static READER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(FORM).ok());
        let (_, [place, name, namespace, service_account, generation, from]) =
            READER.as_ref()?.captures(text)?.extract();
        let uid = |uid: &str| Some(uid.to_owned()).filter(|uid| uid != UNKNOWN);
        Some(Self {
            account: AccountRef { namespace: place.to_owned(), name: name.to_owned() },
            is_default: from == FROM_DEFAULT,
            namespace: uid(namespace),
            service_account: uid(service_account),
            generation: generation.parse().ok()?,
        })
    }

    /// The value of the annotation.
    pub(crate) fn text(&self) -> String {
        let uid = |uid: &Option<String>| uid.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        format!(
            "{}/{} namespace={} serviceaccount={} generation={} {}",
            self.account.namespace,
            self.account.name,
            uid(&self.namespace),
            uid(&self.service_account),
            self.generation,
            if self.is_default { FROM_DEFAULT } else { FROM_SPEC }
        )
    }

    /// What an extension uses now, given the UIDs of its namespace and its ServiceAccount.
    fn seen(
        extension: &ClusterExtension,
        account: AccountRef,
        namespace: Option<String>,
        service_account: Option<String>,
    ) -> Self {
        Self {
            is_default: names_none(extension),
            account,
            namespace,
            service_account,
            generation: extension.metadata.generation.unwrap_or_default(),
        }
    }

    /// What is to be recorded now, given what is `seen` and what was recorded before.
    ///
    /// # Errors
    /// The name is another one's now: a sentence with the remedy.
    fn after(before: Option<&Self>, seen: Self) -> Result<Self, String> {
        // What was written since may be used by its author.
        let Some(before) = before.filter(|before| before.generation == seen.generation) else {
            return Ok(seen);
        };
        let AccountRef { namespace, name } = &before.account;
        if before.account != seen.account {
            return Err(format!(
                "the extension uses ServiceAccount {namespace}/{name} and would now use {}/{} although its spec was not changed: {}",
                seen.account.namespace,
                seen.account.name,
                remedy()
            ));
        }
        let known = |before: &Option<String>, now: Option<String>, what: &str| match (before, now) {
            (Some(before), Some(now)) if *before != now => Err(format!(
                "{what} was deleted and created again since this extension first used it (its UID was {before} and is {now}), and the new one is not used: {}",
                remedy()
            )),
            (before, now) => Ok(now.or_else(|| before.clone())),
        };
        Ok(Self {
            namespace: known(&before.namespace, seen.namespace, "the namespace of spec.namespace")?,
            service_account: known(
                &before.service_account,
                seen.service_account,
                &format!("service account {name:?} in namespace {namespace:?}"),
            )?,
            ..seen
        })
    }
}

fn remedy() -> String {
    format!(
        "someone who may use the service account can allow it by changing the spec or removing the annotation {IDENTITY_ANNOTATION}"
    )
}

/// What an extension may use in this reconcile.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    /// UID of the ServiceAccount, if it exists.
    pub(crate) service_account: Option<String>,
    /// The value of the annotation, if it is another one than before.
    pub(crate) to_write: Option<String>,
    /// Whether the controller may act as the ServiceAccount. If not, admission does not let it write the record either.
    can_act: bool,
}

impl Identity {
    /// Looks which namespace and ServiceAccount bear the names now, and compares them with the record. `can_act` is
    /// whether the ServiceAccount gave a token.
    ///
    /// # Errors
    /// They are others than before, or could not be asked for.
    pub(crate) async fn check(
        cx: &Context,
        extension: &ClusterExtension,
        default_account: Option<&AccountRef>,
        can_act: bool,
    ) -> Result<Self, StepError> {
        let written = extension.annotations().get(IDENTITY_ANNOTATION);
        let before = Record::of(extension);
        let Some(account) = validate::account(extension, default_account) else { return Ok(Self::default()) };
        if written.is_some() && before.is_none() {
            // The check of annotations says what is wrong with it.
            return Ok(Self::default());
        }
        let service_account = if can_act { cx.accounts.uid(&account).await.ok() } else { None };
        let namespace = cx.namespaces.uid(&extension.spec.namespace).map_err(StepError::Revisions)?;
        let seen = Record::seen(extension, account, namespace, service_account.clone());
        let record = Record::after(before.as_ref(), seen).map_err(refused)?;
        let to_write = Some(record.text()).filter(|text| written != Some(text));
        Ok(Self { service_account, to_write, can_act })
    }
}

/// Why the controller would not use the namespace and ServiceAccount that bear the names now, as far as `reader` may
/// look.
///
/// # Errors
/// They could not be read.
pub(crate) async fn refusal(
    extension: &ClusterExtension,
    account: &AccountRef,
    reader: Client,
) -> Result<Option<StepError>, String> {
    let Some(before) = Record::of(extension) else { return Ok(None) };
    let AccountRef { namespace, name } = account;
    let accounts: Api<ServiceAccount> = Api::namespaced(reader.clone(), namespace);
    let found = bounded(accounts.get_metadata_opt(name)).await;
    let found = found.map_err(|e| format!("getting service account {name:?}: {}", api_text(&e)))?;
    let service_account = found.and_then(|found| found.uid());
    let name = &extension.spec.namespace;
    let found = bounded(Api::<Namespace>::all(reader).get_metadata_opt(name)).await;
    let found = found.map_err(|e| format!("getting namespace {name:?}: {}", api_text(&e)))?;
    let namespace = found.and_then(|found| found.uid());
    let seen = Record::seen(extension, account.clone(), namespace, service_account);
    Ok(Record::after(Some(&before), seen).err().map(refused))
}

fn refused(error: String) -> StepError {
    StepError::Validation { errors: vec![error], terminal: true, advice: None }
}

/// Whether the extension leaves its ServiceAccount to the default.
fn names_none(extension: &ClusterExtension) -> bool {
    extension.spec.service_account.as_ref().is_none_or(|account| account.name.is_none())
}

/// The default ServiceAccount that an extension began with; it stays when another default is set.
pub(crate) fn first_default(extension: &ClusterExtension) -> Option<AccountRef> {
    Record::of(extension)
        .filter(|record| record.is_default && names_none(extension))
        .map(|record| record.account)
}

/// A sentence for an extension that continues with a default ServiceAccount that is not the default any more.
pub(crate) fn note(extension: &ClusterExtension, default_account: Option<&AccountRef>) -> Option<String> {
    let first = first_default(extension).filter(|first| Some(first) != default_account)?;
    let now = match default_account {
        Some(now) => format!("The default ServiceAccount is {}/{} now", now.namespace, now.name),
        None => "There is no longer a default ServiceAccount".to_owned(),
    };
    let AccountRef { namespace, name } = first;
    Some(format!(
        "{now}; this extension continues with {namespace}/{name}, which it used first. To use the default, remove the annotation {IDENTITY_ANNOTATION}; to keep it permanently, name a ServiceAccount in spec.serviceAccount."
    ))
}

impl Identity {
    /// Writes the record if it is not written yet; whether it did. Its event brings the reconcile that continues.
    pub(crate) async fn record(
        &self,
        controller: Client,
        extension: &ClusterExtension,
    ) -> Result<bool, StepError> {
        let Some(text) = &self.to_write else { return Ok(false) };
        // A user who removes it at this moment must not find it back.
        let patch = json!({"metadata": {
            "resourceVersion": extension.resource_version(),
            "annotations": {IDENTITY_ANNOTATION: text},
        }});
        let params = patch_as(PROGRAM_FIELD_MANAGER);
        let api: Api<ClusterExtension> = Api::all(controller);
        match bounded(api.patch_metadata(&extension.name_any(), &params, &Patch::Merge(&patch))).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_forbidden() && !self.can_act => Ok(false),
            Err(error) => {
                Err(StepError::Revisions(format!("recording the service account: {}", api_text(&error))))
            }
        }
    }
}

impl RevisionWriter<'_> {
    /// Binds the revisions that act as `account` to the ServiceAccount that the extension may use now: they act as no
    /// other one of that name.
    pub(crate) async fn bind(&self, revisions: &Revisions, account: &AccountRef) -> Result<(), String> {
        let Some(uid) = self.account_uid else { return Ok(()) };
        let is_unbound = |r: &&Revision| {
            !r.is_over()
                && r.account.as_ref() == Some(account)
                && r.annotation(SERVICE_ACCOUNT_UID_ANNOTATION) != Some(uid)
        };
        for revision in revisions.all().iter().filter(is_unbound) {
            let patch = json!({"metadata": {"annotations": {SERVICE_ACCOUNT_UID_ANNOTATION: uid}}});
            let patched = if_exists(self.cx.patch_set(self.extension, &revision.name, patch)).await;
            patched.map_err(|e| format!("patching {} Revision: {}", revision.name, api_text(&e)))?;
        }
        Ok(())
    }

    /// The annotations that say whom a revision acts as.
    pub(crate) fn acting_as<'s>(&'s self, account: &'s AccountRef) -> BTreeMap<&'static str, &'s str> {
        let uid = self.account_uid.map(|uid| (SERVICE_ACCOUNT_UID_ANNOTATION, uid));
        account_annotations(account).into_iter().chain(uid).collect()
    }
}

#[cfg(test)]
mod tests {
    use olm_api::v1::{ClusterExtensionSpec, ServiceAccountReference};

    use super::*;

    fn account(name: &str) -> AccountRef {
        AccountRef { namespace: "shop".into(), name: name.into() }
    }

    fn record(namespace: Option<&str>, service_account: Option<&str>, generation: i64) -> Record {
        Record {
            account: account("installer"),
            is_default: false,
            namespace: namespace.map(str::to_owned),
            service_account: service_account.map(str::to_owned),
            generation,
        }
    }

    #[test]
    fn a_record_is_read_back() {
        for one in [
            record(Some("a-1"), Some("b-2"), 3),
            record(None, None, 1),
            Record { is_default: true, ..record(Some("a"), None, 0) },
        ] {
            assert_eq!(Record::parse(&one.text()), Some(one));
        }
        let good = record(Some("a"), Some("b"), 3).text();
        assert_eq!(good, "shop/installer namespace=a serviceaccount=b generation=3 from=spec");
        for bad in [
            String::new(),
            "true".into(),
            format!("{good} "),
            good.replace("shop/", ""),
            good.replace("shop", "a/b"),
            good.replace("shop", "Shop"),
            good.replace("shop", &"s".repeat(64)),
            good.replace("=a", "="),
            good.replace("=a", "=a_b"),
            good.replace("=a", &format!("={}", "a".repeat(65))),
            good.replace("=3", "=-3"),
            good.replace("=3", "=1000000000000000000"),
            good.replace("from=spec", "from=me"),
            good.replace("namespace=a serviceaccount=b", "serviceaccount=b namespace=a"),
        ] {
            assert_eq!(Record::parse(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn names_are_not_given_to_others_unnoticed() {
        let first = record(Some("n1"), Some("s1"), 1);
        assert_eq!(Record::after(None, first.clone()), Ok(first.clone()));
        assert_eq!(Record::after(Some(&first), first.clone()), Ok(first.clone()));
        for (seen, what) in [
            (record(Some("n2"), Some("s2"), 1), "the namespace of spec.namespace"),
            (record(Some("n2"), None, 1), "the namespace of spec.namespace"),
            (record(Some("n1"), Some("s2"), 1), "service account \"installer\" in namespace \"shop\""),
        ] {
            let error = Record::after(Some(&first), seen).unwrap_err();
            let start = format!("{what} was deleted and created again since this extension first used it");
            assert!(error.starts_with(&start), "{error}");
            assert!(error.ends_with(&remedy()), "{error}");
        }
        // Written again by a user who may.
        let again = record(Some("n2"), Some("s2"), 2);
        assert_eq!(Record::after(Some(&first), again.clone()), Ok(again));
        // Another one of a name that was not written.
        let other = Record { account: account("powerful"), ..first.clone() };
        assert!(Record::after(Some(&first), other).is_err());
    }

    #[test]
    fn what_was_not_there_is_added_and_stays() {
        let waiting = record(Some("n1"), None, 1);
        assert_eq!(Record::after(None, waiting.clone()), Ok(waiting.clone()));
        let whole = record(Some("n1"), Some("s1"), 1);
        assert_eq!(Record::after(Some(&waiting), whole.clone()), Ok(whole.clone()));
        // The ServiceAccount of a namespace that was made anew in the meantime is not.
        assert!(Record::after(Some(&waiting), record(Some("n2"), Some("s1"), 1)).is_err());
        // What is gone is remembered.
        assert_eq!(Record::after(Some(&whole), record(None, None, 1)), Ok(whole));
    }

    #[test]
    fn another_default_moves_nothing() {
        let default = |name: &str| AccountRef { namespace: "sys".into(), name: name.into() };
        let extension = |named: Option<&str>, record: Option<Record>| {
            let service_account = named.map(|name| ServiceAccountReference { name: Some(name.into()) });
            let spec =
                ClusterExtensionSpec { namespace: "shop".into(), service_account, ..Default::default() };
            let mut extension = ClusterExtension::new("ext", spec);
            extension.metadata.annotations =
                record.map(|record| [(IDENTITY_ANNOTATION.to_owned(), record.text())].into());
            extension
        };
        let began = Record { account: default("old"), is_default: true, ..record(Some("n1"), Some("s1"), 1) };
        let (old, new) = (default("old"), default("new"));
        let waiting = extension(None, Some(began.clone()));
        assert_eq!(validate::account(&waiting, Some(&new)), Some(old.clone()));
        assert_eq!(validate::account(&waiting, None), Some(old.clone()));
        assert_eq!(note(&waiting, Some(&old)), None);
        assert!(note(&waiting, Some(&new)).unwrap().starts_with(
            "The default ServiceAccount is sys/new now; this extension continues with sys/old, which it used first."
        ));
        assert!(note(&waiting, None).unwrap().starts_with("There is no longer a default ServiceAccount; "));
        // Who names one is not concerned, and one that was named is no default.
        assert_eq!(validate::account(&extension(Some("a"), Some(began)), Some(&new)), Some(account("a")));
        let named = extension(None, Some(record(Some("n1"), Some("s1"), 1)));
        assert_eq!(validate::account(&named, Some(&new)), Some(new.clone()));
        assert_eq!(note(&named, Some(&new)), None);
        assert_eq!(validate::account(&extension(None, None), Some(&new)), Some(new));
    }
}
