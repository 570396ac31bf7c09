//! Objects of a revision whose kinds the cluster does not serve: left out for now, or waited for.
//!
//! The content of a revision never changes; what is left out of the roll-out stands in an annotation.

use std::{borrow::Cow, collections::BTreeSet};

use kube::{Api, Client, ResourceExt, api::Patch};
use olm_api::{
    names::{LEFT_OUT_ANNOTATION, OBJECT_FIELD_MANAGER, UNKNOWN_KINDS_ANNOTATION},
    v1::ClusterObjectSet,
};
use olm_object::ObjectKey;
use olm_objectset::{Phase, UnknownKinds};
use olm_runtime::{api_text, bounded, patch_as};
use serde_json::json;

use crate::cluster_object_set::content::LoadedPhase;
use crate::cluster_object_set::reconcile::ObjectSets;
use crate::{
    facts::kinds::{Survey, survey},
    interest::Wanted,
    preflight,
};

/// Objects named in the annotation; a bundle that ships more has told enough.
const LEFT_OUT_NAMED_MAX: usize = 100;

impl ObjectSets {
    /// Which of the revision's objects the cluster can hold now; those that it cannot are of interest from then on.
    pub(crate) async fn survey(
        &self,
        set: &ClusterObjectSet,
        phases: &[LoadedPhase],
        wanted: &Wanted,
    ) -> Survey {
        let objects: Vec<_> = phases.iter().flat_map(|phase| &phase.items).map(|item| &item.stored).collect();
        let policy = UnknownKinds::from_annotation(
            set.annotations().get(UNKNOWN_KINDS_ANNOTATION).map(String::as_str),
        );
        let found = survey(&self.ports.discovery, &objects, policy).await;
        wanted.add(found.interests());
        found
    }

    /// Records what is left out, if that is not done yet; answers the revision as it is then, if it was written.
    ///
    /// # Errors
    /// The API server's answer.
    pub(crate) async fn record_left_out(
        &self,
        set: &ClusterObjectSet,
        left_out: &BTreeSet<ObjectKey>,
    ) -> Result<Option<ClusterObjectSet>, String> {
        let wanted = record(left_out);
        if set.annotations().get(LEFT_OUT_ANNOTATION) == wanted.as_ref() {
            return Ok(None);
        }
        tracing::info!(
            revision = set.name_any(),
            left_out = wanted,
            "objects left out for want of their kinds"
        );
        let patch = json!({"metadata": {"annotations": {LEFT_OUT_ANNOTATION: wanted}}});
        let params = patch_as(OBJECT_FIELD_MANAGER);
        let api: Api<ClusterObjectSet> = Api::all(self.ports.accounts.controller());
        let patched = bounded(api.patch(&set.name_any(), &params, &Patch::Merge(&patch))).await;
        let patched = patched.map_err(|e| format!("recording what is left out: {}", api_text(&e)))?;
        self.wrote(&patched);
        let before = recorded(set);
        let news: Vec<String> =
            left_out.iter().map(ToString::to_string).filter(|key| !before.contains(key)).collect();
        self.ports.events.left_out(set, &news).await;
        Ok(Some(patched))
    }

    /// Tells of objects that were written again, or at last.
    pub(crate) async fn tell_rewritten(&self, set: &ClusterObjectSet, written: BTreeSet<ObjectKey>) {
        if written.is_empty() {
            return;
        }
        let before = recorded(set);
        let (arrived, repaired): (Vec<_>, Vec<_>) =
            written.iter().partition(|key| before.contains(&key.to_string()));
        for key in &repaired {
            self.ports.objects.repaired(&key.kind);
        }
        let [arrived, repaired] =
            [arrived, repaired].map(|keys| keys.into_iter().map(ToString::to_string).collect::<Vec<_>>());
        if !repaired.is_empty() {
            tracing::info!(revision = set.name_any(), ?repaired, "drift repaired");
        }
        self.ports.events.arrived(set, &arrived).await;
        self.ports.events.repaired(set, &repaired).await;
    }

