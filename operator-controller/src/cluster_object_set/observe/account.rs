//! The ServiceAccount that a revision acts as.
//!
//! It is the one that its annotations name, which admission guards. A revision of an extension gets them from the
//! extension's controller. One that was made by hand without them gets the default account if that is the one that
//! admission asked about, and it is written down at once: a default that is changed before or after moves nothing.
//!
//! It is known by its UID, which is recorded on the revision at first use, or by its extension. Admission asked for the
//! permission to use the ServiceAccount that had the name then. One that was deleted and created again may have other
//! permissions and other owners, so a revision acts only as the one it is bound to.

use kube::{Api, Client, ResourceExt};
use olm_api::{
    names::{
        IDENTITY_ANNOTATION, SERVICE_ACCOUNT_NAME_ANNOTATION, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
        SERVICE_ACCOUNT_UID_ANNOTATION,
    },
    ownership::{claimed, controlling_extension, is_taken_over, mark, revision_of},
    v1::{ClusterExtension, ClusterObjectSet},
};
use olm_runtime::{AccountRef, ClientError, api_text, bounded};
use serde_json::json;

use crate::{
    cluster_object_set::{Context, report::Outcome},
    facts::policies::Enforcement,
};

/// Whether the revision is one that an earlier program may have made for an extension that is still to be taken over:
/// its extension's controller decides that, and until then nothing is done or reported about it.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn is_before_takeover(cx: &Context, set: &ClusterObjectSet) -> Result<bool, String> {
    let owner = controlling_extension(&set.metadata).filter(|_| mark(&set.metadata).is_none());
    let Some(owner) = owner else { return Ok(false) };
    let api: Api<ClusterExtension> = Api::all(cx.controller());
    let extension = bounded(api.get_metadata_opt(owner.name)).await.map_err(|e| api_text(&e))?;
    Ok(extension.is_some_and(|extension| {
        extension.metadata.uid.as_deref() == Some(owner.uid) && !is_taken_over(&extension.metadata)
    }))
}

/// Writes the default account into a revision that names none and belongs to no extension; whether it did.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn give_default(cx: &Context, set: &ClusterObjectSet) -> Result<bool, String> {
    let is_without = matches!(named(set), Ok(None)) && claimed(&set.metadata).next().is_none();
    let default = checked_default(cx, set).filter(|_| is_without);
    let Some(account) = default.filter(|_| cx.guard.enforcement() == Enforcement::InForce) else {
        return Ok(false);
    };
    let annotations = json!({
        SERVICE_ACCOUNT_NAME_ANNOTATION: account.name,
        SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: account.namespace,
    });
    let written = cx.annotate(set, annotations).await;
    written.map_err(|e| format!("giving the default service account to the revision: {e}"))?;
    Ok(true)
}

/// The default account, if admission asked whether the writer of the revision may use it.
fn checked_default(cx: &Context, set: &ClusterObjectSet) -> Option<AccountRef> {
    cx.settings.default_account_checked_at(set.creation_timestamp().map(|time| time.0))
}

/// Binds a revision that names its ServiceAccount, and is not bound yet, to the one that has the name now; whether that
/// was written.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn bind(cx: &Context, set: &ClusterObjectSet) -> Result<bool, String> {
    let is_bound = set.annotations().contains_key(SERVICE_ACCOUNT_UID_ANNOTATION);
    let Some(account) = named(set).ok().flatten().filter(|_| !is_bound) else { return Ok(false) };
    // Without a token nothing is done as the ServiceAccount either; the report says why.
    let Ok(uid) = cx.accounts.uid(&account).await else { return Ok(false) };
    let written = cx.annotate(set, json!({SERVICE_ACCOUNT_UID_ANNOTATION: uid})).await;
    written.map_err(|e| format!("recording the service account: {e}"))?;
    Ok(true)
}

