//! The deletion guard of an extension: while it is set, a deletion that would delete custom resources is refused.
//!
//! Admission lets DELETE pass only while the condition `DeletionGuarded` is False for the generation of the extension: it is
//! closed until the custom resources were counted. What is created after that is found before the finalizers are removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt, api::ListParams};
use olm_api::{
    ConditionStatus, ConditionType, ConditionWriter, Conditions, Reason,
    names::{DELETION_GUARD_ANNOTATION, OWNER_NAME_LABEL},
    v1::ClusterExtension,
};
use olm_objectset::DeletionPolicy;
use olm_runtime::{AccountRef, api_text, bounded};

use crate::{
    cluster_extension::{Context, is_guarded, observe::service_account},
    deletion_policy::extension::{Held, asked},
    facts::custom_resources::Counts,
    preflight::stored_objects,
};

/// CRDs, and namespaces of each, that a message has; the others are counted.
const NAMED_MAX: usize = 10;
/// Finalizers of Kubernetes with which dependents are gone already, or stay.
const CASCADING: [&str; 2] = ["foregroundDeletion", "orphan"];

/// What is known of the guard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum GuardState {
    /// What was reported before.
    #[default]
    AsBefore,
    /// There is none.
    Off,
    Reported(ConditionStatus, Reason, String),
}

impl GuardState {
    pub(crate) fn set_condition(&self, conditions: &mut Conditions, generation: Option<i64>, now: Timestamp) {
        match self {
            Self::AsBefore => {}
            Self::Off => {
                conditions.remove(ConditionType::DeletionGuarded);
            }
            Self::Reported(status, reason, text) => {
                let mut writer = ConditionWriter { conditions, generation, now };
                writer.put(ConditionType::DeletionGuarded, *status, *reason, text);
            }
        }
    }

    fn not_counted(why: &str) -> Self {
        Self::Reported(ConditionStatus::Unknown, Reason::NotCounted, why.to_owned())
    }
}

/// Counts the custom resources of a guarded extension; `account` is the ServiceAccount it acts as, if that is known. Without
/// a guard this makes no request.
pub(crate) async fn check(
    cx: &Context,
    extension: &ClusterExtension,
    account: Option<&AccountRef>,
) -> GuardState {
    let uid = extension.uid().unwrap_or_default();
    if !is_guarded(extension) {
        cx.custom_resources.forget(&uid);
        return GuardState::Off;
    }
    if let Some(account) = account
        && let Err(why) = follow(cx, extension, account).await
    {
        return GuardState::not_counted(&why);
    }
    match cx.custom_resources.counts(&uid) {
        None => GuardState::AsBefore,
        Some(Err(why)) => GuardState::not_counted(&why),
        Some(Ok(counts)) => counted(&counts),
    }
}

fn counted(counts: &BTreeMap<String, Counts>) -> GuardState {
    if counts.values().all(BTreeMap::is_empty) {
        let text = "no custom resources would be deleted with the extension".to_owned();
        return GuardState::Reported(ConditionStatus::False, Reason::NoCustomResources, text);
    }
    GuardState::Reported(ConditionStatus::True, Reason::CustomResources, listed(counts))
}

/// The numbers, in a sentence.
fn listed(counts: &BTreeMap<String, Counts>) -> String {
    let found: Vec<_> = counts.iter().filter(|(_, counts)| !counts.is_empty()).collect();
    let total: u64 = found.iter().flat_map(|(_, counts)| counts.values()).sum();
    let mut text = format!(
        "{total} custom {} would be deleted with the extension: ",
        if total == 1 { "resource" } else { "resources" }
    );
    for (index, (definition, counts)) in found.iter().take(NAMED_MAX).enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        let place = |(namespace, count): (&String, &u64)| match namespace.as_str() {
            "" => count.to_string(),
            namespace => format!("{count} in namespace {namespace}"),
        };
        let places: Vec<String> = counts.iter().take(NAMED_MAX).map(place).collect();
        let more = counts.len().saturating_sub(NAMED_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more namespaces") };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{definition}: {}{more}", places.join(", "));
    }
    let more = found.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        let _ = write!(text, "; and those of {more} more CRDs");
    }
    text
}

