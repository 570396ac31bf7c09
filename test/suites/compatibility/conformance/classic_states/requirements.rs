//! The requirements that were recorded in statuses: those that follow from other recorded objects come out the same.
//!
//! The specs were recorded in part. What is compared is the version of Kubernetes, and the CustomResourceDefinitions, of
//! which an operator may own or require any that its list names. Upstream does not write a list that changes while the phase
//! stays: a list is compared where it is new.

use olm_api_classic::{ClusterServiceVersion, RequirementStatus};
use olm_classic_core::csv::requirements::{Crd, Facts, requirements};
use olm_test::prelude::*;

use super::record::{Event, Record};
use crate::data::Counts;

/// The version of Kubernetes on which was recorded.
const SERVER: &str = "v1.36.3";
/// Versions of a CustomResourceDefinition that a cache may have held.
const VERSIONS: usize = 4;
const DEFINITION: &str = "CustomResourceDefinition";

/// Compares the lists of a recorded cluster.
pub(super) fn check(record: &Record, counts: &mut Counts) {
    for (_, history) in record.of_kind("clusterserviceversions") {
        let mut before = Value::Null;
        for event in history.iter().filter(|event| event.ev != "DELETED" && !event.is_copy()) {
            let list = &event.status["requirementStatus"];
            if *list != before {
                for recorded in list.as_array().into_iter().flatten() {
                    check_one(record, event, recorded, counts);
                }
            }
            before = list.clone();
        }
    }
}

fn check_one(record: &Record, event: &Event, recorded: &Value, counts: &mut Counts) {
    let kind = recorded["kind"].as_str().unwrap_or_default();
    let candidates: Vec<RequirementStatus> = match kind {
        "ClusterServiceVersion" => {
            let facts = Facts { server_version: Some(SERVER.to_owned()), ..Facts::default() };
            listed(&csv(event, &json!({})), &facts)
        }
        DEFINITION => definitions(record, event, recorded["name"].as_str().unwrap_or_default()),
        _ => return,
    };
    let text = |field: &str| recorded[field].as_str().unwrap_or_default();
    // The UIDs of objects were recorded in part.
    let is_same = |found: &RequirementStatus| {
        let subject = [&found.group, &found.version, &found.kind, &found.name, &found.status, &found.message];
        let uid = found.uuid.as_deref().unwrap_or_default();
        let fields = ["group", "version", "kind", "name", "status", "message"];
        subject.iter().zip(fields).all(|(found, field)| *found == text(field))
            && text("uuid").starts_with(uid)
            && uid.is_empty() == text("uuid").is_empty()
    };
    if candidates.iter().any(is_same) {
        counts.equal();
    } else {
        counts.different(format!("{}/{}: {recorded}, here {candidates:?}", event.namespace(), event.name));
    }
}

/// What the requirement of a definition may come to: owned or required, in each version that a cache may have held.
fn definitions(record: &Record, event: &Event, name: &str) -> Vec<RequirementStatus> {
    let mut all = Vec::new();
    let key = (String::new(), name.to_owned());
    let replaced = event.spec["replaces"].as_str().map(str::to_owned);
    for found in record.last("customresourcedefinitions", &key, event.rv, VERSIONS) {
        let served: BTreeSet<String> = found
            .and_then(|found| serde_json::from_value(found.status["storedVersions"].clone()).ok())
            .unwrap_or_default();
        let version = served.first().cloned().unwrap_or_else(|| "v1".to_owned());
        let crds = found.map(|found| (name.to_owned(), definition(found, event.namespace(), served)));
        let facts = Facts {
            crds: crds.into_iter().collect(),
            predecessors: replaced.iter().cloned().collect(),
            ..Facts::default()
        };
        for list in ["owned", "required"] {
            let described = json!([{"name": name, "version": version, "kind": "X"}]);
            let mut operator = csv(event, &json!({"customresourcedefinitions": {list: described}}));
            operator.spec.min_kube_version = None;
            all.extend(listed(&operator, &facts));
        }
    }
    all
}

fn definition(found: &Event, namespace: &str, served: BTreeSet<String>) -> Crd {
    let conditions = found.status["conditions"].as_array().cloned().unwrap_or_default();
    let is = |type_: &str| conditions.iter().any(|one| one["type"] == type_ && one["status"] == "True");
    let annotations = found.annotations.iter().flatten();
    let alongside = annotations
        .filter(|(key, _)| key.starts_with("operatorframework.io/installed-alongside-"))
        .filter_map(|(_, place)| place.split_once('/'))
        .filter(|(place, _)| *place == namespace)
        .map(|(_, name)| name.to_owned());
    Crd {
        uid: found.uid.clone(),
        served,
        is_established: is("Established") && is("NamesAccepted"),
        alongside: alongside.collect(),
    }
}

fn csv(event: &Event, fields: &Value) -> ClusterServiceVersion {
    let mut spec = event.spec.clone();
    spec["displayName"] = "recorded".into();
    spec["install"] = json!({"strategy": "deployment"});
    for (key, value) in fields.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": event.name, "namespace": event.ns}, "spec": spec,
    }))
    .unwrap()
}

fn listed(csv: &ClusterServiceVersion, facts: &Facts) -> Vec<RequirementStatus> {
    requirements(csv, facts).map(|found| found.statuses).unwrap_or_default()
}
