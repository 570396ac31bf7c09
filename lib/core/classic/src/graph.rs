//! The upgrade graph of a catalog as OLM Classic reads it: packages have channels, channels have entries, and each entry is
//! a bundle with the edges that lead to it.
//!
//! A [`Package`] holds names and edges only. A [`Snapshot`] adds the bundles with what resolution needs of them.

mod bundle;
mod order;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use olm_fbc::{PackageContent, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};
use olm_opm::GraphError;

pub use bundle::{Bundle, PROPERTY_DEPRECATED};
pub(crate) use bundle::{LABEL, LABEL_REQUIRED};
pub use order::OrderError;
pub use snapshot::{PackageSnapshot, Snapshot, SnapshotError};

use crate::limits::{ENTRY_BYTES, VALUE_BYTES};

/// The names and edges of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// Name of the channel that is taken when a Subscription names none.
    pub default_channel: String,
    /// Message to the users of a deprecated package.
    pub deprecation: Option<String>,
    /// Channels by name.
    pub channels: BTreeMap<String, Channel>,
    /// Messages to the users of deprecated bundles, by the names of the bundles.
    pub deprecated_bundles: BTreeMap<String, String>,
}

/// A channel of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// Name of the bundle at the head.
    pub head: String,
    /// Message to the users of a deprecated channel.
    pub deprecation: Option<String>,
    /// Entries by the names of their bundles.
    pub entries: BTreeMap<String, Entry>,
}

/// A bundle in a channel: the edges that lead to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Name of the bundle.
    pub name: String,
    /// Name of the bundle that this one replaces; empty for none. It need not be in the channel.
    pub replaces: String,
    /// Names of bundles that may be skipped on the way to this one.
    pub skips: Vec<String>,
    /// Range of versions from which this bundle is reached directly, as it is written; empty for none.
    pub skip_range: String,
}

impl Package {
    /// The package of a file-based catalog. Of several documents about the same thing the last counts.
    ///
    /// # Errors
    /// A channel has no head, or several.
    pub fn of(content: &PackageContent) -> Result<Self, GraphError> {
        let mut package = Self::default();
        for one in &content.packages {
            package.default_channel.clone_from(&one.default_channel);
        }
        for channel in &content.channels {
            let head = olm_opm::head(&channel.entries)?.name.clone();
            let entries = channel.entries.iter().map(|entry| {
                let entry = Entry {
                    name: entry.name.clone(),
                    replaces: entry.replaces.clone(),
                    skips: entry.skips.clone(),
                    skip_range: entry.skip_range.clone(),
                };
                (entry.name.clone(), entry)
            });
            let channel_graph = Channel { head, deprecation: None, entries: entries.collect() };
            package.channels.insert(channel.name.clone(), channel_graph);
        }
        for entry in content.deprecations.iter().flat_map(|deprecation| &deprecation.entries) {
            let message = entry.message.clone();
            match entry.reference.schema.as_str() {
                SCHEMA_PACKAGE => package.deprecation = Some(message),
                SCHEMA_CHANNEL => {
                    if let Some(channel) = package.channels.get_mut(&entry.reference.name) {
                        channel.deprecation = Some(message);
                    }
                }
                SCHEMA_BUNDLE => {
                    package.deprecated_bundles.insert(entry.reference.name.clone(), message);
                }
                _ => {}
            }
        }
        Ok(package)
    }

    /// The channels with their names, the default one first, then by name: the order in which they are preferred.
    pub fn by_preference(&self) -> impl Iterator<Item = (&str, &Channel)> {
        let default = self.channels.get_key_value(&self.default_channel);
        let others = self.channels.iter().filter(|(name, _)| **name != self.default_channel);
        default.into_iter().chain(others).map(|(name, channel)| (name.as_str(), channel))
    }

    /// The memory that the package is reckoned to take, in bytes.
    pub fn memory(&self) -> usize {
        let entry = |entry: &Entry| {
            let skips: usize = entry.skips.iter().map(|skip| skip.len() + VALUE_BYTES).sum();
            2 * entry.name.len() + entry.replaces.len() + entry.skip_range.len() + skips + ENTRY_BYTES
        };
        let entries = self.channels.values().flat_map(|channel| channel.entries.values()).map(entry);
        let texts =
            self.deprecated_bundles.iter().map(|(name, message)| name.len() + message.len() + VALUE_BYTES);
        let channels = self.channels.iter().map(|(name, channel)| {
            name.len()
                + channel.head.len()
                + channel.deprecation.as_ref().map_or(0, String::len)
                + ENTRY_BYTES
        });
        entries.chain(texts).chain(channels).sum::<usize>()
            + self.deprecation.as_ref().map_or(0, String::len)
            + ENTRY_BYTES
    }
}

impl Entry {
    /// Whether the entry replaces or skips the bundle of this name.
    pub fn supersedes(&self, name: &str) -> bool {
        self.replaces == name || self.skips.iter().any(|skip| skip == name)
    }
}
