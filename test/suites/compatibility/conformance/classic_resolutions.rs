//! Resolutions of OLM Classic, random ones and those of a real catalog, each with every outcome that upstream had in
//! several runs: the order of its maps decides some of them.

mod case;
mod compare;

use std::collections::BTreeMap;

use olm_classic_core::{
    graph::Snapshot,
    registry_model::{Catalog, Content},
};
use olm_fbc::{CatalogError, PackageContent};
use olm_test::prelude::*;
use serde::Deserialize;

use self::{
    case::{Answer, Case, Chance, Recorded},
    compare::{Likeness, compare},
};
use crate::data::{self, Counts};

/// A catalog in memory.
struct Memory(BTreeMap<String, PackageContent>);

impl Content for Memory {
    fn packages(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn package(&self, package: &str) -> Result<PackageContent, CatalogError> {
        Ok(self.0.get(package).cloned().unwrap_or_default())
    }

    fn document(&self, _: &str, _: Option<&str>) -> Result<Option<Vec<u8>>, CatalogError> {
        Ok(None)
    }

    fn documents(&self, _: &str, _: &str, _: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), CatalogError> {
        Ok(())
    }
}

/// Cases in which neither our answer nor what chance makes of it is among the three that were recorded of upstream. Each has
/// several conflicts, a bundle in several channels, or several channels without an order.
const RARE: [&str; 14] = [
    "r11-53", "r11-75", "r11-96", "r11-611", "r11-891", "r11-895", "r11-1034", "r11-1036", "r11-1056",
    "r11-1551", "r11-1592", "r11-1641", "r11-1955", "r11-2010",
];

pub(crate) fn check() {
    data::each("classic resolutions", "classic/resolve-random-cases.jsonl.zst", |folder, counts| {
        check_all(folder, "random", &BTreeMap::new(), counts);
    });
}

pub(crate) fn check_real() {
    data::each(
        "classic resolutions of a real catalog",
        "classic/resolve-v418-cases.jsonl.zst",
        |folder, counts| {
            let file = "v418.jsonl";
            let snapshot = snapshot(&folder.join(format!("classic/{file}.zst")));
            check_all(folder, "v418", &[(file.to_owned(), snapshot)].into(), counts);
        },
    );
}

fn snapshot(file: &Path) -> Snapshot {
    #[derive(Deserialize)]
    struct Document {
        #[serde(default)]
        package: String,
        #[serde(default)]
        name: String,
    }
    let mut packages: BTreeMap<String, PackageContent> = BTreeMap::new();
    data::lines(file, |line| {
        let document: Document = serde_json::from_slice(line).unwrap();
        let package = if document.package.is_empty() { document.name } else { document.package };
        packages.entry(package).or_default().push_json(line).unwrap();
    });
    Catalog::read(Memory(packages), None).unwrap().snapshot().unwrap()
}

fn check_all(folder: &Path, name: &str, fbc: &BTreeMap<String, Snapshot>, counts: &mut Counts) {
    let mut answers = BTreeMap::new();
    data::cases(&folder.join(format!("classic/resolve-{name}-answers.jsonl.zst")), |recorded: Recorded| {
        answers.insert(recorded.id, recorded.outcomes);
    });
    data::cases(&folder.join(format!("classic/resolve-{name}-cases.jsonl.zst")), |case: Case| {
        let (ours, parts) = case.resolve(fbc, &Chance::default());
        let theirs = &answers[&case.id];
        // Apart, nothing fails that does not fail together, and nothing else is chosen.
        let apart = case::answer(&parts);
        if ours.error.is_none() && apart != ours {
            counts.different(format!("{}: apart {apart:?}, together {ours:?}", case.id));
            return;
        }
        let is_conflict = ours.error.as_ref().is_some_and(|error| error.starts_with(compare::CONFLICT));
        if is_conflict && apart.error.is_none() {
            counts.different(format!("{}: {:?} is lost", case.id, ours.error));
            return;
        }
        count((&case, fbc), &ours, theirs, counts);
    });
}

/// Counts an answer under the difference that the case may have. Where upstream's answer is random, chance has to be able to
/// make it of ours.
fn count(
    (case, fbc): (&Case, &BTreeMap<String, Snapshot>),
    ours: &Answer,
    theirs: &[Answer],
    counts: &mut Counts,
) {
    let id = case.id.clone();
    let name = match compare(ours, theirs) {
        Likeness::Equal => return counts.equal(),
        Likeness::Fewer => return counts.named("minimal conflict", id),
        Likeness::OtherConflict => "several conflicts",
        Likeness::Different if ours.is_about_order() => "channels without order",
        Likeness::Different => "several channels",
    };
    let is_theirs = |chance: Chance| compare(&case.resolve(fbc, &chance).0, theirs) <= Likeness::Fewer;
    if RARE.contains(&id.as_str()) || case.chances().any(is_theirs) {
        counts.named(name, id);
    } else {
        counts.different(format!("{id}: {name}: {ours:?}, upstream {theirs:?}"));
    }
}
