//! Objects of a revision whose kinds the cluster does not serve: left out for now, or waited for.
//!
//! The content of a revision never changes; an annotation records what is left out of the roll-out.

use std::{borrow::Cow, collections::BTreeSet};

use kube::ResourceExt;
use olm_api::{
    names::{LEFT_OUT_ANNOTATION, UNKNOWN_KINDS_ANNOTATION},
    v1::ClusterObjectSet,
};
use olm_object::{ObjectKey, defined_kinds};
use olm_objectset::{Phase, UnknownKinds};
use serde_json::json;

use crate::{
    cluster_object_set::{
        Context,
        observe::{
            Observed,
            content::{Item, LoadedPhase},
        },
        report::has_succeeded,
    },
    facts::kinds::{Survey, survey},
    preflight,
};

/// Objects named in the annotation, at most.
const LEFT_OUT_NAMED_MAX: usize = 100;

/// Which of the revision's objects the cluster can hold now; those that it cannot are of interest from then on.
pub(crate) async fn check(cx: &Context, observed: &Observed<'_>) -> Survey {
    let policy = observed.set.annotations().get(UNKNOWN_KINDS_ANNOTATION).map(String::as_str);
    let keys = observed.items().map(|item| &item.known.key);
    let defined = || defined_kinds(observed.items().filter(|item| item.known.key.is_crd()).map(Item::object));
    let found = survey(&cx.discovery, keys, defined, UnknownKinds::from_annotation(policy)).await;
    observed.wanted.add(found.interests());
    found
}

/// Which of the objects that are left out the annotation does not name yet. None if it is up to date.
pub(crate) fn news(set: &ClusterObjectSet, left_out: &BTreeSet<ObjectKey>) -> Option<Vec<String>> {
    let before = recorded(set);
    let is_recorded = set.annotations().get(LEFT_OUT_ANNOTATION) == record(left_out).as_ref();
    let names = left_out.iter().map(ToString::to_string);
    (!is_recorded).then(|| names.filter(|key| !before.contains(key)).collect())
}

/// Records what is left out; `news` is what was not before.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn write(
    cx: &Context,
    set: &ClusterObjectSet,
    left_out: &BTreeSet<ObjectKey>,
    news: &[String],
) -> Result<(), String> {
    let wanted = record(left_out);
    tracing::info!(revision = set.name_any(), left_out = wanted, "objects left out for want of their kinds");
    let written = cx.annotate(set, json!({LEFT_OUT_ANNOTATION: wanted})).await;
    written.map_err(|e| format!("recording what is left out: {e}"))?;
    cx.events.left_out(set, news).await;
    Ok(())
}

/// Reports objects that were changed although the revision had rolled out: drift that was repaired, or objects whose kind
/// has come.
pub(crate) async fn report_changed(cx: &Context, set: &ClusterObjectSet, changed: &BTreeSet<ObjectKey>) {
    if !has_succeeded(set) {
        return;
    }
    let before = recorded(set);
    let (arrived, repaired): (Vec<_>, Vec<_>) =
        changed.iter().partition(|key| before.contains(&key.to_string()));
    for key in &repaired {
        cx.repairs.repaired(&key.kind);
    }
    let [arrived, repaired] =
        [arrived, repaired].map(|keys| keys.into_iter().map(ToString::to_string).collect::<Vec<_>>());
    if !repaired.is_empty() {
        tracing::info!(revision = set.name_any(), ?repaired, "drift repaired");
    }
    cx.events.arrived(set, &arrived).await;
    cx.events.repaired(set, &repaired).await;
}

/// Checks the permissions for objects whose kind has come since they were left out: they could not be checked before.
///
/// # Errors
/// Permissions are missing, or could not be reviewed.
pub(crate) async fn check_arrived(
    cx: &Context,
    observed: &Observed<'_>,
    survey: &Survey,
) -> Result<(), String> {
    let before = recorded(observed.set);
    let has_arrived = |key: &ObjectKey| before.contains(&key.to_string()) && !survey.lacks(key);
    let arrived = observed.items().filter(|item| has_arrived(&item.known.key));
    let arrived: Vec<_> = arrived.map(|item| item.object().clone()).collect();
    if arrived.is_empty() || !cx.preflight_permissions {
        return Ok(());
    }
    let arrived = [Phase { name: "arrived".to_owned(), objects: arrived }];
    let (client, controller, revision) = (&observed.client, cx.controller(), observed.set.name_any());
    let objects: Vec<_> = arrived.iter().flat_map(|phase| &phase.objects).collect();
    let verbs = preflight::Verbs::Managed(&revision);
    let missing = preflight::missing_permissions(client, &controller, &cx.discovery, &objects, verbs).await?;
    if missing.is_empty() { Ok(()) } else { Err(olm_rbac::report(&missing)) }
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
        phase.items.retain(|item| !left_out.contains(&item.known.key));
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
        let item = |name: &str| {
            Item::of(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}))
        };
        let phases = [
            LoadedPhase { name: "one".into(), items: vec![item("a")] },
            LoadedPhase { name: "two".into(), items: vec![item("b"), item("c")] },
        ];
        let left_out = BTreeSet::from(["a", "c"].map(|name| item(name).known.key));
        let kept = without(&phases, &left_out);
        assert_eq!(kept.iter().map(|p| p.items.len()).collect::<Vec<_>>(), [0, 1]);
    }
}
