//! The changes of CRDs that come with a revision, as it records them.
//!
//! `Ready` reports them long after the check. Those that the stored objects decided about are checked once more before the
//! CRD is written: objects may have been created or changed since.

use std::collections::BTreeMap;

use kube::Client;
use olm_api::names::ALLOW_CRD_CHANGES_ANNOTATION;
use olm_crd::{Allowances, Policy, compare};
use olm_object::text;
use olm_plan::NamedObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::preflight::stored_objects::{Decision, ReadLimits, decide};

/// Stored objects that a condition names.
const NAMED_MAX: usize = 10;

/// The changes of CRDs by a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CrdChanges {
    /// Entries of the annotation that were needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) accepted: Vec<String>,
    /// CRDs with changes that were accepted because they affect none of so many stored objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) by_objects: BTreeMap<String, usize>,
    /// A sentence for each CRD that is removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) removed: Vec<String>,
}

impl CrdChanges {
    /// The form in which a revision records it; nothing if there is nothing to say.
    pub(crate) fn recorded(&self) -> Option<String> {
        let is_empty = *self == Self::default();
        (!is_empty).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// What a revision has recorded.
    pub(crate) fn read(record: Option<&str>) -> Self {
        record.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Sentences for `Ready`, with those on CRDs that go only while they still are to go.
    pub(crate) fn notes(&self, allowances: &Allowances, is_done: bool) -> Vec<String> {
        let mut notes = if is_done { Vec::new() } else { self.removed.clone() };
        if !self.accepted.is_empty() {
            notes.push(format!(
                "CRD changes accepted by {ALLOW_CRD_CHANGES_ANNOTATION}: {}",
                self.accepted.join(", ")
            ));
        }
        for (name, objects) in &self.by_objects {
            notes
                .push(format!("Changes of CRD {name:?} accepted because {}", Decision::Unaffected(*objects)));
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

    /// Why a CRD may not be written: which stored objects are affected by now. `None` if it may be, or if nothing of it was
    /// decided by objects.
    pub(crate) async fn refusal(&self, account: &Client, live: &Value, desired: &Value) -> Option<String> {
        let name = text(desired, "/metadata/name");
        if !self.by_objects.contains_key(name) {
            return None;
        }
        let mut report = match compare(live, desired, Policy::Ours) {
            Ok(report) => report,
            Err(error) => return Some(error.to_string()),
        };
        Allowances::parse(&self.accepted.join(" ")).unwrap_or_default().apply(name, &mut report);
        if !report.is_refused() {
            return None;
        }
        let change = (live, desired, &report);
        match decide(account, "the ServiceAccount", change, &mut ReadLimits::full()).await {
            Decision::Unaffected(_) => None,
            Decision::Affected { summary, named: objects } => Some(format!(
                "its changes were accepted because they affected no stored object, and now {summary}{}",
                named(&objects)
            )),
            Decision::Inapplicable(why) => {
                Some(format!("stored objects no longer decide about its changes: {why}"))
            }
        }
    }
}

/// The first of the objects, as the end of a sentence.
pub(crate) fn named(objects: &[NamedObject]) -> String {
    let shown = objects.iter().take(NAMED_MAX).map(|one| format!("{} {}", one.object, one.impact));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match objects.len().saturating_sub(NAMED_MAX) {
        _ if objects.is_empty() => String::new(),
        0 => format!(": {shown}"),
        more => format!(": {shown}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_names_accepted_changes_unused_entries_and_removed_crds() {
        let allowances = Allowances::parse("a.b:^.x:maximum a.b:^.y:type").unwrap();
        let changes = CrdChanges {
            accepted: vec!["a.b:^.x:maximum".into()],
            by_objects: [("e.f".to_owned(), 4), ("g.h".to_owned(), 0)].into(),
            removed: vec!["CRD \"c.d\" goes.".into()],
        };
        let notes = changes.notes(&allowances, false);
        assert_eq!(
            notes,
            [
                "CRD \"c.d\" goes.",
                "CRD changes accepted by extensions.olm.operatorframework.io/allow-crd-changes: a.b:^.x:maximum",
                "Changes of CRD \"e.f\" accepted because none of 4 stored objects is affected",
                "Changes of CRD \"g.h\" accepted because there are no stored objects",
                "Entries of extensions.olm.operatorframework.io/allow-crd-changes that nothing needs: a.b:^.y:type",
            ]
        );
        assert_eq!(changes.notes(&allowances, true), notes[1..]);
        assert_eq!(CrdChanges::read(changes.recorded().as_deref()), changes);
        assert_eq!(CrdChanges::default().recorded(), None);
        assert_eq!(CrdChanges::read(Some("no JSON")), CrdChanges::default());
    }

    #[test]
    fn a_condition_names_ten_objects() {
        let objects: Vec<NamedObject> = (0..12)
            .map(|n| NamedObject { object: format!("n/{n:02}"), impact: "would lose fields".to_owned() })
            .collect();
        assert_eq!(named(&objects[..1]), ": n/00 would lose fields");
        let all = named(&objects);
        assert!(all.ends_with("n/09 would lose fields, and 2 more"), "{all}");
        assert_eq!(named(&[]), "");
    }
}
