//! Upgrade graphs of channels, to be drawn: as Mermaid text or as a picture (SVG).
//!
//! Nothing is validated, but versions have to be known, because the order of the entries and the edges of skip
//! ranges depend on them. Arrows lead from the older bundle to the newer one.

mod mermaid;
mod svg;

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::{Channel, ChannelEntry, PROPERTY_PACKAGE, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};
use olm_go::Quoted;
use olm_semver::{SkipRange, Version};
use thiserror::Error;

use crate::{BundleOutline, Outline, limits::PICTURE_EDGES_MAX};

pub use mermaid::mermaid;
pub use svg::svg;

/// The packages that are drawn, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpgradeGraph {
    packages: Vec<PackageGraph>,
    /// Skip ranges that are no ranges: their edges are missing.
    pub ignored: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PackageGraph {
    name: String,
    deprecated: bool,
    channels: Vec<ChannelGraph>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ChannelGraph {
    name: String,
    deprecated: bool,
    /// Entries by descending version, then bundles that are only named by edges.
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    name: String,
    /// Not an entry of the channel, but named by one.
    absent: bool,
    deprecated: bool,
    skipped: bool,
    skip_range: String,
}

/// An update, by the positions of its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Edge {
    from: usize,
    to: usize,
    kind: EdgeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EdgeKind {
    Skips,
    SkipRange,
    Replaces,
}

/// What is drawn of a catalog; nothing named means everything.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Packages.
    pub packages: Vec<String>,
    /// Channels, of each package drawn.
    pub channels: Vec<String>,
}

/// Why a graph cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PictureError {
    /// The catalog does not have the package.
    #[error("package {} not found", Quoted(.0))]
    Package(String),
    /// No package drawn has the channel.
    #[error("channel {} not found", Quoted(.0))]
    Channel(String),
    /// A bundle does not have one version. The texts are the original's.
    #[error("{0}")]
    Version(String),
    /// Nobody could look at it.
    #[error("the graph has more than {PICTURE_EDGES_MAX} edges: choose packages or channels")]
    TooLarge,
}

impl UpgradeGraph {
    /// The graphs of a catalog.
    ///
    /// # Errors
    /// Something asked for is not there, a bundle has no version, or there is too much to draw.
    pub fn of(outline: &Outline, view: &View) -> Result<Self, PictureError> {
        let versions = versions(outline)?;
        let mut channels: BTreeMap<&str, BTreeMap<&str, &Channel>> = BTreeMap::new();
        for channel in outline.channels() {
            let wanted = view.packages.is_empty() || view.packages.contains(&channel.package);
            if wanted && (view.channels.is_empty() || view.channels.contains(&channel.name)) {
                channels.entry(&channel.package).or_default().entry(&channel.name).or_insert(channel);
            }
        }
        let known = |name: &String| {
            outline.packages().iter().any(|package| package.name == *name)
                || outline.channels().iter().any(|channel| channel.package == *name)
        };
        if let Some(missing) = view.packages.iter().find(|name| !known(name)) {
            return Err(PictureError::Package(missing.clone()));
        }
        let drawn = |name: &String| channels.values().any(|channels| channels.contains_key(name.as_str()));
        if let Some(missing) = view.channels.iter().find(|name| !drawn(name)) {
            return Err(PictureError::Channel(missing.clone()));
        }
        let mut graph = Self::default();
        let mut edges = 0;
        for (package, channels) in channels {
            let deprecations = Deprecations::of(outline, package);
            let mut drawn = Vec::new();
            for channel in channels.values() {
                let channel = graph.channel(channel, &versions, &deprecations)?;
                edges += channel.edges.len();
                drawn.push(channel);
            }
            if edges > PICTURE_EDGES_MAX {
                return Err(PictureError::TooLarge);
            }
            graph.packages.push(PackageGraph {
                name: package.to_owned(),
                deprecated: deprecations.package,
                channels: drawn,
            });
        }
        Ok(graph)
    }

