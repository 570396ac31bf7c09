//! Back to an earlier revision, when the administrator asks: its objects come back as a new revision. What comes back
//! because another revision failed is made here too.
//!
//! - Each request is carried out once: the revision made for it records it. Nothing is resolved as long as it is there.
//! - CRDs are not downgraded and none goes: what active revisions have of them is taken over as it is in the
//!   cluster, so that the users' objects stay and can be read. Only what no revision has now comes from the old one.
//! - What is checked before any new revision is checked here too.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PartialObjectMeta},
};
use olm_api::{
    names::{
        CATALOG_ANNOTATION, CATALOG_PROPERTIES_ANNOTATION, DECLARED_ANNOTATION, INPUTS_DIGEST_ANNOTATION,
        OWNER_NAME_LABEL, PROPERTIES_ANNOTATION, REVISION_ANNOTATION, ROLLBACK_TO_ANNOTATION,
    },
    v1::ClusterObjectSet,
};
use olm_fbc::Property;
use olm_object::ObjectKey;
use olm_objectset::{assign, sha256};
use olm_policy::Kind;
use olm_render::CertificateProvider;
use olm_runtime::{api_text, bounded};
use serde_json::{Value, json};

use super::{
    Decision, content_digest, dependencies,
    dependencies::Required,
    hold,
    resolve::{self, Chosen},
};
use crate::{
    cluster_extension::{
        Context,
        observe::{
            Observed,
            revisions::{Revision, Revisions},
        },
        plan::{self, Contents, Draft, crds::definitions},
        report::{Cause, Report, StepError},
    },
    cluster_object_set::content::{self, ContentError, LoadedPhase},
};

/// Most revisions that are named to choose from.
const NAMED_MAX: usize = 10;

