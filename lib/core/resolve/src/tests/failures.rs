//! The texts of failures, what is said about each bundle, and what is kept without an answer.

use super::case::Case;
use crate::{Audience, MajorUpdates, ResolveError, advice, explain, keep_installed, summary};

#[test]
fn failures_have_upstreams_texts() {
    Case::new("no catalog").package("x", []).wants("").fails("no bundles found for package \"x\"");
    Case::new("range")
        .package("x", ["1.0.0"])
        .installed("1.0.0")
        .wants("1.2.0")
        .fails(
            "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"x\" matching \
             version \"1.2.0\"",
        );
    Case::new("channels")
        .package("x", ["1.0.0"])
        .channels(["a", "b"])
        .fails("no bundles found for package \"x\" in channels [a b]");
    Case::new("not a range")
        .package("x", ["1.0.0"])
        .wants("foobar")
        .fails("desired version range \"foobar\" is invalid: improper constraint: \"foobar\"");
    Case::new("installed version").package("x", ["1.0.0"]).installed("1.0").fails(
        "error walking catalogs: error finding upgrade edges: failed to get version and release of installed bundle: No \
         Major.Minor.Patch elements found",
    );
    for (version, release, text) in [
        ("1.0", "2", "version \"1.0\": No Major.Minor.Patch elements found"),
        (
            "1.0.0",
            "01",
            "release \"01\": invalid release \"01\": segment 0: Numeric PreRelease version must not contain leading \
             zeroes \"01\"",
        ),
    ] {
        let prefix = "error walking catalogs: error finding upgrade edges: failed to parse installed bundle";
        Case::new("recorded release")
            .package("x", ["1.0.0"])
            .installed(&format!("{version} {release}"))
            .fails(&format!("{prefix} {text}"));
    }
    Case::new("version of the answer").package("x", ["1.0"]).fails(
        "error getting resolved bundle version for bundle \"x.v1.0\": No Major.Minor.Patch elements found",
    );
    Case::new("dependency")
        .package("x", ["0.9.0", "1.0.0 requires olm.constraint requires olm.gvk.required"])
        .refusing_dependencies()
        .fails(
            "validating bundle \"x.v1.0.0\": bundle \"x.v1.0.0\" has a dependency declared via property \
             \"olm.constraint\" which is currently not supported",
        );
}

#[test]
fn no_edge_means_no_answer() {
    Case::new("two hops away")
        .package("p", ["1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0"])
        .installed("1.0.0")
        .wants("1.2.0")
        .fails(
            "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"p\" matching \
             version \"1.2.0\"",
        );
}

fn reasons(error: &ResolveError) -> Vec<String> {
    error.rejected.iter().map(ToString::to_string).collect()
}

#[test]
fn every_bundle_is_told_about_the_closest_first() {
    let error = Case::new("all reasons")
        .package(
            "p",
            [
                "1.0.0",
                "1.1.0 replaces 1.0.0 in fast",
                "2.0.0 replaces 1.0.0",
                "1.5.0",
                "3.0.0 in -",
                "bad replaces 1.0.0",
            ],
        )
        .installed("1.0.0")
        .channels(["stable"])
        .wants("1.1 || 1.5")
        .resolve()
        .unwrap_err();
    assert_eq!(
        reasons(&error),
        [
            "p.v2.0.0 (catalog catalog): is outside the range \"1.1 || 1.5\"",
            "p.v1.5.0 (catalog catalog): cannot be reached from p.v1.0.0",
            "p.v1.0.0 (catalog catalog): is outside the range \"1.1 || 1.5\"",
            "p.vbad (catalog catalog): has no valid version: No Major.Minor.Patch elements found",
            "p.v1.1.0 (catalog catalog): is only in channels fast, cannot be reached from p.v1.0.0",
            "p.v3.0.0 (catalog catalog): is in no channel, is outside the range \"1.1 || 1.5\", cannot be reached \
         from p.v1.0.0",
        ]
    );
    assert_eq!(
        summary(&error.rejected, 1),
        "p.v2.0.0 (catalog catalog): is outside the range \"1.1 || 1.5\"; and 5 more"
    );
    assert_eq!(summary(&[], 1), "");
}

#[test]
fn a_refused_bundle_is_told_about_first() {
    let error = Case::new("dependency")
        .package("p", ["1.0.0", "3.0.0 deprecated", "2.0.0 requires olm.gvk.required"])
        .refusing_dependencies()
        .resolve()
        .unwrap_err();
    assert_eq!(
        reasons(&error),
        [
            "p.v2.0.0 (catalog catalog): declares a dependency by property olm.gvk.required",
            "p.v1.0.0 (catalog catalog): p.v2.0.0 is newer or listed first",
            "p.v3.0.0 (catalog catalog): is deprecated, p.v2.0.0 is not",
        ]
    );
}

#[test]
fn a_success_is_explained_too() {
    let case = Case::new("two catalogs")
        .catalog("high", 1)
        .package("p", ["1.0.0", "2.0.0"])
        .catalog("low", 0)
        .package("p", ["3.0.0"]);
    let told: Vec<_> = explain(&case.request, &case.views()).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "p.v3.0.0 (catalog low): catalog high has a higher priority",
            "p.v1.0.0 (catalog high): p.v2.0.0 is newer or listed first",
        ]
    );
}

