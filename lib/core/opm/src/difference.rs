//! The difference between two states of a catalog, and which installed bundles lose their upgrades by it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use olm_fbc::Channel;
use olm_text::one_line;
use serde::Serialize;

use crate::{BundleOutline, Outline, edges::Edges};

/// What a newer state of a catalog changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CatalogDifference {
    /// The packages that differ, by name.
    pub packages: Vec<PackageDifference>,
}

/// What changes about a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageDifference {
    /// Name of the package.
    pub package: String,
    /// Whether the package is new, removed or another.
    pub change: PackageChange,
    /// The default channel before and after, if it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_channel: Option<[String; 2]>,
    /// Channels.
    pub channels: Entries,
    /// Bundles by name; changed are those with another version, image or number of manifests.
    pub bundles: Entries,
    /// Upgrade edges, as `<channel>: <bundle> replaces <bundle>`.
    pub edges: Entries,
    /// Deprecations, as `<schema> <name>: <message>`.
    pub deprecations: Entries,
    /// Bundles that had an upgrade and have none any more, although newer versions exist.
    pub stranded: Vec<String>,
}

/// Whether a package is new, removed or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PackageChange {
    /// It is new.
    Added,
    /// It is removed: no installed version gets an upgrade any more.
    Removed,
    /// It is in both.
    Changed,
}

/// Entries that are added, removed and changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Entries {
    /// Those of the new catalog only.
    pub added: Vec<String>,
    /// Those of the old catalog only.
    pub removed: Vec<String>,
    /// Those with other content.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

impl Entries {
    fn of(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Self {
        let only = |one: &BTreeSet<String>, other| one.difference(other).cloned().collect();
        Self { added: only(new, old), removed: only(old, new), changed: Vec::new() }
    }

    /// Entries with a content each.
    fn with_content<V: PartialEq>(old: &BTreeMap<String, V>, new: &BTreeMap<String, V>) -> Self {
        let names = |one: &BTreeMap<String, V>| one.keys().cloned().collect();
        let changed = old.iter().filter(|(key, value)| new.get(*key).is_some_and(|other| other != *value));
        Self { changed: changed.map(|(key, _)| key.clone()).collect(), ..Self::of(&names(old), &names(new)) }
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// The documents about one package.
#[derive(Default)]
struct PackageView<'o> {
    exists: bool,
    default_channel: &'o str,
    channels: Vec<&'o Channel>,
    bundles: Vec<&'o BundleOutline>,
    deprecations: BTreeSet<String>,
}

/// The packages of a catalog. Documents of packages without an `olm.package` count too.
fn views(outline: &Outline) -> BTreeMap<&str, PackageView<'_>> {
    let mut views: BTreeMap<&str, PackageView<'_>> = BTreeMap::new();
    for package in &outline.packages {
        let view = views.entry(&package.name).or_default();
        view.default_channel = &package.default_channel;
    }
    for channel in &outline.channels {
        views.entry(&channel.package).or_default().channels.push(channel);
    }
    for bundle in &outline.bundles {
        views.entry(&bundle.package).or_default().bundles.push(bundle);
    }
    for deprecation in &outline.deprecations {
        let view = views.entry(&deprecation.package).or_default();
        view.deprecations.extend(deprecation.entries.iter().map(|entry| {
            let reference = &entry.reference;
            format!("{} {}: {}", reference.schema, reference.name, entry.message)
        }));
    }
    for view in views.values_mut() {
        view.exists = true;
    }
    views
}

impl PackageView<'_> {
    fn edges(&self) -> BTreeSet<String> {
        let mut edges = BTreeSet::new();
        for channel in &self.channels {
            for entry in &channel.entries {
                let mut edge =
                    |text: String| edges.insert(format!("{}: {} {text}", channel.name, entry.name));
                if !entry.replaces.is_empty() {
                    edge(format!("replaces {}", entry.replaces));
                }
                for skipped in &entry.skips {
                    edge(format!("skips {skipped}"));
                }
                if !entry.skip_range.is_empty() {
                    edge(format!("skips the range {}", entry.skip_range));
                }
            }
        }
        edges
    }

    fn bundles(&self) -> BTreeMap<String, (String, &str, usize)> {
        let mut all = BTreeMap::new();
        for bundle in &self.bundles {
            all.insert(bundle.name.clone(), (bundle.version_text(), bundle.image.as_str(), bundle.objects));
        }
        all
    }

