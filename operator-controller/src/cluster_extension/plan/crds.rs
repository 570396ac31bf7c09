//! CRD upgrade safety: whether the CRDs of a new revision can replace those on the cluster, the consequences for those
//! that it no longer has, and the changes that the administrator has accepted.
//!
//! The revision records them, so that `Ready` can report them long after the check.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PartialObjectMeta},
};
use olm_api::{
    names::{
        ALLOW_CRD_CHANGES_ANNOTATION, CRD_CHANGE_MODE_ANNOTATION, CRD_CHANGES_ANNOTATION, OWNER_NAME_LABEL,
        OWNER_UID_ANNOTATION,
    },
    v1::{ClusterExtension, CrdUpgradeSafetyEnforcement},
};
use olm_crd::{Allowance, Allowances, NotByObjects, Policy, Report, by_objects, compare};
use olm_object::ObjectKey;
use olm_objectset::DeletionPolicy;
use olm_plan::{CrdFinding, NamedObject};
use olm_runtime::{AccountRef, api_text, bounded};
use serde_json::Value;

use crate::{
    cluster_extension::{
        Context,
        annotations::{CHECK_OBJECTS, objects_decide},
        observe::{
            Observed,
            revisions::{Revision, Revisions},
        },
        plan::Draft,
        report::Cause,
    },
    crd_changes::{CrdChanges, named},
    deletion_policy::extension::asked,
    preflight::stored_objects::{self, Change, Decision, ReadLimits},
};

/// Entries of the annotation that a message lists: all of a usual upgrade.
const ENTRIES_MAX: usize = 50;

/// Definitions of the cluster in memory at a time, each up to 1.5 MB.
const READ_AT_A_TIME: usize = 4;

/// The CRD changes that the extension accepts.
///
/// # Errors
/// The annotation is malformed.
pub(crate) fn allowances(extension: &ClusterExtension) -> Result<Allowances, String> {
    let text = extension.annotations().get(ALLOW_CRD_CHANGES_ANNOTATION).map_or("", String::as_str);
    Allowances::parse(text).map_err(|e| format!("annotation {ALLOW_CRD_CHANGES_ANNOTATION:?}: {e}"))
}

/// The result of a check of CRDs.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) changes: CrdChanges,
    /// The names of CRDs that were looked for and are not on the cluster.
    pub(crate) new: BTreeSet<String>,
    /// The findings on each CRD, with the names of the objects in question.
    pub(crate) findings: Vec<CrdFinding>,
    /// Sentences for `Ready`.
    pub(crate) notes: Vec<String>,
    /// The reason why the revision is blocked: upstream's text, with the stored objects and the remedy.
    pub(crate) obstacle: Option<Cause>,
}

/// Checks the CRDs of a new revision against those on the cluster, as `account`, the client of the ServiceAccount, which
/// reads custom resources.
pub(crate) async fn check(
    cx: &Context,
    observed: &Observed<'_>,
    account: &Client,
    draft: &Draft,
) -> Result<Checked, Cause> {
    let new = definitions(draft.phases.iter().flat_map(|phase| &phase.objects));
    let mut checked = Checked::default();
    let mut dangers = Vec::new();
    // Without a revision before, no CRD can be gone.
    if !observed.revisions.all().is_empty() {
        for (name, gone) in removed(cx, observed, account, &new).await.map_err(Cause::transient)? {
            let Removed { sentence, takes_objects } = gone;
            dangers.extend(takes_objects.then(|| sentence.clone()));
            checked.changes.removed.push(sentence.clone());
            checked.findings.push(CrdFinding { name, removed: Some(sentence), ..CrdFinding::default() });
        }
    }
    if draft.returned_from.is_some() {
        dangers.extend(
            dangers_of_return(cx, observed, account, (&new, &mut checked)).await.map_err(Cause::transient)?,
        );
        let text = || format!("stored objects would be in danger: {}", dangers.join(" "));
        checked.obstacle = (!dangers.is_empty()).then(|| Cause::terminal(text()));
        return Ok(checked);
    }
    let allowances = allowances(observed.extension).map_err(Cause::terminal)?;
    let preflight = observed.extension.spec.install.as_ref().and_then(|i| i.preflight.as_ref());
    let enforcement = preflight.map(|p| p.crd_upgrade_safety.enforcement);
    if enforcement != Some(CrdUpgradeSafetyEnforcement::None) {
        compare_all(cx, observed, account, (&new, &allowances), &mut checked)
            .await
            .map_err(Cause::transient)?;
    }
    checked.notes = checked.changes.notes(&allowances, false);
    Ok(checked)
}

