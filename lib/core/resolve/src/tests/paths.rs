//! The shortest path, compared with a search that tries everything.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::PackageContent;
use olm_semver::ReleaseSupport;
use proptest::prelude::*;

use super::{
    case::{Case, Catalog, package},
    properties::content,
};
use crate::{Hop, Installed, PathError, Request, bundle_version, resolve, upgrade_path};

/// Every upgrade that the controller makes when a version is asked for, with the channel it needs.
fn upgrades(content: &PackageContent) -> BTreeMap<String, BTreeSet<(String, String)>> {
    let versions: BTreeMap<String, String> = content
        .bundles
        .iter()
        .map(|bundle| (bundle.name.clone(), bundle_version(bundle, ReleaseSupport::On).unwrap().to_string()))
        .collect();
    let mut case = Case::new("upgrades");
    case.catalogs = vec![Catalog { name: "c".to_owned(), priority: 0, content: Ok(content.clone()) }];
    let mut found: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
    for (from, installed) in &versions {
        for (to, version) in versions.iter().filter(|(to, _)| *to != from) {
            for channel in &content.channels {
                let request = Request {
                    package: "p".to_owned(),
                    version: Some(format!("={version}")),
                    channels: vec![channel.name.clone()],
                    installed: Some(Installed {
                        name: from.clone(),
                        version: installed.clone(),
                        ..Installed::default()
                    }),
                    ..Request::default()
                };
                if resolve(&request, &case.views()).is_ok_and(|found| found.bundle == *to) {
                    found.entry(from.clone()).or_default().insert((to.clone(), channel.name.clone()));
                }
            }
        }
    }
    found
}

/// What the cheapest path costs: upgrades, deprecated bundles, changes of the channel. All paths of each length are tried.
fn cheapest(content: &PackageContent, from: &str, to: &str) -> Option<(usize, usize, usize)> {
    let upgrades = upgrades(content);
    let none = BTreeSet::new();
    let deprecated: BTreeSet<&str> = content
        .deprecations
        .iter()
        .take(1)
        .flat_map(|all| &all.entries)
        .filter(|entry| entry.reference.schema == "olm.bundle")
        .map(|entry| entry.reference.name.as_str())
        .collect();
    // Of all paths to a bundle by a channel that have the same cost one is enough.
    let mut ends: BTreeSet<(&str, &str, usize, usize)> = BTreeSet::from([(from, "", 0, 0)]);
    for length in 1..=content.bundles.len() {
        let mut next = BTreeSet::new();
        for (name, last, bad, switches) in ends {
            for (to, channel) in upgrades.get(name).unwrap_or(&none) {
                let bad = bad + usize::from(deprecated.contains(to.as_str()));
                let switches = switches + usize::from(!last.is_empty() && last != channel);
                next.insert((to.as_str(), channel.as_str(), bad, switches));
            }
        }
        let arrived = next.iter().filter(|end| end.0 == to).map(|end| (length, end.2, end.3)).min();
        if arrived.is_some() {
            return arrived;
        }
        ends = next;
    }
    None
}

fn path(content: &PackageContent, from: &str, to: &str) -> Result<Vec<Hop>, PathError> {
    let version = from.strip_prefix("p.v").unwrap().parse().unwrap();
    upgrade_path(content, (from, &version), to, &[])
}

fn cost(hops: &[Hop]) -> (usize, usize, usize) {
    let switches = hops.windows(2).filter(|pair| pair[0].channel != pair[1].channel).count();
    (hops.len(), hops.iter().filter(|hop| hop.deprecation.is_some()).count(), switches)
}

fn names(hops: &[Hop]) -> Vec<&str> {
    hops.iter().map(|hop| hop.bundle.as_str()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_path_is_as_cheap_as_the_cheapest_of_all_and_each_step_is_one_of_the_controllers(content in content()) {
        let upgrades = upgrades(&content);
        let all: Vec<&String> = content.bundles.iter().map(|bundle| &bundle.name).collect();
        let (Some(from), Some(to)) = (all.first(), all.last()) else { return Ok(()) };
        for (from, to) in [(from, to), (to, from)].into_iter().filter(|(from, to)| from != to) {
            let found = path(&content, from, to);
            prop_assert_eq!(found.as_ref().ok().map(|hops| cost(hops)), cheapest(&content, from, to));
            let mut last = (*from).clone();
            for hop in found.into_iter().flatten() {
                let edge = (hop.bundle.clone(), hop.channel.clone());
                prop_assert!(upgrades[&last].contains(&edge), "{} -> {:?}", last, edge);
                prop_assert!(hop.channels.contains(&hop.channel));
                last = hop.bundle;
            }
        }
    }
}

#[test]
fn a_path_avoids_deprecated_bundles_and_stays_in_its_channel() {
    let content = package(
        "p",
        [
            "1.0.0 in a,b",
            "1.1.0 in a replaces 1.0.0 deprecated",
            "1.2.0 in a,b replaces 1.0.0",
            "2.0.0 in b skips 1.1.0,1.2.0",
        ],
    );
    let hops = path(&content, "p.v1.0.0", "p.v2.0.0").unwrap();
    assert_eq!(names(&hops), ["p.v1.2.0", "p.v2.0.0"]);
    assert_eq!((hops[0].channel.as_str(), hops[0].channels.len()), ("b", 2));
    assert!(path(&content, "p.v2.0.0", "p.v2.0.0").unwrap().is_empty());
}

#[test]
fn only_the_wanted_channels_count() {
    let content = package("p", ["1.0.0 in a", "1.1.0 in b replaces 1.0.0"]);
    let version = "1.0.0".parse().unwrap();
    let only_a = upgrade_path(&content, ("p.v1.0.0", &version), "p.v1.1.0", &["a".to_owned()]);
    assert!(matches!(only_a, Err(PathError::None { .. })), "{only_a:?}");
}

#[test]
fn a_path_may_begin_at_a_bundle_that_is_listed_no_more_and_errors_help() {
    let content = package("p", ["1.1.0 in a replaces 1.0.0", "2.0.0 in a replaces 1.9.0", "1.9.0 in b"]);
    assert_eq!(names(&path(&content, "p.v1.0.0", "p.v1.1.0").unwrap()), ["p.v1.1.0"]);
    assert_eq!(
        path(&content, "p.v1.0.0", "p.v2.0.0").unwrap_err().to_string(),
        "no upgrade path leads from p.v1.0.0 to p.v2.0.0: the highest that can be reached is p.v1.1.0; only these lead to the end: p.v1.9.0"
    );
    assert_eq!(path(&content, "p.v1.0.0", "x"), Err(PathError::Unknown("x".to_owned())));
}

#[test]
fn a_package_that_is_too_large_is_not_searched() {
    let count = 10_001;
    let mut content = package("p", ["1.0.0 in a"]);
    content.bundles = vec![content.bundles[0].clone(); count];
    content.channels[0].entries = vec![content.channels[0].entries[0].clone(); count];
    assert_eq!(path(&content, "p.v0.1.0", "p.v1.0.0"), Err(PathError::TooLarge));
}
