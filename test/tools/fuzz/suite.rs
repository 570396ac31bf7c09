//! The corpora of the readers of foreign input, replayed, some mutations of them that are always the same, and hostile
//! inputs. One test after the other: memory is measured for the whole program.

use std::time::Duration;

use olm_test::tools::fuzz::{Cost, TARGETS, hostile};
use peak_alloc::PeakAlloc;

/// Measures what the readers allocate.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Mutations for each target; `make fuzz` goes on from there.
const INPUTS: u64 = 1_500;
const SEED: u64 = 4;

fn check(name: &str, cost: Cost) {
    assert!(cost.peak <= cost.peak_allowed(), "{name}: {cost:?}");
}

#[test]
fn readers_of_foreign_input_stay_within_memory() {
    let held = vec![1_u8; 1 << 20];
    assert!(PeakAlloc.current_usage() > held.len(), "memory is measured");
    corpora_are_read_without_harm();
    mutated_corpora_are_read_without_harm();
    let mut failed = Vec::new();
    for one in hostile() {
        match one.feed() {
            Ok(cost) => println!("{one}: {cost:?}"),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The entry points for cargo-fuzz are not part of the workspace; `make fuzz-check` compiles them.
#[test]
fn each_reader_has_an_entry_point_for_cargo_fuzz() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    for target in TARGETS {
        let path = format!("fuzz_targets/{}.rs", target.name);
        assert!(manifest.contains(&format!("path = \"{path}\"")), "{path}");
        let source = std::fs::read_to_string(folder.join(&path)).expect("an entry point");
        assert!(source.contains(&format!("run(\"{}\", input)", target.name)), "{path}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}

fn corpora_are_read_without_harm() {
    for target in TARGETS {
        let corpus = target.corpus().expect("a corpus");
        assert!(corpus.len() >= 5, "{} has {} inputs", target.name, corpus.len());
        for (name, input) in corpus {
            let (_, cost) = target.feed(&input).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            check(&name, cost);
        }
    }
}

fn mutated_corpora_are_read_without_harm() {
    for target in TARGETS {
        let done =
            target.fuzz(SEED, Duration::from_mins(1), INPUTS).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(done.kinds > 3, "{} only ever gives {} kinds of results", target.name, done.kinds);
        check(target.name, done.worst.peak);
        println!("{}: {} inputs, {} kinds of results; {}", target.name, done.inputs, done.kinds, done.worst);
    }
}
