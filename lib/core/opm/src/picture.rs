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

/// The part of a catalog that is drawn; everything when nothing is named.
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
    /// A bundle does not have one version. The texts are opm's.
    #[error("{0}")]
    Version(String),
    /// Too large to be read by a person.
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
        for channel in &outline.channels {
            let wanted = view.packages.is_empty() || view.packages.contains(&channel.package);
            if wanted && (view.channels.is_empty() || view.channels.contains(&channel.name)) {
                channels.entry(&channel.package).or_default().entry(&channel.name).or_insert(channel);
            }
        }
        let known = |name: &String| {
            outline.packages.iter().any(|package| package.name == *name)
                || outline.channels.iter().any(|channel| channel.package == *name)
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
            let deprecated = deprecated(outline, package);
            let mut drawn = Vec::new();
            for channel in channels.values() {
                let channel = graph.channel(channel, &versions, &deprecated)?;
                edges += channel.edges.len();
                drawn.push(channel);
            }
            if edges > PICTURE_EDGES_MAX {
                return Err(PictureError::TooLarge);
            }
            graph.packages.push(PackageGraph {
                name: package.to_owned(),
                deprecated: deprecated.iter().any(|(schema, _)| *schema == SCHEMA_PACKAGE),
                channels: drawn,
            });
        }
        Ok(graph)
    }

    fn channel<'o>(
        &mut self,
        channel: &'o Channel,
        versions: &BTreeMap<(&str, &str), &Version>,
        deprecated: &BTreeSet<(&str, &str)>,
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
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        // The position of a bundle, which is an entry or only named by one.
        let mut place = |name: &'o str, entry: Option<&ChannelEntry>| {
            *places.entry(name).or_insert_with(|| {
                nodes.push(Node {
                    name: name.to_owned(),
                    absent: entry.is_none(),
                    deprecated: deprecated.contains(&(SCHEMA_BUNDLE, name)),
                    skipped: entry.is_some() && skipped.contains(name),
                    skip_range: entry.map(|entry| entry.skip_range.clone()).unwrap_or_default(),
                });
                nodes.len() - 1
            })
        };
        for entry in &entries {
            place(&entry.name, Some(entry));
        }
        for entry in &entries {
            let to = place(&entry.name, Some(entry));
            let skips = entry.skips.iter().map(|name| (name.as_str(), EdgeKind::Skips));
            let within = self.within_range(entry, &entries, &version, &channel.package).into_iter();
            let replaces = Some(entry.replaces.as_str()).filter(|name| !name.is_empty());
            let edge = |(name, kind)| Edge { from: place(name, None), to, kind };
            edges.extend(
                skips
                    .chain(within.map(|name| (name, EdgeKind::SkipRange)))
                    .chain(replaces.map(|name| (name, EdgeKind::Replaces)))
                    .map(edge),
            );
            if edges.len() > PICTURE_EDGES_MAX {
                return Err(PictureError::TooLarge);
            }
        }
        let is_deprecated = deprecated.contains(&(SCHEMA_CHANNEL, channel.name.as_str()));
        Ok(ChannelGraph { name: channel.name.clone(), deprecated: is_deprecated, nodes, edges })
    }

    /// The entries whose versions lie in the skip range of `entry`.
    fn within_range<'e, 'v>(
        &mut self,
        entry: &ChannelEntry,
        entries: &[&'e ChannelEntry],
        version: &impl Fn(&ChannelEntry) -> Option<&'v Version>,
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

/// The deprecated parts of a package, by schema and name.
fn deprecated<'o>(outline: &'o Outline, package: &str) -> BTreeSet<(&'o str, &'o str)> {
    let blobs = outline.deprecations.iter().filter(|blob| blob.package == package);
    let references = blobs.flat_map(|blob| &blob.entries).map(|entry| &entry.reference);
    references.map(|reference| (reference.schema.as_str(), reference.name.as_str())).collect()
}

fn versions(outline: &Outline) -> Result<BTreeMap<(&str, &str), &Version>, PictureError> {
    outline
        .bundles
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
