//! Whether our answer is one that upstream gave.

use std::collections::BTreeSet;

use super::case::Answer;

/// How an answer of ours compares with those that upstream gave in several runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Likeness {
    /// Upstream gave it.
    Equal,
    /// A conflict with some of the constraints that upstream names.
    Fewer,
    /// A conflict where upstream names another one.
    OtherConflict,
    /// Nothing of this kind.
    Different,
}

/// The beginning of a conflict.
pub(crate) const CONFLICT: &str = "constraints not satisfiable: ";

pub(crate) fn compare(ours: &Answer, upstream: &[Answer]) -> Likeness {
    upstream.iter().map(|theirs| compare_one(ours, theirs)).min().unwrap_or(Likeness::Different)
}

fn compare_one(ours: &Answer, theirs: &Answer) -> Likeness {
    let (Some(our_error), Some(their_error)) = (&ours.error, &theirs.error) else {
        return if ours == theirs { Likeness::Equal } else { Likeness::Different };
    };
    match (our_error.strip_prefix(CONFLICT), their_error.strip_prefix(CONFLICT)) {
        (Some(ours), Some(theirs)) => {
            let (ours, theirs) = (lines(ours), lines(theirs));
            if ours == theirs {
                Likeness::Equal
            } else if ours.is_subset(&theirs) {
                Likeness::Fewer
            } else {
                Likeness::OtherConflict
            }
        }
        (None, None) if sorted(our_error) == sorted(their_error) => Likeness::Equal,
        _ => Likeness::Different,
    }
}

/// The parts of an aggregated error, and the chains of a channel, whose order is random.
fn sorted(error: &str) -> Vec<&str> {
    let error = error.strip_prefix('[').and_then(|error| error.strip_suffix(']')).unwrap_or(error);
    let mut parts: Vec<_> = error.split(", ").flat_map(|part| part.split("\": ")).collect();
    parts.sort_unstable();
    parts
}

/// The constraints of a conflict. They are joined with commas, of which they have some themselves. Candidates that stand
/// in random order are sorted.
pub(crate) fn lines(conflict: &str) -> BTreeSet<String> {
    let mut lines: Vec<Vec<&str>> = Vec::new();
    let mut is_open = false;
    for token in conflict.split(", ") {
        let is_identifier = token.split(' ').next().is_some_and(|word| word.matches('/').count() >= 3);
        let begins = ["bundle ", "subscription ", "clusterserviceversion ", "no operators found "];
        if !is_open && (is_identifier || begins.iter().any(|begin| token.starts_with(begin))) {
            lines.push(Vec::new());
            is_open = is_identifier || token.contains(" requires at least one of ");
        }
        if let Some(line) = lines.last_mut() {
            line.push(token);
        }
        let ends = [" provide ", " originate from package ", " or "];
        is_open = is_open && !ends.iter().any(|end| token.contains(end));
    }
    lines.iter().map(|line| normalized(line)).collect()
}

fn normalized(line: &[&str]) -> String {
    let Some((subscription, first)) =
        line.first().and_then(|first| first.split_once(" requires at least one of "))
    else {
        return line.join(", ");
    };
    let mut candidates: Vec<_> = std::iter::once(first).chain(line[1..].iter().copied()).collect();
    if let Some((last, other)) = candidates.pop().and_then(|last| last.split_once(" or ")) {
        candidates.extend([last, other]);
    }
    candidates.sort_unstable();
    format!("{subscription} requires at least one of {}", candidates.join(", "))
}
