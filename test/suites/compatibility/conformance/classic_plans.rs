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
    let planned = match objects(&bundle(&files)) {
        Ok(planned) => planned,
        Err(error) => return counts.different(format!("{name}: {error}")),
    };
    let ours: Vec<_> = planned.iter().map(RecordedStep::of).collect();
    let Some(difference) = difference(&ours, &line.answer) else { return counts.equal() };
    // All but the ClusterServiceVersion is compared then.
    if has_timestamp(&files) && self::difference(&ours[1..], &line.answer[1..]).is_none() {
        let named = |step: &RecordedStep| RecordedResource { digest: String::new(), ..step.resource.clone() };
        if named(&ours[0]) == named(&line.answer[0]) {
            return counts.named("timestamps of annotations", name);
        }
    }
    counts.different(format!("{name}: {difference}"));
}

/// Whether the ClusterServiceVersion has an annotation that is a timestamp without quotes, which the recorder's reader took
/// for a time and wrote in a form of its own.
fn has_timestamp(files: &BundleFiles) -> bool {
    let texts = files.iter().filter_map(|(_, content)| std::str::from_utf8(content).ok());
    texts.filter(|text| text.contains("kind: ClusterServiceVersion")).any(|text| {
        text.lines().any(|line| {
            let value = line.trim().strip_prefix("createdAt: ").unwrap_or_default();
            value.starts_with(|c: char| c.is_ascii_digit()) && value.contains(':')
        })
    })
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