/// The reasons why these definitions of an earlier revision cannot come back without a person's consent, a sentence each:
/// objects were stored or converted in another form, or do not fit. What the extension accepts was accepted for the way
/// forward, so it does not count.
async fn dangers_of_return(
    cx: &Context,
    observed: &Observed<'_>,
    account: &Client,
    (new, checked): (&BTreeMap<String, &Value>, &mut Checked),
) -> Result<Vec<String>, String> {
    let (mut dangers, mut left) = (Vec::new(), ReadLimits::full());
    let mut reports = reports(cx, new);
    while let Some((name, new, found)) = reports.next().await {
        let Some((old, report)) = found? else { continue };
        let danger = match irreversible(&old, new, &report) {
            Some(why) => Some(why.to_string()),
            None if report.is_refused() => {
                let change = (&old, new, &report);
                match stored_objects::decide(account, &who(&observed.account), change, &mut left).await {
                    Decision::Unaffected(objects) => {
                        checked.changes.by_objects.insert(name.to_owned(), objects);
                        None
                    }
                    affected => Some(affected.to_string()),
                }
            }
            None => None,
        };
        dangers.extend(danger.map(|danger| format!("CRD {name:?}: {danger}.")));
    }
    Ok(dangers)
}

/// What makes it impossible to replace a definition by an earlier one, whatever objects there are.
fn irreversible(live: &Value, earlier: &Value, report: &Report) -> Option<NotByObjects> {
    by_objects(live, earlier, report)
        .err()
        .filter(|why| matches!(why, NotByObjects::Conversion { .. } | NotByObjects::StorageVersion { .. }))
}

fn who(AccountRef { namespace, name }: &AccountRef) -> String {
    format!("service account {name:?} in namespace {namespace:?}")
}

/// Compares every CRD of the new revision with the one on the cluster, if there is one.
async fn compare_all(
    cx: &Context,
    observed: &Observed<'_>,
    account: &Client,
    (new, allowances): (&BTreeMap<String, &Value>, &Allowances),
    checked: &mut Checked,
) -> Result<(), String> {
    let (mut refused, mut explanation, mut unsafe_changes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut left, mut may_be_decided) = (ReadLimits::full(), false);
    let mut reports = reports(cx, new);
    while let Some((name, new, found)) = reports.next().await {
        let Some((old, mut report)) = found? else {
            checked.new.insert(name.to_owned());
            continue;
        };
        let used = allowances.apply(name, &mut report);
        let accepted: Vec<String> = used.iter().map(ToString::to_string).collect();
        checked.changes.accepted.extend(accepted.iter().cloned());
        let mut finding = CrdFinding { name: name.to_owned(), accepted, ..CrdFinding::default() };
        let Some(text) = report.message(name) else {
            checked.findings.extend((!finding.accepted.is_empty()).then_some(finding));
            continue;
        };
        let change = (&old, new, &report);
        let texts: Vec<String> = report.refused().map(ToString::to_string).collect();
        match objects(observed, account, change, &mut left).await {
            Impact::None(objects, text) => {
                finding.decided_by_objects = texts;
                finding.stored_objects = Some(text);
                checked.changes.by_objects.insert(name.to_owned(), objects);
            }
            Impact::Some { summary, objects, condition } => {
                refused.push(text);
                unsafe_changes.extend(report.refused().map(|finding| Allowance::of(name, finding)));
                may_be_decided |= by_objects(&old, new, &report).is_ok();
                explanation.extend(condition.map(|summary| format!("CRD {name:?}: {summary}.")));
                finding = CrdFinding { refused: texts, stored_objects: summary, objects, ..finding };
            }
        }
        checked.findings.push(finding);
    }
    if !refused.is_empty() {
        explanation.push(remedy(&unsafe_changes));
        if may_be_decided && !objects_decide(observed.extension) {
            explanation.push(format!(
                "To let the stored objects decide, set the annotation {CRD_CHANGE_MODE_ANNOTATION}: {CHECK_OBJECTS}"
            ));
        }
        let explanation = Some(explanation.join("\n"));
        checked.obstacle = Some(Cause { explanation, ..Cause::transient(refused.join("\n")) });
    }
    Ok(())
}

