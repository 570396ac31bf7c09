//! Steps of InstallPlans: every bundle of the data, with the digest of each object that upstream's plan holds.

use std::collections::BTreeMap;

use olm_bundle::{BundleFiles, first_manifests};
use olm_classic_core::plan::{PlannedBundle, PlannedObject, objects};
use olm_test::prelude::*;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{
    data::{self, Counts},
    rendered::{bundle_files, canonical},
};

/// Half of a SHA-256, in hexadecimal digits.
const DIGEST_CHARS: usize = 32;

#[derive(Deserialize)]
struct Line {
    id: String,
    answer: Vec<RecordedStep>,
}

#[derive(Deserialize, Debug, Clone, PartialEq, Eq)]
struct RecordedStep {
    resolving: String,
    resource: RecordedResource,
    status: String,
}

#[derive(Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct RecordedResource {
    source_name: String,
    source_namespace: String,
    group: String,
    version: String,
    kind: String,
    name: String,
    #[serde(rename = "manifest sha256")]
    digest: String,
}

impl RecordedStep {
    fn of(planned: &PlannedObject) -> Self {
        let PlannedObject { step, object } = planned;
        let mut digest = olm_object::hex(&Sha256::digest(canonical(object).as_bytes()));
        digest.truncate(DIGEST_CHARS);
        let resource = &step.resource;
        Self {
            resolving: step.resolving.clone(),
            status: step.status.clone(),
            resource: RecordedResource {
                source_name: resource.source_name.clone(),
                source_namespace: resource.source_namespace.clone(),
                group: resource.group.clone(),
                version: resource.version.clone(),
                kind: resource.kind.clone(),
                name: resource.name.clone(),
                digest,
            },
        }
    }
}

pub(crate) fn check() {
    data::each("classic plans", "classic/plan-answers.jsonl.zst", |folder, counts| {
        data::cases(&folder.join("classic/plan-answers.jsonl.zst"), |line: Line| {
            check_one(folder, &line, counts);
        });
    });
}

fn check_one(folder: &Path, line: &Line, counts: &mut Counts) {
    let name = line.id.trim_end_matches(" steps");
    let files = bundle_files(&folder.join("bundles").join(name));
    let mut planned = match objects(&bundle(&files)) {
        Ok(planned) => planned,
        Err(error) => return counts.different(format!("{name}: {error}")),
    };
    for planned in &mut planned {
        as_recorded(&files, &mut planned.object);
    }
    let ours: Vec<_> = planned.iter().map(RecordedStep::of).collect();
    match difference(&ours, &line.answer) {
        None => counts.equal(),
        Some(difference) => counts.different(format!("{name}: {difference}")),
    }
}

/// Writes a time in an annotation as Python does: the recorder's YAML reader took what has no quotes for a time, if its zone is
/// written as YAML has it.
fn as_recorded(files: &BundleFiles, object: &mut Value) {
    let Some(created) = object.pointer_mut("/metadata/annotations/createdAt") else { return };
    let Some(text) = created.as_str() else { return };
    let lines =
        || files.iter().filter_map(|(_, content)| std::str::from_utf8(content).ok()).flat_map(str::lines);
    let is_plain = lines().any(|line| line.trim() == format!("createdAt: {text}"));
    let (time, zone) = match text.strip_suffix('Z') {
        Some(time) => (time, "+00:00"),
        None => (text, ""),
    };
    if is_plain && let Ok(time) = jiff::civil::DateTime::strptime("%Y-%m-%dT%H:%M:%S", time) {
        *created = format!("{}{zone}", time.strftime("%Y-%m-%d %H:%M:%S")).into();
    }
}

/// The bundle as it was planned when the answers were recorded.
fn bundle(files: &BundleFiles) -> PlannedBundle {
    let manifests = first_manifests(files, &mut Vec::new());
    let csv = manifests.iter().find(|one| one.kind() == olm_bundle::CSV_KIND).unwrap();
    PlannedBundle {
        namespace: "ns".to_owned(),
        name: csv.object["metadata"]["name"].as_str().unwrap().to_owned(),
        replaces: csv.object["spec"]["replaces"].as_str().unwrap_or_default().to_owned(),
        catalog: "cat".to_owned(),
        catalog_namespace: "cns".to_owned(),
        manifests,
        ..PlannedBundle::default()
    }
}

/// The first difference. What belongs to one ServiceAccount has an order; upstream's order of ServiceAccounts is random.
fn difference(ours: &[RecordedStep], theirs: &[RecordedStep]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("{} steps, upstream {}", ours.len(), theirs.len()));
    }
    let derived = theirs.iter().zip(ours).position(|(theirs, ours)| theirs != ours)?;
    let (ours_left, theirs_left) = (&ours[derived..], &theirs[derived..]);
    let first = || Some(format!("{:?}, upstream {:?}", ours_left.first(), theirs_left.first()));
    if ours_left
        .first()
        .is_none_or(|one| one.resource.kind != "ServiceAccount" && !one.resource.group.starts_with("rbac."))
    {
        return first();
    }
    if by_account(ours_left) == by_account(theirs_left) { None } else { first() }
}

/// The steps of each ServiceAccount, in order. The default one has no step of its own: its steps come first or follow other
/// ones, so that bindings end a part.
fn by_account(steps: &[RecordedStep]) -> BTreeMap<String, Vec<&RecordedStep>> {
    let mut parts: BTreeMap<String, Vec<&RecordedStep>> = BTreeMap::new();
    let mut current: Vec<&RecordedStep> = Vec::new();
    let rank = |step: &RecordedStep| {
        ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
            .iter()
            .position(|kind| *kind == step.resource.kind)
    };
    for step in steps {
        if current
            .last()
            .is_some_and(|last| rank(last) > rank(step) || (rank(last), rank(step)) == (Some(0), Some(0)))
        {
            parts.insert(
                current[0].resource.name.clone() + &current[0].resource.kind,
                std::mem::take(&mut current),
            );
        }
        current.push(step);
    }
    if let Some(first) = current.first() {
        parts.insert(first.resource.name.clone() + &first.resource.kind, current.clone());
    }
    parts
}
