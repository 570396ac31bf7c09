//! Several catalogs: priority, deprecation, ambiguity, catalogs that cannot be read, the catalog of origin.

use super::case::Case;
use crate::{CatalogNote, Cause, ResolveError, UpgradePolicy};

fn notes(answer: &crate::Resolution) -> Vec<(&str, &CatalogNote)> {
    answer.other_catalogs.iter().map(|other| (other.name.as_str(), &other.note)).collect()
}

#[test]
fn the_highest_priority_wins_whatever_the_versions() {
    let answer = Case::new("older version in the better catalog")
        .catalog("low", 0)
        .package("p", ["2.0.0"])
        .catalog("high", 10)
        .package("p", ["1.0.0"])
        .resolves_in("high", "1.0.0");
    assert_eq!(notes(&answer), [("low", &CatalogNote::LowerPriority)]);
    Case::new("negative priorities")
        .catalog("a", -2)
        .package("p", ["2.0.0"])
        .catalog("b", -1)
        .package("p", ["1.0.0"])
        .resolves_in("b", "1.0.0");
}

#[test]
fn a_catalog_without_a_fitting_bundle_contributes_nothing() {
    Case::new("range only met below")
        .catalog("high", 10)
        .package("p", ["1.0.0"])
        .catalog("low", 0)
        .package("p", ["2.0.0"])
        .wants("2.x")
        .resolves_in("low", "2.0.0");
    Case::new("empty")
        .catalog("empty", 10)
        .catalog("low", 0)
        .package("p", ["1.0.0"])
        .resolves_in("low", "1.0.0");
}

#[test]
fn deprecation_outranks_priority() {
    let answer = Case::new("deprecated in the better catalog")
        .catalog("high", 10)
        .package("p", ["2.0.0 deprecated"])
        .catalog("low", 0)
        .package("p", ["1.0.0"])
        .resolves_in("low", "1.0.0");
    assert_eq!(notes(&answer), [("high", &CatalogNote::Deprecated)]);
}

/// Upstream returns the deprecations of the catalog it read last.
#[test]
fn deprecations_are_those_of_the_winning_catalog() {
    let answer = Case::new("loser read last")
        .catalog("high", 10)
        .package("p", ["1.0.0"])
        .deprecates("olm.package", "", "from high")
        .catalog("low", 0)
        .package("p", ["1.0.0"])
        .deprecates("olm.package", "", "from low")
        .resolves_in("high", "1.0.0");
    assert_eq!(answer.deprecation.unwrap().entries[0].message, "from high");
}

#[test]
fn equal_priorities_are_ambiguous() {
    let error = Case::new("same version, tags")
        .catalog("b", 0)
        .package("p", ["1.0.0 image r/p:1"])
        .catalog("a", 0)
        .package("p", ["1.0.0 image r/p:1"])
        .fails("found bundles for package \"p\" in multiple catalogs with the same priority [a b]");
    assert!(matches!(error.cause, Cause::Ambiguous { .. }));
    Case::new("the range and the channels are reported, and catalogs of lower priority")
        .catalog("a", 1)
        .package("p", ["1.0.0"])
        .catalog("b", 1)
        .package("p", ["1.1.0"])
        .catalog("c", 0)
        .package("p", ["1.2.0"])
        .catalog("d", 5)
        .package("p", ["1.2.0 deprecated"])
        .wants("1.x")
        .channels(["stable", "fast"])
        .fails(
            "found bundles for package \"p\" matching version \"1.x\" in channels [stable fast] in multiple \
             catalogs with the same priority [a b c]",
        );
}

#[test]
fn the_same_bundle_by_the_same_digest_is_not_ambiguous() {
    let same = "1.0.0 image r/p@sha256:ab";
    let answer = Case::new("same digest")
        .catalog("b", 0)
        .package("p", [same])
        .catalog("a", 0)
        .package("p", [same])
        .catalog("c", -1)
        .package("p", ["3.0.0"])
        .resolves_in("a", "1.0.0");
    assert_eq!(notes(&answer), [("b", &CatalogNote::SameContent), ("c", &CatalogNote::LowerPriority)]);
    for other in ["1.0.0 image r/p@sha256:cd", "1.1.0 image r/p@sha256:ab", "1.0.0 image mirror/p@sha256:ab"]
    {
        let case =
            Case::new(other).catalog("a", 0).package("p", [same]).catalog("b", 0).package("p", [other]);
        assert!(
            matches!(case.resolve(), Err(ResolveError { cause: Cause::Ambiguous { .. }, .. })),
            "{other}"
        );
    }
}

#[test]
fn an_unreadable_catalog_of_lower_priority_changes_nothing() {
    let answer = Case::new("lower")
        .catalog("high", 1)
        .package("p", ["1.0.0"])
        .catalog("low", 0)
        .unreadable()
        .resolves_in("high", "1.0.0");
    let text = "catalog \"low\" is not being served".to_owned();
    assert_eq!(notes(&answer), [("low", &CatalogNote::Unreadable(text))]);
}

