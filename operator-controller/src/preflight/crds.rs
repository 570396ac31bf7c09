//! CRD upgrade safety: whether the CRDs of the new revision can replace those on the cluster, and the consequences for
//! those that it no longer has.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PartialObjectMeta},
};
use olm_api::names::{ALLOW_CRD_CHANGES_ANNOTATION, OWNER_NAME_LABEL};
use olm_crd::{Allowance, Allowances, Policy, Report, compare};
use olm_object::ObjectKey;
use olm_objectset::Phase;
use olm_plan::CrdFinding;
use olm_runtime::{api_text, bounded};
use serde_json::Value;

use super::stored_objects::{self, Change, ReadLimits};

/// Entries of the annotation that a message lists: all of a usual upgrade.
const ENTRIES_MAX: usize = 50;

/// A check of the CRDs of a new revision.
pub(crate) struct CrdPreflight<'a> {
    pub(crate) controller: &'a Client,
    /// The client of the extension's ServiceAccount, which reads custom resources.
    pub(crate) account: &'a Client,
    /// The ServiceAccount, as texts name it.
    pub(crate) who: String,
    /// The extension's name.
    pub(crate) extension: &'a str,
    pub(crate) phases: &'a [Phase],
    /// Whether there was no revision before, so that no CRD can be gone.
    pub(crate) first: bool,
    /// Whether the deletion policy keeps CRDs that a revision no longer has.
    pub(crate) kept: bool,
    /// Whether changes are checked at all.
    pub(crate) enforced: bool,
    /// Changes that are accepted.
    pub(crate) allowances: &'a Allowances,
}

/// The result of the check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CrdChanges {
    /// Upstream's text, if a change blocks the revision.
    pub(crate) refused: Option<String>,
    /// The additions to upstream's text: the stored objects, and the remedy.
    pub(crate) explanation: Option<String>,
    /// The entries of the annotation that were needed.
    pub(crate) accepted: Vec<String>,
    /// The CRDs that the new revision no longer has, a sentence each.
    pub(crate) removed: Vec<String>,
    /// The same by CRD, with the names of the objects in question.
    pub(crate) findings: Vec<CrdFinding>,
}

/// Compares every CRD of the new revision with the one on the cluster, if there is one.
///
/// # Errors
/// A CRD could not be read.
pub(crate) async fn check(asked: &CrdPreflight<'_>) -> Result<CrdChanges, String> {
    let new = definitions(asked.phases);
    let removed = if asked.first { BTreeMap::new() } else { removed(asked, &new).await? };
    let mut changes = CrdChanges::default();
    for (name, sentence) in removed {
        changes.removed.push(sentence.clone());
        changes.findings.push(CrdFinding { name, removed: Some(sentence), ..CrdFinding::default() });
    }
    if !asked.enforced {
        return Ok(changes);
    }
    let (mut refused, mut explanation, mut unsafe_changes) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = ReadLimits::full();
    for (name, new) in &new {
        let Some((old, mut report)) = report(asked, name, new).await? else { continue };
        let used = asked.allowances.apply(name, &mut report);
        let accepted: Vec<String> = used.iter().map(ToString::to_string).collect();
        changes.accepted.extend(accepted.iter().cloned());
        let mut finding = CrdFinding {
            name: name.clone(),
            refused: report.refused().map(ToString::to_string).collect(),
            accepted,
            ..CrdFinding::default()
        };
        let Some(text) = report.message(name) else {
            changes.findings.extend((!finding.accepted.is_empty()).then_some(finding));
            continue;
        };
        refused.push(text);
        unsafe_changes.extend(report.refused().map(|finding| Allowance::of(name, finding)));
        let versions: Vec<String> = report.versions_refused().into_iter().collect();
        if !versions.is_empty() {
            let change = Change { old: &old, new, versions };
            let (summary, named) = stored_objects::check(asked.account, &asked.who, &change, &mut left).await;
            explanation.push(format!("CRD {name:?}: {summary}."));
            finding.stored_objects = Some(summary);
            finding.objects = named;
        }
        changes.findings.push(finding);
    }
    if !refused.is_empty() {
        changes.refused = Some(refused.join("\n"));
        explanation.push(remedy(&unsafe_changes));
        changes.explanation = Some(explanation.join("\n"));
    }
    Ok(changes)
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
    objects
        .filter(|(key, _)| key.kind == "CustomResourceDefinition" && key.group == "apiextensions.k8s.io")
        .map(|(key, object)| (key.name, object))
        .collect()
}

/// The definition on the cluster, and how it differs.
async fn report(
    asked: &CrdPreflight<'_>,
    name: &str,
    new: &Value,
) -> Result<Option<(Value, Report)>, String> {
    let api: Api<CustomResourceDefinition> = Api::all(asked.controller.clone());
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
    asked: &CrdPreflight<'_>,
    new: &BTreeMap<String, &Value>,
) -> Result<BTreeMap<String, String>, String> {
    let api: Api<CustomResourceDefinition> = Api::all(asked.controller.clone());
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", asked.extension));
    let listed = bounded(api.list_metadata(&mine)).await;
    let listed = listed.map_err(|e| format!("listing the CRDs of the extension: {}", api_text(&e)))?;
    let is_removed = |crd: &PartialObjectMeta<_>| {
        crd.metadata.deletion_timestamp.is_none() && !new.contains_key(&crd.name_any())
    };
    let mut sentences = BTreeMap::new();
    for crd in listed.items.iter().filter(|crd| is_removed(crd)) {
        let name = crd.name_any();
        if asked.kept {
            let kept = format!("CRD {name:?} is no longer part of the bundle: the deletion policy keeps it.");
            sentences.insert(name, kept);
            continue;
        }
        let objects = match bounded(api.get_opt(&name)).await {
            Ok(Some(crd)) => stored_objects::count(asked.account, &crd).await,
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
