//! The changes of CRDs by a revision, and those among them that the administrator has accepted.
//!
//! The revision records them, so that `Ready` can report them long after the check.

use kube::{Client, ResourceExt};
use olm_api::{
    names::ALLOW_CRD_CHANGES_ANNOTATION,
    v1::{ClusterExtension, CrdUpgradeSafetyEnforcement},
};
use olm_crd::Allowances;
use olm_objectset::{DeletionPolicy, Phase};
use olm_plan::CrdFinding;
use serde::{Deserialize, Serialize};

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
    preflight::{self, CrdPreflight},
};

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
pub(crate) struct Checked {
    pub(crate) changes: CrdChanges,
    /// The findings on each CRD.
    pub(crate) findings: Vec<CrdFinding>,
    /// Sentences for `Ready`.
    pub(crate) notes: Vec<String>,
    /// The reason why the revision is blocked.
    pub(crate) obstacle: Option<Cause>,
}

/// Checks the CRDs of a new revision of these phases against those on the cluster, as `client` of the ServiceAccount.
pub(crate) async fn check(
    cx: &Context,
    observed: &Observed<'_>,
    client: &Client,
    phases: &[Phase],
) -> Result<Checked, Cause> {
    let Observed { extension, account, revisions, .. } = observed;
    let allowances = allowances(extension).map_err(Cause::terminal)?;
    let preflight = extension.spec.install.as_ref().and_then(|i| i.preflight.as_ref());
    let enforcement = preflight.map(|p| p.crd_upgrade_safety.enforcement);
    let found = preflight::check_crds(&CrdPreflight {
        controller: &cx.controller(),
        account: client,
        who: format!("service account {:?} in namespace {:?}", account.name, account.namespace),
        extension: &extension.name_any(),
        phases,
        first: revisions.all().is_empty(),
        kept: asked(extension) != Some(DeletionPolicy::Delete),
        enforced: enforcement != Some(CrdUpgradeSafetyEnforcement::None),
        allowances: &allowances,
    })
    .await
    .map_err(Cause::transient)?;
    let changes = CrdChanges { accepted: found.accepted, removed: found.removed };
    let notes = changes.notes(&allowances, false);
    let explanation = found.explanation;
    let obstacle = found.refused.map(|text| Cause { explanation, ..Cause::transient(text) });
    Ok(Checked { changes, findings: found.findings, notes, obstacle })
}

/// The notes of `Ready` on the CRDs of the latest revision.
pub(crate) fn notes(extension: &ClusterExtension, latest: &Revision, revisions: &Revisions) -> Vec<String> {
    let recorded =
        latest.crd_changes.as_deref().and_then(|text| serde_json::from_str::<CrdChanges>(text).ok());
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
