//! One catalog: ranges, channels, edges, releases, deprecations.

use olm_semver::ReleaseSupport;

use super::case::Case;

const CHAIN: [&str; 4] =
    ["0.1.0", "0.2.0 replaces 0.1.0", "0.3.0 replaces 0.2.0", "1.0.0 replaces 0.3.0 skips 0.1.0"];

#[test]
fn a_new_installation_takes_the_highest_version() {
    Case::new("whatever the order").package("p", ["1.0.0", "1.10.0", "1.9.0"]).resolves_to("1.10.0");
    Case::new("over all channels").package("p", ["1.0.0 in a", "2.0.0 in b"]).resolves_to("2.0.0");
    Case::new("in no channel").package("p", ["1.0.0 in a", "2.0.0 in -"]).resolves_to("2.0.0");
    Case::new("an empty range is none").package("p", ["1.0.0"]).wants("").resolves_to("1.0.0");
    Case::new("pre-releases count without a range")
        .package("p", ["1.0.0", "1.1.0-rc.1"])
        .resolves_to("1.1.0-rc.1");
}

#[test]
fn a_range_limits_the_versions() {
    Case::new("highest in the range").package("p", CHAIN).wants(">=0.1.0 <0.3.0").resolves_to("0.2.0");
    Case::new("greater than")
        .package("p", ["1.11.1", "1.11.2", "1.12.0"])
        .wants(">1.11.1")
        .resolves_to("1.12.0");
    Case::new("no pre-release").package("p", ["1.0.0", "1.1.0-rc.1"]).wants(">=1.0.0").resolves_to("1.0.0");
    Case::new("exact, whatever the build")
        .package("p", ["1.0.0+build.g1", "1.1.0"])
        .wants("1.0.0")
        .resolves_to("1.0.0+build.g1");
}

/// Versions to choose from, and the one that each form of range chooses.
#[test]
fn every_form_of_range_brings_its_highest_version() {
    let versions = "0.0.3 0.0.9 0.2.3 0.2.9 0.9.0 1.2.9 1.10.5 1.11.0 1.11.1 1.11.9 1.12.4 1.13.0 1.14.0 1.14.3 1.16.1 \
                    2.3.0 2.5.0 3.0.0-rc.1";
    for (range, version) in [
        (">=1.11, <1.13", "1.12.4"),
        ("1.11.1", "1.11.1"),
        ("=1.14.0", "1.14.0"),
        ("!=2.5.0", "2.3.0"),
        (">1.11.1 <1.12", "1.11.9"),
        ("<1.11.0", "1.10.5"),
        ("<=1.11.0", "1.11.0"),
        (">=1.16", "2.5.0"),
        ("1.11.x", "1.11.9"),
        (">=1.12.X <2", "1.16.1"),
        ("<=2.x", "2.5.0"),
        ("~1.11.0", "1.11.9"),
        ("*", "2.5.0"),
        ("~1", "1.16.1"),
        ("~1.12", "1.12.4"),
        ("~1.x", "1.16.1"),
        ("~1.12.x", "1.12.4"),
        ("^0", "0.9.0"),
        ("^0.0", "0.0.9"),
        ("^0.0.3", "0.0.3"),
        ("^0.2", "0.2.9"),
        ("^1.2.x", "1.16.1"),
        ("^0.2.3", "0.2.9"),
        ("^1.2.3", "1.16.1"),
        ("^2.x", "2.5.0"),
        ("1.14.x", "1.14.3"),
        ("^2.3", "2.5.0"),
        ("1.2.* || 1.10.*", "1.10.5"),
        (">=3.0.0-0", "3.0.0-rc.1"),
    ] {
        Case::new(range).package("p", versions.split_whitespace()).wants(range).resolves_to(version);
    }
}

#[test]
fn an_exact_version_pins() {
    Case::new("installs it").package("p", CHAIN).wants("0.2.0").resolves_to("0.2.0");
    Case::new("stays").package("p", CHAIN).installed("0.2.0").wants("0.2.0").resolves_to("0.2.0");
}

#[test]
fn channels_limit_the_bundles() {
    let bundles = ["1.0.0 in stable,fast", "1.1.0 replaces 1.0.0 in fast", "2.0.0 in alpha"];
    Case::new("one").package("p", bundles).channels(["stable"]).resolves_to("1.0.0");
    Case::new("two").package("p", bundles).channels(["stable", "fast"]).resolves_to("1.1.0");
    Case::new("upgrades in it")
        .package("p", bundles)
        .installed("1.0.0")
        .channels(["fast"])
        .resolves_to("1.1.0");
}

