//! Properties over generated catalogs, and graphs of unpleasant shape.

use olm_fbc::{ChannelEntry, PackageContent};
use olm_semver::{Constraint, SkipRange, Version};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::case::{Case, Catalog, package};
use crate::{Cause, Installed, Request, Resolution, ResolveError, UpgradePolicy, resolve};

const VERSIONS: [&str; 8] =
    ["0.1.0", "0.2.0", "0.3.0-rc.1", "0.3.0", "1.0.0", "1.1.0", "2.0.0-alpha", "2.0.0"];

fn bundle(version: &'static str) -> impl Strategy<Value = String> {
    let other = || select(VERSIONS.to_vec());
    (
        option::of(other()),
        vec(other(), 0..3),
        option::of(select(vec!["<1.0.0", ">=0.1.0,<0.3.0", ">=1.0.0-0", "broken"])),
        select(vec!["a", "b", "a,b", "-", "c"]),
        prop::bool::weighted(0.2),
    )
        .prop_map(move |(replaces, skips, range, channels, deprecated)| {
            let mut words = vec![version.to_owned(), format!("in {channels}")];
            words.extend(replaces.map(|other| format!("replaces {other}")));
            words.extend((!skips.is_empty()).then(|| format!("skips {}", skips.join(","))));
            words.extend(range.map(|range| format!("range {range}")));
            words.extend(deprecated.then(|| "deprecated".to_owned()));
            words.join(" ")
        })
}

pub(super) fn content() -> impl Strategy<Value = PackageContent> {
    prop::sample::subsequence(VERSIONS.to_vec(), 0..=VERSIONS.len())
        .prop_flat_map(|versions| versions.into_iter().map(bundle).collect::<Vec<_>>())
        .prop_map(|bundles| package("p", bundles.iter().map(String::as_str)))
}

fn catalogs() -> impl Strategy<Value = Vec<Catalog>> {
    vec((content(), -1i32..2, prop::bool::weighted(0.1)), 1..4).prop_map(|all| {
        let named = |(i, (content, priority, away)): (usize, (PackageContent, i32, bool))| {
            let name = format!("catalog-{i}");
            let unreadable = olm_fbc::CatalogError::NotServed { catalog: name.clone() };
            Catalog { priority, content: if away { Err(unreadable) } else { Ok(content) }, name }
        };
        all.into_iter().enumerate().map(named).collect()
    })
}

fn request() -> impl Strategy<Value = Request> {
    (
        option::of(select(vec!["*", "<1.0.0", "~0.3", ">=0.2.0-0", "1.x || 2.x", "0.1.0"])),
        vec(select(vec!["a", "b", "c", "missing"]), 0..3),
        option::of(select(VERSIONS.to_vec())),
        any::<bool>(),
        option::of(0usize..3),
    )
        .prop_map(|(version, channels, installed, self_certified, origin)| Request {
            package: "p".to_owned(),
            version: version.map(str::to_owned),
            channels: channels.into_iter().map(str::to_owned).collect(),
            upgrade_policy: if self_certified {
                UpgradePolicy::SelfCertified
            } else {
                UpgradePolicy::CatalogProvided
            },
            installed: installed.map(|version| Installed {
                name: format!("p.v{version}"),
                version: version.to_owned(),
                release: None,
                catalog: origin.map(|i| format!("catalog-{i}")),
            }),
            ..Request::default()
        })
}

fn answer(request: &Request, catalogs: Vec<Catalog>) -> (Case, Result<Resolution, ResolveError>) {
    let mut case = Case::new("generated");
    case.request = request.clone();
    case.catalogs = catalogs;
    let answer = resolve(&case.request, &case.views());
    (case, answer)
}

