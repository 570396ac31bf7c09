//! The deletion policy of an extension: written to its revisions, reported once it is in force, and carried out when the
//! extension is deleted.
//!
//! Admission lets an extension with a policy be deleted only while the condition `DeletionPolicy` says that this
//! very policy is in force. So the claim is taken back before another policy is written to a revision.

use std::{collections::BTreeSet, fmt::Display};

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use olm_api::{
    ConditionStatus, ConditionType, ConditionWriter, Conditions, Reason,
    names::{
        DELETION_POLICY_ANNOTATION, OBJECT_FIELD_MANAGER, OWNER_NAME_LABEL, PACKAGE_NAME,
        REVISION_OF_ANNOTATION, TEARDOWN_FINALIZER,
    },
    ownership::{ExtensionId, Relation, mark, relation},
    v1::{ClusterExtension, ClusterObjectSet, LifecycleState},
};
use olm_objectset::{
    DeletionPolicy, converts_by_webhook, readable_without_webhook, retained_for, without_webhook, written_for,
};
use olm_runtime::{AccountRef, api_text, bounded, if_exists, patch_as};
use serde_json::{Value, json};

use crate::cluster_extension::act::revision::controller_reference;
use crate::cluster_extension::observe::revisions::account_annotations;
use crate::cluster_extension::observe::service_account;
use crate::cluster_extension::{Context, short_annotation};
use crate::cluster_object_set::report::status::torn_down;
use crate::deletion_policy::revision::{claim, reason};
use crate::facts::readable;

/// Kubernetes' finalizer of an object that is deleted without its dependents.
const ORPHAN_FINALIZER: &str = "orphan";
/// What is said while the revisions are on their way.
const PENDING: &str = "the revisions have not reported yet";

/// What is known of the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum PolicyState {
    /// None was asked for, and nothing is left of an earlier one.
    None,
    /// What was reported before.
    #[default]
    AsBefore,
    /// The revisions could not be asked, for this reason: it is as before.
    Unknown(String),
    /// An earlier claim is taken back, or a policy reported for the first time, before anything else happens.
    TakenBack(DeletionPolicy),
    /// Whether the policy is in force.
    Reported { policy: DeletionPolicy, status: ConditionStatus, text: String },
}

impl PolicyState {
    /// A sentence for `Ready`.
    pub(crate) fn note(&self, extension: &ClusterExtension) -> Option<String> {
        let name = short_annotation(DELETION_POLICY_ANNOTATION);
        let in_force = |policy: &str| format!("In force by annotation: {name}: {policy}.");
        match self {
            Self::None => annotation(extension).map(in_force),
            Self::AsBefore | Self::Unknown(_) => {
                let claimed = claim(extension.status.as_ref().map(|status| &status.conditions));
                claimed.filter(|(_, holds)| *holds).map(|(policy, _)| in_force(policy))
            }
            Self::TakenBack(_) => None,
            Self::Reported { policy, status: ConditionStatus::True, .. } => Some(in_force(policy.as_str())),
            Self::Reported { policy: DeletionPolicy::Delete, text, .. } => Some(format!(
                "Objects that an earlier deletion policy kept do not have all their owner references back: {text}"
            )),
            Self::Reported { policy, text, .. } => Some(format!(
                "The deletion policy {} is not in force yet, so the extension cannot be deleted: {text}",
                policy.as_str()
            )),
        }
    }

    pub(crate) fn set_condition(&self, conditions: &mut Conditions, generation: Option<i64>, now: Timestamp) {
        let (policy, status, text) = match self {
            Self::AsBefore | Self::Unknown(_) => return,
            Self::None => {
                conditions.remove(ConditionType::DeletionPolicy);
                return;
            }
            Self::TakenBack(policy) => (*policy, ConditionStatus::False, PENDING),
            Self::Reported { policy, status, text } => (*policy, *status, text.as_str()),
        };
        let mut writer = ConditionWriter { conditions, generation, now };
        writer.put(ConditionType::DeletionPolicy, status, reason(policy), text);
    }
}

fn annotation(extension: &ClusterExtension) -> Option<&str> {
    extension.annotations().get(DELETION_POLICY_ANNOTATION).map(String::as_str)
}

/// The policy that an extension asks for; nothing for a value that is not known.
pub(crate) fn asked(extension: &ClusterExtension) -> Option<DeletionPolicy> {
    DeletionPolicy::from_annotation(annotation(extension))
}

/// The annotation of a new revision.
pub(crate) fn of_revision(extension: &ClusterExtension) -> Option<(String, String)> {
    let policy = asked(extension).filter(|policy| *policy != DeletionPolicy::Delete)?;
    Some((DELETION_POLICY_ANNOTATION.to_owned(), policy.as_str().to_owned()))
}

