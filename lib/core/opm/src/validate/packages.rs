//! The second step: each package on its own. Siblings come sorted, where the original's order is accidental.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::{ChannelEntry, PROPERTY_PACKAGE};
use olm_go::Quoted;
use olm_semver::SkipRange;

use super::{
    ErrorTree,
    conversion::{ChannelModel, Model, PackageModel},
    graph,
};
use crate::BundleOutline;

/// Checks all packages that came through the first step unharmed: those that are not valid, by name.
pub(super) fn check<'m>(model: &'m Model<'_>) -> Vec<(&'m str, ErrorTree)> {
    let packages = model.packages.iter().filter(|(_, package)| !package.defective);
    packages.filter_map(|(name, package)| Some((*name, check_package(name, package)?))).collect()
}

fn check_package(name: &str, package: &PackageModel<'_>) -> Option<ErrorTree> {
    let mut causes = Vec::new();
    if package.default_channel.is_empty() {
        causes.push(ErrorTree::leaf("default channel must be set"));
    }
    if package.channels.is_empty() {
        causes.push(ErrorTree::leaf("package must contain at least one channel"));
    }
    causes
        .extend(package.channels.iter().filter_map(|(name, channel)| check_channel(name, channel, package)));
    causes.extend(duplicate_versions(package).map(ErrorTree::leaf));
    causes.extend(deprecation(package.deprecated));
    ErrorTree::of(format!("invalid package {}", Quoted(name)), causes)
}

fn duplicate_versions(package: &PackageModel<'_>) -> Option<String> {
    let mut by_version: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for entry in package.channels.values().flat_map(|channel| channel.entries) {
        let bundle = package.bundles.get(entry.name.as_str());
        let version = bundle.map_or_else(|| "0.0.0".to_owned(), |bundle| bundle.version_text());
        by_version.entry(version).or_default().insert(&entry.name);
    }
    let duplicates: Vec<String> = by_version
        .iter()
        .filter(|(_, bundles)| bundles.len() > 1)
        .map(|(version, bundles)| {
            let bundles: Vec<&str> = bundles.iter().copied().collect();
            format!("{{{version}: [{}]}}", bundles.join(", "))
        })
        .collect();
    (!duplicates.is_empty())
        .then(|| format!("duplicate versions found in bundles: [{}]", duplicates.join(" ")))
}

fn check_channel(name: &str, channel: &ChannelModel<'_>, package: &PackageModel<'_>) -> Option<ErrorTree> {
    let mut causes = Vec::new();
    if channel.entries.is_empty() {
        causes.push(ErrorTree::leaf("channel must contain at least one bundle"));
    } else if let Err(problem) = graph::check(channel.entries) {
        causes.push(ErrorTree::leaf(problem.to_string()));
    }
    let entries: BTreeMap<&str, &ChannelEntry> =
        channel.entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    causes.extend(entries.values().filter_map(|entry| check_bundle(entry, package)));
    causes.extend(deprecation(channel.deprecated));
    ErrorTree::of(format!("invalid channel {}", Quoted(name)), causes)
}

/// Checks a bundle as an entry of a channel; the same bundle is looked at once for each of its channels.
fn check_bundle(entry: &ChannelEntry, package: &PackageModel<'_>) -> Option<ErrorTree> {
    let bundle = package.bundles.get(entry.name.as_str()).copied();
    let mut causes = Vec::new();
    let mut found = |problem: String| causes.push(ErrorTree::leaf(problem));
    if entry.name.is_empty() {
        found("name must be set".into());
    }
    if let Some(bundle) = bundle.filter(|bundle| !bundle.release.is_empty()) {
        check_release(bundle, &mut found);
    }
    for (index, _) in entry.skips.iter().enumerate().filter(|(_, skip)| skip.is_empty()) {
        found(format!("skip[{index}] is empty"));
    }
    if !entry.skip_range.is_empty()
        && let Err(problem) = entry.skip_range.parse::<SkipRange>()
    {
        found(format!("invalid skipRange {}: {problem}", Quoted(&entry.skip_range)));
    }
    if bundle.is_none() {
        found(format!("must be exactly one property with type {}", Quoted(PROPERTY_PACKAGE)));
    }
    if bundle.is_none_or(|bundle| bundle.image.is_empty() && bundle.objects == 0) {
        found("bundle image must be set".into());
    }
    causes.extend(deprecation(package.deprecated_bundles.get(entry.name.as_str()).copied()));
    ErrorTree::of(format!("invalid bundle {}", Quoted(&entry.name)), causes)
}

fn check_release(bundle: &BundleOutline, found: &mut impl FnMut(String)) {
    let wanted = format!("{}-v{}", bundle.package, bundle.version_text());
    if bundle.name != wanted {
        found(format!("name {} does not match normalized name {}", Quoted(&bundle.name), Quoted(&wanted)));
    }
    if bundle.version.as_ref().is_some_and(|version| !version.build().is_empty()) {
        found("cannot use build metadata in version with a release version".into());
    }
}

fn deprecation(message: Option<&str>) -> Option<ErrorTree> {
    message
        .filter(|message| message.is_empty())
        .map(|_| ErrorTree::leaf("invalid deprecation: message must be set"))
}