/// The rules once more, written as they are documented rather than as they are computed.
fn is_allowed(request: &Request, content: &PackageContent, name: &str, version: &str) -> bool {
    let parsed: Version = version.parse().unwrap();
    let wanted = |channel: &str| request.channels.is_empty() || request.channels.iter().any(|c| c == channel);
    let entries: Vec<&ChannelEntry> = content
        .channels
        .iter()
        .filter(|c| wanted(&c.name))
        .flat_map(|c| &c.entries)
        .filter(|e| e.name == name)
        .collect();
    let in_range = request.version.as_ref().is_none_or(|r| r.parse::<Constraint>().unwrap().matches(&parsed));
    let edge = |installed: &Installed| {
        let from: Version = installed.version.parse().unwrap();
        installed.version == version
            || entries.iter().any(|e| {
                e.replaces == installed.name
                    || e.skips.contains(&installed.name)
                    || e.skip_range.parse::<SkipRange>().is_ok_and(|r| r.contains(&from))
            })
    };
    let reachable =
        request.upgrade_policy == UpgradePolicy::SelfCertified || request.installed.as_ref().is_none_or(edge);
    in_range && reachable && (request.channels.is_empty() || !entries.is_empty())
}

proptest! {
    #[test]
    fn the_order_of_catalogs_bundles_and_channels_does_not_matter(
        request in request(),
        (straight, shuffled) in catalogs().prop_flat_map(|all| {
            let parts: Vec<_> = all.iter().map(|c| c.content.clone().unwrap_or_default()).collect();
            let mixed: Vec<_> = parts
                .into_iter()
                .map(|p| (Just(p.bundles).prop_shuffle(), Just(p.channels).prop_shuffle(), Just(p.packages), Just(p.deprecations)))
                .collect();
            let order = Just((0..all.len()).collect::<Vec<_>>()).prop_shuffle();
            (mixed, order).prop_map(move |(mixed, order)| {
                let mut shuffled = all.clone();
                for (catalog, (bundles, channels, packages, deprecations)) in shuffled.iter_mut().zip(mixed) {
                    if let Ok(content) = &mut catalog.content {
                        *content = PackageContent { packages, channels, bundles, deprecations };
                    }
                }
                let mut shuffled: Vec<_> = shuffled.into_iter().map(Some).collect();
                (all.clone(), order.iter().map(|i| shuffled[*i].take().unwrap()).collect::<Vec<_>>())
            })
        }),
    ) {
        prop_assert_eq!(answer(&request, straight).1, answer(&request, shuffled).1);
    }

    #[test]
    fn the_answer_obeys_range_channels_and_edges_and_nothing_better_does(request in request(), catalogs in catalogs()) {
        let (case, answer) = answer(&request, catalogs);
        let allowed = |catalog: &Catalog| -> Vec<(String, Version, bool)> {
            let Ok(content) = &catalog.content else { return Vec::new() };
            let versions = content.bundles.iter().map(|b| (b, b.name.strip_prefix("p.v").unwrap()));
            let deprecated = |name: &str| content.deprecations.iter().flat_map(|d| &d.entries).any(|e| e.reference.name == name);
            versions
                .filter(|(b, version)| is_allowed(&request, content, &b.name, version))
                .map(|(b, version)| (b.name.clone(), version.parse().unwrap(), deprecated(&b.name)))
                .collect()
        };
        match answer {
            Ok(answer) => {
                let catalog = case.catalogs.iter().find(|c| c.name == answer.catalog).unwrap();
                let fitting = allowed(catalog);
                let (_, version, deprecated) = fitting.iter().find(|(name, ..)| *name == answer.bundle).unwrap();
                for (_, other, other_deprecated) in &fitting {
                    prop_assert!(deprecated <= other_deprecated);
                    prop_assert!(deprecated < other_deprecated || version.cmp_precedence(other).is_ge());
                }
            }
            Err(ResolveError { cause: Cause::NotFound { .. }, rejected }) => {
                prop_assert!(case.catalogs.iter().all(|c| allowed(c).is_empty()));
                let bundles: usize = case.catalogs.iter().map(|c| c.content.as_ref().map_or(0, |c| c.bundles.len())).sum();
                prop_assert_eq!(rejected.len(), bundles);
                prop_assert!(rejected.iter().all(|one| !one.reasons.is_empty()));
            }
            Err(ResolveError { cause: Cause::Ambiguous { catalogs, .. }, .. }) => {
                prop_assert!(catalogs.len() > 1);
                for name in catalogs {
                    prop_assert!(!allowed(case.catalogs.iter().find(|c| c.name == name).unwrap()).is_empty());
                }
            }
            Err(ResolveError { cause: Cause::CatalogUnavailable { waiting_for, .. }, .. }) => {
                for name in waiting_for {
                    prop_assert!(case.catalogs.iter().find(|c| c.name == name).unwrap().content.is_err());
                }
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn cycles_and_missing_targets_do_no_harm() {
    let bundles = [
        "1.0.0 replaces 2.0.0",
        "2.0.0 replaces 1.0.0",
        "3.0.0 replaces 3.0.0 skips 9.9.9",
        "4.0.0 replaces 8.0.0",
    ];
    Case::new("cycle").package("p", bundles).installed("1.0.0").resolves_to("2.0.0");
    Case::new("back").package("p", bundles).installed("2.0.0").wants("<2").resolves_to("1.0.0");
    Case::new("itself").package("p", bundles).installed("3.0.0").resolves_to("3.0.0");
    let mut case = Case::new("entry without bundle").package("p", bundles).installed("1.0.0");
    case.content().channels[0].entries.push(ChannelEntry {
        name: "p.v5.0.0".to_owned(),
        replaces: "p.v1.0.0".to_owned(),
        ..ChannelEntry::default()
    });
    case.resolves_to("2.0.0");
}

#[test]
fn duplicate_entries_and_edges_change_nothing() {
    let bundles = ["1.0.0", "1.1.0 replaces 1.0.0 skips 1.0.0,1.0.0", "1.2.0 skips 1.0.0 range <1.2.0"];
    let mut case = Case::new("duplicates").package("p", bundles).installed("1.0.0").wants("<1.2");
    let content = case.content();
    let entries = content.channels[0].entries.clone();
    content.channels[0].entries.extend(entries);
    let channel = content.channels[0].clone();
    content.channels.push(channel);
    let bundle = content.bundles[1].clone();
    content.bundles.push(bundle);
    case.resolves_to("1.1.0");
}

#[test]
fn ten_thousand_bundles_are_resolved_and_explained() {
    let bundles: Vec<String> =
        (0..10_000).map(|i| format!("0.{i}.0 replaces 0.{}.0 range <0.{i}.0", i + 1)).collect();
    let all = || bundles.iter().map(String::as_str);
    Case::new("highest").package("p", all()).resolves_to("0.9999.0");
    Case::new("every entry is an edge")
        .package("p", all())
        .installed("0.0.0")
        .wants("<0.5000")
        .resolves_to("0.4999.0");
    let error =
        Case::new("none").package("p", all()).installed("0.9999.0").wants("1.x").resolve().unwrap_err();
    assert_eq!(error.rejected.len(), 10_000);
    assert_eq!(error.rejected[0].bundle, "p.v0.9999.0");
}

/// Two million skips in a circle, and ranges of hundreds of groups in several channels.
#[test]
fn edges_of_every_kind_in_great_number_are_resolved() {
    const COUNT: usize = 2_000;
    let skipped: Vec<String> = (0..COUNT).step_by(2).map(|i| format!("0.{i}.0")).collect();
    let skipped = skipped.join(",");
    let circle: Vec<String> =
        (0..COUNT).map(|i| format!("0.{i}.0 replaces 0.{}.0 skips {skipped}", (i + 1) % COUNT)).collect();
    Case::new("circle")
        .package("p", circle.iter().map(String::as_str))
        .installed("0.2.0")
        .resolves_to("0.1999.0");

    let mut case = Case::new("ranges").package("p", ["0.0.0"]).installed("0.0.0");
    let range: Vec<String> = (0..700).map(|i| format!("0.0.{i}")).collect();
    let range = range.join("||");
    let content = case.content();
    let entry = |i: usize| ChannelEntry {
        name: format!("p.v0.{i}.0"),
        skip_range: range.clone(),
        ..ChannelEntry::default()
    };
    content.channels[0].entries.extend((1..300).map(entry));
    let channel = content.channels[0].clone();
    content.channels.extend(["b", "c", "d"].map(|name| {
        let mut channel = channel.clone();
        channel.name = name.to_owned();
        channel
    }));
    // None of them has a bundle.
    case.resolves_to("0.0.0");
}
