//! Where upstream's answers are, and how they are read and counted.

use std::{
    fmt,
    fs::File,
    io::{BufRead, BufReader},
};

use olm_test::{
    data::{large, report, sample, skip},
    prelude::*,
};
use serde::de::DeserializeOwned;

/// Differences printed before the rest is only counted.
const DIFFERENCES_SHOWN_MAX: usize = 20;

/// The page whose rows name the differences.
const PAGE: &str = "docs/decisions/0001-differences.md";
/// The cases of the sample that differ, by kind and by the name of the difference.
const LISTED: &str = "data/differences.json";

/// Names of differences, each with its cases.
type Named = BTreeMap<String, BTreeSet<String>>;

/// Calls `check` with the sample, and with the large data where they are present, if they have `part`; then prints the
/// counts of both, and fails if an answer differs that is not named, or if the differences of the sample are not those
/// that are listed.
pub(crate) fn each(kind: &str, part: &str, mut check: impl FnMut(&Path, &mut Counts)) {
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    let absent = match large("") {
        Err(absent) => Some(absent),
        Ok(folder) => {
            let absent = (!folder.join(part).exists()).then(|| format!("{} has no {part}", folder.display()));
            if absent.is_none() {
                run("OLM_DATA", &folder, &mut check, &mut lines, &mut failures);
            }
            absent
        }
    };
    if sample().join(part).exists() {
        let named = run("the sample", &sample(), &mut check, &mut lines, &mut failures);
        failures.extend(unlisted(kind, &named));
    }
    assert!(!lines.is_empty() || absent.is_some(), "{kind}: the sample has no {part}");
    if let Some(absent) = absent {
        skip(&absent);
    }
    if !lines.is_empty() {
        report(&format!("compatibility {kind}: {}", lines.join("; ")));
    }
    assert!(failures.is_empty(), "{kind}: {}", failures.join("\n"));
}

fn run(
    source: &str,
    folder: &Path,
    check: &mut impl FnMut(&Path, &mut Counts),
    lines: &mut Vec<String>,
    failures: &mut Vec<String>,
) -> Named {
    let mut counts = Counts::default();
    check(folder, &mut counts);
    let Counts { equal, named, different } = counts;
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    for name in named.keys().flat_map(|name| name.split(" + ")) {
        if !page.contains(&format!("\n| {name} | ")) {
            failures.push(format!("{PAGE} has no row {name:?}"));
        }
    }
    let by_name: Vec<_> = named.iter().map(|(name, cases)| format!("{name} {}", cases.len())).collect();
    let by_name = if by_name.is_empty() { String::new() } else { format!(" ({})", by_name.join(", ")) };
    let differing: usize = named.values().map(BTreeSet::len).sum();
    let all = equal + differing + different;
    lines.push(format!(
        "ran {all} cases of {source}: {equal} equal, {differing} by named differences{by_name}, {different} different"
    ));
    if different > 0 {
        failures.push(format!("{different} answers of {source} differ from upstream's without a name"));
    }
    if all == 0 {
        failures.push(format!("no case of {source} was read"));
    }
    named
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The differences of the sample that are listed and have vanished, and those that have appeared.
fn unlisted(kind: &str, found: &Named) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(LISTED);
    let mut all: BTreeMap<String, Named> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let listed = all.remove(kind).unwrap_or_default();
    let flat = |named: &Named| -> BTreeSet<(String, String)> {
        let each = |(name, cases): (&String, &BTreeSet<String>)| {
            cases.iter().map(|case| (name.clone(), case.clone())).collect::<Vec<_>>()
        };
        named.iter().flat_map(each).collect()
    };
    let (listed, found) = (flat(&listed), flat(found));
    let line = |(name, case): &(String, String), how: &str| format!("{LISTED}: {name}: {case}: {how}");
    let vanished = listed.difference(&found).map(|one| line(one, "is no difference any more"));
    let appeared = found.difference(&listed).map(|one| line(one, "is not listed"));
    vanished.chain(appeared).collect()
}

/// Calls `each` with every line of a zstd-compressed file. Lines may have any length.
pub(crate) fn lines(path: &Path, mut each: impl FnMut(&[u8])) {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = BufReader::with_capacity(1 << 20, zstd::Decoder::new(file).unwrap());
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).unwrap() > 0 {
        if !line.trim_ascii().is_empty() {
            each(&line);
        }
        line.clear();
    }
}

/// Calls `each` with every JSON line of a zstd-compressed file, decoded.
pub(crate) fn cases<T: DeserializeOwned>(path: &Path, mut each: impl FnMut(T)) {
    lines(path, |line| {
        let case = serde_json::from_slice(line)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", path.display(), String::from_utf8_lossy(line)));
        each(case);
    });
}

/// Equal answers, the cases of named differences, and other differences.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    equal: usize,
    named: Named,
    different: usize,
}

impl Counts {
    pub(crate) fn equal(&mut self) {
        self.equal += 1;
    }

    /// Counts a case under a row of the page of differences, or under several joined by ` + `.
    pub(crate) fn named(&mut self, name: &str, case: impl fmt::Display) {
        let is_new = self.named.entry(name.to_owned()).or_default().insert(case.to_string());
        assert!(is_new, "{name}: two cases are called {case}");
    }

    pub(crate) fn different(&mut self, what: impl fmt::Display) {
        self.different += 1;
        if self.different <= DIFFERENCES_SHOWN_MAX {
            println!("different: {what}");
        }
    }
}