#[test]
fn an_ambiguity_is_told_at_each_candidate() {
    let error = Case::new("tie")
        .catalog("a", 0)
        .package("p", ["1.0.0"])
        .catalog("b", 0)
        .package("p", ["2.0.0"])
        .catalog("c", 3)
        .package("p", ["3.0.0 deprecated"])
        .resolve()
        .unwrap_err();
    assert_eq!(
        reasons(&error),
        [
            "p.v2.0.0 (catalog b): catalogs of the same priority disagree: a, b",
            "p.v1.0.0 (catalog a): catalogs of the same priority disagree: a, b",
            "p.v3.0.0 (catalog c): is deprecated, another catalog's is not",
        ]
    );
}

#[test]
fn an_installed_bundle_of_a_package_gone_from_every_catalog_is_kept_while_it_satisfies_the_range() {
    let gone = || Case::new("gone").package("p", []).catalog("empty", 0);
    let kept = |mut case: Case| {
        case.catalogs.retain(|catalog| catalog.name == "empty");
        keep_installed(&case.request, &case.views()).is_some()
    };
    for (range, want) in [
        ("", true),
        ("1.0.0", true),
        ("1.x", true),
        (">=1.0.0 <2.0.0", true),
        ("2.x", false),
        ("nonsense", false),
    ] {
        assert_eq!(kept(gone().installed("1.0.0").wants(range)), want, "{range}");
    }
    assert!(kept(gone().installed("1.0.0").channels(["any"])));
    assert!(kept(gone().installed("odd").wants("odd")), "the same text needs no parsing");
    assert!(!kept(gone()), "nothing installed");
    let listed = Case::new("still listed").package("p", ["2.0.0"]).installed("1.0.0");
    assert!(keep_installed(&listed.request, &listed.views()).is_none());
    let unreadable = Case::new("cannot be read").package("p", []).installed("1.0.0").unreadable();
    assert!(keep_installed(&unreadable.request, &unreadable.views()).is_none());
    let none = Case::new("no catalogs").package("p", []).installed("1.0.0");
    assert!(keep_installed(&none.request, &[]).is_some());
}

fn advised(case: &Case) -> [String; 2] {
    let error = case.resolve().unwrap_err();
    [Audience::Cluster, Audience::CommandLine].map(|audience| advice(&error, audience).unwrap_or_default())
}

#[test]
fn leaving_the_update_paths_is_only_advised_where_they_alone_are_in_the_way() {
    let installed =
        || Case::new("installed").package("p", ["1.0.0", "2.0.0 replaces 1.0.0", "3.0.0"]).installed("1.0.0");
    let [cluster, line] = advised(&installed().wants("3.0.0"));
    assert_eq!(
        cluster,
        "Upgrades only follow the paths that the catalog provides, and none leads to bundle p.v3.0.0. Choose a version \
         or channel that one leads to. Set upgradeConstraintPolicy to SelfCertified to ignore the paths at your own risk."
    );
    assert!(line.ends_with("Pass --policy SelfCertified to ignore the paths at your own risk."), "{line}");
    // Nothing is in range, or in the channel: leaving the paths would not help.
    assert_eq!(advised(&installed().wants(">=9"))[0], "Choose another version range, for instance 2.0.0.");
    for (wanted, nearest) in [("1.0.1", "1.0.0 or 2.0.0"), ("=2.0.1", "2.0.0"), ("0.9.0", "1.0.0")] {
        let advised = advised(&installed().wants(wanted));
        assert_eq!(advised[0], format!("Choose another version range, for instance {nearest}."));
        assert_eq!(advised[1], format!("Choose another --version, for instance {nearest}."));
    }
    assert_eq!(
        advised(&installed().channels(["nightly"]))[0],
        "Choose other channels. Other channels of this package: stable."
    );
    assert_eq!(
        advised(&installed().channels(["stabel"]))[0],
        "Choose other channels. Did you mean stable? Other channels of this package: stable."
    );
    assert_eq!(
        advised(&installed().wants("3.0.0").channels(["nightly"])),
        [
            "Choose another version range or other channels. Other channels of this package: stable.",
            "Choose another --version or another --channel. Other channels of this package: stable."
        ]
    );
    let mut blocked = installed().wants("2.0.0");
    blocked.request.options.major_updates = MajorUpdates::Block;
    assert_eq!(
        advised(&blocked),
        [
            "Remove the annotation major-updates to allow the update to bundle p.v2.0.0.",
            "Leave out --block-major-updates to allow the update to bundle p.v2.0.0.",
        ]
    );
}

#[test]
fn a_package_that_no_readable_catalog_has_is_doubted_before_the_catalogs_that_cannot_be_read() {
    let [cluster, _] = advised(&Case::new("typo").package("p", []).catalog("broken", 0).unreadable());
    assert!(cluster.starts_with("No readable catalog has the package: check its name."), "{cluster}");
    assert!(cluster.ends_with("check the conditions of ClusterCatalog broken."), "{cluster}");
    let known = Case::new("known").package("p", ["1.0.0"]).catalog("broken", 0).unreadable();
    assert!(advised(&known)[0].starts_with("Waiting for catalog broken: "));
    let [cluster, line] = advised(&Case::new("nowhere").package("p", []));
    assert!(cluster.contains("the catalog selector") && line.contains("give another --catalog"), "{line}");
}

#[test]
fn hostile_names_stay_on_their_line() {
    let mut case = Case::new("hostile").package("p", ["1.0.0"]).wants("9");
    "p.v1\nReady: True\u{202e}".clone_into(&mut case.content().bundles[0].name);
    let error = case.resolve().unwrap_err();
    let told = summary(&error.rejected, 9);
    assert!(told.starts_with("p.v1 Ready: True\\u{202e} (catalog "), "{told}");
}
