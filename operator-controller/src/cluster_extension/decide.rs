//! What is to be done for an extension: a new revision, another record on the latest one, or nothing yet. Nothing is
//! written here.

pub(crate) mod acting;
pub(crate) mod content;
pub(crate) mod dependencies;
pub(crate) mod hold;
pub(crate) mod paused;
pub(crate) mod requeue;
pub(crate) mod resolve;
pub(crate) mod returning;
pub(crate) mod rollback;

use std::collections::BTreeSet;

use kube::ResourceExt;
use olm_api::{
    names::{INPUTS_DIGEST_ANNOTATION, REINSTALL_ANNOTATION},
    v1::ClusterExtension,
};
use olm_dependencies::REQUIREMENTS;
use olm_fbc::{PROPERTY_KUBERNETES_VERSION, Property};
use olm_objectset::{ObjectError, Origin, Phase, assign, prepare, sha256};
use olm_policy::Kind;
use olm_render::Rendered;
use olm_runtime::{AccountRef, MemoryShare};
use serde_json::{Value, json};

use crate::{
    cluster_extension::{
        Context,
        act::helm_release::observed_phases,
        annotations,
        observe::{
            Observed,
            revisions::{BundleRecord, Revision},
        },
        plan::{self, Draft, Planned, crds},
        report::{Cause, Outcome, Report, StepError},
    },
    preflight,
};
use content::Content;
use dependencies::Required;
use hold::Held;
use resolve::Chosen;

/// What a reconcile is about to do.
pub(crate) enum Decision {
    /// Nothing: there is nothing to make a revision from yet.
    Wait(Outcome),
    /// The revisions stay, whatever else could be had; only the deadline of the latest follows the spec. Why, in a
    /// sentence.
    Keep {
        why: String,
    },
    /// The latest revision is what is wanted; its record is brought up to date.
    Refresh {
        chosen: Chosen,
        inputs: String,
    },
    Revise(Box<Planned>),
    /// The update policy holds the planned revision.
    Hold(Box<Held>),
}

/// Decides what is to be done; the report says what was found out on the way, and why there is no decision.
pub(crate) async fn decide(cx: &Context, observed: &Observed<'_>) -> (Report, Option<Decision>) {
    let pause = annotations::pause(observed.extension, observed.now);
    let mut report = observed.report();
    report.notes.extend(pause.map(paused::note));
    report.notes.extend(hold::in_force(cx, observed));
    // Plans show what waits.
    if let Some(pause) = pause.filter(|_| !cx.only_plans) {
        return paused::decide(cx, observed, pause, report).await;
    }
    if let Some(target) = annotations::rollback_to(observed.extension) {
        return rollback::decide(cx, observed, target, report).await;
    }
    match returning::decide(cx, observed, &mut report).await {
        Some(decision) => (report, Some(decision)),
        None => by_catalogs(cx, observed, report).await,
    }
}

