//! Which bundles an installed one may be upgraded to, by the edges of channels.
//!
//! There is no chain to follow: an entry is a successor when its own `replaces`, `skips` or `skipRange` covers
//! the installed bundle. Entries may name bundles that do not exist, and edges may form cycles; neither matters.

use std::collections::BTreeSet;

use olm_fbc::{Channel, ChannelEntry};
use olm_semver::{SkipRange, Version};

/// The names of the entries that succeed the bundle `name` of version `version`. Unparsable skip ranges are no
/// edges, as upstream.
pub(crate) fn successors<'a>(
    channels: impl Iterator<Item = &'a Channel>,
    name: &str,
    version: &Version,
) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for entry in channels.flat_map(|channel| &channel.entries) {
        if !names.contains(entry.name.as_str()) && succeeds(entry, name, version) {
            names.insert(entry.name.as_str());
        }
    }
    names
}

fn succeeds(entry: &ChannelEntry, name: &str, version: &Version) -> bool {
    entry.replaces == name
        || entry.skips.iter().any(|skipped| skipped == name)
        || (!entry.skip_range.is_empty()
            && entry.skip_range.parse::<SkipRange>().is_ok_and(|range| range.contains(version)))
}