/// Why a deletion cannot continue.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) text: String,
    /// Whether it passes by itself.
    pub(crate) recovers: bool,
}

impl Held {
    pub(crate) fn for_good(text: String) -> Self {
        Self { text, recovers: false }
    }
}

impl From<String> for Held {
    fn from(text: String) -> Self {
        Self { text, recovers: true }
    }
}

/// The policy of one extension, and what is done for it.
#[derive(Clone, Copy)]
pub(crate) struct ExtensionPolicy<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) extension: &'a ClusterExtension,
}

impl ExtensionPolicy<'_> {
    /// Writes the policy on to the revisions and asks them how far they are. Without a policy, past or present,
    /// this makes no request.
    pub(crate) async fn check(&self) -> PolicyState {
        self.reported().await.unwrap_or_else(PolicyState::Unknown)
    }

    async fn reported(&self) -> Result<PolicyState, String> {
        let Some(wanted) = asked(self.extension) else { return Ok(PolicyState::AsBefore) };
        let claimed = claim(self.extension.status.as_ref().map(|status| &status.conditions));
        // The extension reports a policy before a revision gets it: else it could be deleted, its annotation gone
        // again, while objects lose their owner references.
        let is_unreported = claimed.is_none() && wanted != DeletionPolicy::Delete;
        if is_unreported
            || claimed.is_some_and(|(policy, in_force)| in_force && policy != reason(wanted).as_str())
        {
            return Ok(PolicyState::TakenBack(wanted));
        }
        let known = self.cx.sets.state();
        let mut known = readable(&known);
        let is_quiet =
            |set: &ClusterObjectSet| wanted == DeletionPolicy::Delete && in_force(set, wanted).is_ok();
        if wanted == DeletionPolicy::Delete
            && claimed.is_none()
            && known.all(|set| !self.counts(set) || is_quiet(set))
        {
            return Ok(PolicyState::None);
        }
        let mut revisions = self.cx.sets_of(self.extension)?;
        revisions.retain(|set| self.counts(set));
        let takes_another = |set: &ClusterObjectSet| {
            recorded(set).is_none_or(|policy| policy != wanted && policy != DeletionPolicy::Delete)
        };
        if revisions.iter().any(takes_another) {
            self.check_current().await?;
        }
        for set in &mut revisions {
            if recorded(set) != Some(wanted) {
                *set = self.record(set, wanted).await?;
            }
        }
        Ok(summed_up(wanted, &revisions))
    }

    /// Asks whether the extension is still as it is reconciled. Another replica may have begun to lead and put a policy in
    /// force, which must not be taken from a revision because of an older state.
    async fn check_current(&self) -> Result<(), String> {
        let api: Api<ClusterExtension> = Api::all(self.cx.controller());
        let found = bounded(api.get_metadata(&self.extension.name_any())).await;
        let found = found.map_err(|e| format!("reading the extension: {}", api_text(&e)))?;
        if found.resource_version() != self.extension.resource_version() {
            return Err("the extension has changed since it was read".to_owned());
        }
        Ok(())
    }

    /// Whether a revision may still own something.
    fn counts(&self, set: &ClusterObjectSet) -> bool {
        self.controls(set) && set.metadata.deletion_timestamp.is_none() && !torn_down(set)
    }

    fn controls(&self, set: &ClusterObjectSet) -> bool {
        let extension = ExtensionId::of(&self.extension.metadata);
        extension.is_some_and(|extension| relation(&set.metadata, extension) == Relation::Revision)
    }

    async fn record(
        &self,
        set: &ClusterObjectSet,
        policy: DeletionPolicy,
    ) -> Result<ClusterObjectSet, String> {
        let value = (policy != DeletionPolicy::Delete).then_some(policy.as_str());
        let patch = json!({"metadata": {"annotations": {DELETION_POLICY_ANNOTATION: value}}});
        let name = set.name_any();
        let patched = self.cx.patch_set(self.extension, &name, patch).await;
        patched.map_err(|e| format!("writing the deletion policy to revision {name:?}: {}", api_text(&e)))
    }

    /// Gives the extension the revisions of its name and package without an owner: those of an earlier extension
    /// that was deleted without its dependents. They carry the mark of that one.
    pub(crate) async fn adopt(&self, account: &AccountRef) -> Result<(), String> {
        let name = self.extension.name_any();
        let package =
            self.extension.spec.source.catalog.as_ref().map(|catalog| catalog.package_name.as_str());
        let [account, namespace] = account_annotations(account).map(|(mark, value)| (mark, Some(value)));
        let marks = [(PACKAGE_NAME, package), account, namespace];
        let is_left = |set: &ClusterObjectSet| {
            set.owner_references().is_empty()
                && mark(&set.metadata).is_some_and(|uid| !uid.is_empty())
                && set.metadata.deletion_timestamp.is_none()
                && set.spec.lifecycle_state == LifecycleState::Active
                && set.labels().get(OWNER_NAME_LABEL) == Some(&name)
                && marks.iter().all(|(mark, value)| {
                    value.is_some() && set.annotations().get(*mark).map(String::as_str) == *value
                })
        };
        let known = self.cx.sets.state();
        let known = readable(&known);
        let left: Vec<(String, Option<String>)> =
            known.filter(|set| is_left(set)).map(|set| (set.name_any(), set.resource_version())).collect();
        for (revision, version) in left {
            let patch = json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                {
                    "op": "add",
                    "path": "/metadata/ownerReferences",
                    "value": [controller_reference::<ClusterExtension>(&self.extension.metadata)],
                },
                {
                    "op": "replace",
                    "path": format!("/metadata/annotations/{}", REVISION_OF_ANNOTATION.replace('/', "~1")),
                    "value": self.extension.uid(),
                },
            ]);
            let patch = serde_json::from_value(patch).map_err(|e| e.to_string())?;
            let params = PatchParams::default();
            let patched = bounded(self.set_api().patch(&revision, &params, &Patch::Json::<()>(patch))).await;
            let written = patched.map_err(|e| format!("adopting revision {revision:?}: {}", api_text(&e)))?;
            self.cx.wrote_set(self.extension, &written.metadata);
            tracing::info!(extension = name, revision, "revision adopted");
        }
        Ok(())
    }

    /// Makes what is kept able to stand alone, before the extension goes. `false` while revisions are still at
    /// work.
    ///
    /// # Errors
    /// Something kept could not be used any more: the sentence says what, and the remedy.
    pub(crate) async fn release(&self) -> Result<bool, Held> {
        let claimed = claim(self.extension.status.as_ref().map(|status| &status.conditions));
        let retains = match claimed {
            Some((policy, true)) => policy == Reason::RetainCRDs.as_str(),
            _ => asked(self.extension) == Some(DeletionPolicy::RetainCrds),
        };
        if !retains || self.extension.finalizers().iter().any(|finalizer| finalizer == ORPHAN_FINALIZER) {
            return Ok(true);
        }
        // While deleted revisions are at work nothing is asked: the store shows when they are at rest.
        let is_at_work =
            |set: &ClusterObjectSet| set.metadata.deletion_timestamp.is_some() && has_teardown(set);
        if self.cx.sets_of(self.extension)?.iter().any(|set| self.controls(set) && is_at_work(set)) {
            return Ok(false);
        }
        // Listed, because what is deleted or changed from here on does not come back: the newest state decides.
        let listed = bounded(self.set_api().list(&self.mine())).await;
        let sets = listed.map_err(|e| format!("listing the revisions: {}", api_text(&e)))?.items;
        let crds = self.converting(&sets).await?;
        if crds.is_empty() {
            return Ok(true);
        }
        for (_, crd) in &crds {
            readable_without_webhook(crd).map_err(Held::for_good)?;
        }
        let names: Vec<&str> = crds.iter().map(|(name, _)| name.as_str()).collect();
        let remedy = format!(
            "the webhook of {} is deleted with the extension, and the CRD must not depend on it: remove the cause, or set spec.conversion of the CRD to {{\"strategy\": \"None\"}} by hand",
            names.join(", ")
        );
        let Some(account) =
            service_account::account(self.extension, self.cx.settings.default_account().as_ref())
        else {
            return Err(Held::for_good(format!("the extension has no service account; {remedy}")));
        };
        // One that was created again will do: it only takes the webhook out of CRDs with this extension's own marks.
        let held = |error: &dyn Display| Held::for_good(format!("{error}; {remedy}"));
        let client = self.cx.accounts.client(&account).await.map_err(|e| held(&e))?;
        // Nothing goes before it is known that the CRDs can be left as they must.
        for (name, crd) in &crds {
            convert(&client, name, crd, true).await.map_err(|e| held(&e))?;
        }
        if !self.stop(&sets).await? {
            return Ok(false);
        }
        for (name, crd) in &crds {
            convert(&client, name, crd, false).await.map_err(|e| held(&e))?;
        }
        Ok(true)
    }

    /// The kept CRDs with webhook conversion that are left without a webhook once the extension is gone.
    async fn converting(&self, sets: &[ClusterObjectSet]) -> Result<Vec<(String, Value)>, String> {
        // Whole CRDs are not kept in memory.
        let api: Api<CustomResourceDefinition> = Api::all(self.cx.controller());
        let listed = bounded(api.list(&self.mine())).await;
        let listed = listed.map_err(|e| format!("listing the CRDs of the extension: {}", api_text(&e)))?;
        let left = |set: &&ClusterObjectSet| {
            set.owner_references().is_empty() && set.metadata.deletion_timestamp.is_none()
        };
        // Deleted without dependents: the revision goes on by itself.
        let still_owned: BTreeSet<String> = sets.iter().filter(left).filter_map(ResourceExt::uid).collect();
        let extension = self.extension.name_any();
        let package =
            self.extension.spec.source.catalog.as_ref().map(|catalog| catalog.package_name.as_str());
        let mut found = Vec::new();
        for crd in listed.items {
            let name = crd.name_any();
            let value = serde_json::to_value(crd).map_err(|e| e.to_string())?;
            let kept = retained_for(&value).is_some_and(|uid| !still_owned.contains(uid));
            let ours = package.is_some_and(|package| written_for(&value) == Some((&extension, package)));
            if kept && ours && converts_by_webhook(&value) {
                found.push((name, value));
            }
        }
        Ok(found)
    }

    /// Deletes the revisions, so that none takes the change of a CRD back; `true` once they are at rest.
    async fn stop(&self, sets: &[ClusterObjectSet]) -> Result<bool, String> {
        let mut at_rest = true;
        for set in sets.iter().filter(|set| self.controls(set)) {
            let name = set.name_any();
            if set.metadata.deletion_timestamp.is_none() {
                let deleted = if_exists(self.set_api().delete(&name, &DeleteParams::background())).await;
                let failed = |e| format!("deleting revision {name:?}: {}", api_text(&e));
                let Some(deleted) = deleted.map_err(failed)? else { continue };
                if let Some(set) = deleted.left() {
                    self.cx.wrote_set(self.extension, &set.metadata);
                }
                at_rest = false;
            } else if has_teardown(set) {
                at_rest = false;
            }
        }
        Ok(at_rest)
    }

    fn mine(&self) -> ListParams {
        ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", self.extension.name_any()))
    }

    fn set_api(&self) -> Api<ClusterObjectSet> {
        Api::all(self.cx.controller())
    }
}

