//! The deprecation conditions.

use olm_fbc::Deprecation;

use super::case::Case;
use crate::{
    DeprecationCondition, DeprecationData, DeprecationReason, DeprecationStatus, deprecation_data,
    deprecation_status,
};

fn shown(condition: &DeprecationCondition) -> String {
    let reason = match condition.reason {
        DeprecationReason::Deprecated => "True/Deprecated",
        DeprecationReason::NotDeprecated => "False/NotDeprecated",
        DeprecationReason::DeprecationStatusUnknown => "Unknown/DeprecationStatusUnknown",
        DeprecationReason::Absent => "Unknown/Absent",
    };
    format!("{reason}/{}", condition.message)
}

fn all(status: &DeprecationStatus) -> [String; 4] {
    [&status.deprecated, &status.package, &status.channel, &status.bundle].map(shown)
}

fn deprecations() -> Deprecation {
    let mut case = Case::new("")
        .package("p", ["1.0.0 deprecated", "2.0.0"])
        .deprecates("olm.channel", "fast", "fast is gone")
        .deprecates("olm.channel", "slow", "slow is gone")
        .deprecates("olm.package", "", "p is gone")
        .deprecates("olm.package", "", "")
        .deprecates("olm.package", "", "really");
    case.content().deprecations.remove(0)
}

const UNKNOWN: &str = "Unknown/DeprecationStatusUnknown/deprecation status unknown: catalog data unavailable";
const ABSENT: &str = "Unknown/Absent/no bundle installed yet";

#[test]
fn without_catalog_data_nothing_is_known() {
    let found = deprecation_status(DeprecationData::Unavailable, &[], None);
    assert_eq!(all(&found), [UNKNOWN, UNKNOWN, UNKNOWN, ABSENT]);
    let found = deprecation_status(DeprecationData::Unavailable, &[], Some("p.v1.0.0"));
    assert_eq!(all(&found), [UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN]);
}

#[test]
fn without_matching_entries_nothing_is_deprecated() {
    let not = [
        "False/NotDeprecated/not deprecated",
        "False/NotDeprecated/package not deprecated",
        "False/NotDeprecated/channel not deprecated",
    ];
    let found = deprecation_status(DeprecationData::Available(None), &[], None);
    assert_eq!(all(&found), [not[0], not[1], not[2], ABSENT]);
    let empty = Deprecation::default();
    let found = deprecation_status(DeprecationData::Available(Some(&empty)), &[], Some("p.v1.0.0"));
    assert_eq!(all(&found), [not[0], not[1], not[2], "False/NotDeprecated/bundle not deprecated"]);
}

#[test]
fn matching_entries_are_reported_each_and_together() {
    let data = deprecations();
    let found = deprecation_status(DeprecationData::Available(Some(&data)), &[], Some("p.v1.0.0"));
    assert_eq!(
        all(&found),
        [
            "True/Deprecated/p is gone\nreally\nfast is gone\nslow is gone\nuse another",
            "True/Deprecated/p is gone\nreally",
            "True/Deprecated/fast is gone\nslow is gone",
            "True/Deprecated/use another",
        ]
    );
    let channels = ["slow".to_owned()];
    let found = deprecation_status(DeprecationData::Available(Some(&data)), &channels, Some("p.v2.0.0"));
    assert_eq!(
        all(&found),
        [
            "True/Deprecated/p is gone\nreally\nslow is gone",
            "True/Deprecated/p is gone\nreally",
            "True/Deprecated/slow is gone",
            "False/NotDeprecated/bundle not deprecated",
        ]
    );
    let found = deprecation_status(DeprecationData::Available(Some(&data)), &channels, None);
    assert_eq!(shown(&found.bundle), ABSENT);
}

#[test]
fn a_message_is_one_line_without_anything_that_does_not_show() {
    let data = Case::new("")
        .package("p", ["1.0.0"])
        .deprecates("olm.package", "", "goes\nin May\u{1b}]0;x\u{7}\u{202e}\n")
        .deprecates("olm.channel", "stable", "slow\u{2028}Ready: True")
        .content()
        .deprecations
        .remove(0);
    let found = deprecation_status(DeprecationData::Available(Some(&data)), &[], None);
    assert_eq!(found.deprecated.message, "goes in May\\u{1b}]0;x\\u{7}\\u{202e}\nslow Ready: True");
}

#[test]
fn without_an_answer_the_catalog_of_the_package_is_asked_all_the_same() {
    fn known(case: &Case) -> Option<String> {
        match deprecation_data(&case.request, &case.views()) {
            DeprecationData::Unavailable => None,
            DeprecationData::Available(None) => Some(String::new()),
            DeprecationData::Available(Some(data)) => Some(data.entries[0].message.clone()),
        }
    }
    let one =
        || Case::new("one").catalog("a", 0).package("p", ["1.0.0"]).deprecates("olm.package", "", "of a");
    let two = || one().catalog("b", 0).package("p", ["1.0.0"]).deprecates("olm.package", "", "of b");
    assert_eq!(known(&one()).as_deref(), Some("of a"));
    assert_eq!(known(&one().catalog("broken", 9).unreadable()).as_deref(), Some("of a"));
    assert_eq!(
        known(&one().catalog("other", 9).package("q", ["1.0.0"]).catalog("none", 1)),
        None,
        "two with bundles"
    );
    assert_eq!(known(&two()), None, "which of them is not known");
    assert_eq!(known(&two().installed("1.0.0").installed_from("b")).as_deref(), Some("of b"));
    assert_eq!(known(&Case::new("none").package("p", [])), None);
    assert_eq!(known(&Case::new("not deprecated").package("p", ["1.0.0"])).as_deref(), Some(""));
}
