//! Readers of what comes from outside, fed with input that nobody would write: corpora that are replayed by
//! every test run, and a driver that mutates them for as long as it is told (`make fuzz`).
//!
//! A target answers with the kind of result it saw; the driver keeps inputs that give a new kind, so that it
//! moves on from there. A property that does not hold is a panic. The driver runs on the stable toolchain and
//! knows nothing of coverage.

mod mutate;
mod targets;

use std::{
    collections::BTreeSet,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use mutate::Mutator;

/// Inputs kept for one target, beyond its corpus.
const KEPT_MAX: usize = 2_000;

/// A reader under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also of its folder below `test/fuzz/corpus`.
    pub name: &'static str,
    run: fn(&[u8]) -> String,
    /// Pieces that its inputs are made of.
    words: &'static [&'static str],
}

/// Every reader under test.
pub const TARGETS: [Target; 6] = [
    Target { name: "yaml", run: targets::yaml, words: targets::YAML_WORDS },
    Target { name: "fbc", run: targets::fbc, words: targets::FBC_WORDS },
    Target { name: "layer", run: targets::layer, words: targets::LAYER_WORDS },
    Target { name: "registries-conf", run: targets::registries_conf, words: targets::CONF_WORDS },
    Target { name: "release", run: targets::release, words: targets::RELEASE_WORDS },
    Target { name: "reference", run: targets::reference, words: targets::REFERENCE_WORDS },
];

impl Target {
    /// The folder of its corpus.
    pub fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(self.name)
    }

    /// The corpus, by file name.
    pub fn corpus(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let folder = self.folder();
        let mut corpus = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            corpus.push((name, fs::read(&path)?));
        }
        corpus.sort();
        Ok(corpus)
    }

    /// Feeds one input. A panic is an error.
    pub fn feed(&self, input: &[u8]) -> Result<String> {
        match catch_unwind(AssertUnwindSafe(|| (self.run)(input))) {
            Ok(kind) => Ok(kind),
            Err(panic) => {
                let text = panic
                    .downcast_ref::<&str>()
                    .copied()
                    .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                bail!("{}: {}", self.name, text.unwrap_or("panic"))
            }
        }
    }

    /// Feeds the corpus and what mutation makes of it, until the time or the number of inputs is up. An input
    /// that breaks the target is written to the corpus.
    pub fn fuzz(&self, seed: u64, time: Duration, inputs_max: u64) -> Result<Fuzzed> {
        let start = Instant::now();
        let mut pool: Vec<Vec<u8>> = self.corpus()?.into_iter().map(|(_, input)| input).collect();
        let mut kinds = BTreeSet::new();
        for input in &pool {
            kinds.insert(self.checked(input, seed)?);
        }
        let corpus = pool.len();
        let mut mutator = Mutator::new(seed, self.words);
        let mut inputs = 0;
        while inputs < inputs_max && start.elapsed() < time {
            let input = mutator.mutated(&pool);
            let is_new = kinds.insert(self.checked(&input, seed)?);
            if is_new && pool.len() < corpus + KEPT_MAX {
                pool.push(input);
            }
            inputs += 1;
        }
        Ok(Fuzzed { inputs, kinds: kinds.len() })
    }

    fn checked(&self, input: &[u8], seed: u64) -> Result<String> {
        self.feed(input).or_else(|error| {
            let digest: [u8; 32] = Sha256::digest(input).into();
            let [a, b, c, d, ..] = digest;
            let name = format!("broken-{:08x}", u32::from_be_bytes([a, b, c, d]));
            let path = self.folder().join(name);
            fs::write(&path, input)?;
            Err(error.context(format!("seed {seed}, input written to {}", path.display())))
        })
    }
}

/// What a run did.
#[derive(Debug, Clone, Copy)]
pub struct Fuzzed {
    /// Inputs beyond the corpus.
    pub inputs: u64,
    /// Kinds of results met.
    pub kinds: usize,
}

/// The kind of an error: its text without what varies.
fn kind(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    // What is quoted is the input's own.
    let mut quoted = false;
    let plain = text.chars().filter(|c| {
        quoted ^= *c == '"';
        !quoted && !c.is_ascii_digit()
    });
    plain.take(120).collect()
}