    /// Checks the rights for objects whose kind has come since they were left out: they were not known before.
    ///
    /// # Errors
    /// Rights are missing, or could not be reviewed.
    pub(crate) async fn check_arrived(
        &self,
        set: &ClusterObjectSet,
        client: &Client,
        phases: &[LoadedPhase],
        survey: &Survey,
    ) -> Result<(), String> {
        if !self.ports.preflight_permissions {
            return Ok(());
        }
        let before = recorded(set);
        let has_arrived = |key: &ObjectKey| before.contains(&key.to_string()) && !survey.lacks(key);
        let arrived: Vec<_> = phases
            .iter()
            .flat_map(|phase| &phase.items)
            .filter(|item| has_arrived(&ObjectKey::of(&item.stored)))
            .map(|item| item.stored.clone())
            .collect();
        if arrived.is_empty() {
            return Ok(());
        }
        let arrived = [Phase { name: "arrived".to_owned(), objects: arrived }];
        let (controller, revision) = (self.ports.accounts.controller(), set.name_any());
        preflight::check_rights(client, &controller, &self.ports.discovery, &arrived, &revision).await
    }
}

/// The phases without the objects that are left out.
pub(crate) fn without<'a>(
    phases: &'a [LoadedPhase],
    left_out: &BTreeSet<ObjectKey>,
) -> Cow<'a, [LoadedPhase]> {
    if left_out.is_empty() {
        return Cow::Borrowed(phases);
    }
    let mut phases = phases.to_vec();
    for phase in &mut phases {
        phase.items.retain(|item| !left_out.contains(&ObjectKey::of(&item.stored)));
    }
    Cow::Owned(phases)
}

fn record(left_out: &BTreeSet<ObjectKey>) -> Option<String> {
    if left_out.is_empty() {
        return None;
    }
    let mut named: Vec<String> = left_out.iter().take(LEFT_OUT_NAMED_MAX).map(ToString::to_string).collect();
    if left_out.len() > named.len() {
        named.push(format!("and {} more", left_out.len() - named.len()));
    }
    Some(json!(named).to_string())
}

fn recorded(set: &ClusterObjectSet) -> BTreeSet<String> {
    let text = set.annotations().get(LEFT_OUT_ANNOTATION);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitors(count: usize) -> BTreeSet<ObjectKey> {
        let key = |i| {
            ObjectKey::of(&json!({
                "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
                "metadata": {"name": format!("m{i:03}"), "namespace": "n"},
            }))
        };
        (0..count).map(key).collect()
    }

    #[test]
    fn the_record_names_objects_and_stays_short() {
        assert_eq!(record(&monitors(0)), None);
        assert_eq!(
            record(&monitors(2)).as_deref(),
            Some(
                "[\"ServiceMonitor.monitoring.coreos.com/v1 n/m000\",\"ServiceMonitor.monitoring.coreos.com/v1 n/m001\"]"
            )
        );
        let long = record(&monitors(1000)).unwrap();
        assert!(long.ends_with(",\"and 900 more\"]") && long.len() < 16 << 10, "{long}");
    }

    #[test]
    fn what_is_left_out_leaves_its_phase_in_place() {
        let item = |name: &str| super::super::content::Item {
            stored: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}),
            protection: olm_api::v1::CollisionProtection::Prevent,
        };
        let phases = [
            LoadedPhase { name: "one".into(), items: vec![item("a")] },
            LoadedPhase { name: "two".into(), items: vec![item("b"), item("c")] },
        ];
        let left_out = BTreeSet::from([ObjectKey::of(&item("a").stored), ObjectKey::of(&item("c").stored)]);
        let kept = without(&phases, &left_out);
        assert_eq!(kept.iter().map(|p| p.items.len()).collect::<Vec<_>>(), [0, 1]);
    }
}