    /// The bundles that had an upgrade, and in the newer state have none although there are newer versions.
    fn stranded_by(&self, newer: &Self) -> Vec<String> {
        let (before, after) =
            (Edges::of(self.channels.iter().copied()), Edges::of(newer.channels.iter().copied()));
        let highest = newer.bundles.iter().filter_map(|bundle| bundle.version.as_ref());
        let highest = highest.max_by(|a, b| a.cmp_precedence(b));
        let is_last = |bundle: &BundleOutline| {
            highest
                .zip(bundle.version.as_ref())
                .is_some_and(|(highest, version)| version.cmp_precedence(highest).is_ge())
        };
        let mut stranded: Vec<String> = self
            .bundles
            .iter()
            .filter(|bundle| before.lead_from(&bundle.name, bundle.version.as_ref()))
            .filter(|bundle| !after.lead_from(&bundle.name, bundle.version.as_ref()))
            .filter(|bundle| !is_last(bundle))
            .map(|bundle| bundle.name.clone())
            .collect();
        stranded.sort_unstable();
        stranded
    }
}

impl CatalogDifference {
    /// Compares two catalogs, which may be invalid.
    pub fn of(old: &Outline, new: &Outline) -> Self {
        let (old, new) = (views(old), views(new));
        let none = PackageView::default();
        let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        let difference = |name: &str| {
            let (before, after) = (old.get(name).unwrap_or(&none), new.get(name).unwrap_or(&none));
            PackageDifference::of(name, before, after)
        };
        Self { packages: names.into_iter().filter_map(difference).collect() }
    }

    /// How many bundles lose their upgrades.
    pub fn stranded(&self) -> usize {
        self.packages.iter().map(|package| package.stranded.len()).sum()
    }
}

impl PackageDifference {
    /// `None` where nothing differs.
    fn of(name: &str, old: &PackageView<'_>, new: &PackageView<'_>) -> Option<Self> {
        let names = |view: &PackageView<'_>| -> BTreeSet<String> {
            view.channels.iter().map(|channel| channel.name.clone()).collect()
        };
        let (before, after) = (old.default_channel, new.default_channel);
        let difference = Self {
            package: name.to_owned(),
            change: match (old.exists, new.exists) {
                (false, _) => PackageChange::Added,
                (true, false) => PackageChange::Removed,
                (true, true) => PackageChange::Changed,
            },
            default_channel: (before != after).then(|| [before.to_owned(), after.to_owned()]),
            channels: Entries::of(&names(old), &names(new)),
            bundles: Entries::with_content(&old.bundles(), &new.bundles()),
            edges: Entries::of(&old.edges(), &new.edges()),
            deprecations: Entries::of(&old.deprecations, &new.deprecations),
            stranded: old.stranded_by(new),
        };
        let parts = [&difference.channels, &difference.bundles, &difference.edges, &difference.deprecations];
        let is_same = difference.change == PackageChange::Changed
            && difference.default_channel.is_none()
            && parts.iter().all(|entries| entries.is_empty());
        (!is_same).then_some(difference)
    }
}

impl fmt::Display for PackageDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = one_line(&self.package);
        match self.change {
            PackageChange::Added => write!(f, "+ package {name}")?,
            PackageChange::Removed => write!(f, "- package {name}: installed versions get no more upgrades")?,
            PackageChange::Changed => write!(f, "~ package {name}")?,
        }
        if let (PackageChange::Changed, Some([old, new])) = (self.change, &self.default_channel) {
            write!(f, "\n    ~ default channel {} -> {}", one_line(old), one_line(new))?;
        }
        let lists = [
            ("channel", &self.channels),
            ("bundle", &self.bundles),
            ("edge", &self.edges),
            ("deprecation", &self.deprecations),
        ];
        for (noun, entries) in lists {
            for (sign, list) in [('+', &entries.added), ('-', &entries.removed), ('~', &entries.changed)] {
                for entry in list {
                    write!(f, "\n    {sign} {noun} {}", one_line(entry))?;
                }
            }
        }
        if self.change == PackageChange::Changed {
            for bundle in &self.stranded {
                write!(
                    f,
                    "\n    ! {} loses its upgrade path: where it is installed, it gets no more upgrades",
                    one_line(bundle)
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
