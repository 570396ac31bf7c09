//! PackageManifests, made of file-based catalogs.
//!
//! A package takes most of what it shows from the ClusterServiceVersions at the heads of its channels. They are large
//! and few: the caller reads one after the other ([`Head`]).

mod head;

use std::{cmp::Ordering, collections::BTreeMap};

use olm_api_classic::{Deprecation, Icon, Link, PackageChannel, PackageEntry};
use olm_fbc::{Bundle, PROPERTY_PACKAGE};
use olm_semver::Version;

pub use head::{Head, HeadError, PackageDisplay};

use crate::graph::{self, PROPERTY_DEPRECATED};

const OS_LABEL: &str = "operatorframework.io/os";
const ARCHITECTURE_LABEL: &str = "operatorframework.io/arch";

/// What a PackageManifest shows of its package, whatever CatalogSource the catalog belongs to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offer {
    /// The provider of the operator that is installed by default.
    pub provider: Link,
    /// Labels of its ClusterServiceVersion.
    pub labels: BTreeMap<String, String>,
    /// The channels, by name, without icons.
    pub channels: Vec<PackageChannel>,
    /// The name of the default channel.
    pub default_channel: String,
    /// That the package is deprecated.
    pub deprecation: Option<Deprecation>,
    /// The icon of the default channel's head.
    pub icon: Option<Icon>,
    /// What cannot be shown, one sentence each.
    pub problems: Vec<String>,
}

impl Offer {
    /// A valid package, with its bundles. `read` reads the bundle at the head of a channel, by its name.
    ///
    /// # Errors
    /// No channel can be shown, for these reasons.
    pub fn of(
        name: &str,
        package: &graph::Package,
        bundles: &[Bundle],
        mut read: impl FnMut(&str) -> Result<Head, HeadError>,
    ) -> Result<Self, Vec<String>> {
        let message = |text: Option<&String>| text.map(|text| Deprecation { message: text.clone() });
        let mut offer = Self {
            default_channel: package.default_channel.clone(),
            deprecation: message(package.deprecation.as_ref()),
            ..Self::default()
        };
        let versions = versions(bundles);
        let mut shown_by_default = false;
        for (channel_name, channel) in &package.channels {
            let head = match read(&channel.head) {
                Ok(head) => head,
                Err(why) => {
                    offer
                        .problems
                        .push(format!("channel {channel_name:?} of package {name:?} is left out: {why}"));
                    continue;
                }
            };
            let is_default = *channel_name == offer.default_channel;
            if offer.channels.is_empty() || is_default {
                offer.provider = head.description.provider.clone();
                offer.labels = head.labels;
            }
            if is_default {
                shown_by_default = true;
                offer.icon = head.icon;
            }
            offer.channels.push(PackageChannel {
                name: channel_name.clone(),
                current_csv: head.name,
                current_csv_desc: head.description,
                entries: entries(channel, &versions, |bundle| {
                    message(package.deprecated_bundles.get(bundle))
                }),
                deprecation: message(channel.deprecation.as_ref()),
            });
        }
        let Some(first) = offer.channels.first() else { return Err(offer.problems) };
        if !shown_by_default && package.channels.contains_key(&offer.default_channel) {
            offer.default_channel.clone_from(&first.name);
        }
        Ok(offer)
    }
}

/// The labels of a PackageManifest: those of its CatalogSource (`source` is its namespace and name), the provider's, and
/// those of the ClusterServiceVersion.
pub fn manifest_labels(
    provider: &Link,
    of_version: &BTreeMap<String, String>,
    (namespace, name): (&str, &str),
    of_source: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let mut labels = of_source.cloned().unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    for (key, value) in [
        ("catalog", name.to_owned()),
        ("catalog-namespace", namespace.to_owned()),
        ("provider", text(&provider.name)),
        ("provider-url", text(&provider.url)),
    ] {
        labels.insert(key.to_owned(), value);
    }
    labels.extend(of_version.clone());
    for (prefix, value) in [(OS_LABEL, "linux"), (ARCHITECTURE_LABEL, "amd64")] {
        if !labels.keys().any(|key| key.starts_with(prefix)) {
            labels.insert(format!("{prefix}.{value}"), "supported".to_owned());
        }
    }
    labels
}

/// The version of each bundle that may be installed.
fn versions(bundles: &[Bundle]) -> BTreeMap<&str, &str> {
    let mut versions = BTreeMap::new();
    for bundle in bundles {
        let property = |kind| bundle.properties.iter().find(|property| property.kind == kind);
        if property(PROPERTY_DEPRECATED).is_none() {
            let version = property(PROPERTY_PACKAGE).and_then(|property| property.value["version"].as_str());
            versions.insert(bundle.name.as_str(), version.unwrap_or_default());
        }
    }
    versions
}

/// The bundles of a channel, the highest version first.
fn entries(
    channel: &graph::Channel,
    versions: &BTreeMap<&str, &str>,
    deprecation: impl Fn(&str) -> Option<Deprecation>,
) -> Vec<PackageEntry> {
    // A version that is none counts as the lowest.
    let parsed = |text: &str| text.parse::<Version>().ok();
    let found = channel.entries.values().filter_map(|entry| {
        let version = *versions.get(entry.name.as_str())?;
        Some((parsed(version).or_else(|| parsed("0.0.0")), entry.name.as_str(), version))
    });
    let mut entries: Vec<_> = found.collect();
    entries.sort_by(|(one, name, _), (other, other_name, _)| {
        let by_version = one.as_ref().zip(other.as_ref()).map(|(one, other)| other.cmp_precedence(one));
        by_version.unwrap_or(Ordering::Equal).then_with(|| other_name.cmp(name))
    });
    let entry = |(_, name, version): (_, &str, &str)| PackageEntry {
        name: name.to_owned(),
        version: version.to_owned(),
        deprecation: deprecation(name),
    };
    entries.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests;
