//! What becomes of each object with a new revision, and what the API server answers to a dry run, which stores nothing.
//!
//! The answer to a dry run tells an object that would be new from one that is there; only the latter are read.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, GetParams, Patch, PatchParams, PostParams},
};
use olm_api::{names::OBJECT_FIELD_MANAGER, v1::CollisionProtection};
use olm_object::{DefinedKind, ObjectKey, defined_kinds, text};
use olm_objectset::{
    Action, DeletionPolicy, Owner, OwnershipContext, Phase, Sibling, action, has_created_fields,
};
use olm_plan::{DryRun, DryRunVerdict, Found, ObjectFacts, ObjectPlan, Section, object_plan};
use olm_preflight::{REQUESTS, concurrently};
use olm_runtime::{
    Discovery, DiscoveryError, Kind, api_text, bounded, dry_run_creation, get_json, patch_json, post_as,
};
use serde_json::Value;

use super::{AccountClient, Draft, refused};
use crate::facts::readable;
use crate::{
    cluster_extension::{Context, observe::Observed, report::Cause},
    cluster_object_set::content::{Item, LoadedPhase},
    deletion_policy::extension::asked,
};

/// What becomes of the objects, the answers to the dry run, and why these keep the revision from being made. `known` is
/// what the active revisions consist of; there is no dry run of the CRDs named in `created_first`.
pub(super) async fn objects(
    cx: &Context,
    observed: &Observed<'_>,
    (asker, reader): (&AccountClient, &Client),
    (draft, served): (&Draft, &[Phase]),
    (known, created_first): (&[(i64, Vec<LoadedPhase>)], &BTreeSet<String>),
) -> (Section<Vec<ObjectPlan>>, Section<DryRun>, Option<Cause>) {
    let rolled_out: BTreeSet<ObjectKey> = items(known).map(|(_, item)| item.known.key.clone()).collect();
    let answers = answers(&Questions {
        account: asker.as_ref().ok(),
        reader,
        discovery: &cx.discovery,
        phases: served,
        rolled_out: &rolled_out,
        created_first,
    })
    .await;
    let (mut plans, mut answered) = (Vec::new(), DryRun::default());
    for ((phase, desired), answer) in pairs(served).zip(answers) {
        let key = ObjectKey::of(desired);
        if let Some(verdict) = answer.verdict {
            answered.add(key.to_string(), verdict);
        }
        let note = collision(cx, observed, desired, &answer.found);
        let mut same = items(known).filter(|(_, old)| old.known.key.same_object(&key));
        plans.push(object_plan(&ObjectFacts {
            phase,
            desired: Some(desired),
            old: same.next().map(|(_, old)| old.object()),
            found: answer.found,
            would_be: answer.would_be.as_ref(),
            note,
        }));
    }
    plans.extend(left_out(draft, served));
    plans.extend(removed(known, draft, asked(observed.extension).unwrap_or_default()));
    let refusal = answered.refusal().map(|text| refused(&text));
    let answered = match asker {
        Ok(_) => Section::Known(answered),
        Err(why) => Section::unknown(why.as_str()),
    };
    (Section::Known(plans), answered, refusal)
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
    let known = readable(&state);
    let present: BTreeSet<String> = known.filter_map(ResourceExt::uid).collect();
    let context = OwnershipContext { owner: &owner, siblings: &siblings, present: Some(&present) };
    let planned = action(context, CollisionProtection::Prevent, desired, Some(live), None);
    matches!(planned, Action::Collision { .. })
        .then(|| "it is there already and is not the extension's: the roll-out stops at it".to_owned())
}