/// What the catalogs and the spec ask for.
async fn by_catalogs(cx: &Context, observed: &Observed<'_>, report: Report) -> (Report, Option<Decision>) {
    let (mut report, chosen) = resolve::choose(cx, observed, report).await;
    let decision = async {
        let chosen = chosen?;
        report.resolved = Some(chosen.message());
        let failed = |cause| StepError::Bundle { bundle: chosen.bundle.clone(), cause };
        let inputs = inputs_digest(cx, observed, &chosen.bundle);
        let latest = observed.revisions.latest_active();
        let unchanged = latest.filter(|latest| is_made_from(latest, &inputs, &observed.account));
        match (dependencies::require(cx, observed, &chosen, &[]).await, unchanged) {
            (Ok(Required::Met(note)), _) => report.notes.extend(note),
            (Ok(Required::After(_)), None) => {}
            // What is rolling out is not stopped half way.
            (Ok(Required::After(_)) | Err(_), Some(_)) => {
                tracing::debug!(extension = observed.extension.name_any(), "continues to roll out");
            }
            (Err(error), None) => return Err(error),
        }
        if let Some(latest) = unchanged {
            report.notes.extend(other_image(latest, &chosen.bundle));
            report.notes.extend(crds::notes(observed.extension, latest, &observed.revisions));
            return Ok(Decision::Refresh { chosen, inputs });
        }
        if let Some(held) = returning::held(cx, observed, &chosen.bundle).await.map_err(failed)? {
            return Ok(Decision::Hold(Box::new(held)));
        }
        chosen.bundle.check_name().map_err(failed)?;
        let (mut rendered, memory) =
            match content::content(cx, observed, &chosen.bundle).await.map_err(failed)? {
                Content::Rendered(rendered, memory) => (rendered, memory),
                Content::Missing(outcome) => return Ok(Decision::Wait(outcome)),
            };
        let declared = declared(&rendered).map_err(failed)?;
        let dependencies = match dependencies::require(cx, observed, &chosen, &declared).await? {
            Required::Met(note) => {
                report.notes.extend(note);
                None
            }
            Required::After(dependencies) => Some(*dependencies),
        };
        let objects = std::mem::take(&mut rendered.objects);
        let phases = prepared(&observed.extension.name_any(), &chosen.bundle, objects.into_iter())
            .map_err(|error| failed(Cause::terminal(error)))?;
        let content = content_digest(&phases);
        let digest = rendered_digest(observed.extension, &content);
        if let Some(latest) = latest.filter(|latest| holds(observed.extension, latest, &digest, &phases))
            && acting::may_act_as(cx, observed, latest, &phases).await.map_err(failed)?
        {
            return Ok(Decision::Refresh { chosen, inputs });
        }
        check_kubernetes(cx, &chosen, &rendered).await.map_err(failed)?;
        let mut draft = draft(&chosen, phases, (inputs, content, digest), &rendered, memory);
        draft.declared = own_requirements(declared, &chosen.properties);
        draft.dependencies = dependencies;
        let planned = plan::plan(cx, observed, draft, &report.notes).await.map_err(failed)?;
        report.notes.clone_from(&planned.notes);
        hold::ask(cx, observed, planned, Kind::Update).await.map_err(failed)
    }
    .await;
    report.and(decision)
}

fn draft(
    chosen: &Chosen,
    phases: Vec<Phase>,
    (inputs_digest, content_digest, rendered_digest): (String, String, String),
    rendered: &Rendered,
    memory: MemoryShare,
) -> Draft {
    Draft {
        bundle: chosen.bundle.clone(),
        phases,
        inputs_digest,
        content_digest,
        rendered_digest,
        catalog: chosen.catalog.clone(),
        catalog_properties: chosen.properties.clone(),
        properties: rendered.olm_properties.clone(),
        certificate_provider: rendered.certificate_provider,
        _memory: Some(memory),
        ..Draft::default()
    }
}

/// What only the bundle itself declares to require.
fn own_requirements(declared: Vec<Property>, of_catalog: &[Property]) -> Vec<Property> {
    let is_own = |one: &Property| REQUIREMENTS.contains(&one.kind.as_str()) && !of_catalog.contains(one);
    declared.into_iter().filter(is_own).collect()
}

/// A sentence about an image that the catalog names now and that is not rolled out.
fn other_image(latest: &Revision, bundle: &BundleRecord) -> Option<String> {
    (latest.bundle.reference != bundle.reference).then(|| {
        format!(
            "The catalog now has another image for this version, which is not rolled out automatically: {}. To roll it out, set the annotation {REINSTALL_ANNOTATION} to a new value.",
            bundle.reference
        )
    })
}

/// Rejects a bundle that needs a newer Kubernetes.
async fn check_kubernetes(cx: &Context, chosen: &Chosen, rendered: &Rendered) -> Result<(), Cause> {
    for lowest in lowest_kubernetes(chosen, rendered) {
        let suits = preflight::check_kube_version(&cx.controller(), &lowest).await;
        suits.map_err(Cause::transient).and_then(|suits| suits.map_err(Cause::terminal))?;
    }
    Ok(())
}

/// The digest of a revision with this content. A reinstallation that was asked for makes it another one.
fn rendered_digest(extension: &ClusterExtension, content: &str) -> String {
    match annotations::reinstall(extension) {
        Some(token) => sha256(&json!([content, token])),
        None => content.to_owned(),
    }
}

/// The objects with the marks of the extension and the bundle, by phase.
///
/// # Errors
/// One of them has no apiVersion, kind or name.
pub(crate) fn prepared(
    extension: &str,
    bundle: &BundleRecord,
    objects: impl Iterator<Item = Value>,
) -> Result<Vec<Phase>, ObjectError> {
    let origin = Origin { extension, package: &bundle.package, version: &bundle.version };
    objects.map(|object| prepare(object, &origin)).collect::<Result<_, _>>().map(assign)
}

