//! The upgrade graph of a channel: its head, the chain from there, what the chain leaves out.
//!
//! Versions and skip ranges play no part. Edges to bundles that are not in the channel are allowed.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::ChannelEntry;
use thiserror::Error;

/// What is wrong with a channel's graph. The texts are the original's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GraphError {
    /// Every entry is replaced or skipped by one.
    #[error("no channel head found in graph")]
    NoHead,
    /// Several entries are neither replaced nor skipped.
    #[error("multiple channel heads found in graph: {}", .0.join(", "))]
    Heads(Vec<String>),
    /// The chain of `replaces` comes back to where it was.
    #[error("detected cycle in replaces chain of upgrade graph: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// Entries that are neither on the chain nor skipped.
    #[error("channel contains one or more stranded bundles: {}", .0.join(", "))]
    Stranded(Vec<String>),
}

/// The head of a channel: the one entry that no entry replaces or skips.
///
/// # Errors
/// There is none, or several.
pub fn head(entries: &[ChannelEntry]) -> Result<&ChannelEntry, GraphError> {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    for entry in entries {
        reached.extend(Some(entry.replaces.as_str()).filter(|replaces| !replaces.is_empty()));
        reached.extend(entry.skips.iter().map(String::as_str));
    }
    let heads: Vec<&ChannelEntry> =
        entries.iter().filter(|entry| !reached.contains(entry.name.as_str())).collect();
    match heads[..] {
        [] => Err(GraphError::NoHead),
        [head] => Ok(head),
        _ => {
            let mut names: Vec<String> = heads.iter().map(|head| head.name.clone()).collect();
            names.sort_unstable();
            Err(GraphError::Heads(names))
        }
    }
}

/// Checks the graph of a channel, which has entries, no two of one name.
pub(crate) fn check(entries: &[ChannelEntry]) -> Result<(), GraphError> {
    let head = head(entries)?;
    let by_name: BTreeMap<&str, &ChannelEntry> =
        entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let skipped: BTreeSet<&str> =
        entries.iter().flat_map(|entry| entry.skips.iter().map(String::as_str)).collect();
    let mut chain = vec![head.name.as_str()];
    let mut visited: BTreeSet<&str> = chain.iter().copied().collect();
    let mut current = Some(head);
    while let Some(entry) = current {
        let next = entry.replaces.as_str();
        if skipped.contains(next) {
            break;
        }
        if visited.contains(next) {
            let cycle = chain.iter().copied().skip_while(|name| *name != next).chain([next]);
            return Err(GraphError::Cycle(cycle.map(str::to_owned).collect()));
        }
        visited.insert(next);
        chain.push(next);
        current = by_name.get(next).copied();
    }
    let stranded: Vec<String> = by_name
        .keys()
        .filter(|name| !visited.contains(*name) && !skipped.contains(*name))
        .map(|name| (*name).to_owned())
        .collect();
    if stranded.is_empty() { Ok(()) } else { Err(GraphError::Stranded(stranded)) }
}
