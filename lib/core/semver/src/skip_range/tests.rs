//! What the blang semver library v4 answers, row by row.

use crate::{SkipRange, Version};

/// Range, candidate, whether it is contained.
const MATCHES: &[(&str, &str, bool)] = &[
    ("1.2.3", "1.2.3", true),
    ("=1.2.3", "1.2.3", true),
    ("==1.2.3", "1.2.3", true),
    ("1.2.3", "1.2.4", false),
    ("1.2.3", "1.2.3+build", true),
    ("1.2.3+a", "1.2.3+b", true),
    ("1.2.3", "1.2.3-rc", false),
    ("1.2.3-rc.1", "1.2.3-rc.1", true),
    ("!1.2.3", "1.2.4", true),
    ("!1.2.3", "1.2.3", false),
    ("!=1.2.3", "1.2.4", true),
    ("!= 1.2.3", "1.2.4", true),
    ("! 1.2.3", "1.2.4", false),
    ("! 1.2.3", "1.2.3", true),
    (">1.0.0", "1.0.1", true),
    (">1.0.0", "1.0.0", false),
    (">=1.0.0", "1.0.0", true),
    ("<2.0.0", "1.9.9", true),
    ("<2.0.0", "2.0.0", false),
    ("<=2.0.0", "2.0.0", true),
    ("> 1.0.0", "1.0.1", true),
    (">=  1.0.0", "1.0.1", true),
    ("<2.0.0", "2.0.0-rc.1", true),
    (">=1.2.3", "1.3.0-alpha", true),
    (">=1.2.3", "1.2.3-rc.1", false),
    (">=1.2.3-rc.1", "1.2.3", true),
    (">=1.0.0 <2.0.0", "2.0.0-alpha", true),
    (">=1.0.0-0 <2.0.0-0", "2.0.0-alpha", false),
    (">=4.11.0 <4.12.0-0", "4.12.0-rc.1", false),
    (">=0.0.0", "0.0.0-alpha", false),
    ("<0.0.0", "0.0.0-alpha", true),
    ("<1.2.3-beta", "1.2.3-alpha", true),
    (">1.0.0 <2.0.0", "1.5.0", true),
    (">1.0.0 <2.0.0", "2.0.0", false),
    (">=1.0.0  <2.0.0", "1.5.0", true),
    (" >=1.0.0 <2.0.0 ", "1.5.0", true),
    (">= 1.0.0 < 2.0.0", "1.5.0", true),
    ("1.2.3 1.2.4", "1.2.3", false),
    (">=1.0.0 <1.0.0", "1.0.0", false),
    ("<1.0.0 || >=2.0.0", "2.5.0", true),
    ("<1.0.0 || >=2.0.0", "1.5.0", false),
    (">1.0.0 <2.0.0 || >3.0.0 !4.2.1", "4.2.1", false),
    (">1.0.0 <2.0.0 || >3.0.0 !4.2.1", "3.1.1", true),
    ("1.0.0 || || 2.0.0", "1.0.0", true),
    // blang panics on an empty group.
    ("1.0.0 || || 2.0.0", "3.0.0", false),
    ("1.x", "1.2.3", true),
    ("1.x", "2.0.0", false),
    ("1.2.x", "1.2.9", true),
    ("1.2.x", "1.3.0", false),
    ("1.x.x", "1.2.3", false),
    ("1.x.x", "1.0.5", true),
    (">=1.x", "1.0.0", true),
    (">=1.2.x", "1.2.0", true),
    (">1.x", "1.9.9", false),
    (">1.x", "2.0.0", true),
    (">1.2.x", "1.3.0", true),
    ("<1.x", "0.9.0", true),
    ("<1.x", "1.0.0", false),
    ("<1.2.x", "1.1.9", true),
    ("<=1.x", "1.9.9", true),
    ("<=1.x", "2.0.0", false),
    ("<=1.2.x", "1.2.9", true),
    ("<=1.2.x", "1.3.0", false),
    ("!=1.x", "2.0.0", false),
    ("!=1.x", "0.9.0", false),
    ("!1.2.x", "1.1.0", false),
    (">=1.0.0 !=1.5.x <2.0.0", "1.4.0", false),
    (">=1.0.0 !1.5.0 <2.0.0", "1.4.0", true),
    ("1.x || 3.x", "3.1.0", true),
    (">=2.1.x <2.2.1", "2.2.0", true),
    (">=5.0.0 <5.1.2 !5.1.0-alpha1", "5.1.0", true),
    (">=1.0.0 a <2.0.0", "1.5.0", true),
    ("1.2.3 - 1.4.5", "1.3.0", false),
    ("1.2.3 2", "1.2.3", true),
    (">=1.0.0-experimental <2.0.0", "1.5.0", true),
    ("<1.9.1-exp", "1.9.0", true),
    (">=1.2.3-alpha.x", "1.2.3-alpha.x", true),
    (">=1.x.3", "1.0.3", true),
    (">=1.x.3", "1.0.2", false),
    ("<1.x.3", "1.0.2", true),
    (">1.x.x", "1.1.0", true),
    ("<=1.x.x", "1.0.9", true),
    ("<=1.x.x", "1.1.0", false),
    (">=0.0.0-0", "0.0.0-alpha", true),
    ("!=1.0.0", "1.0.0-rc.1", true),
    ("1.2.3 || 1.2.4", "1.2.4", true),
    (">=1.2.3 || <1.0.0", "1.1.0", false),
];