/// What a request comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Request<'a> {
    /// The latest revision was made for it.
    Done(&'a Revision),
    /// It names the latest revision.
    Needless(&'a Revision),
    /// This revision's objects are to come back.
    ToDo(&'a Revision),
    /// There is no such revision.
    Unknown,
}

fn request(target: i64, revisions: &Revisions) -> Request<'_> {
    let latest = revisions.all().last();
    if let Some(latest) = latest.filter(|latest| latest.rolled_back_to() == Some(target)) {
        return Request::Done(latest);
    }
    match revisions.all().iter().find(|r| r.number == target && !r.is_deleted()) {
        Some(found) if revisions.latest_active() == Some(found) => Request::Needless(found),
        Some(found) => Request::ToDo(found),
        None => Request::Unknown,
    }
}

/// Whether there is nothing left to do for a request to go back to revision `target`.
pub(crate) fn is_done(target: i64, revisions: &Revisions) -> bool {
    matches!(request(target, revisions), Request::Done(_) | Request::Needless(_))
}

/// What is to be done for an extension that asks to go back to revision `target`.
pub(crate) async fn decide(
    cx: &Context,
    observed: &Observed<'_>,
    target: i64,
    report: Report,
) -> (Report, Option<Decision>) {
    let revisions = &observed.revisions;
    let mut report = resolve::inform(cx, observed, report).await;
    let why = match request(target, revisions) {
        Request::Done(latest) => format!(
            "Rolled back to revision {target}, as {ROLLBACK_TO_ANNOTATION} asks: revision {} was created for it. Upgrades stop until the annotation is removed.",
            latest.number
        ),
        Request::Needless(_) => format!(
            "{ROLLBACK_TO_ANNOTATION} has no effect because revision {target} is the latest. Upgrades stop until the annotation is removed."
        ),
        Request::ToDo(revision) => {
            let planned = async {
                let (draft, notes) = bring_back(cx, observed, revision, None).await?;
                report.notes.extend(notes);
                let planned = plan::plan(cx, observed, draft, &report.notes).await;
                let planned = planned.map_err(|cause| failed(revision, cause))?;
                report.notes.clone_from(&planned.notes);
                let decided = hold::ask(cx, observed, planned, Kind::Rollback).await;
                decided.map_err(|cause| failed(revision, cause))
            }
            .await;
            return report.and(planned);
        }
        Request::Unknown => {
            let error = rejected(cx, observed, target, "is not a revision of this extension").await;
            return report.and(Err(error));
        }
    };
    report.notes.push(why.clone());
    (report, Some(Decision::Keep { why }))
}

fn failed(target: &Revision, cause: Cause) -> StepError {
    StepError::Bundle { bundle: target.bundle.clone(), cause }
}

/// A revision with the objects of `target`, and what is to be said of it. Where it takes the place of one that failed, it is
/// as `target` is, with its CRDs.
///
/// # Errors
/// The content cannot be read, or a requirement is not met.
pub(crate) async fn bring_back(
    cx: &Context,
    observed: &Observed<'_>,
    target: &Revision,
    returned_from: Option<String>,
) -> Result<(Draft, Vec<String>), StepError> {
    let revisions = &observed.revisions;
    let transient = |text: String| failed(target, Cause::transient(text));
    let client = cx.accounts.client(&observed.account).await.ok();
    let objects = match objects(cx, &target.set, client.as_ref()).await {
        Ok(objects) => objects,
        Err(error) if content_is_gone(cx, observed, &target.set, &error).await => {
            let why = format!("cannot be restored because its content is missing ({error})");
            if returned_from.is_some() {
                return Err(StepError::Revisions(format!("it {why}")));
            }
            return Err(rejected(cx, observed, target.number, &why).await);
        }
        Err(error) => return Err(transient(error.to_string())),
    };
    let installed = match plan::contents(cx, revisions, client.as_ref()).await {
        Ok(_) if returned_from.is_some() => Ok(BTreeMap::new()),
        Ok(contents) => installed_crds(cx, contents, revisions).await,
        Err(text) => Err(text),
    };
    let installed = installed.map_err(transient)?;
    let certificate_provider = provider(target, &installed, revisions);
    let recorded = |key: &str| target.annotation(key).map(str::to_owned);
    let properties: Option<Vec<Property>> =
        recorded(CATALOG_PROPERTIES_ANNOTATION).and_then(|text| serde_json::from_str(&text).ok());
    let chosen = Chosen {
        bundle: target.bundle.clone(),
        catalog: recorded(CATALOG_ANNOTATION),
        properties: properties.unwrap_or_default(),
    };
    let declared =
        target.annotation(DECLARED_ANNOTATION).and_then(dependencies::declared).unwrap_or_default();
    let note = match dependencies::require(cx, observed, &chosen, &declared).await? {
        Required::Met(note) => note,
        // What was there once is not installed for it without a word.
        Required::After(dependencies) => return Err(dependencies.waits),
    };
    // With the old digests the revision stays when the resolution comes to the same bundle afterwards. For one
    // that has none, any that no resolution comes to will do.
    let unresolved = || sha256(&json!(["rolled back to", target.uid]));
    let phases = assign(with_crds(objects, installed));
    let draft = Draft {
        bundle: chosen.bundle,
        content_digest: content_digest(&phases),
        phases,
        inputs_digest: recorded(INPUTS_DIGEST_ANNOTATION).unwrap_or_else(unresolved),
        rendered_digest: target.rendered_digest().map_or_else(unresolved, str::to_owned),
        catalog: chosen.catalog,
        catalog_properties: chosen.properties,
        properties: recorded(PROPERTIES_ANNOTATION),
        declared,
        certificate_provider,
        rolled_back_to: Some(target.number),
        returned_from,
        ..Draft::default()
    };
    let number = observed.writer(cx).next_number(revisions);
    let number = number.map_err(|text| failed(target, Cause::terminal(text)))?;
    let target = target.number;
    let coming_back = if draft.returned_from.is_some() {
        format!("Revision {number} restores revision {target}, because the latest missed its deadline.")
    } else {
        format!(
            "Revision {number} restores revision {target}, as {ROLLBACK_TO_ANNOTATION} asks. Upgrades stop until the annotation is removed."
        )
    };
    Ok((draft, note.into_iter().chain([coming_back]).collect()))
}

async fn objects(
    cx: &Context,
    set: &ClusterObjectSet,
    // Reads what is not in our namespace.
    account: Option<&Client>,
) -> Result<Vec<Value>, ContentError> {
    let phases = content::load(set, &cx.contents, account).await?;
    content::verify(set, &content::digests(&phases))?;
    Ok(phases.into_iter().flat_map(|phase| phase.items).map(|item| item.to_object()).collect())
}

async fn content_is_gone(
    cx: &Context,
    observed: &Observed<'_>,
    set: &ClusterObjectSet,
    error: &ContentError,
) -> bool {
    error.is_blocking()
        || matches!(error, ContentError::MissingKey { .. } | ContentError::Unreadable { .. })
        || secrets(cx, observed).await.is_ok_and(|found| !has_content(set, &cx.system_namespace, &found))
}

/// Names of the Secrets with this extension's objects. They are listed only where a revision cannot come back.
async fn secrets(cx: &Context, observed: &Observed<'_>) -> Result<BTreeSet<String>, String> {
    let api: Api<Secret> = Api::namespaced(cx.controller(), &cx.system_namespace);
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", observed.extension.name_any()));
    let listed = bounded(api.list_metadata(&mine)).await.map_err(|e| api_text(&e))?;
    Ok(listed.items.iter().map(ResourceExt::name_any).collect())
}

/// The sentence on a request that cannot be carried out, with the revisions that could come back.
async fn rejected(cx: &Context, observed: &Observed<'_>, target: i64, why: &str) -> StepError {
    let revisions = &observed.revisions;
    let Ok(secrets) = secrets(cx, observed).await else {
        return StepError::Revisions(format!(
            "revision {target} {why}; the revisions to choose from could not be read"
        ));
    };
    let other = |r: &&Revision| revisions.latest_active() != Some(*r) && r.number != target;
    let whole = |r: &&Revision| !r.is_deleted() && has_content(&r.set, &cx.system_namespace, &secrets);
    let choice: Vec<&Revision> =
        revisions.all().iter().rev().filter(other).filter(whole).take(NAMED_MAX).collect();
    StepError::Validation { errors: vec![sentence(target, why, &choice)], terminal: true, advice: None }
}

/// The CRDs of active revisions, in the form in which the cluster has each of them.
async fn installed_crds(
    cx: &Context,
    contents: Contents,
    revisions: &Revisions,
) -> Result<BTreeMap<String, Value>, String> {
    let crds = |phases: Vec<LoadedPhase>| {
        definitions(phases.into_iter().flat_map(|phase| phase.items).map(|item| item.to_object()))
    };
    let of_revisions: BTreeMap<i64, BTreeMap<String, Value>> =
        contents.into_iter().map(|(number, phases)| (number, crds(phases))).collect();
    let names: BTreeSet<&String> = of_revisions.values().flat_map(BTreeMap::keys).collect();
    let api: Api<CustomResourceDefinition> = Api::all(cx.controller());
    let newest = revisions.installed().map(|r| r.number);
    let mut installed = BTreeMap::new();
    for name in names {
        let live = bounded(api.get_metadata_opt(name)).await;
        let live = live.map_err(|e| format!("getting CRD {name:?}: {}", api_text(&e)))?;
        let holders: Vec<i64> = of_revisions
            .iter()
            .filter(|(_, crds)| crds.contains_key(name))
            .map(|(number, _)| *number)
            .collect();
        let holder = holder(live.as_ref().map_or(Live::Absent, applied_by), &holders, newest);
        let crd = holder.and_then(|holder| of_revisions.get(&holder)?.get(name));
        installed.extend(crd.map(|crd| (name.clone(), crd.clone())));
    }
    Ok(installed)
}

/// A CRD in the cluster.
#[derive(Debug, Clone, Copy)]
enum Live {
    Absent,
    /// It names the revision that applied it.
    AppliedBy(i64),
    /// It names none.
    OfNobody,
}

fn applied_by<K>(live: &PartialObjectMeta<K>) -> Live {
    let annotations = live.metadata.annotations.as_ref();
    let number = annotations.and_then(|all| all.get(REVISION_ANNOTATION)).and_then(|n| n.parse().ok());
    number.map_or(Live::OfNobody, Live::AppliedBy)
}

/// The revision whose form of a CRD the cluster has. `holders` are the active revisions that have the CRD, in ascending order.
fn holder(live: Live, holders: &[i64], installed: Option<i64>) -> Option<i64> {
    match live {
        Live::AppliedBy(number) if holders.contains(&number) => Some(number),
        Live::AppliedBy(_) | Live::OfNobody => holders.last().copied(),
        // Not there yet, or not there any more.
        Live::Absent => installed.filter(|number| holders.contains(number)),
    }
}

/// The objects, with these CRDs instead of and beside their own.
fn with_crds(mut objects: Vec<Value>, present: BTreeMap<String, Value>) -> Vec<Value> {
    objects.retain(|object| {
        let key = ObjectKey::of(object);
        !(key.is_crd() && present.contains_key(&key.name))
    });
    objects.extend(present.into_values());
    objects
}

/// Who makes the certificates of the new revision's webhooks: as before, or as for the CRD that converts by one.
fn provider(
    target: &Revision,
    present: &BTreeMap<String, Value>,
    revisions: &Revisions,
) -> Option<CertificateProvider> {
    let converts =
        present.values().any(|crd| crd.pointer("/spec/conversion/strategy") == Some(&json!("Webhook")));
    let of_latest = || revisions.latest_active().and_then(Revision::certificate_provider);
    target.certificate_provider().or_else(|| converts.then(of_latest).flatten())
}

/// Whether all Secrets of ours to which the revision refers are there.
fn has_content(set: &ClusterObjectSet, system_namespace: &str, secrets: &BTreeSet<String>) -> bool {
    let references = set.spec.phases.iter().flat_map(|p| &p.objects).filter_map(|o| o.ref_.as_ref());
    let mut ours = references.filter(|r| r.namespace == system_namespace);
    ours.all(|reference| secrets.contains(&reference.name))
}

fn sentence(target: i64, why: &str, choice: &[&Revision]) -> String {
    let named: Vec<String> =
        choice.iter().map(|r| format!("{} (bundle {:?})", r.number, r.bundle.name)).collect();
    let remedy = if named.is_empty() {
        "no other revision can be restored: remove the annotation".to_owned()
    } else {
        format!("set it to one of {}, or remove it", named.join(", "))
    };
    format!("annotation {ROLLBACK_TO_ANNOTATION:?}: revision {target} {why}; {remedy}")
}

#[cfg(test)]
mod tests;
