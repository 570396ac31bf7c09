//! CRD upgrade safety: whether the CRDs of a new revision can replace those on the cluster, the consequences for those
//! that it no longer has, and the changes that the administrator has accepted.
//!
//! The revision records them, so that `Ready` can report them long after the check.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PartialObjectMeta},
};
use olm_api::{
    names::{ALLOW_CRD_CHANGES_ANNOTATION, CRD_CHANGES_ANNOTATION, OWNER_NAME_LABEL},
    v1::{ClusterExtension, CrdUpgradeSafetyEnforcement},
};
use olm_crd::{Allowance, Allowances, Policy, Report, compare};
use olm_object::ObjectKey;
use olm_objectset::{DeletionPolicy, Phase};
use olm_plan::CrdFinding;
use olm_runtime::{AccountRef, api_text, bounded};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    cluster_extension::{
        Context,
        observe::{
            Observed,
            revisions::{Revision, Revisions},
        },
        report::Cause,
    },
    deletion_policy::extension::asked,
    preflight::stored_objects::{self, Change, ReadLimits},
};

/// Entries of the annotation that a message lists: all of a usual upgrade.
const ENTRIES_MAX: usize = 50;

/// The changes of CRDs by a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CrdChanges {
    /// Entries of the annotation that were needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    accepted: Vec<String>,
    /// A sentence for each CRD that is removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<String>,
}

impl CrdChanges {
    /// The form in which a revision records it; nothing if there is nothing to say.
    pub(crate) fn recorded(&self) -> Option<String> {
        let is_empty = self.accepted.is_empty() && self.removed.is_empty();
        (!is_empty).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Sentences for `Ready`, with those on CRDs that go only while they still are to go.
    fn notes(&self, allowances: &Allowances, is_done: bool) -> Vec<String> {
        let mut notes = if is_done { Vec::new() } else { self.removed.clone() };
        if !self.accepted.is_empty() {
            notes.push(format!(
                "CRD changes accepted by {ALLOW_CRD_CHANGES_ANNOTATION}: {}",
                self.accepted.join(", ")
            ));
        }
        let unused: Vec<String> = allowances
            .iter()
            .map(ToString::to_string)
            .filter(|entry| !self.accepted.contains(entry))
            .collect();
        if !unused.is_empty() {
            notes.push(format!(
                "Entries of {ALLOW_CRD_CHANGES_ANNOTATION} that nothing needs: {}",
                unused.join(", ")
            ));
        }
        notes
    }
}

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
    /// The findings on each CRD, with the names of the objects in question.
    pub(crate) findings: Vec<CrdFinding>,
    /// Sentences for `Ready`.
    pub(crate) notes: Vec<String>,
    /// The reason why the revision is blocked: upstream's text, with the stored objects and the remedy.
    pub(crate) obstacle: Option<Cause>,
}

