//! Whether there is a newer version, whatever the request allows.

use super::case::Case;
use crate::{AvailableUpdate, available_update};

const PATH: [&str; 3] = ["1.0.0", "1.1.0 replaces 1.0.0", "2.0.0 replaces 1.1.0 range <2.0.0"];

fn case() -> Case {
    Case::new("update").package("p", PATH)
}

fn found(case: &Case) -> Option<AvailableUpdate> {
    available_update(&case.request, &case.views(), case.resolve().as_ref().ok())
}

#[test]
fn a_newer_version_is_found_whatever_the_range_and_the_major_version() {
    let newer = |version: &str| Some(AvailableUpdate::Newer(version.to_owned()));
    let rows = [
        ("nothing is installed", case(), None),
        ("no range", case().installed("1.0.0"), newer("2.0.0")),
        ("pinned", case().installed("1.0.0").wants("1.0.0"), newer("2.0.0")),
        ("an update in range, a newer one outside", case().installed("1.0.0").wants("1.x"), newer("2.0.0")),
        ("a range that nothing fits", case().installed("1.1.0").wants(">=9"), newer("2.0.0")),
        ("not a range", case().installed("1.1.0").wants("foobar"), newer("2.0.0")),
        ("major updates blocked", case().installed("1.1.0").keeping_major(), newer("2.0.0")),
        ("the newest", case().installed("2.0.0").wants("2.x"), Some(AvailableUpdate::Newest)),
        ("newer than all", case().installed("3.0.0").self_certified(), Some(AvailableUpdate::Newest)),
        ("channels count", case().installed("1.0.0").channels(["none"]), Some(AvailableUpdate::Unknown)),
        ("no version", case().installed("1.0"), Some(AvailableUpdate::Unknown)),
    ];
    for (title, case, wanted) in rows {
        assert_eq!(found(&case), wanted, "{title}");
    }
}

#[test]
fn catalogs_that_do_not_say_are_no_reason_to_call_a_version_the_newest() {
    let unreadable = case().installed("1.0.0").catalog("other", 1).unreadable();
    assert_eq!(found(&unreadable), Some(AvailableUpdate::Unknown));
    let ambiguous =
        case().installed("1.0.0").catalog("other", 0).package("p", ["1.0.0", "3.0.0 replaces 1.0.0"]);
    assert_eq!(found(&ambiguous), Some(AvailableUpdate::Unknown));
    let gone = Case::new("gone").package("p", []).installed("1.0.0").wants("1.0.0");
    assert_eq!(found(&gone), Some(AvailableUpdate::Unknown));
}

#[test]
fn a_release_is_part_of_the_version() {
    let case =
        Case::new("release").package("p", ["1.0.0 release 1", "1.0.0 named p.again range >=1.0.0 release 2"]);
    assert_eq!(found(&case.installed("1.0.0 1")), Some(AvailableUpdate::Newer("1.0.0+2".to_owned())));
}