/// The impact of a refused change on stored objects.
enum Impact {
    /// It affects none of so many, and they decide; in words.
    None(usize, String),
    Some {
        summary: Option<String>,
        objects: Vec<NamedObject>,
        /// The summary as conditions have it.
        condition: Option<String>,
    },
}

async fn objects(
    observed: &Observed<'_>,
    account: &Client,
    change: (&Value, &Value, &Report),
    left: &mut ReadLimits,
) -> Impact {
    let who = who(&observed.account);
    let mut inapplicable = None;
    if objects_decide(observed.extension) {
        let decision = stored_objects::decide(account, &who, change, left).await;
        let text = decision.to_string();
        match decision {
            Decision::Unaffected(objects) => return Impact::None(objects, text),
            Decision::Affected { summary, named: objects } => {
                let condition = Some(format!("{summary}{}", named(&objects)));
                return Impact::Some { summary: Some(summary), objects, condition };
            }
            Decision::Inapplicable(_) => inapplicable = Some(text),
        }
    }
    let (old, new, report) = change;
    let versions: Vec<String> = report.versions_refused().into_iter().collect();
    if versions.is_empty() {
        return Impact::Some { summary: None, objects: Vec::new(), condition: inapplicable };
    }
    let (summary, objects) = stored_objects::check(account, &who, &Change { old, new, versions }, left).await;
    let condition = inapplicable.into_iter().chain([summary.clone()]).collect::<Vec<_>>().join("; ");
    Impact::Some { summary: Some(summary), objects, condition: Some(condition) }
}

fn remedy(changes: &[Allowance]) -> String {
    let entries: BTreeSet<String> = changes.iter().map(ToString::to_string).collect();
    let shown: Vec<&str> = entries.iter().take(ENTRIES_MAX).map(String::as_str).collect();
    let more = entries.len() - shown.len();
    let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    format!(
        "To accept these changes anyway, set the annotation {ALLOW_CRD_CHANGES_ANNOTATION}: {}{more}",
        shown.join(" ")
    )
}

/// The CRDs among the objects, by name.
pub(crate) fn definitions<O: Borrow<Value>>(objects: impl Iterator<Item = O>) -> BTreeMap<String, O> {
    let keyed = objects.map(|object| (ObjectKey::of(object.borrow()), object));
    keyed.filter(|(key, _)| key.is_crd()).map(|(key, object)| (key.name, object)).collect()
}

/// The [`report`] on each definition, in their order; a few are read at a time.
fn reports<'a>(
    cx: &'a Context,
    new: &'a BTreeMap<String, &Value>,
) -> impl Stream<Item = (&'a str, &'a Value, Result<Compared, String>)> + Unpin {
    let read = move |(name, new): (&'a String, &'a &Value)| async move {
        let new: &'a Value = new;
        (name.as_str(), new, report(cx, name, new).await)
    };
    Box::pin(stream::iter(new).map(read).buffered(READ_AT_A_TIME))
}

/// The definition on the cluster and how it differs, if there is one.
type Compared = Option<(Value, Report)>;

/// Compares a definition with the one on the cluster.
async fn report(cx: &Context, name: &str, new: &Value) -> Result<Compared, String> {
    let api: Api<CustomResourceDefinition> = Api::all(cx.controller());
    let failed = |cause: String| format!("getting existing resource for CRD {name:?}: {cause}");
    let Some(old) = bounded(api.get_opt(name)).await.map_err(|e| failed(api_text(&e)))? else {
        return Ok(None);
    };
    let old = serde_json::to_value(old).map_err(|e| failed(e.to_string()))?;
    let report = compare(&old, new, Policy::Ours).map_err(|e| failed(e.to_string()))?;
    Ok(Some((old, report)))
}

/// A CRD that a new revision no longer has.
struct Removed {
    sentence: String,
    /// Whether custom resources may go with it.
    takes_objects: bool,
}

