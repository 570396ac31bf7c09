//! Where the reference's answers are, and how they are read and counted.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;

/// Differences printed before the rest is only counted.
const DIFFERENCES_SHOWN_MAX: usize = 20;

/// The folder of the data, or `None`, said on standard output, when it is absent.
pub(crate) fn folder() -> Option<PathBuf> {
    olm_test::data::folder("")
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

/// How many answers were equal, different by a named decision, and different.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    equal: usize,
    decisions: BTreeMap<&'static str, usize>,
    different: usize,
}

impl Counts {
    pub(crate) fn equal(&mut self) {
        self.equal += 1;
    }

    pub(crate) fn decision(&mut self, name: &'static str) {
        *self.decisions.entry(name).or_default() += 1;
    }

    pub(crate) fn different(&mut self, what: impl fmt::Display) {
        self.different += 1;
        if self.different <= DIFFERENCES_SHOWN_MAX {
            println!("different: {what}");
        }
    }

    /// Prints the counts, and fails if an answer was different, or if there was none at all.
    pub(crate) fn finish(self, test: &str) {
        let Self { equal, decisions, different } = self;
        println!("{test}: {equal} equal, by decision {decisions:?}, {different} different");
        assert_eq!(different, 0, "{test}: answers differ from the reference's");
        assert!(equal > 0, "{test}: no case was read");
    }
}
