//! What becomes of each object with a new revision, and what the API server answers to a dry run.

use std::collections::BTreeSet;

use kube::{Client, ResourceExt};
use olm_api::v1::CollisionProtection;
use olm_object::ObjectKey;
use olm_objectset::{Action, DeletionPolicy, Owner, OwnershipContext, Phase, Sibling, action};
use olm_plan::{DryRun, Found, ObjectFacts, ObjectPlan, Section, object_plan};
use serde_json::Value;

use super::{AccountClient, Draft, refused};
use crate::{
    cluster_extension::{Context, observe::Observed, report::Cause},
    cluster_object_set::content::LoadedPhase,
    deletion_policy::extension::asked,
    preflight::{self, Look},
};

/// What becomes of the objects, the answers to the dry run, and why these keep the revision from being made. `known` is
/// what the active revisions consist of.
pub(super) async fn objects(
    cx: &Context,
    observed: &Observed<'_>,
    (asker, reader): (&AccountClient, &Client),
    (draft, served): (&Draft, &[Phase]),
    known: &[(i64, Vec<LoadedPhase>)],
) -> (Section<Vec<ObjectPlan>>, Section<DryRun>, Option<Cause>) {
    let rolled_out: BTreeSet<ObjectKey> = objects_of(known).map(|(_, o)| ObjectKey::of(o)).collect();
    let answers = preflight::look(&Look {
        account: asker.as_ref().ok(),
        reader,
        discovery: &cx.discovery,
        phases: served,
        rolled_out: &rolled_out,
    })
    .await;
    let (mut plans, mut dry_run) = (Vec::new(), DryRun::default());
    for ((phase, desired), answer) in pairs(served).zip(answers) {
        let key = ObjectKey::of(desired);
        if let Some(said) = answer.said {
            dry_run.add(key.to_string(), said);
        }
        let note = collision(cx, observed, desired, &answer.found);
        let mut same = objects_of(known).filter(|(_, old)| ObjectKey::of(old).same_object(&key));
        plans.push(object_plan(&ObjectFacts {
            phase,
            desired: Some(desired),
            old: same.next().map(|(_, old)| old),
            found: answer.found,
            would_be: answer.would_be.as_ref(),
            note,
        }));
    }
    plans.extend(left_out(draft, served));
    plans.extend(removed(known, draft, asked(observed.extension).unwrap_or_default()));
    let refusal = dry_run.refusal().map(|text| refused(&text));
    let dry_run = match asker {
        Ok(_) => Section::Known(dry_run),
        Err(why) => Section::unknown(why.as_str()),
    };
    (Section::Known(plans), dry_run, refusal)
}

/// A sentence about an object that has another owner.
fn collision(cx: &Context, observed: &Observed<'_>, desired: &Value, found: &Found) -> Option<String> {
    let Found::Present(live) = found else { return None };
    let revisions = &observed.revisions;
    let owner = Owner {
        api_version: String::new(),
        kind: String::new(),
        name: observed.extension.name_any(),
        uid: String::new(),
        revision: revisions.last_number().saturating_add(1),
        policy: DeletionPolicy::Delete,
    };
    let siblings: Vec<Sibling> =
        revisions.all().iter().map(|r| Sibling { uid: r.uid.clone(), revision: r.number }).collect();
    let state = cx.sets.state();
    let known = state.iter().filter_map(|guarded| guarded.0.as_ref().ok());
    let present: BTreeSet<String> = known.filter_map(ResourceExt::uid).collect();
    let context = OwnershipContext { owner: &owner, siblings: &siblings, present: Some(&present) };
    let planned = action(context, CollisionProtection::Prevent, desired, Some(live), None);
    matches!(planned, Action::Collision { .. })
        .then(|| "it is there already and is not the extension's: the roll-out stops at it".to_owned())
}

fn objects_of(contents: &[(i64, Vec<LoadedPhase>)]) -> impl Iterator<Item = (&str, &Value)> {
    let phases = contents.iter().flat_map(|(_, phases)| phases);
    phases.flat_map(|phase| phase.items.iter().map(|item| (phase.name.as_str(), &item.stored)))
}

/// Objects with the names of their phases.
fn pairs(phases: &[Phase]) -> impl Iterator<Item = (&str, &Value)> {
    phases.iter().flat_map(|phase| phase.objects.iter().map(|object| (phase.name.as_str(), object)))
}

/// The objects that are left out for now.
fn left_out(draft: &Draft, applied: &[Phase]) -> Vec<ObjectPlan> {
    let served: BTreeSet<ObjectKey> = pairs(applied).map(|(_, object)| ObjectKey::of(object)).collect();
    let left_out = pairs(&draft.phases).filter(|(_, object)| !served.contains(&ObjectKey::of(object)));
    let plan = |(phase, object)| {
        object_plan(&ObjectFacts {
            phase,
            desired: Some(object),
            old: None,
            found: Found::Absent,
            would_be: None,
            note: Some("it is left out until the cluster serves its kind".to_owned()),
        })
    };
    left_out.map(plan).collect()
}

/// The objects that are removed: those of active revisions that the new one does not have.
fn removed(contents: &[(i64, Vec<LoadedPhase>)], draft: &Draft, policy: DeletionPolicy) -> Vec<ObjectPlan> {
    let mut seen: Vec<ObjectKey> =
        draft.phases.iter().flat_map(|phase| &phase.objects).map(ObjectKey::of).collect();
    let mut plans = Vec::new();
    for (phase, old) in objects_of(contents) {
        let key = ObjectKey::of(old);
        if seen.iter().any(|other| other.same_object(&key)) {
            continue;
        }
        let kept = policy.keeps_when_dropped(&key);
        seen.push(key);
        let found = Found::Absent;
        let note = kept.then(|| "the deletion policy keeps it".to_owned());
        let facts = ObjectFacts { phase, desired: None, old: Some(old), found, would_be: None, note };
        plans.push(object_plan(&facts));
    }
    plans
}