#[test]
fn edges_of_channels_not_asked_for_do_not_count() {
    let bundles =
        ["1.0.0 in stable,alpha", "2.0.0 replaces 1.0.0 in alpha", "2.0.0 in stable named p.v2.0.0"];
    Case::new("edge only in alpha")
        .package("p", bundles)
        .installed("1.0.0")
        .channels(["stable"])
        .resolves_to("1.0.0");
    Case::new("all channels").package("p", bundles).installed("1.0.0").resolves_to("2.0.0");
}

#[test]
fn upgrades_follow_replaces_skips_and_skip_range() {
    Case::new("replaces").package("p", CHAIN).installed("0.2.0").resolves_to("0.3.0");
    Case::new("skips").package("p", CHAIN).installed("0.1.0").resolves_to("1.0.0");
    let ranged = ["0.1.0", "0.9.0 range >=0.1.0,<0.9.0", "1.0.0 range >=0.9.0,<1.0.0"];
    Case::new("skipRange").package("p", ranged).installed("0.1.0").resolves_to("0.9.0");
    Case::new("no skipRange covers it").package("p", ranged).installed("1.0.0").resolves_to("1.0.0");
    Case::new("one edge at a time, even when more is asked for")
        .package("p", CHAIN)
        .installed("0.2.0")
        .wants(">=0.1.0")
        .resolves_to("0.3.0");
}

#[test]
fn of_several_successors_the_highest_version_is_taken() {
    Case::new("three edges")
        .package("p", ["1.0.0", "1.1.0 replaces 1.0.0", "1.3.0 skips 1.0.0", "1.2.0 range <1.2.0"])
        .installed("1.0.0")
        .resolves_to("1.3.0");
}

#[test]
fn a_skipped_bundle_may_still_be_a_successor() {
    Case::new("the documented graph")
        .package("example", ["1.0.0", "2.0.0 range >=1.0.0,<2.0.0", "3.0.0 skips 2.0.0"])
        .installed("1.0.0")
        .resolves_to("2.0.0");
}

#[test]
fn edges_from_bundles_that_are_gone_still_lead_on() {
    Case::new("by name").package("p", ["2.0.0 replaces 1.0.0"]).installed("1.0.0").resolves_to("2.0.0");
    Case::new("by range").package("p", ["2.0.0 range <2.0.0"]).installed("1.0.0").resolves_to("2.0.0");
    Case::new("the name counts, not the version")
        .package("p", ["1.0.0", "2.0.0 replaces 1.0.0"])
        .installed("1.0.0")
        .installed_as("other.v1")
        .resolves_to("1.0.0");
}

#[test]
fn an_unparsable_skip_range_is_no_edge() {
    Case::new("ignored").package("p", ["1.0.0", "2.0.0 range ~1"]).installed("1.0.0").resolves_to("1.0.0");
}

#[test]
fn self_certified_allows_any_version() {
    Case::new("no edge")
        .package("p", ["1.0.0", "2.0.0"])
        .installed("1.0.0")
        .self_certified()
        .resolves_to("2.0.0");
    Case::new("downgrade")
        .package("p", CHAIN)
        .installed("1.0.0")
        .wants("0.1.0")
        .self_certified()
        .resolves_to("0.1.0");
    Case::new("whatever is installed")
        .package("p", CHAIN)
        .installed("odd")
        .self_certified()
        .resolves_to("1.0.0");
}

#[test]
fn the_release_decides_between_equal_versions() {
    let bundles = ["1.0.0", "1.0.0+2", "1.0.0+10", "1.0.0+1"];
    Case::new("from build metadata").package("p", bundles).resolves_to("1.0.0+10");
    Case::new("stays at version and release")
        .package("p", bundles)
        .installed("1.0.0+2")
        .resolves_to("1.0.0+2");
    Case::new("recorded apart").package("p", bundles).installed("1.0.0 2").resolves_to("1.0.0+2");
    Case::new("metadata that are no release play no part in staying")
        .package("p", ["1.0.0+02", "1.0.0+1"])
        .installed("1.0.0+01")
        .resolves_to("1.0.0+02");
    Case::new("the range ignores it").package("p", bundles).wants("1.0.0").resolves_to("1.0.0+10");
    let explicit = ["1.0.0 release 2 named p.v1.0.0-2", "1.0.0+3"];
    let answer = Case::new("explicit").package("p", explicit).resolves_to("1.0.0+3");
    assert_eq!(answer.version.recorded(ReleaseSupport::On), ("1.0.0".to_owned(), Some("3".to_owned())));
    let explicit = ["1.0.0+9 release 4 named p.v4", "1.0.0+3 named p.v3"];
    Case::new("explicit wins").package("p", explicit).resolves_to("4");
    Case::new("no build metadata beside an explicit one")
        .package("p", ["1.0.0+9 release \"\" named p.v9", "1.0.0+3 named p.v3"])
        .resolves_to("3");
    Case::new("gate off").package("p", explicit).without_release_support().resolves_to("4");
    let swapped = ["1.0.0+9 named p.v9", "1.0.0+3 release 99 named p.v3"];
    Case::new("gate off: the field is ignored")
        .package("p", swapped)
        .without_release_support()
        .resolves_to("9");
}

