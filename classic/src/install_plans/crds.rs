//! Steps of CustomResourceDefinitions, which are written with the program's own permissions: a definition is the whole
//! cluster's, and is replaced only if every stored object stays valid.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, core::PartialObjectMeta};
use olm_api_classic::{ClusterServiceVersion, Step};
use olm_classic_core::plan::{
    Failure, crds,
    object::{Place, prepared},
    texts,
};
use olm_object::text;
use olm_preflight::stored_objects::{Change, ReadLimits, Verdict, verdict};
use olm_runtime::{Kind, bounded};
use serde_json::Value;

use super::{execute::Execution, request};

/// The Event about stored objects of which it is not known that they stay valid.
const VALIDATION_EVENT: &str = "CRDValidation";

/// What helps if stored objects cannot be read.
const UNREAD: &str =
    "If you know that they stay valid, apply the new definition yourself: the InstallPlan continues then.";

/// Brings a CRD up to date, or waits until it is served; returns the state of the step.
pub(super) async fn step(
    execution: &Execution<'_>,
    index: usize,
    step: &Step,
) -> Result<&'static str, Failure> {
    let client = &execution.cx.client;
    let kind =
        Kind { resource: kube::api::ApiResource::erase::<CustomResourceDefinition>(&()), namespaced: false };
    let name = &step.resource.name;
    let found = request::get(client, &kind, "", name).await;
    let live = found.map_err(|error| execution.failure("reading", step, &error))?;
    if step.status == texts::WAITING_FOR_API {
        return Ok(match live {
            None => texts::NOT_PRESENT,
            Some(live) if crds::is_served(&live) => {
                let group = text(&live, "/spec/group");
                execution.cx.discovery.forget_group(group);
                texts::CREATED
            }
            Some(_) => texts::WAITING_FOR_API,
        });
    }
    let wanted = wanted(execution, step)?;
    let Some(live) = live else {
        let written = request::write(client, &kind, "", &wanted, true).await;
        let (_, warnings) = written.map_err(|error| execution.failure("creating", step, &error))?;
        execution.warn(index, step, &warnings).await;
        return Ok(texts::WAITING_FOR_API);
    };
    check(execution, &live, &wanted).await?;
    let existing = existing(execution, &live).await;
    let exists = |namespace: &str, name: &str| existing.contains(&(namespace.to_owned(), name.to_owned()));
    if let Some(after) = crds::replaced(&live, &wanted, exists) {
        let written = request::write(client, &kind, "", &after, false).await;
        let (_, warnings) = written.map_err(|error| {
            let mut failure = execution.failure("updating", step, &error);
            failure.text =
                failure.text.replacen("error updating customresourcedefinition", "error updating CRD", 1);
            failure
        })?;
        execution.cx.discovery.forget_group(text(&live, "/spec/group"));
        execution.warn(index, step, &warnings).await;
    }
    Ok(if crds::is_served(&live) { texts::PRESENT } else { texts::WAITING_FOR_API })
}

/// The definition of a step as it is written.
fn wanted(execution: &Execution<'_>, step: &Step) -> Result<Value, Failure> {
    let place =
        Place { plan: &execution.name, namespace: &execution.namespace, is_namespaced: false, csv_uid: None };
    let mut wanted = prepared(step, &execution.object(step)?, place);
    let (key, value) = crds::alongside(&execution.namespace, &step.resolving);
    if !wanted["metadata"]["annotations"].is_object() {
        wanted["metadata"]["annotations"] = serde_json::json!({});
    }
    wanted["metadata"]["annotations"][key] = value.into();
    Ok(wanted)
}

/// Checks that a definition can be replaced without harm to what is stored.
async fn check(execution: &Execution<'_>, live: &Value, wanted: &Value) -> Result<(), Failure> {
    let name = text(live, "/metadata/name");
    let failure = |text: String, remedy: String| Failure { text, remedy, is_forbidden: false };
    crds::keeps_stored_versions(live, wanted).map_err(|text| {
        let remedy = "Migrate the stored objects to another version and remove this one from status.storedVersions of the CRD.";
        failure(text, remedy.to_owned())
    })?;
    let mut left = ReadLimits::full();
    let (old, new) = (crds::served(live), crds::served(wanted));
    for version in old.intersection(&new).filter(|version| schema(live, version) != schema(wanted, version)) {
        let change = Change { old: live, new: wanted, versions: vec![(*version).to_owned()] };
        let gvk = format!("{}/{version}, Kind={}", text(live, "/spec/group"), text(live, "/spec/names/kind"));
        let verdict = verdict(&execution.cx.client, &change, &mut left).await;
        let (text, problem) = match verdict
            .map_err(|why| failure(texts::not_checked(name, &gvk, &why), UNREAD.to_owned()))?
        {
            Verdict::Harmless => continue,
            Verdict::Undecided(why) => (texts::not_checked(name, &gvk, &why), None),
            Verdict::Breaks(broken) => {
                (texts::too_restrictive(name, &gvk, &broken.object, &broken.problems), Some(broken.object))
            }
        };
        match problem.filter(|_| !crds::converts_by_webhook(wanted)) {
            None => execution.publish(None, VALIDATION_EVENT, &text).await,
            Some(object) => {
                let kind = live["spec"]["names"]["kind"].as_str().unwrap_or_default();
                let remedy = format!("Change {kind} {object} so that it is valid under the new definition.");
                return Err(failure(text, remedy));
            }
        }
    }
    Ok(())
}

fn schema<'c>(crd: &'c Value, version: &str) -> Option<&'c Value> {
    let versions = crd["spec"]["versions"].as_array()?;
    versions.iter().find(|one| one["name"] == version).map(|one| &one["schema"])
}

/// The ClusterServiceVersions that the annotations of a CRD name and that exist. One that cannot be read counts as one that
/// exists.
async fn existing(execution: &Execution<'_>, live: &Value) -> BTreeSet<(String, String)> {
    let mut existing = BTreeSet::new();
    for (namespace, name) in crds::named_alongside(live) {
        let api = Api::<ClusterServiceVersion>::namespaced(execution.cx.client.clone(), &namespace);
        let found: Result<Option<PartialObjectMeta<ClusterServiceVersion>>, _> =
            bounded(api.get_metadata_opt(&name)).await;
        let is_gone = matches!(found, Ok(None));
        if !is_gone {
            existing.insert((namespace, name));
        }
    }
    existing
}