#[test]
fn an_unreadable_catalog_that_could_change_the_answer_is_waited_for() {
    for priority in [1, 2] {
        let error = Case::new("equal or higher")
            .catalog("readable", 1)
            .package("p", ["1.0.0"])
            .catalog("away", priority)
            .unreadable()
            .fails(
                "error walking catalogs: error getting package \"p\" from catalog \"away\": catalog \"away\" is not \
                 being served",
            );
        let Cause::CatalogUnavailable { answer, waiting_for, .. } = error.cause else {
            panic!("not waiting")
        };
        let answer = answer.unwrap();
        assert_eq!((answer.bundle.as_str(), answer.other_catalogs.len()), ("p.v1.0.0", 1));
        assert_eq!(waiting_for, ["away"]);
        assert_eq!(
            error.rejected[0].to_string(),
            "p.v1.0.0 (catalog readable): a better one may be in a catalog that cannot be read: away"
        );
    }
}

#[test]
fn without_an_answer_every_unreadable_catalog_is_waited_for() {
    let error = Case::new("the highest priority is named, then the first name")
        .catalog("readable", 9)
        .package("p", ["1.0.0"])
        .catalog("z", 1)
        .unreadable()
        .catalog("y", 1)
        .unreadable()
        .catalog("x", 0)
        .unreadable()
        .wants("2.x")
        .fails("error walking catalogs: error getting package \"p\" from catalog \"y\": catalog \"y\" is not being served");
    let Cause::CatalogUnavailable { answer: None, waiting_for, .. } = error.cause else {
        panic!("{error:?}")
    };
    assert_eq!(waiting_for, ["x", "y", "z"]);
}

#[test]
fn an_ambiguity_stands_unless_a_better_catalog_is_away() {
    let tie = |priority| {
        Case::new("tie")
            .catalog("a", 0)
            .package("p", ["1.0.0"])
            .catalog("b", 0)
            .package("p", ["2.0.0"])
            .catalog("away", priority)
            .unreadable()
            .resolve()
            .unwrap_err()
    };
    assert!(matches!(tie(0).cause, Cause::Ambiguous { .. }));
    assert!(matches!(tie(1).cause, Cause::CatalogUnavailable { answer: None, .. }));
}

fn two_catalogs() -> Case {
    Case::new("origin")
        .catalog("origin", 0)
        .package("p", ["1.0.0", "1.1.0 replaces 1.0.0"])
        .catalog("better", 9)
        .package("p", ["1.0.0", "1.2.0 replaces 1.0.0"])
        .installed("1.0.0")
}

#[test]
fn the_catalog_of_origin_is_stayed_with_while_it_lists_the_installed_bundle() {
    two_catalogs().resolves_in("better", "1.2.0");
    let answer = two_catalogs().installed_from("origin").resolves_in("origin", "1.1.0");
    assert_eq!(notes(&answer), [("better", &CatalogNote::NotOrigin)]);
    two_catalogs().installed_from("removed").resolves_in("better", "1.2.0");
    two_catalogs().installed_from("origin").wants(">=1.2.0").resolves_in("better", "1.2.0");
    Case::new("no longer listed")
        .catalog("origin", 0)
        .package("p", ["1.1.0 replaces 1.0.0"])
        .catalog("better", 9)
        .package("p", ["1.2.0 replaces 1.0.0"])
        .installed("1.0.0")
        .installed_from("origin")
        .resolves_in("better", "1.2.0");
}

#[test]
fn an_unreadable_origin_is_waited_for_whatever_its_priority() {
    let case = two_catalogs().catalog("away", -5).unreadable().installed_from("away");
    let Cause::CatalogUnavailable { answer, waiting_for, .. } = case.resolve().unwrap_err().cause else {
        panic!()
    };
    assert_eq!(answer.unwrap().catalog, "better");
    assert_eq!(waiting_for, ["away"]);
}

#[test]
fn an_unreadable_origin_would_settle_an_ambiguity() {
    let case = two_catalogs().catalog("rival", 9).package("p", ["1.0.0", "1.3.0 replaces 1.0.0"]);
    assert!(matches!(case.resolve(), Err(ResolveError { cause: Cause::Ambiguous { .. }, .. })));
    let error = case.catalog("away", -5).unreadable().installed_from("away").resolve().unwrap_err();
    assert!(matches!(error.cause, Cause::CatalogUnavailable { answer: None, .. }), "{error}");
}

#[test]
fn others_than_the_origin_may_be_forbidden() {
    let text =
        "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"p\"";
    two_catalogs().installed_from("origin").staying_in_catalog().resolves_in("origin", "1.1.0");
    two_catalogs().staying_in_catalog().resolves_in("better", "1.2.0");
    let error = two_catalogs()
        .installed_from("origin")
        .wants(">=1.2.0")
        .staying_in_catalog()
        .fails(&format!("{text} matching version \">=1.2.0\""));
    assert_eq!(
        error.rejected[0].to_string(),
        "p.v1.2.0 (catalog better): the installed bundle is from catalog origin"
    );
    two_catalogs().installed_from("removed").staying_in_catalog().fails(text);
}

#[test]
fn an_unreadable_catalog_does_not_matter_to_an_answer_of_the_origin() {
    let case = two_catalogs().installed_from("origin").catalog("away", 99).unreadable();
    assert_eq!(case.request.upgrade_policy, UpgradePolicy::CatalogProvided);
    case.resolves_in("origin", "1.1.0");
}