/// Whether the revision's objects are these and no reinstallation is asked for.
fn holds(extension: &ClusterExtension, revision: &Revision, rendered: &str, phases: &[Phase]) -> bool {
    let asked = revision.rendered_digest().is_none() && annotations::reinstall(extension).is_some();
    !asked && revision.holds(rendered, phases)
}

/// Digest of everything a revision is made from. The image reference is left out: the same name, version
/// and release under another image is not rolled out by itself. So is the version of this program: what is installed
/// does not need its registry again because the program was upgraded.
pub(crate) fn inputs_digest(cx: &Context, observed: &Observed<'_>, bundle: &BundleRecord) -> String {
    digest_of_inputs(observed.extension, &observed.account, cx.features.render, bundle)
}

fn digest_of_inputs(
    extension: &ClusterExtension,
    AccountRef { namespace, name }: &AccountRef,
    features: olm_render::Features,
    bundle: &BundleRecord,
) -> String {
    let mut inputs = json!({
        "bundle": [bundle.name, bundle.package, bundle.version, bundle.release],
        "namespace": extension.spec.namespace,
        "account": [namespace, name],
        "config": extension.spec.config.as_ref().and_then(|c| c.inline.as_ref()),
        // Who makes certificates is recorded on the revision and no reason for another one.
        "features": format!("{features:?}"),
    });
    if let Some(token) = annotations::reinstall(extension) {
        inputs["reinstall"] = token.into();
    }
    sha256(&inputs)
}

/// Whether a revision was made from these inputs and acts as the account, which is one of them.
pub(crate) fn is_made_from(revision: &Revision, inputs: &str, account: &AccountRef) -> bool {
    revision.annotation(INPUTS_DIGEST_ANNOTATION) == Some(inputs)
        && revision.account.as_ref() == Some(account)
}

/// Digest of the objects in `phases`, as the revision that holds them records it.
pub(crate) fn content_digest(phases: &[Phase]) -> String {
    let digests = observed_phases(phases);
    olm_objectset::content_digest(digests.iter().map(|one| (one.name.as_str(), one.digest.as_str())))
}

/// What the bundle itself declares, as properties.
fn declared(rendered: &Rendered) -> Result<Vec<Property>, Cause> {
    let declared = rendered.declared.as_ref().map_err(Cause::terminal)?;
    Ok(declared.iter().filter_map(|one| serde_json::from_value(one.clone()).ok()).collect())
}

/// The oldest versions of Kubernetes that the bundle claims to run on, by its CSV and its properties.
fn lowest_kubernetes(chosen: &Chosen, rendered: &Rendered) -> BTreeSet<String> {
    let own = rendered.declared.as_deref().unwrap_or_default().iter();
    let own = own.filter(|one| one["type"] == PROPERTY_KUBERNETES_VERSION).map(|one| &one["value"]);
    let of_catalog =
        chosen.properties.iter().filter(|p| p.kind == PROPERTY_KUBERNETES_VERSION).map(|p| &p.value);
    let versions = own.chain(of_catalog).filter_map(|value| value["version"].as_str()).map(str::to_owned);
    versions.chain(rendered.min_kube_version.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest that a revision has recorded is the same in each version of the program: else its upgrade would pull
    /// every bundle again.
    #[test]
    fn an_upgrade_of_the_program_changes_no_inputs() {
        let extension: ClusterExtension = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "e"},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        }))
        .unwrap();
        let account = AccountRef { namespace: "n".into(), name: "a".into() };
        let bundle = BundleRecord { name: "p.v1".into(), version: "1.0.0".into(), ..BundleRecord::default() };
        let features = olm_render::Features::default();
        let digest = digest_of_inputs(&extension, &account, features, &bundle);
        assert_eq!(digest, "sha256:8619913131153436077e4bfaf184c5172d9c8fce9f70bb730a9ca1add79ab2fa");
        let moved = BundleRecord { reference: "elsewhere".into(), ..bundle.clone() };
        assert_eq!(digest_of_inputs(&extension, &account, features, &moved), digest);
        let other = BundleRecord { version: "1.0.1".into(), ..bundle };
        assert_ne!(digest_of_inputs(&extension, &account, features, &other), digest);
    }
}
