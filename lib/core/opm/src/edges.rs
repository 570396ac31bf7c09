//! The upgrade edges of channels: which installed bundles have an upgrade.

use olm_fbc::{Channel, ChannelEntry};
use olm_semver::{SkipRange, Version};

/// Entries of channels with their parsed ranges.
pub(crate) struct Edges<'o>(Vec<(&'o ChannelEntry, Option<SkipRange>)>);

impl<'o> Edges<'o> {
    pub(crate) fn of(channels: impl IntoIterator<Item = &'o Channel>) -> Self {
        let entries = channels.into_iter().flat_map(|channel| &channel.entries);
        Self(entries.map(|entry| (entry, entry.skip_range.parse().ok())).collect())
    }

    /// Whether the bundle can be upgraded to another one.
    pub(crate) fn lead_from(&self, bundle: &str, version: Option<&Version>) -> bool {
        self.0.iter().any(|(entry, range)| {
            entry.name != bundle
                && (entry.replaces == bundle
                    || entry.skips.iter().any(|skipped| skipped == bundle)
                    || range.as_ref().zip(version).is_some_and(|(range, version)| range.contains(version)))
        })
    }
}