#[test]
fn of_equal_bundles_the_first_in_the_catalog_is_taken() {
    Case::new("same version").package("p", ["1.0.0 named p.vb", "1.0.0 named p.va"]).resolves_to("b");
}

#[test]
fn deprecated_bundles_come_last() {
    Case::new("highest deprecated").package("p", ["1.0.0", "2.0.0 deprecated"]).resolves_to("1.0.0");
    Case::new("all deprecated").package("p", ["1.0.0 deprecated", "2.0.0 deprecated"]).resolves_to("2.0.0");
    Case::new("asked for").package("p", ["1.0.0", "2.0.0 deprecated"]).wants("2.x").resolves_to("2.0.0");
    Case::new("a deprecated package or channel changes nothing")
        .package("p", ["1.0.0", "2.0.0"])
        .deprecates("olm.package", "", "gone")
        .deprecates("olm.channel", "stable", "gone")
        .resolves_to("2.0.0");
}

#[test]
fn only_the_first_deprecations_blob_counts() {
    let mut case = Case::new("second blob").package("p", ["1.0.0", "2.0.0 deprecated"]);
    let deprecations = &mut case.content().deprecations;
    deprecations.insert(0, olm_fbc::Deprecation::default());
    case.resolves_to("2.0.0");
}

#[test]
fn an_invalid_version_is_taken_last_and_lies_in_no_range() {
    Case::new("last").package("p", ["1", "0.1.0"]).resolves_to("0.1.0");
    Case::new("no range").package("p", ["1", "0.1.0"]).wants("*").resolves_to("0.1.0");
}

#[test]
fn the_answer_carries_what_the_caller_needs() {
    let mut case = Case::new("everything").package("p", ["1.0.0 requires olm.gvk.required deprecated"]);
    case.content().bundles[0].properties.push(olm_fbc::Property {
        kind: "olm.csv.metadata".to_owned(),
        value: serde_json::json!({"large": true}),
    });
    let answer = case.resolves_to("1.0.0");
    assert_eq!(answer.catalog, "catalog");
    assert!(answer.image.starts_with("registry.example/p@sha256:"));
    assert_eq!(answer.deprecation.unwrap().entries[0].message, "use another");
    let kinds =
        |properties: &[olm_fbc::Property]| properties.iter().map(|p| p.kind.clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&answer.properties), ["olm.package", "olm.gvk.required"]);
    assert_eq!(kinds(&answer.dependencies), ["olm.gvk.required"]);
}

#[test]
fn major_updates_can_be_blocked() {
    let case = || {
        Case::new("major")
            .package("p", ["0.9.0", "1.0.0 replaces 0.9.0", "1.1.0 replaces 1.0.0", "2.0.0 replaces 1.0.0"])
    };
    case().installed("1.0.0").resolves_to("2.0.0");
    case().installed("1.0.0").keeping_major().resolves_to("1.1.0");
    case().installed("1.0.0").keeping_major().self_certified().wants("<2").resolves_to("1.1.0");
    case().installed("0.9.0").keeping_major().resolves_to("0.9.0");
    case().keeping_major().resolves_to("2.0.0");
    let error = case().installed("1.0.0").keeping_major().wants("2.x").resolve().unwrap_err();
    assert_eq!(
        error.rejected[0].to_string(),
        "p.v2.0.0 (catalog catalog): has another major version than p.v1.0.0, and major updates are blocked"
    );
}

#[test]
fn the_updates_offered_are_the_edges_published() {
    let versions = ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "2.0.0", "2.1.0"];
    let bundles = [
        "1.0.0",
        "1.1.0 replaces 1.0.0",
        "1.2.0 replaces 1.1.0 skips 1.0.0",
        "1.3.0 range >=1.1.0,<1.3.0",
        "2.0.0 replaces 1.3.0 in fast",
        "2.1.0 skips 1.1.0,2.0.0 in fast,stable",
    ];
    let published = [
        ("1.0.0", "1.1.0"),
        ("1.0.0", "1.2.0"),
        ("1.1.0", "1.2.0"),
        ("1.1.0", "1.3.0"),
        ("1.2.0", "1.3.0"),
        ("1.3.0", "2.0.0"),
        ("1.1.0", "2.1.0"),
        ("2.0.0", "2.1.0"),
    ];
    for from in versions {
        for to in versions {
            let offered = Case::new("edge").package("p", bundles).installed(from).wants(to).resolve().is_ok();
            assert_eq!(offered, from == to || published.contains(&(from, to)), "{from} to {to}");
        }
    }
}