/// Checks the CRDs of a new revision of these phases against those on the cluster, as `account`, the client of the
/// ServiceAccount, which reads custom resources.
pub(crate) async fn check(
    cx: &Context,
    observed: &Observed<'_>,
    account: &Client,
    phases: &[Phase],
) -> Result<Checked, Cause> {
    let allowances = allowances(observed.extension).map_err(Cause::terminal)?;
    let new = definitions(phases);
    let mut checked = Checked::default();
    // Without a revision before, no CRD can be gone.
    if !observed.revisions.all().is_empty() {
        for (name, sentence) in removed(cx, observed, account, &new).await.map_err(Cause::transient)? {
            checked.changes.removed.push(sentence.clone());
            checked.findings.push(CrdFinding { name, removed: Some(sentence), ..CrdFinding::default() });
        }
    }
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

/// Compares every CRD of the new revision with the one on the cluster, if there is one.
async fn compare_all(
    cx: &Context,
    observed: &Observed<'_>,
    account: &Client,
    (new, allowances): (&BTreeMap<String, &Value>, &Allowances),
    checked: &mut Checked,
) -> Result<(), String> {
    let AccountRef { namespace, name } = &observed.account;
    let who = format!("service account {name:?} in namespace {namespace:?}");
    let (mut refused, mut explanation, mut unsafe_changes) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = ReadLimits::full();
    for (name, new) in new {
        let Some((old, mut report)) = report(cx, name, new).await? else { continue };
        let used = allowances.apply(name, &mut report);
        let accepted: Vec<String> = used.iter().map(ToString::to_string).collect();
        checked.changes.accepted.extend(accepted.iter().cloned());
        let mut finding = CrdFinding {
            name: name.clone(),
            refused: report.refused().map(ToString::to_string).collect(),
            accepted,
            ..CrdFinding::default()
        };
        let Some(text) = report.message(name) else {
            checked.findings.extend((!finding.accepted.is_empty()).then_some(finding));
            continue;
        };
        refused.push(text);
        unsafe_changes.extend(report.refused().map(|finding| Allowance::of(name, finding)));
        let versions: Vec<String> = report.versions_refused().into_iter().collect();
        if !versions.is_empty() {
            let change = Change { old: &old, new, versions };
            let (summary, named) = stored_objects::check(account, &who, &change, &mut left).await;
            explanation.push(format!("CRD {name:?}: {summary}."));
            finding.stored_objects = Some(summary);
            finding.objects = named;
        }
        checked.findings.push(finding);
    }
    if !refused.is_empty() {
        explanation.push(remedy(&unsafe_changes));
        let explanation = Some(explanation.join("\n"));
        checked.obstacle = Some(Cause { explanation, ..Cause::transient(refused.join("\n")) });
    }
    Ok(())
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

fn definitions(phases: &[Phase]) -> BTreeMap<String, &Value> {
    let objects =
        phases.iter().flat_map(|phase| &phase.objects).map(|object| (ObjectKey::of(object), object));
    objects.filter(|(key, _)| key.is_crd()).map(|(key, object)| (key.name, object)).collect()
}

/// The definition on the cluster, and how it differs.
async fn report(cx: &Context, name: &str, new: &Value) -> Result<Option<(Value, Report)>, String> {
    let api: Api<CustomResourceDefinition> = Api::all(cx.controller());
    let failed = |cause: String| format!("getting existing resource for CRD {name:?}: {cause}");
    let Some(old) = bounded(api.get_opt(name)).await.map_err(|e| failed(api_text(&e)))? else {
        return Ok(None);
    };
    let old = serde_json::to_value(old).map_err(|e| failed(e.to_string()))?;
    let report = compare(&old, new, Policy::Ours).map_err(|e| failed(e.to_string()))?;
    Ok(Some((old, report)))
}

/// The CRDs of the extension that the new revision no longer has, each with a sentence.
async fn removed(
    cx: &Context,
    observed: &Observed<'_>,
    account: &Client,
    new: &BTreeMap<String, &Value>,
) -> Result<BTreeMap<String, String>, String> {
    let api: Api<CustomResourceDefinition> = Api::all(cx.controller());
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", observed.extension.name_any()));
    // Listed where a revision is planned: the labels of CRDs are not kept in memory.
    let listed = bounded(api.list_metadata(&mine)).await;
    let listed = listed.map_err(|e| format!("listing the CRDs of the extension: {}", api_text(&e)))?;
    let is_removed = |crd: &PartialObjectMeta<_>| {
        crd.metadata.deletion_timestamp.is_none() && !new.contains_key(&crd.name_any())
    };
    let mut sentences = BTreeMap::new();
    for crd in listed.items.iter().filter(|crd| is_removed(crd)) {
        let name = crd.name_any();
        if asked(observed.extension) != Some(DeletionPolicy::Delete) {
            let kept = format!("CRD {name:?} is no longer part of the bundle: the deletion policy keeps it.");
            sentences.insert(name, kept);
            continue;
        }
        let objects = match bounded(api.get_opt(&name)).await {
            Ok(Some(crd)) => stored_objects::count(account, &crd).await,
            _ => None,
        };
        let objects = match objects {
            Some(0) => "it has no custom resources".to_owned(),
            Some(1) => "its one custom resource is deleted with it".to_owned(),
            Some(count) => format!("its {count} custom resources are deleted with it"),
            None => "its custom resources are deleted with it".to_owned(),
        };
        let sentence = format!(
            "CRD {name:?} is no longer part of the bundle: it is deleted once the new revision has rolled out, and {objects}."
        );
        sentences.insert(name, sentence);
    }
    Ok(sentences)
}

/// The notes of `Ready` on the CRDs of the latest revision.
pub(crate) fn notes(extension: &ClusterExtension, latest: &Revision, revisions: &Revisions) -> Vec<String> {
    let recorded = latest
        .annotation(CRD_CHANGES_ANNOTATION)
        .and_then(|text| serde_json::from_str::<CrdChanges>(text).ok());
    let is_done = revisions.installed() == Some(latest);
    // A malformed annotation has been reported by the check.
    recorded.unwrap_or_default().notes(&allowances(extension).unwrap_or_default(), is_done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_names_accepted_changes_unused_entries_and_removed_crds() {
        let allowances = Allowances::parse("a.b:^.x:maximum a.b:^.y:type").unwrap();
        let changes = CrdChanges {
            accepted: vec!["a.b:^.x:maximum".into()],
            removed: vec!["CRD \"c.d\" goes.".into()],
        };
        let notes = changes.notes(&allowances, false);
        assert_eq!(
            notes,
            [
                "CRD \"c.d\" goes.",
                "CRD changes accepted by extensions.olm.operatorframework.io/allow-crd-changes: a.b:^.x:maximum",
                "Entries of extensions.olm.operatorframework.io/allow-crd-changes that nothing needs: a.b:^.y:type",
            ]
        );
        assert_eq!(changes.notes(&allowances, true), notes[1..]);
        let recorded: CrdChanges = serde_json::from_str(&changes.recorded().unwrap()).unwrap();
        assert_eq!(recorded, changes);
        assert_eq!(CrdChanges::default().recorded(), None);
    }

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
}