/// The objects of active revisions with the names of their phases.
fn items(contents: &[(i64, Vec<LoadedPhase>)]) -> impl Iterator<Item = (&str, &Item)> {
    let phases = contents.iter().flat_map(|(_, phases)| phases);
    phases.flat_map(|phase| phase.items.iter().map(|item| (phase.name.as_str(), item)))
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
    for (phase, item) in items(contents) {
        let key = &item.known.key;
        if seen.iter().any(|other| other.same_object(key)) {
            continue;
        }
        seen.push(key.clone());
        let (old, found) = (Some(item.object()), Found::Absent);
        let kept = policy.keeps_when_dropped(key);
        let note = kept.then(|| "the deletion policy keeps it".to_owned());
        let facts = ObjectFacts { phase, desired: None, old, found, would_be: None, note };
        plans.push(object_plan(&facts));
    }
    plans
}

/// The objects of a revision, and the clients that ask about them.
struct Questions<'a> {
    /// The account's client, for dry-runs; without it there are none.
    account: Option<&'a Client>,
    /// The client that reads the objects that exist.
    reader: &'a Client,
    discovery: &'a Discovery,
    phases: &'a [Phase],
    /// Objects of the revisions that are active. What the new revision itself brings a kind or a namespace for can
    /// be there only if one of them has it.
    rolled_out: &'a BTreeSet<ObjectKey>,
    /// New CRDs that are created before anything else: that is the question, which costs the API server no more than a dry
    /// run, and what it refuses leaves nothing behind.
    created_first: &'a BTreeSet<String>,
}

impl Questions<'_> {
    fn is_rolled_out(&self, key: &ObjectKey) -> bool {
        self.rolled_out.iter().any(|other| other.same_object(key))
    }
}

/// What is known of an object.
struct Answer {
    /// The API server's answer to the dry run, if there was one.
    verdict: Option<DryRunVerdict>,
    /// The object as it would be stored.
    would_be: Option<Value>,
    found: Found,
}

impl Answer {
    fn without_dry_run(found: Found) -> Self {
        Self { verdict: None, would_be: None, found }
    }
}

/// Asks about every object, in the order of the phases.
async fn answers(about: &Questions<'_>) -> Vec<Answer> {
    let namespaces: BTreeSet<String> = about
        .phases
        .iter()
        .flat_map(|p| &p.objects)
        .map(ObjectKey::of)
        .filter(|key| key.kind == "Namespace" && key.group.is_empty())
        .map(|key| key.name)
        .collect();
    let brought =
        Brought { kinds: defined_kinds(about.phases.iter().flat_map(|phase| &phase.objects)), namespaces };
    let mut questions = Vec::new();
    for phase in about.phases {
        questions.extend(phase.objects.iter().map(|object| one(about, object, &brought)));
    }
    concurrently(REQUESTS, questions).await
}

struct Brought {
    kinds: BTreeMap<(String, String), DefinedKind>,
    namespaces: BTreeSet<String>,
}

impl Brought {
    /// What of the object comes with the revision itself.
    fn what(&self, key: &ObjectKey) -> Option<&'static str> {
        if self.kinds.contains_key(&(key.group.clone(), key.kind.clone())) {
            return Some("its kind");
        }
        self.namespaces.contains(&key.namespace).then_some("its namespace")
    }
}

