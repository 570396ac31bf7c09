//! The channels of a semver template, and which of them is the default one.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::{Channel, ChannelEntry};
use olm_semver::Version;

use super::{Archetype, Stream, Versioned};

/// What makes a channel better suited as the default one: stability, version, then the preferred kind.
struct Candidate<'a> {
    archetype: Archetype,
    version: &'a Version,
    preferred: bool,
    name: String,
}

impl Candidate<'_> {
    fn beats(&self, other: &Self) -> bool {
        self.archetype
            .cmp(&other.archetype)
            .then_with(|| self.version.cmp_precedence(other.version))
            .then_with(|| self.preferred.cmp(&other.preferred))
            .is_gt()
    }
}

/// The channels, sorted by name, and the name of the default one. The lists are sorted by stability, and each
/// by version.
pub(super) fn make(
    package: &str,
    lists: &[(Archetype, Vec<Versioned>)],
    streams: &[Stream],
    preference: Stream,
) -> (Vec<Channel>, String) {
    let mut channels: BTreeMap<String, Vec<ChannelEntry>> = BTreeMap::new();
    let mut best: Option<Candidate<'_>> = None;
    for (archetype, bundles) in lists {
        for &stream in streams {
            let entries = linked(bundles);
            for (bundle, entry) in bundles.iter().zip(entries) {
                let name = channel_name(*archetype, stream, &bundle.version);
                let channel = channels.entry(name.clone()).or_default();
                if channel.is_empty() {
                    // A channel counts with the version that brought it about.
                    let preferred = stream == preference;
                    let candidate =
                        Candidate { archetype: *archetype, version: &bundle.version, preferred, name };
                    if best.as_ref().is_none_or(|best| candidate.beats(best)) {
                        best = Some(candidate);
                    }
                }
                channel.push(entry);
            }
        }
    }
    let default = best.map(|best| best.name).unwrap_or_default();
    let channel = |(name, entries)| Channel { name, package: package.to_owned(), entries };
    let channels = channels.into_iter().map(channel).collect();
    (channels, default)
}

fn channel_name(archetype: Archetype, stream: Stream, version: &Version) -> String {
    let (archetype, major, minor) = (archetype.name(), version.major(), version.minor());
    match stream {
        Stream::Major => format!("{archetype}-v{major}"),
        Stream::Minor => format!("{archetype}-v{major}.{minor}"),
    }
}

/// The entries of the bundles of one archetype, with their edges.
fn linked(bundles: &[Versioned]) -> Vec<ChannelEntry> {
    let minor = |bundle: &Versioned| (bundle.version.major(), bundle.version.minor());
    let mut entries = Vec::with_capacity(bundles.len());
    // The last patch of the minor version before, and all bundles before, of this major version.
    let mut replaces = String::new();
    let mut lower: BTreeSet<&str> = BTreeSet::new();
    for (index, bundle) in bundles.iter().enumerate() {
        let mut entry = ChannelEntry { name: bundle.name.clone(), ..ChannelEntry::default() };
        let next = bundles.get(index + 1);
        if next.is_none_or(|next| minor(next) != minor(bundle)) {
            entry.skips =
                lower.iter().filter(|name| **name != replaces).map(|name| (*name).to_owned()).collect();
            entry.replaces.clone_from(&replaces);
            replaces.clone_from(&bundle.name);
        }
        lower.insert(&bundle.name);
        if next.is_some_and(|next| next.version.major() != bundle.version.major()) {
            replaces.clear();
            lower.clear();
        }
        entries.push(entry);
    }
    entries
}