/// Has the custom resources of the extension's CRDs counted.
async fn follow(cx: &Context, extension: &ClusterExtension, account: &AccountRef) -> Result<(), String> {
    let (uid, name) = (extension.uid().unwrap_or_default(), extension.name_any());
    let definitions = definitions(cx, extension).await?;
    let client = cx.accounts.client(account).await.map_err(|e| e.to_string())?;
    let clients = (&cx.controller(), &client, account);
    cx.custom_resources.follow((&uid, &name), clients, &definitions);
    Ok(())
}

/// The CRDs that are deleted with the extension.
async fn definitions(cx: &Context, extension: &ClusterExtension) -> Result<BTreeSet<String>, String> {
    let api: Api<CustomResourceDefinition> = Api::all(cx.controller());
    let labelled = format!("{OWNER_NAME_LABEL}={}", extension.name_any());
    // Only of guarded extensions: the labels of CRDs are not kept in memory.
    let listed = bounded(api.list_metadata(&ListParams::default().labels(&labelled))).await;
    let listed = listed.map_err(|e| format!("listing the CRDs of the extension: {}", api_text(&e)))?;
    let is_owned = |crd: &kube::api::PartialObjectMeta<_>| {
        crd.metadata.deletion_timestamp.is_none()
            && crd.owner_references().iter().any(|owner| owner.kind == "ClusterObjectSet")
    };
    Ok(listed.items.iter().filter(|crd| is_owned(crd)).map(ResourceExt::name_any).collect())
}

/// Why a deletion that has begun cannot be completed: custom resources that were created after admission. Where they cannot
/// be counted, admission has decided.
pub(crate) async fn held(cx: &Context, extension: &ClusterExtension) -> Option<Held> {
    let cascades = extension.finalizers().iter().any(|finalizer| CASCADING.contains(&finalizer.as_str()));
    if !is_guarded(extension) || asked(extension) != Some(DeletionPolicy::Delete) || cascades {
        return None;
    }
    let account = service_account::account(extension, cx.settings.default_account().as_ref())?;
    let client = cx.accounts.client(&account).await.ok()?;
    let api: Api<CustomResourceDefinition> = Api::all(cx.controller());
    let mut found = Vec::new();
    for name in definitions(cx, extension).await.ok()? {
        let Ok(Some(crd)) = bounded(api.get_opt(&name)).await else { continue };
        let count = stored_objects::count(&client, &crd).await.unwrap_or_default();
        found.extend((count > 0).then(|| format!("{count} of {name}")));
    }
    (!found.is_empty()).then(|| {
        Held::for_good(format!(
            "custom resources were created meanwhile that would be deleted with the extension: {}; delete them, or remove the annotation {DELETION_GUARD_ANNOTATION} to have them deleted",
            found.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, &[(&str, u64)])]) -> BTreeMap<String, Counts> {
        let of = |counts: &[(&str, u64)]| counts.iter().map(|(at, n)| ((*at).to_owned(), *n)).collect();
        all.iter().map(|(name, counts)| ((*name).to_owned(), of(counts))).collect()
    }

    #[test]
    fn a_message_has_the_numbers_of_each_namespace() {
        let found = counts(&[("a.x", &[("n", 2), ("o", 1)]), ("b.x", &[("", 4)]), ("c.x", &[])]);
        assert_eq!(
            listed(&found),
            "7 custom resources would be deleted with the extension: a.x: 2 in namespace n, 1 in namespace o; b.x: 4"
        );
        assert!(matches!(
            counted(&counts(&[("c.x", &[])])),
            GuardState::Reported(ConditionStatus::False, Reason::NoCustomResources, _)
        ));
        assert!(matches!(counted(&counts(&[])), GuardState::Reported(ConditionStatus::False, ..)));
        let many = BTreeMap::from([("a.x".to_owned(), (0..12).map(|n| (format!("n{n:02}"), 1)).collect())]);
        assert!(listed(&many).ends_with("1 in namespace n09 and 2 more namespaces"), "{}", listed(&many));
    }
}