fn has_teardown(set: &ClusterObjectSet) -> bool {
    set.finalizers().iter().any(|finalizer| finalizer == TEARDOWN_FINALIZER)
}

/// Leaves a CRD without its webhook, as the account; or only asks whether that is possible.
async fn convert(client: &Client, name: &str, crd: &Value, dry_run: bool) -> Result<(), String> {
    let patch = serde_json::from_value(Value::Array(without_webhook(crd))).map_err(|e| e.to_string())?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams { dry_run, ..patch_as(OBJECT_FIELD_MANAGER) };
    let patched = if_exists(api.patch(name, &params, &Patch::Json::<()>(patch))).await;
    patched.map(drop).map_err(|e| format!("CRD {name:?}: {}", api_text(&e)))
}

/// The policy that is written on a revision; nothing for a value that is not known.
fn recorded(set: &ClusterObjectSet) -> Option<DeletionPolicy> {
    DeletionPolicy::from_annotation(set.annotations().get(DELETION_POLICY_ANNOTATION).map(String::as_str))
}

/// Whether the revision has the policy in force; if not, what it says, and whether it is stuck.
fn in_force(set: &ClusterObjectSet, wanted: DeletionPolicy) -> Result<(), (String, bool)> {
    let condition =
        set.status.as_ref().and_then(|status| status.conditions.find(ConditionType::DeletionPolicy));
    let Some(condition) = condition else {
        let quiet = wanted == DeletionPolicy::Delete && recorded(set) == Some(wanted);
        return if quiet { Ok(()) } else { Err((PENDING.to_owned(), false)) };
    };
    let is_wanted = condition.reason == reason(wanted).as_str() && recorded(set) == Some(wanted);
    if is_wanted && condition.status == ConditionStatus::True.as_str() {
        return Ok(());
    }
    if !is_wanted {
        return Err((PENDING.to_owned(), false));
    }
    Err((condition.message.clone(), condition.status == ConditionStatus::Unknown.as_str()))
}

fn summed_up(wanted: DeletionPolicy, revisions: &[ClusterObjectSet]) -> PolicyState {
    let mut unsettled = revisions.iter().filter_map(|set| {
        in_force(set, wanted).err().map(|(text, stuck)| (format!("{}: {text}", set.name_any()), stuck))
    });
    let policy = wanted;
    match (unsettled.next(), wanted) {
        (None, DeletionPolicy::Delete) => PolicyState::None,
        (None, kept) => {
            let stays = match kept {
                DeletionPolicy::Orphan => "all objects of its bundle stay.",
                _ => "its CustomResourceDefinitions stay, and with them all custom resources.",
            };
            let text = format!("When the extension is deleted, {stays}");
            PolicyState::Reported { policy, status: ConditionStatus::True, text }
        }
        (Some((text, stuck)), _) => {
            let status = if stuck { ConditionStatus::Unknown } else { ConditionStatus::False };
            PolicyState::Reported { policy, status, text }
        }
    }
}

#[cfg(test)]
mod tests;
