//! The corpora of the readers of foreign input, replayed, and some mutations of them that are always the same.

use std::time::Duration;

use olm_test::fuzz::TARGETS;

/// Mutations for each target; `make fuzz` goes on from there.
const INPUTS: u64 = 1_500;
const SEED: u64 = 4;

#[test]
fn corpora_are_read_without_harm() {
    for target in TARGETS {
        let corpus = target.corpus().expect("a corpus");
        assert!(corpus.len() >= 5, "{} has {} inputs", target.name, corpus.len());
        for (name, input) in corpus {
            target.feed(&input).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        }
    }
}

#[test]
fn mutated_corpora_are_read_without_harm() {
    for target in TARGETS {
        let done =
            target.fuzz(SEED, Duration::from_mins(1), INPUTS).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(done.kinds > 3, "{} only ever gives {} kinds of results", target.name, done.kinds);
        println!("{}: {} inputs, {} kinds of results", target.name, done.inputs, done.kinds);
    }
}
