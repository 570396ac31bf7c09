//! The bundles of a package as people choose among them: by version, with channels and deprecations.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::{PackageContent, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};
use olm_semver::{BundleVersion, ReleaseSupport};
use serde::Serialize;

use crate::bundle_version;

/// A package as a catalog has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageVersions {
    /// The default channel.
    pub default_channel: String,
    /// Why the package is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
    /// Its channels, by name.
    pub channels: Vec<ChannelVersions>,
    /// Its bundles with valid versions, the highest first.
    pub versions: Vec<ListedVersion>,
}

/// A channel of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelVersions {
    /// Name.
    pub name: String,
    /// The highest version in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest: Option<BundleVersion>,
    /// How many bundles it has.
    pub bundles: usize,
    /// Why it is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
}

/// A bundle of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedVersion {
    /// Version and release.
    pub version: BundleVersion,
    /// Name of the bundle.
    pub bundle: String,
    /// Its image.
    pub image: String,
    /// The channels it is in, by name.
    pub channels: Vec<String>,
    /// Why it is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
}

impl PackageVersions {
    /// The versions in the content of one catalog.
    pub fn of(content: &PackageContent) -> Self {
        let entries = content.deprecations.first().into_iter().flat_map(|all| &all.entries);
        let messages: BTreeMap<(&str, &str), &String> = entries
            .map(|entry| (entry.reference.schema.as_str(), entry.reference.name.as_str(), &entry.message))
            .map(|(schema, name, message)| {
                ((schema, if schema == SCHEMA_PACKAGE { "" } else { name }), message)
            })
            .collect();
        let deprecation = |schema: &str, name: &str| messages.get(&(schema, name)).copied().cloned();
        let mut channels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for channel in &content.channels {
            let names = channel.entries.iter().map(|entry| entry.name.as_str());
            channels.entry(&channel.name).or_default().extend(names);
        }
        let mut versions: Vec<ListedVersion> = content
            .bundles
            .iter()
            .filter_map(|bundle| {
                let holding = channels.iter().filter(|(_, names)| names.contains(bundle.name.as_str()));
                Some(ListedVersion {
                    version: bundle_version(bundle, ReleaseSupport::On).ok()?,
                    bundle: bundle.name.clone(),
                    image: bundle.image.clone(),
                    channels: holding.map(|(name, _)| (*name).to_owned()).collect(),
                    deprecation: deprecation(SCHEMA_BUNDLE, &bundle.name),
                })
            })
            .collect();
        versions.sort_by(|a, b| b.version.cmp_precedence(&a.version).then_with(|| a.bundle.cmp(&b.bundle)));
        let channels = channels.iter().map(|(name, names)| {
            let of_channel = versions.iter().find(|version| names.contains(version.bundle.as_str()));
            ChannelVersions {
                name: (*name).to_owned(),
                highest: of_channel.map(|version| version.version.clone()),
                bundles: names.len(),
                deprecation: deprecation(SCHEMA_CHANNEL, name),
            }
        });
        Self {
            default_channel: content.packages.first().map_or_else(String::new, |p| p.default_channel.clone()),
            deprecation: deprecation(SCHEMA_PACKAGE, ""),
            channels: channels.collect(),
            versions,
        }
    }
}