/// The CRDs of the extension that the new revision no longer has.
async fn removed(
    cx: &Context,
    observed: &Observed<'_>,
    account: &Client,
    new: &BTreeMap<String, &Value>,
) -> Result<BTreeMap<String, Removed>, String> {
    let api: Api<CustomResourceDefinition> = Api::all(cx.controller());
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", observed.extension.name_any()));
    // Listed where a revision is planned: the labels of CRDs are not kept in memory.
    let listed = bounded(api.list_metadata(&mine)).await;
    let listed = listed.map_err(|e| format!("listing the CRDs of the extension: {}", api_text(&e)))?;
    let sets: BTreeSet<&str> =
        observed.revisions.all().iter().map(|revision| revision.uid.as_str()).collect();
    // Anyone may write the label; what no revision owns is not deleted with one.
    let is_ours = |crd: &PartialObjectMeta<_>| {
        let kept = crd.annotations().get(OWNER_UID_ANNOTATION).map(String::as_str);
        let owners = crd.owner_references().iter().map(|owner| owner.uid.as_str());
        owners.chain(kept).any(|uid| sets.contains(uid))
    };
    let is_removed = |crd: &PartialObjectMeta<_>| {
        crd.metadata.deletion_timestamp.is_none() && !new.contains_key(&crd.name_any()) && is_ours(crd)
    };
    let mut sentences = BTreeMap::new();
    for crd in listed.items.iter().filter(|crd| is_removed(crd)) {
        let name = crd.name_any();
        if asked(observed.extension) != Some(DeletionPolicy::Delete) {
            let sentence =
                format!("CRD {name:?} is no longer part of the bundle: the deletion policy keeps it.");
            sentences.insert(name, Removed { sentence, takes_objects: false });
            continue;
        }
        let objects = match bounded(api.get_opt(&name)).await {
            Ok(Some(crd)) => stored_objects::count(account, &crd).await,
            _ => None,
        };
        let takes_objects = objects != Some(0);
        let objects = match objects {
            Some(0) => "it has no custom resources".to_owned(),
            Some(1) => "its one custom resource is deleted with it".to_owned(),
            Some(count) => format!("its {count} custom resources are deleted with it"),
            None => "its custom resources are deleted with it".to_owned(),
        };
        let sentence = format!(
            "CRD {name:?} is no longer part of the bundle: it is deleted once the new revision has rolled out, and {objects}."
        );
        sentences.insert(name, Removed { sentence, takes_objects });
    }
    Ok(sentences)
}

/// The notes of `Ready` on the CRDs of the latest revision.
pub(crate) fn notes(extension: &ClusterExtension, latest: &Revision, revisions: &Revisions) -> Vec<String> {
    let recorded = CrdChanges::read(latest.annotation(CRD_CHANGES_ANNOTATION));
    let is_done = revisions.installed() == Some(latest);
    // A malformed annotation has been reported by the check.
    recorded.notes(&allowances(extension).unwrap_or_default(), is_done)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_malformed_annotation_is_rejected_with_an_explanation() {
        let mut extension = ClusterExtension::new("a", olm_api::v1::ClusterExtensionSpec::default());
        extension.metadata.annotations =
            Some([(ALLOW_CRD_CHANGES_ANNOTATION.to_owned(), "all".to_owned())].into());
        assert_eq!(
            allowances(&extension).unwrap_err(),
            "annotation \"extensions.olm.operatorframework.io/allow-crd-changes\": entry \"all\" is not of the form <CRD name>:<path>:<check>, as in widgets.example.com:^.spec.size:maximum"
        );
    }

    #[test]
    fn another_storage_version_or_conversion_cannot_be_undone() {
        let definition = |storage: &str, conversion: &str, most: u8| {
            let version = |name: &str| {
                json!({"name": name, "served": true, "storage": name == storage, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"size": {"type": "integer", "maximum": most}}}}})
            };
            json!({"metadata": {"name": "a.b"}, "spec": {
                "scope": "Namespaced", "versions": [version("v1"), version("v2")],
                "conversion": {"strategy": conversion},
            }, "status": {"storedVersions": [storage]}})
        };
        let earlier = definition("v1", "None", 5);
        for (live, wanted) in [
            (definition("v1", "None", 5), None),
            // Objects decide about it.
            (definition("v1", "None", 9), None),
            (definition("v2", "None", 5), Some("the storage version changes from v2 to v1")),
            (
                definition("v1", "Webhook", 5),
                Some("the conversion between versions changes from Webhook to None"),
            ),
        ] {
            let report = compare(&live, &earlier, Policy::Ours).unwrap();
            let found = irreversible(&live, &earlier, &report).map(|why| why.to_string());
            assert_eq!(found.as_deref(), wanted, "{live}");
        }
    }
}