async fn one(about: &Questions<'_>, object: &Value, brought: &Brought) -> Answer {
    let key = ObjectKey::of(object);
    if let Some(what) = brought.what(&key) {
        let found = if about.is_rolled_out(&key) { read(about, &key).await } else { Found::Absent };
        let verdict = DryRunVerdict::Deferred(format!("{what} comes with this revision"));
        return Answer { verdict: about.account.map(|_| verdict), ..Answer::without_dry_run(found) };
    }
    let kind = match about.discovery.kind(&key.api_version(), &key.kind).await {
        Ok(kind) => kind,
        Err(error) => {
            let verdict = match &error {
                DiscoveryError::Unavailable { .. } => DryRunVerdict::Deferred(error.to_string()),
                DiscoveryError::Unknown { .. } => DryRunVerdict::Refused(error.to_string()),
            };
            let found = Found::Unknown(error.to_string());
            return Answer { verdict: about.account.map(|_| verdict), ..Answer::without_dry_run(found) };
        }
    };
    let Some(account) = about.account else {
        return Answer::without_dry_run(get(about.reader, &kind, &key).await);
    };
    if key.is_crd() && about.created_first.contains(&key.name) {
        let verdict = DryRunVerdict::Deferred("it is created before anything else".to_owned());
        return Answer { verdict: Some(verdict), ..Answer::without_dry_run(Found::Absent) };
    }
    let api = kind.api(account, &key.namespace);
    let answer = ask(&api, &key, object, about.is_rolled_out(&key)).await;
    let is_new = matches!(answer, Ok(None));
    let (verdict, would_be) = match answer {
        Ok(answer) => (DryRunVerdict::Accepted, answer),
        Err(kube::Error::Api(status)) if status.code == 422 && takes_instead(&api, &key, object).await => {
            (DryRunVerdict::Accepted, None)
        }
        Err(kube::Error::Api(status)) => (DryRunVerdict::of_refusal(status.code, &status.message), None),
        Err(error) => (DryRunVerdict::Deferred(api_text(&error)), None),
    };
    let found = if is_new { Found::Absent } else { get(about.reader, &kind, &key).await };
    Answer { verdict: Some(verdict), would_be, found }
}

/// The server's answer to a dry run of what the roll-out will do: to apply the object where it exists, or to create it, which
/// costs the server less. Nothing for what would be new, which no plan takes from an answer: a creation is answered without it.
async fn ask(
    api: &Api<DynamicObject>,
    key: &ObjectKey,
    object: &Value,
    is_rolled_out: bool,
) -> Result<Option<Value>, kube::Error> {
    if !is_rolled_out {
        match dry_run_creation(api, &post_as(OBJECT_FIELD_MANAGER), object).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            answer => return answer.map(|()| None),
        }
    }
    let params = PatchParams { dry_run: true, ..PatchParams::apply(OBJECT_FIELD_MANAGER).force() };
    let answer = patch_json(api, &key.name, &params, &Patch::Apply(object)).await?;
    // What is stored has a version.
    let is_new = text(&answer, "/metadata/resourceVersion").is_empty();
    Ok((!is_new).then_some(answer))
}

async fn read(about: &Questions<'_>, key: &ObjectKey) -> Found {
    match about.discovery.kind(&key.api_version(), &key.kind).await {
        Ok(kind) => get(about.reader, &kind, key).await,
        Err(DiscoveryError::Unknown { .. }) => Found::Absent,
        Err(error) => Found::Unknown(error.to_string()),
    }
}

async fn get(reader: &Client, kind: &Kind, key: &ObjectKey) -> Found {
    match get_json(&kind.api(reader, &key.namespace), &key.name, &GetParams::default()).await {
        Ok(None) => Found::Absent,
        Ok(Some(live)) => Found::Present(live),
        Err(error) => Found::Unknown(api_text(&error)),
    }
}

/// Asks the server a second time about an object that it refuses: whether it takes it in place of one whose fields were
/// only created so far, as the real apply will have it. `false` for all other objects: the first answer was about what
/// would be applied.
///
/// Objects are created by `create`, so that a foreign object of the same name is never touched. The server then counts
/// our fields as updated, not as applied, until the first real apply moves them. A dry-run cannot move them: it keeps
/// what the new version takes away, such as a port under its old number, and the server may find the mixture invalid.
async fn takes_instead(api: &Api<DynamicObject>, key: &ObjectKey, object: &Value) -> bool {
    let Ok(Some(live)) = bounded(api.get_opt(&key.name)).await else { return false };
    let version = live.resource_version();
    let (Ok(live), Ok(mut wanted)) =
        (serde_json::to_value(live), serde_json::from_value::<DynamicObject>(object.clone()))
    else {
        return false;
    };
    if !has_created_fields(&live) {
        return false;
    }
    wanted.metadata.resource_version = version;
    let params = PostParams { dry_run: true, ..post_as(OBJECT_FIELD_MANAGER) };
    bounded(api.replace(&key.name, &params, &wanted)).await.is_ok()
}
