//! Readers of what comes from outside, fed with input that nobody would write: corpora that are replayed by
//! every test run, and a driver that mutates them for as long as it is told (`make fuzz`).
//!
//! A target answers with the kind of result it saw; the driver keeps inputs that give a new kind, so that it
//! moves on from there. A property that does not hold is a panic. What an input costs is measured, and memory beyond
//! [`PEAK_OF_ANY_INPUT`] and [`PEAK_PER_BYTE`] is an error. The driver runs on the stable toolchain and knows nothing of
//! coverage; `fuzz_targets` has the same targets for one that does.

mod bundles;
mod catalogs;
mod expressions;
mod graphql;
mod hostile;
mod images;
mod measure;
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
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use hostile::{Hostile, hostile};
use measure::measured;
pub use measure::{Cost, PEAK_OF_ANY_INPUT, PEAK_PER_BYTE, TIME_OF_ANY_INPUT, TIME_PER_BYTE};
use mutate::{Mutator, words};

/// Inputs kept for one target, beyond its corpus.
const KEPT_MAX: usize = 2_000;

/// A reader under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also of its folder below `test/tools/fuzz/corpus`.
    pub name: &'static str,
    run: fn(&[u8]) -> String,
    /// Its dictionary: pieces that inputs are made of.
    dictionary: &'static str,
}

const fn target(name: &'static str, run: fn(&[u8]) -> String, dictionary: &'static str) -> Target {
    Target { name, run, dictionary }
}

/// Every reader under test.
pub const TARGETS: [Target; 23] = [
    target("yaml", targets::yaml, "yaml"),
    target("fbc", targets::fbc, "fbc"),
    target("catalog", catalogs::catalog, "fbc"),
    target("index", catalogs::index, "index"),
    target("graphql", graphql::graphql, "graphql"),
    target("layer", targets::layer, "layer"),
    target("compressed", images::compressed, "layer"),
    target("manifest", images::manifest, "manifest"),
    target("registries-conf", targets::registries_conf, "registries-conf"),
    target("login", images::login, "login"),
    target("policy", images::policy, "policy"),
    target("docker-config", images::docker_config, "docker-config"),
    target("release", targets::release, "release"),
    target("reference", targets::reference, "reference"),
    target("managed-fields", images::managed_fields, "managed-fields"),
    target("bundle", bundles::bundle, "bundle"),
    target("bundle-blob", bundles::bundle_blob, "bundle"),
    target("rules", bundles::rules, "rules"),
    target("template", bundles::template, "template"),
    target("crd", expressions::crd, "crd"),
    target("rule", expressions::rule, "rule"),
    target("constraint", expressions::constraint, "constraint"),
    target("version", expressions::version, "version"),
];

/// The reader of this name.
pub fn target_named(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Feeds an input to the reader of this name, for drivers that see a panic.
///
/// # Panics
/// There is no such reader, or a property does not hold.
pub fn run(name: &str, input: &[u8]) {
    let target = target_named(name).unwrap_or_else(|| panic!("no target {name:?}"));
    (target.run)(input);
}

impl Target {
    /// The folder of its corpus.
    pub fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/fuzz/corpus").join(self.name)
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

    /// The words of its dictionary.
    fn words(&self) -> Result<Vec<Vec<u8>>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/fuzz/dictionaries");
        let path = folder.join(self.dictionary).with_extension("dict");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        words(&text).with_context(|| path.display().to_string())
    }

    /// Feeds one input. A panic is an error.
    pub fn feed(&self, input: &[u8]) -> Result<(String, Cost)> {
        match catch_unwind(AssertUnwindSafe(|| measured(input.len(), || (self.run)(input)))) {
            Ok(fed) => Ok(fed),
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
        let (mut kinds, mut worst) = (BTreeSet::new(), Worst::default());
        for input in &pool {
            let (kind, cost) = self.checked(input, seed)?;
            kinds.insert(kind);
            worst.take(cost);
        }
        let corpus = pool.len();
        let mut mutator = Mutator::new(seed, self.words()?);
        let mut inputs = 0;
        while inputs < inputs_max && start.elapsed() < time {
            let input = mutator.mutated(&pool);
            let (kind, cost) = self.checked(&input, seed)?;
            // What costs more than anything before is a place to start from as well.
            let is_new = kinds.insert(kind) | worst.take(cost);
            if is_new && pool.len() < corpus + KEPT_MAX {
                pool.push(input);
            }
            inputs += 1;
        }
        Ok(Fuzzed { inputs, kinds: kinds.len(), worst })
    }

    /// Feeds one input, which may not allocate more than [`Cost::peak_allowed`].
    fn checked(&self, input: &[u8], seed: u64) -> Result<(String, Cost)> {
        let fed = self.feed(input).and_then(|(kind, cost)| {
            if cost.peak > cost.peak_allowed() {
                bail!("{}: {cost:?}, more than {} bytes of memory", self.name, cost.peak_allowed());
            }
            Ok((kind, cost))
        });
        fed.or_else(|error| {
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
    /// What cost most.
    pub worst: Worst,
}

/// The most expensive of some inputs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Worst {
    /// The one that allocated most.
    pub peak: Cost,
    /// The one that took longest.
    pub time: Cost,
}

impl Worst {
    /// Takes the cost of one more; whether it is the most expensive in a way that is no noise.
    fn take(&mut self, cost: Cost) -> bool {
        let is_worse = cost.peak > self.peak.peak + self.peak.peak / 8 || cost.time > self.time.time * 2;
        if cost.peak > self.peak.peak {
            self.peak = cost;
        }
        if cost.time > self.time.time {
            self.time = cost;
        }
        is_worse
    }
}

impl std::fmt::Display for Worst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kib = |bytes: usize| bytes.div_ceil(1024);
        let Self { peak, time } = self;
        write!(f, "most memory {} KiB for {} bytes, ", kib(peak.peak), peak.bytes)?;
        write!(f, "most time {:.1} ms for {} bytes", time.time.as_secs_f64() * 1e3, time.bytes)?;
        if time.time > time.time_allowed() {
            f.write_str(" (TOO LONG)")?;
        }
        Ok(())
    }
}

/// The lines of an input that are JSON.
fn json_lines(input: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(input);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
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