/// Range, the version in it that is none, and why not.
const NO_VERSIONS: &[(&str, &str, &str)] = &[
    ("1.2", "1.2", "No Major.Minor.Patch elements found"),
    (">=1", "1", "No Major.Minor.Patch elements found"),
    (">=1.2", "1.2", "No Major.Minor.Patch elements found"),
    ("<1.2", "1.2", "No Major.Minor.Patch elements found"),
    ("1.2.X", "1.2.X", r#"Invalid character(s) found in patch number "X""#),
    ("1.2.*", "1.2.*", r#"Invalid character(s) found in patch number "*""#),
    ("01.2.3", "01.2.3", r#"Major number must not contain leading zeroes "01""#),
    ("1.02.3", "1.02.3", r#"Minor number must not contain leading zeroes "02""#),
    ("1.2.3.4", "1.2.3.4", r#"Invalid character(s) found in patch number "3.4""#),
    (">=1.0.0,<2.0.0", "1.0.0,<2.0.0", r#"Invalid character(s) found in patch number "0,<2.0.0""#),
    (">=1.0.0<2.0.0", "1.0.0<2.0.0", r#"Invalid character(s) found in patch number "0<2.0.0""#),
    ("<1.0.0||>=2.0.0", "1.0.0||>=2.0.0", r#"Invalid character(s) found in patch number "0||>=2.0.0""#),
    ("1.2.3-01", "1.2.3-01", r#"Numeric PreRelease version must not contain leading zeroes "01""#),
    ("1.2.3-", "1.2.3-", "Prerelease is empty"),
    ("1.2.3+", "1.2.3+", "Build meta data is empty"),
    (
        "99999999999999999999.0.0",
        "99999999999999999999.0.0",
        r#"strconv.ParseUint: parsing "99999999999999999999": value out of range"#,
    ),
    (">=1.2.3;<2.0.0", "1.2.3;<2.0.0", r#"Invalid character(s) found in patch number "3;<2.0.0""#),
];

/// Other ranges and their errors.
const ERRORS: &[(&str, &str)] = &[
    ("", "Last element in range is '||'"),
    (" ", "Last element in range is '||'"),
    ("x", "Last element in range is '||'"),
    ("*", "Last element in range is '||'"),
    ("1", "Last element in range is '||'"),
    (">", "Last element in range is '||'"),
    ("v1.2.3", r#"Could not parse Range "v1.2.3": Could not parse comparator "v" in "v1.2.3""#),
    (">=v1.2.3", r#"Could not parse Range ">=v1.2.3": Could not parse comparator ">=v" in ">=v1.2.3""#),
    ("~1.2.3", r#"Could not parse Range "~1.2.3": Could not parse comparator "~" in "~1.2.3""#),
    ("~>1.2.3", r#"Could not parse Range "~>1.2.3": Could not parse comparator "~>" in "~>1.2.3""#),
    ("^1.2.3", r#"Could not parse Range "^1.2.3": Could not parse comparator "^" in "^1.2.3""#),
    ("=>1.0.0", r#"Could not parse Range "=>1.0.0": Could not parse comparator "=>" in "=>1.0.0""#),
    ("=<1.0.0", r#"Could not parse Range "=<1.0.0": Could not parse comparator "=<" in "=<1.0.0""#),
    (">>1.0.0", r#"Could not parse Range ">>1.0.0": Could not parse comparator ">>" in ">>1.0.0""#),
    ("<>1.0.0", r#"Could not parse Range "<>1.0.0": Could not parse comparator "<>" in "<>1.0.0""#),
    (
        ">=1.0.0, <2.0.0",
        r#"Could not parse Range ">=1.0.0,": Could not parse version "1.0.0," in ">=1.0.0,": Invalid character(s) found in patch number "0,""#,
    ),
    (
        "<1.0.0 ||>=2.0.0",
        r#"Could not parse Range "||>=2.0.0": Could not parse comparator "||>=" in "||>=2.0.0""#,
    ),
    ("|| 1.0.0", "First element in range is '||'"),
    ("1.0.0 ||", "Last element in range is '||'"),
    ("||", "First element in range is '||'"),
    ("foo", r#"Could not get version from string: "foo""#),
    ("latest", r#"Could not get version from string: "latest""#),
    (">=a.b.c", r#"Could not get version from string: ">=a.b.c""#),
    (">=1.0.0 AND <2.0.0", r#"Could not get version from string: "AND""#),
    ("1.2.3-next", r#"Could not get version from string: "<""#),
    (">1.2.3-xyz", r#"Could not get version from string: ">=""#),
    ("!=1.0.0-fix", r#"Could not get version from string: ">=""#),
    ("1.x.3", r#"Could not get version from string: "<""#),
    (">=x", r#"Could not get version from string: ">=x""#),
    ("x.x", r#"Could not get version from string: "x.x""#),
    (
        "x.1",
        r#"Could not parse Range "1": Could not parse version "1" in "1": No Major.Minor.Patch elements found"#,
    ),
    (">=1.2.3 &&", r#"Could not get version from string: "&&""#),
    (
        "1.2.3 - 1.4.5.6",
        r#"Could not parse Range "1.4.5.6": Could not parse version "1.4.5.6" in "1.4.5.6": Invalid character(s) found in patch number "5.6""#,
    ),
    (">=1.0.0 and <2.0.0", r#"Could not get version from string: "and""#),
];

fn contains(range: &str, version: &str) -> bool {
    let range: SkipRange = range.parse().unwrap_or_else(|error| panic!("{range:?}: {error}"));
    range.contains(&version.parse::<Version>().unwrap())
}

#[test]
fn contains_what_blang_contains() {
    let different: Vec<_> =
        MATCHES.iter().filter(|(range, version, want)| contains(range, version) != *want).collect();
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn refuses_what_blang_refuses_with_its_words() {
    let of_versions = NO_VERSIONS.iter().map(|(range, version, problem)| {
        let place =
            format!("Could not parse Range {range:?}: Could not parse version {version:?} in {range:?}");
        (*range, format!("{place}: {problem}"))
    });
    let others = ERRORS.iter().map(|(range, error)| (*range, (*error).to_owned()));
    for (range, error) in of_versions.chain(others) {
        assert_eq!(range.parse::<SkipRange>().unwrap_err().to_string(), error, "{range:?}");
    }
}

#[test]
fn the_documented_example_covers_two_versions() {
    for (version, want) in [("4.0.9", false), ("4.1.0", true), ("4.1.1", true), ("4.1.2", false)] {
        assert_eq!(contains(">=4.1.0 <4.1.2", version), want);
    }
}

/// blang forgets comparators that it does not know when the term has a wildcard, and reads signs and
/// zeros in numbers it increments.
#[test]
fn odd_wildcards_behave_as_in_blang() {
    for (range, version, want) in [
        ("~1.2.x", "1.2.0", true),
        ("~1.2.x", "1.2.1", false),
        (">1.+2.x", "1.3.0", true),
        (">01.x", "2.0.0", true),
        (">01.x", "1.9.0", false),
    ] {
        assert_eq!(contains(range, version), want, "{range} {version}");
    }
}

#[test]
fn an_empty_group_never_holds_and_is_told() {
    let range: SkipRange = "1.0.0 || || 2.0.0".parse().unwrap();
    assert!(range.has_empty_group());
    assert!(range.contains(&"2.0.0".parse().unwrap()));
    assert!(!"1.0.0 || 2.0.0".parse::<SkipRange>().unwrap().has_empty_group());
}

#[test]
fn length_is_limited() {
    let long = ">=1.0.0 ".repeat(2049);
    assert_eq!(
        long.parse::<SkipRange>().unwrap_err().to_string(),
        "skip range is too long (max 16384 bytes)"
    );
    assert!(long[8..].parse::<SkipRange>().is_ok());
}

mod properties {
    use crate::{SkipRange, Version};
    use proptest::prelude::*;

    fn version() -> impl Strategy<Value = String> {
        "(0|1|2|3)\\.(0|1|2|3)\\.(0|1|2|3)(-(0|1|rc\\.1|alpha|beta))?(\\+b)?"
    }

    proptest! {
        #[test]
        fn what_is_displayed_parses_to_the_same(terms in prop::collection::vec(
            ("(|=|==|!|!=|>|>=|<|<=) ?", version(), " ( \\|\\| )?"), 1..5))
        {
            let text: String = terms.iter().flat_map(|(a, b, c)| [a.as_str(), b, c]).collect();
            if let Ok(parsed) = text.parse::<SkipRange>() {
                prop_assert_eq!(parsed.to_string().parse::<SkipRange>().unwrap(), parsed);
            }
        }

        #[test]
        fn a_bound_splits_the_versions(bound in version(), candidate in version()) {
            let candidate: Version = candidate.parse().unwrap();
            let holds = |operator: &str| {
                format!("{operator}{bound}").parse::<SkipRange>().unwrap().contains(&candidate)
            };
            prop_assert_ne!(holds(">="), holds("<"));
            prop_assert_ne!(holds("<="), holds(">"));
            prop_assert_ne!(holds("="), holds("!="));
            prop_assert_eq!(holds("="), holds(">=") && holds("<="));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[0-9x|.<>=!~^ +\\-a\u{e9}\t]{0,40}") {
            if let Ok(range) = text.parse::<SkipRange>() {
                range.contains(&"1.2.3".parse::<Version>().unwrap());
            }
        }
    }
}
