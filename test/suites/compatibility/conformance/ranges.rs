//! Random ranges in both dialects, each with versions that it matches and does not match.

use olm_semver::{Constraint, SkipRange, Version};
use olm_test::prelude::*;
use serde::Deserialize;

use crate::data::{self, Counts};

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Dialect {
    Masterminds,
    Blang,
}

#[derive(Deserialize)]
struct Case {
    dialect: Dialect,
    range: String,
    #[serde(default)]
    error: bool,
    #[serde(default)]
    matches: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
}

type Matcher = Box<dyn Fn(&Version) -> bool>;

fn parse(case: &Case) -> Option<Matcher> {
    match case.dialect {
        Dialect::Masterminds => {
            let range: Constraint = case.range.parse().ok()?;
            Some(Box::new(move |version| range.matches(version)))
        }
        Dialect::Blang => {
            let range: SkipRange = case.range.parse().ok()?;
            Some(Box::new(move |version| range.contains(version)))
        }
    }
}

pub(crate) fn check() {
    data::each("ranges", "ranges.jsonl.zst", check_all);
}

fn check_all(folder: &Path, counts: &mut Counts) {
    let mut versions: BTreeMap<String, Version> = BTreeMap::new();
    data::cases(&folder.join("ranges.jsonl.zst"), |case: Case| {
        let Some(matches) = parse(&case) else {
            if case.error {
                counts.equal();
            } else {
                counts.different(format!("{:?} is refused", case.range));
            }
            return;
        };
        if case.error {
            counts.different(format!("{:?} is accepted", case.range));
            return;
        }
        let wants = case.matches.iter().map(|v| (v, true)).chain(case.not.iter().map(|v| (v, false)));
        for (text, want) in wants {
            let version = versions.entry(text.clone()).or_insert_with(|| text.parse().unwrap());
            if matches(version) != want {
                counts.different(format!("{:?} and {text}: should be {want}", case.range));
                return;
            }
        }
        counts.equal();
    });
}
