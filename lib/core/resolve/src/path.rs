//! The shortest sequence of upgrades from one bundle of a catalog to another.
//!
//! Each upgrade is one that the controller makes when its version is asked for: by an edge of one channel. Of paths with
//! equally many upgrades the one with the fewest deprecated bundles is taken, then the one that stays longest in a
//! channel, then the one over the highest versions.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

use olm_fbc::{Bundle, Channel, PackageContent, SCHEMA_BUNDLE};
use olm_semver::{BundleVersion, ReleaseSupport, Version};
use serde::Serialize;
use thiserror::Error;

use crate::{bundle_version, limits::PATH_COMPARISONS_MAX, successors::successors};

/// One upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// The bundle it leads to.
    pub bundle: String,
    /// Its version and release.
    pub version: BundleVersion,
    /// Its image.
    pub image: String,
    /// The channel whose edge is taken.
    pub channel: String,
    /// All channels with this edge.
    pub channels: Vec<String>,
    /// Why the bundle is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
}

/// Why there is no path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PathError {
    /// A bundle is not in the catalog, or has no valid version.
    #[error("the package has no bundle {0:?} with a valid version")]
    Unknown(String),
    /// The edges do not lead there.
    #[error("no upgrade path leads from {from} to {to}{}", hint(furthest.as_deref(), before))]
    None {
        /// Where it was to begin.
        from: String,
        /// Where it was to end.
        to: String,
        /// The highest bundle that can be reached.
        furthest: Option<String>,
        /// The bundles with an edge to the end.
        before: Vec<String>,
    },
    /// The package is too large.
    #[error("the package has too many bundles and channel entries to look for a path")]
    TooLarge,
}

fn hint(furthest: Option<&str>, before: &[String]) -> String {
    let furthest = match furthest {
        Some(name) => format!(": the highest that can be reached is {name}"),
        None => ": nothing can be reached from it".to_owned(),
    };
    let before = match before {
        [] => "nothing leads to the end".to_owned(),
        all => format!("only these lead to the end: {}", all.join(", ")),
    };
    format!("{furthest}; {before}")
}

/// What a path costs, the most important first: upgrades, deprecated bundles, changes of the channel.
type Cost = (usize, usize, usize);

/// A bundle with the channel by which it was reached, as numbers.
type Place = (usize, Option<usize>);

/// The bundles with valid versions, the highest first, and the channels that count.
struct Graph<'a> {
    bundles: Vec<(&'a Bundle, BundleVersion)>,
    numbers: BTreeMap<&'a str, usize>,
    channels: Vec<&'a Channel>,
    deprecated: BTreeMap<&'a str, &'a str>,
}

/// The upgrades from the bundle `from`, of this version, to the bundle `to`, over edges of `channels` (all when empty).
/// None is needed from a bundle to itself. `from` need not be listed any more.
///
/// # Errors
/// See [`PathError`].
pub fn upgrade_path(
    content: &PackageContent,
    (from, version): (&str, &Version),
    to: &str,
    channels: &[String],
) -> Result<Vec<Hop>, PathError> {
    if from == to {
        return Ok(Vec::new());
    }
    let graph = Graph::new(content, channels)?;
    let end = *graph.numbers.get(to).ok_or_else(|| PathError::Unknown(to.to_owned()))?;
    let mut best: BTreeMap<Place, (Cost, Option<Place>)> = BTreeMap::new();
    let mut queue = BinaryHeap::new();
    let mut edges: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    let mut relax = |edges: &[(usize, usize)],
                     cost: Cost,
                     before: Option<Place>,
                     queue: &mut BinaryHeap<_>| {
        for &(bundle, channel) in edges {
            let (upgrades, deprecated, switches) = cost;
            let is_switch = before.is_some_and(|(_, last)| last != Some(channel));
            let is_deprecated = graph.deprecated.contains_key(graph.bundles[bundle].0.name.as_str());
            let cost =
                (upgrades + 1, deprecated + usize::from(is_deprecated), switches + usize::from(is_switch));
            let place = (bundle, Some(channel));
            if best.get(&place).is_none_or(|(known, _)| cost < *known) {
                best.insert(place, (cost, before));
                queue.push(Reverse((cost, place)));
            }
        }
    };
    relax(&graph.edges(from, version), (0, 0, 0), None, &mut queue);
    let mut arrived = None;
    while let Some(Reverse((cost, place))) = queue.pop() {
        if place.0 == end {
            arrived = Some(place);
            break;
        }
        let next = edges.entry(place.0).or_insert_with(|| {
            let (bundle, version) = &graph.bundles[place.0];
            graph.edges(&bundle.name, &version.version)
        });
        relax(next, cost, Some(place), &mut queue);
    }
    let Some(mut place) = arrived else {
        return Err(graph.none((from, to), best.keys().map(|place| place.0)));
    };
    let mut hops = Vec::new();
    loop {
        let before = best.get(&place).and_then(|(_, before)| *before);
        let edges = match before {
            Some((bundle, _)) => edges.get(&bundle).cloned().unwrap_or_default(),
            None => graph.edges(from, version),
        };
        hops.push(graph.hop(place, &edges));
        match before {
            Some(before) => place = before,
            None => break,
        }
    }
    hops.reverse();
    Ok(hops)
}