/// The account a revision acts as.
///
/// # Errors
/// Why it has none, or none yet.
pub(crate) fn account(cx: &Context, set: &ClusterObjectSet) -> Result<AccountRef, Outcome> {
    if let Some(account) = named(set).map_err(Outcome::Blocked)? {
        return Ok(account);
    }
    let missing = format!("revision {:?} is missing required annotations", set.name_any());
    if let Some((extension, _)) = claimed(&set.metadata).next() {
        return Err(Outcome::Blocked(format!(
            "{missing}: only the controller may write them for ClusterExtension {extension:?}, and it has not done so"
        )));
    }
    let complaint = cx.guard.complaint().unwrap_or_default();
    let name_it = format!(
        "set {SERVICE_ACCOUNT_NAME_ANNOTATION} and {SERVICE_ACCOUNT_NAMESPACE_ANNOTATION} to the service account to use"
    );
    let Some(default) = cx.settings.default_account() else {
        return Err(Outcome::Blocked(format!(
            "{missing}: {name_it}, or configure a default service account for the cluster"
        )));
    };
    if checked_default(cx, set).is_none() {
        let AccountRef { namespace, name } = default;
        return Err(Outcome::Blocked(format!(
            "{missing}, and the default service account {namespace}/{name} is not used, because it may have been set after the revision was created, without a check whether its writer may use it: {name_it}, or create the revision again"
        )));
    }
    match cx.guard.enforcement() {
        Enforcement::Broken => Err(Outcome::Blocked(format!("{missing}, and none are added: {complaint}"))),
        // The policies have been found in force since; the next reconcile adds them.
        Enforcement::Unknown | Enforcement::InForce => {
            Err(Outcome::Retrying(Enforcement::UNKNOWN.to_owned()))
        }
    }
}

/// A client that acts as `account`, and as no other one of that name than the revision is bound to.
///
/// # Errors
/// Why there is none.
pub(crate) async fn client(
    cx: &Context,
    set: &ClusterObjectSet,
    account: &AccountRef,
) -> Result<Client, Outcome> {
    let client = match set.annotations().get(SERVICE_ACCOUNT_UID_ANNOTATION) {
        Some(uid) => cx.accounts.bound_client(account, uid).await,
        None => cx.accounts.client(account).await,
    };
    client.map_err(|error| {
        if !matches!(error, ClientError::AccountReplaced { .. }) {
            return error.into();
        }
        let remedy = match revision_of(&set.metadata) {
            Some(owner) => format!("{IDENTITY_ANNOTATION} of ClusterExtension {:?}", owner.name),
            None => SERVICE_ACCOUNT_UID_ANNOTATION.to_owned(),
        };
        Outcome::Blocked(format!(
            "{error}: someone who may use the service account can allow it by removing the annotation {remedy}"
        ))
    })
}

/// The account that the annotations name, if they do.
///
/// # Errors
/// They name half of one, or none that can exist.
fn named(set: &ClusterObjectSet) -> Result<Option<AccountRef>, String> {
    let annotation = |key: &str| set.annotations().get(key).cloned();
    let revision = set.name_any();
    let namespace = annotation(SERVICE_ACCOUNT_NAMESPACE_ANNOTATION);
    let account = match (annotation(SERVICE_ACCOUNT_NAME_ANNOTATION), namespace) {
        (Some(name), Some(namespace)) => AccountRef { namespace, name },
        (None, Some(_)) => {
            return Err(format!("revision {revision:?} is missing ServiceAccount name annotation"));
        }
        (Some(_), None) => {
            return Err(format!("revision {revision:?} is missing ServiceAccount namespace annotation"));
        }
        (None, None) => return Ok(None),
    };
    account.check().map_err(|what| format!("revision {revision:?}: {what}: correct its annotations"))?;
    Ok(Some(account))
}

#[cfg(test)]
mod tests {
    use olm_api::v1::ClusterObjectSetSpec;

    use super::*;

    #[test]
    fn an_account_is_named_by_both_annotations_and_has_names_that_can_exist() {
        let set = |name: Option<&str>, namespace: Option<&str>| {
            let mut set = ClusterObjectSet::new("s", ClusterObjectSetSpec::default());
            let annotations =
                [(SERVICE_ACCOUNT_NAME_ANNOTATION, name), (SERVICE_ACCOUNT_NAMESPACE_ANNOTATION, namespace)];
            for (key, value) in annotations {
                set.annotations_mut().extend(value.map(|value| (key.to_owned(), value.to_owned())));
            }
            named(&set)
        };
        assert_eq!(set(None, None), Ok(None));
        let account = AccountRef { namespace: "n".into(), name: "a.b-c".into() };
        assert_eq!(set(Some("a.b-c"), Some("n")), Ok(Some(account)));
        assert!(set(Some("a"), None).is_err_and(|text| text.contains("namespace annotation")));
        assert!(set(None, Some("n")).is_err_and(|text| text.contains("name annotation")));
        for name in ["", "../../vic/serviceaccounts/installer", "installer/token?x=", "a%2fb", "A", "a b"] {
            assert!(
                set(Some(name), Some("n")).is_err_and(|text| text.contains("correct its annotations")),
                "{name}"
            );
        }
        for namespace in ["", "../kube-system", "n/x", "a.b", &"n".repeat(64)] {
            assert!(set(Some("a"), Some(namespace)).is_err(), "{namespace}");
        }
    }
}
