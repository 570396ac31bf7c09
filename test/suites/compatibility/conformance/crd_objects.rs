//! Changes that are called safe are safe: objects that are valid under a definition stay valid under the one that
//! replaces it.
//!
//! Definitions are those of the real bundles, each with the one of the package's next version; objects are made for
//! the older one. Both sides are validated locally, which a test of its own compares with the API
//! server's.

use olm_crd::{Policy, Schema, Tristate, compare};
use olm_test::{objects::Objects, prelude::*};

use crate::data;

/// Objects for each version of a definition.
const OBJECTS: u64 = 40;

#[derive(Default)]
struct Counts {
    safe: usize,
    refused: usize,
    same: usize,
    objects: usize,
    undecided: usize,
    /// Objects of refused pairs that do become invalid: the test sees such things.
    broken_of_refused: usize,
    broken: Vec<String>,
    /// Pairs that upstream's policy refuses and ours does not, by the reasons for it.
    let_through: BTreeMap<String, usize>,
}

pub(crate) fn check() {
    data::each("crd_objects", "bundles", check_all);
}

fn check_all(folder: &Path, compared: &mut data::Counts) {
    let mut counts = Counts::default();
    let mut seed = 0;
    for package in subfolders(&folder.join("bundles")) {
        let mut before: BTreeMap<String, Value> = BTreeMap::new();
        for version in subfolders(&package) {
            let definitions = definitions(&version.join("manifests"));
            for (name, new) in &definitions {
                if let Some(old) = before.get(name) {
                    seed += 1;
                    pair(old, new, seed, &mut counts);
                }
            }
            before.extend(definitions);
        }
    }
    let Counts { safe, refused, same, objects, undecided, broken_of_refused, broken, let_through } = counts;
    println!("crd_objects: policy Ours: definitions changed from refused to allowed {let_through:?}");
    println!(
        "crd_objects: {safe} pairs safe, {refused} refused, {same} the same; {objects} objects of safe pairs stay valid, {undecided} undecided, {} do not; {broken_of_refused} of refused pairs do not",
        broken.len()
    );
    assert!(safe > 50 && refused > 5 && objects > 1_000, "too few to mean anything");
    for _ in 0..safe + refused + same {
        compared.equal();
    }
    for object in &broken {
        compared.different(object);
    }
}

fn pair(old: &Value, new: &Value, seed: u64, counts: &mut Counts) {
    let name = &old["metadata"]["name"];
    if old["spec"] == new["spec"] {
        counts.same += 1;
        return;
    }
    let [upstream, ours] = [Policy::Upstream, Policy::Ours]
        .map(|policy| compare(old, new, policy).unwrap_or_else(|error| panic!("{error}")));
    let refused = ours.is_refused();
    assert!(upstream.is_refused() || !refused, "{name}: refused by our policy only");
    if upstream.is_refused() && !refused {
        let reasons: BTreeSet<_> =
            ours.findings.iter().map(|finding| format!("{:?}", finding.reason)).collect();
        let reasons = reasons.into_iter().collect::<Vec<_>>().join(", ");
        *counts.let_through.entry(reasons).or_default() += 1;
    }
    *(if refused { &mut counts.refused } else { &mut counts.safe }) += 1;
    for version in old["spec"]["versions"].as_array().into_iter().flatten() {
        let at = version["name"].as_str().unwrap_or_default();
        let (Ok(before), Ok(after)) = (Schema::read(old, at), Schema::read(new, at)) else { continue };
        let mut made = Objects::new(seed);
        for _ in 0..OBJECTS {
            let object = made.value(&version["schema"]["openAPIV3Schema"], 0);
            if before.validate(&object).is_valid() != Tristate::Yes {
                continue;
            }
            let validation = after.validate(&object);
            match (validation.is_valid(), refused) {
                (Tristate::Yes, false) => counts.objects += 1,
                (Tristate::Undecided, false) => counts.undecided += 1,
                (Tristate::No, false) => {
                    counts.broken.push(format!("{name} {at}: {:?}: {object}", validation.violations));
                }
                (is_valid, true) => counts.broken_of_refused += usize::from(is_valid == Tristate::No),
            }
        }
    }
}

fn subfolders(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

fn definitions(manifests: &Path) -> BTreeMap<String, Value> {
    let mut definitions = BTreeMap::new();
    let entries = fs::read_dir(manifests).unwrap_or_else(|error| panic!("{}: {error}", manifests.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        for document in olm_yaml::mixed(olm_yaml::text(&bytes).unwrap()) {
            let document = document.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if document["kind"] == "CustomResourceDefinition"
                && document["apiVersion"] == "apiextensions.k8s.io/v1"
                && let Some(name) = document["metadata"]["name"].as_str()
            {
                definitions.insert(name.to_owned(), document);
            }
        }
    }
    definitions
}
