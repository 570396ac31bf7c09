//! Paths from all bundles of a real catalog, compared with a plain search in breadth.

use std::collections::{BTreeMap, VecDeque};

use olm_fbc::{ChannelEntry, PackageContent};
use olm_resolve::{bundle_version, upgrade_path};
use olm_semver::{ReleaseSupport, SkipRange, Version};
use olm_test_programs::data::large_or_sample;

use crate::catalogs::{CatalogArgs, Content, Named};

/// Ends of paths that are tried from each bundle, or one less.
const ENDS: usize = 4;

fn leads(entry: &ChannelEntry, name: &str, version: &Version) -> bool {
    let in_range = entry.skip_range.parse::<SkipRange>().is_ok_and(|range| range.contains(version));
    entry.replaces == name || entry.skips.iter().any(|skip| skip == name) || in_range
}

/// How many upgrades lead from a bundle to each other one.
fn distances(
    content: &PackageContent,
    versions: &BTreeMap<&str, Version>,
    from: &str,
) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::from([(from.to_owned(), 0)]);
    let mut queue = VecDeque::from([from.to_owned()]);
    while let Some(name) = queue.pop_front() {
        let (version, distance) = (&versions[name.as_str()], found[&name]);
        for entry in content.channels.iter().flat_map(|channel| &channel.entries) {
            let is_new = versions.contains_key(entry.name.as_str()) && !found.contains_key(&entry.name);
            if is_new && leads(entry, &name, version) {
                found.insert(entry.name.clone(), distance + 1);
                queue.push_back(entry.name.clone());
            }
        }
    }
    found
}

/// Compares paths from every bundle of a package to some of them; answers how many.
fn compare(content: &PackageContent) -> usize {
    let versions: BTreeMap<&str, Version> = content
        .bundles
        .iter()
        .filter_map(|bundle| {
            Some((bundle.name.as_str(), bundle_version(bundle, ReleaseSupport::On).ok()?.version))
        })
        .collect();
    let some = versions.len() / ENDS + 1;
    let mut pairs = 0;
    for (from, version) in &versions {
        let distances = distances(content, &versions, from);
        for to in versions.keys().step_by(some) {
            pairs += 1;
            let found = upgrade_path(content, (from, version), to, &[]).ok().map(|hops| hops.len());
            assert_eq!(found, distances.get(*to).copied(), "{from} -> {to}");
        }
    }
    pairs
}

#[tokio::test]
async fn every_path_of_a_real_catalog_is_as_short_as_it_can_be() {
    let source = large_or_sample("fbc/v4.18", "fbc").display().to_string();
    let args = CatalogArgs::of(vec![Named { source: source.clone(), priority: None }]);
    let catalogs = args.open().await.unwrap();
    let Content::Held(held) = &catalogs[0].content else { panic!("not held") };
    let (mut packages, mut pairs) = (0, 0);
    for package in held.packages() {
        pairs += compare(&catalogs[0].package(&package).await.unwrap());
        packages += 1;
    }
    eprintln!("{pairs} pairs of bundles in {packages} packages of {source}");
    assert!(packages > 0 && pairs > 0);
}