impl<'a> Graph<'a> {
    fn new(content: &'a PackageContent, wanted: &[String]) -> Result<Self, PathError> {
        let channels: Vec<&Channel> = content
            .channels
            .iter()
            .filter(|channel| wanted.is_empty() || wanted.contains(&channel.name))
            .collect();
        let entries: usize = channels.iter().map(|channel| channel.entries.len()).sum();
        if content.bundles.len().saturating_mul(entries) > PATH_COMPARISONS_MAX {
            return Err(PathError::TooLarge);
        }
        let valid = content
            .bundles
            .iter()
            .filter_map(|bundle| Some((bundle, bundle_version(bundle, ReleaseSupport::On).ok()?)));
        let mut bundles: Vec<_> = valid.collect();
        bundles.sort_by(|(a, first), (b, second)| {
            second.cmp_precedence(first).then_with(|| a.name.cmp(&b.name))
        });
        let numbers = bundles.iter().enumerate().map(|(number, (bundle, _))| (bundle.name.as_str(), number));
        let entries = content.deprecations.first().into_iter().flat_map(|all| &all.entries);
        let deprecated = entries.filter(|entry| entry.reference.schema == SCHEMA_BUNDLE);
        Ok(Self {
            numbers: numbers.collect(),
            channels,
            deprecated: deprecated
                .map(|entry| (entry.reference.name.as_str(), entry.message.as_str()))
                .collect(),
            bundles,
        })
    }

    /// The bundles to which an edge leads, with the channels of the edges.
    fn edges(&self, name: &str, version: &Version) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        for (number, channel) in self.channels.iter().enumerate() {
            let found = successors(std::iter::once(*channel), name, version);
            let bundles = found.into_iter().filter_map(|name| self.numbers.get(name));
            edges.extend(bundles.map(|bundle| (*bundle, number)));
        }
        edges.retain(|(bundle, _)| self.bundles[*bundle].0.name != name);
        edges
    }

    fn hop(&self, (bundle, channel): Place, edges: &[(usize, usize)]) -> Hop {
        let name = |channel: usize| self.channels[channel].name.clone();
        let (found, version) = &self.bundles[bundle];
        let channels: BTreeSet<String> =
            edges.iter().filter(|edge| edge.0 == bundle).map(|edge| name(edge.1)).collect();
        Hop {
            bundle: found.name.clone(),
            version: version.clone(),
            image: found.image.clone(),
            channel: channel.map(name).unwrap_or_default(),
            channels: channels.into_iter().collect(),
            deprecation: self.deprecated.get(found.name.as_str()).map(|message| (*message).to_owned()),
        }
    }

    fn none(&self, (from, to): (&str, &str), reached: impl Iterator<Item = usize>) -> PathError {
        // The highest has the lowest number.
        let furthest = reached.min().map(|number| self.bundles[number].0.name.clone());
        let leads = |(bundle, version): &&(&Bundle, BundleVersion)| {
            bundle.name != to
                && successors(self.channels.iter().copied(), &bundle.name, &version.version).contains(to)
        };
        let before = self.bundles.iter().filter(leads).map(|(bundle, _)| bundle.name.clone()).collect();
        PathError::None { from: from.to_owned(), to: to.to_owned(), furthest, before }
    }
}
