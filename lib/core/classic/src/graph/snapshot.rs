//! All packages of a catalog at one time, with their bundles.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Bundle, Channel, Entry, Package};
use crate::{
    limits::{ENTRY_BYTES, SNAPSHOT_BYTES_MAX},
    registry_model,
};

/// A catalog has more content than is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the catalog takes more than {} MiB of memory: split it, or remove old bundles", SNAPSHOT_BYTES_MAX >> 20)]
pub struct SnapshotError;

/// All packages of a catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Packages by name.
    pub packages: BTreeMap<String, PackageSnapshot>,
    memory: usize,
}

/// A package with its bundles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageSnapshot {
    /// Names and edges.
    pub graph: Package,
    /// Bundles by name. An entry whose bundle is not here is no candidate.
    pub bundles: BTreeMap<String, Bundle>,
}

impl Snapshot {
    /// The memory that the snapshot is reckoned to take, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Adds a package as the registry API describes it. Its channels get their entries from [`Self::push_bundle`].
    ///
    /// # Errors
    /// The snapshot grows too large.
    pub fn push_package(&mut self, package: &registry_model::Package) -> Result<(), SnapshotError> {
        let channels = package.channels.iter().map(|channel| {
            let graph = Channel {
                head: channel.csv_name.clone(),
                deprecation: channel.deprecation.clone(),
                entries: BTreeMap::new(),
            };
            (channel.name.clone(), graph)
        });
        let graph = Package {
            default_channel: package.default_channel_name.clone(),
            deprecation: package.deprecation.clone(),
            channels: channels.collect(),
            deprecated_bundles: BTreeMap::new(),
        };
        self.grow(graph.memory() + package.name.len())?;
        self.packages.insert(package.name.clone(), PackageSnapshot { graph, bundles: BTreeMap::new() });
        Ok(())
    }

    /// Adds an entry of a channel. One without a name, of a package that was not added, or with dependencies that cannot be
    /// read is left out, as upstream does; answers whether it was added.
    ///
    /// # Errors
    /// The snapshot grows too large.
    pub fn push_bundle(&mut self, bundle: &registry_model::Bundle) -> Result<bool, SnapshotError> {
        if bundle.csv_name.is_empty() || !self.packages.contains_key(&bundle.package_name) {
            return Ok(false);
        }
        let Some(facts) = Bundle::of(bundle) else { return Ok(false) };
        let skips: usize = bundle.skips.iter().map(|skip| skip.len() + crate::limits::VALUE_BYTES).sum();
        let entry =
            2 * bundle.csv_name.len() + bundle.replaces.len() + bundle.skip_range.len() + skips + ENTRY_BYTES;
        let deprecation =
            bundle.deprecation.as_ref().map_or(0, |message| bundle.csv_name.len() + message.len());
        self.grow(entry + deprecation + facts.memory() + bundle.channel_name.len())?;
        let Some(package) = self.packages.get_mut(&bundle.package_name) else { return Ok(false) };
        let entry = Entry {
            name: bundle.csv_name.clone(),
            replaces: bundle.replaces.clone(),
            skips: bundle.skips.clone(),
            skip_range: bundle.skip_range.clone(),
        };
        let channel = package.graph.channels.entry(bundle.channel_name.clone()).or_default();
        channel.entries.insert(bundle.csv_name.clone(), entry);
        if let Some(message) = &bundle.deprecation {
            package.graph.deprecated_bundles.insert(bundle.csv_name.clone(), message.clone());
        }
        // In another channel it is the same bundle.
        package.bundles.entry(bundle.csv_name.clone()).or_insert(facts);
        Ok(true)
    }

    fn grow(&mut self, bytes: usize) -> Result<(), SnapshotError> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > SNAPSHOT_BYTES_MAX { Err(SnapshotError) } else { Ok(()) }
    }
}