    fn channel(
        &mut self,
        channel: &Channel,
        versions: &BTreeMap<(&str, &str), &Version>,
        deprecations: &Deprecations<'_>,
    ) -> Result<ChannelGraph, PictureError> {
        let version =
            |entry: &ChannelEntry| versions.get(&(channel.package.as_str(), entry.name.as_str())).copied();
        let mut entries: Vec<&ChannelEntry> = channel.entries.iter().collect();
        entries.sort_by(|a, b| match (version(a), version(b)) {
            (Some(a), Some(b)) => b.cmp_precedence(a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        let skipped: BTreeSet<&str> =
            entries.iter().flat_map(|entry| &entry.skips).map(String::as_str).collect();
        let mut graph = ChannelGraph {
            name: channel.name.clone(),
            deprecated: deprecations.channels.contains(channel.name.as_str()),
            nodes: Vec::new(),
            edges: Vec::new(),
        };
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in &entries {
            places.entry(&entry.name).or_insert_with(|| {
                graph.nodes.push(Node {
                    name: entry.name.clone(),
                    absent: false,
                    deprecated: deprecations.bundles.contains(entry.name.as_str()),
                    skipped: skipped.contains(entry.name.as_str()),
                    skip_range: entry.skip_range.clone(),
                });
                graph.nodes.len() - 1
            });
        }
        for entry in &entries {
            let to = places[entry.name.as_str()];
            let mut place =
                |name| *places.entry(name).or_insert_with(|| graph.add_absent(name, deprecations));
            let skips: Vec<usize> = entry.skips.iter().map(|name| place(name)).collect();
            let replaces = Some(&entry.replaces).filter(|name| !name.is_empty()).map(|name| place(name));
            let within = self.within_range(entry, &entries, &version, &channel.package);
            let within = within.iter().map(|name| places[name]);
            graph.edges.extend(skips.into_iter().map(|from| Edge { from, to, kind: EdgeKind::Skips }));
            graph.edges.extend(within.map(|from| Edge { from, to, kind: EdgeKind::SkipRange }));
            graph.edges.extend(replaces.map(|from| Edge { from, to, kind: EdgeKind::Replaces }));
            if graph.edges.len() > PICTURE_EDGES_MAX {
                return Err(PictureError::TooLarge);
            }
        }
        Ok(graph)
    }

    /// The entries whose versions lie in the skip range of `entry`.
    fn within_range<'e>(
        &mut self,
        entry: &ChannelEntry,
        entries: &[&'e ChannelEntry],
        version: &impl Fn(&ChannelEntry) -> Option<&'e Version>,
        package: &str,
    ) -> Vec<&'e str> {
        if entry.skip_range.is_empty() {
            return Vec::new();
        }
        match entry.skip_range.parse::<SkipRange>() {
            Ok(range) => entries
                .iter()
                .filter(|other| version(other).is_some_and(|version| range.contains(version)))
                .map(|other| other.name.as_str())
                .collect(),
            Err(problem) => {
                self.ignored.push(format!(
                    "package {}, bundle {}: the skip range is ignored: {problem}",
                    Quoted(package),
                    Quoted(&entry.name)
                ));
                Vec::new()
            }
        }
    }
}

impl ChannelGraph {
    fn add_absent(&mut self, name: &str, deprecations: &Deprecations<'_>) -> usize {
        self.nodes.push(Node {
            name: name.to_owned(),
            absent: true,
            deprecated: deprecations.bundles.contains(name),
            skipped: false,
            skip_range: String::new(),
        });
        self.nodes.len() - 1
    }
}

/// What is deprecated in one package.
#[derive(Default)]
struct Deprecations<'o> {
    package: bool,
    channels: BTreeSet<&'o str>,
    bundles: BTreeSet<&'o str>,
}

impl<'o> Deprecations<'o> {
    fn of(outline: &'o Outline, package: &str) -> Self {
        let mut found = Self::default();
        let blobs = outline.deprecations().iter().filter(|blob| blob.package == package);
        for reference in blobs.flat_map(|blob| &blob.entries).map(|entry| &entry.reference) {
            match reference.schema.as_str() {
                SCHEMA_PACKAGE => found.package = true,
                SCHEMA_CHANNEL => {
                    found.channels.insert(&reference.name);
                }
                SCHEMA_BUNDLE => {
                    found.bundles.insert(&reference.name);
                }
                _ => {}
            }
        }
        found
    }
}

fn versions(outline: &Outline) -> Result<BTreeMap<(&str, &str), &Version>, PictureError> {
    outline
        .bundles()
        .iter()
        .map(|bundle| Ok(((bundle.package.as_str(), bundle.name.as_str()), version(bundle)?)))
        .collect()
}

fn version(bundle: &BundleOutline) -> Result<&Version, PictureError> {
    let name = Quoted(&bundle.name);
    let [version] = bundle.identities.as_slice() else {
        return Err(PictureError::Version(format!(
            "bundle {name} has multiple {} properties, expected exactly 1",
            Quoted(PROPERTY_PACKAGE)
        )));
    };
    let Some(parsed) = &bundle.version else {
        let problem = version.parse::<Version>().err().map(|problem| problem.to_string()).unwrap_or_default();
        return Err(PictureError::Version(format!(
            "bundle {name} has invalid version {}: {problem}",
            Quoted(version)
        )));
    };
    Ok(parsed)
}

#[cfg(test)]
mod tests;
