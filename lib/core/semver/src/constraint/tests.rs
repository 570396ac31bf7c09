//! What the Masterminds semver library v3 answers, row by row.

use crate::{Constraint, Version};

/// Range, candidate, whether it matches.
const MATCHES: &[(&str, &str, bool)] = &[
    ("1.2.3", "1.2.3", true),
    ("1.2.3", "1.2.4", false),
    ("=1.2.3", "1.2.3", true),
    ("= 1.2.3", "1.2.3", true),
    ("v1.2.3", "1.2.3", true),
    ("=v1.2.3", "1.2.3", true),
    (">=v1.0.0, <v2", "1.9.9", true),
    ("1.2.3", "1.2.3+build5", true),
    ("1.2.3+build5", "1.2.3+build6", true),
    (">=1.0.0+1", "1.0.0+0", true),
    ("1.2.3-rc.1", "1.2.3-rc.1", true),
    ("1.2.3-rc.1", "1.2.3", false),
    ("1.2.3", "1.2.3-rc.1", false),
    ("1.2.3", "1.2.3-0", false),
    ("1.2", "1.2.9", true),
    ("1.2", "1.3.0", false),
    ("1", "1.9.9", true),
    ("1", "2.0.0", false),
    ("=1.2", "1.2.5", true),
    ("0", "0.9.9", true),
    ("0", "1.0.0", false),
    ("0.0", "0.0.7", true),
    ("0.0", "0.1.0", false),
    ("0.0.0", "0.0.1", false),
    ("1.2.x", "1.2.7", true),
    ("1.2.X", "1.2.7", true),
    ("1.2.*", "1.2.7", true),
    ("1.2.x", "1.3.0", false),
    ("1.x", "1.9.0", true),
    ("1.*", "1.9.0", true),
    ("1.X.X", "1.9.0", true),
    ("1.x.3", "1.9.0", true),
    ("x.1.2", "3.4.5", true),
    ("*", "9.9.9", true),
    ("x", "9.9.9", true),
    ("*", "1.0.0-alpha", false),
    ("*-0", "1.0.0-alpha", true),
    (">=0.0.0-0", "1.0.0-alpha", true),
    ("=1.x", "1.5.0", true),
    (">=*", "0.0.0", true),
    (">*", "0.0.0", false),
    (">*", "0.0.1", true),
    ("<*", "0.0.0", false),
    ("<=*", "0.5.0", false),
    ("<=*", "0.0.0", true),
    ("~*", "4.0.0", true),
    ("^*", "5.0.0", false),
    ("^*", "0.0.0", true),
    ("!=*", "0.0.1", true),
    ("!=*", "0.0.0", false),
    ("!=1.2.3", "1.2.4", true),
    ("!=1.2.3", "1.2.3", false),
    ("!=1.2.3", "1.2.3-rc.1", false),
    ("!=1.2.3-rc.1", "1.2.3-rc.2", true),
    ("!=1.2.x", "1.2.9", false),
    ("!=1.2.x", "1.3.0", true),
    ("!=1.x", "1.5.0", false),
    ("!=1", "2.0.0", true),
    ("!=1.2-rc", "1.2.9-beta", true),
    ("!=1.0.0 !=2.0.0", "2.0.0", false),
    (">1.2.3", "1.2.3", false),
    (">1.2.3", "1.2.4", true),
    (">1.2", "1.2.9", false),
    (">1.2", "1.3.0", true),
    (">1", "1.9.9", false),
    (">1", "2.0.0", true),
    (">1.x", "2.0.0", true),
    (">0", "0.5.0", false),
    (">=1.2", "1.2.0", true),
    (">=1.2.x", "1.1.99", false),
    ("=>1.2.3", "1.2.3", true),
    ("=<1.2.3", "1.2.3", true),
    ("<1.2.3", "1.2.3", false),
    ("<1.2.3", "1.2.3-alpha", false),
    ("<1.2.3-beta", "1.2.3-alpha", true),
    ("<1.2", "1.1.9", true),
    ("<1.2", "1.2.0", false),
    ("<1", "0.9.9", true),
    ("<=1.2", "1.2.9", true),
    ("<=1.2", "1.3.0", false),
    ("<=1", "1.9.9", true),
    ("<=2.x", "2.9.9", true),
    ("<=2.x", "3.0.0", false),
    ("<=1.2-0", "1.2.9-rc", true),
    ("~1.2.3", "1.2.99", true),
    ("~1.2.3", "1.2.2", false),
    ("~1.2.3", "1.3.0", false),
    ("~1.2", "1.2.5", true),
    ("~1", "1.9.9", true),
    ("~1", "2.0.0", false),
    ("~1.2.x", "1.2.5", true),
    ("~>1.2.3", "1.2.9", true),
    ("~> 1.2", "1.2.9", true),
    ("~0", "0.5.0", true),
    ("~0.0.0", "7.0.0", true),
    ("~0.0.1", "0.0.9", true),
    ("~0.0.1", "0.1.0", false),
    ("~1.2.3-beta", "1.2.4-alpha", true),
    ("~1.2.3-beta", "1.2.3-alpha", false),
    ("~1.2.3", "1.2.4-alpha", false),
    ("^1.2.3", "1.9.9", true),
    ("^1.2.3", "2.0.0", false),
    ("^1.2.3", "1.2.2", false),
    ("^1.2", "1.9.0", true),
    ("^1.x", "1.9.0", true),
    ("^0.2.3", "0.2.9", true),
    ("^0.2.3", "0.3.0", false),
    ("^0.2", "0.2.0", true),
    ("^0.0.3", "0.0.3", true),
    ("^0.0.3", "0.0.4", false),
    ("^0.0", "0.0.9", true),
    ("^0.0", "0.1.0", false),
    ("^0", "0.9.9", true),
    ("^0", "1.0.0", false),
    ("^0.0.0", "0.0.1", false),
    ("^1.2.3-beta", "1.5.0-alpha", true),
    ("^1.2.3-beta", "2.0.0-alpha", false),
    ("^1.2.3", "1.5.0-alpha", false),
    (">=1.0.0, <2.0.0", "1.5.0", true),
    (">=1.0.0,<2.0.0", "1.5.0", true),
    (">=1.0.0 <2.0.0", "1.5.0", true),
    (">=1.0.0 , <2.0.0", "1.5.0", true),
    (">=1.11, <1.13", "1.12.9", true),
    (">=1.11, <1.13", "1.13.0", false),
    ("<1.0.0 || >=2.0.0", "1.5.0", false),
    ("<1.0.0||>=2.0.0", "2.5.0", true),
    ("^0 || ^3 || ^5", "4.1.0", false),
    ("1.2.3 || 2.x, !=2.5.0", "2.5.0", false),
    ("1.2.3 || 2.x, !=2.5.0", "2.6.0", true),
    ("1.2.3 1.2.4", "1.2.3", false),
    (">=1.2.3-alpha, <2.0.0", "1.9.0-beta", true),
    (">=1.2.3-alpha, <2.0.0", "2.0.0-beta", true),
    (">=1.2.3, <2.0.0-0", "1.9.0-beta", true),
    (">=1.0.0-0 || <0.5.0", "0.4.0-rc", false),
    (">=1.0.0 || >=1.0.0-0", "1.5.0-rc", true),
    (">=1.2.3-alpha.2", "1.2.3-alpha.10", true),
    (">=1.2.3-alpha", "1.2.3-1", false),
    (">=1.2.3", "1.2.3-rc.1", false),
    ("1.2-beta", "1.2.0-rc", true),
    ("1-2", "1.0.0", true),
    ("1.2.3-1.4.5", "1.3.0", false),
    ("1.2 - 1.4.5", "1.4.5", true),
    ("1.2 - 1.4.5", "1.4.6", false),
    ("1.2.3 - 1.4", "1.4.9", true),
    ("1.0 - 2.0, !=1.5.0", "1.5.0", false),
    ("1.0.0 - 2.0.0 || 3.x", "3.5.0", true),
    ("01.2.3", "1.2.3", true),
    (">=1.0.0 || *", "0.5.0", true),
    ("<1.0.0 || x", "2.1.5", true),
    ("<1.0.0 || 2.1.*", "2.1.5", true),
    (">=1.0.0, 2.*", "2.5.0", true),
    ("1.11.x", "1.11.0", true),
    ("1.11.x", "1.12.0", false),
    (">=1.12.X", "1.12.0", true),
    (">=1.12.X", "1.11.9", false),
    ("<=2.x", "3.0.0", false),
    ("*", "0.0.0", true),
    ("~1.11.0", "1.11.9", true),
    ("~1.11.0", "1.12.0", false),
    ("~1.12", "1.12.3", true),
    ("~1.12.x", "1.13.0", false),
    ("~1.x", "2.0.0", false),
    ("^0.2", "0.3.0", false),
    ("^1.2.x", "1.2.0", true),
    ("^1.2.x", "1.1.9", false),
    ("^2.x", "2.0.0", true),
    ("^2.3", "2.9.9", true),
    ("^2.3", "3.0.0", false),
    (">1.11.1", "1.11.2", true),
    ("1.11.1", "1.11.1", true),
];

/// Range and error.
const ERRORS: &[(&str, &str)] = &[
    ("V1.2.3", r#"improper constraint: "V1.2.3""#),
    ("==1.2.3", r#"improper constraint: "==1.2.3""#),
    (">=1.0.0<2.0.0", r#"improper constraint: ">=1.0.0<2.0.0""#),
    ("1.2.3 -1.4.5", r#"improper constraint: "1.2.3 -1.4.5""#),
    (">=1.0.0 - 2.0.0", r#"improper constraint: ">=>= 1.0.0, <= 2.0.0 ""#),
    ("", r#"improper constraint: """#),
    ("foo", r#"improper constraint: "foo""#),
    ("latest", r#"improper constraint: "latest""#),
    (">=", r#"improper constraint: ">=""#),
    (">=a.b.c", r#"improper constraint: ">=a.b.c""#),
    (">>1.0.0", r#"improper constraint: ">>1.0.0""#),
    ("!1.2.3", r#"improper constraint: "!1.2.3""#),
    ("<>1.0.0", r#"improper constraint: "<>1.0.0""#),
    ("~~1.2.3", r#"improper constraint: "~~1.2.3""#),
    ("||", r#"improper constraint: """#),
    ("1.2.3 ||", r#"improper constraint: """#),
    ("|| 1.2.3", r#"improper constraint: """#),
    ("1.2.3,", r#"improper constraint: "1.2.3,""#),
    (",1.2.3", r#"improper constraint: ",1.2.3""#),
    ("1.2.3,,2.0.0", r#"improper constraint: "1.2.3,,2.0.0""#),
    ("1.2.3 & 2.0.0", r#"improper constraint: "1.2.3 & 2.0.0""#),
    (">=1.0.0 AND <2.0.0", r#"improper constraint: ">=1.0.0 AND <2.0.0""#),
    ("(>=1.0.0)", r#"improper constraint: "(>=1.0.0)""#),
    ("1.2.3.4", r#"improper constraint: "1.2.3.4""#),
    ("1.2.3.x", r#"improper constraint: "1.2.3.x""#),
    ("1.2.3-01", "constraint parser error"),
    ("99999999999999999999.0.0", "constraint parser error"),
    ("12x", "constraint parser error"),
    ("1.*]", r#"improper constraint: "1.*]""#),
    ("1.0.0 || *]", r#"improper constraint: " *]""#),
    ("|.1.2", "constraint parser error"),
    ("1.2.3+a+b", r#"improper constraint: "1.2.3+a+b""#),
];

fn parse(range: &str) -> Constraint {
    range.parse().unwrap_or_else(|error| panic!("{range:?}: {error}"))
}

fn matches(range: &str, version: &str) -> bool {
    parse(range).matches(&version.parse::<Version>().unwrap())
}

#[test]
fn matches_what_masterminds_matches() {
    let different: Vec<_> =
        MATCHES.iter().filter(|(range, version, want)| matches(range, version) != *want).collect();
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn refuses_what_masterminds_refuses_with_its_words() {
    for (range, error) in ERRORS {
        assert_eq!(range.parse::<Constraint>().unwrap_err().to_string(), *error, "{range:?}");
    }
}

/// The user documentation's equivalences, over versions around every boundary.
#[test]
fn documented_equivalences_hold() {
    let rows = [
        ("1.11.x", ">=1.11.0, <1.12.0"),
        (">=1.12.X", ">=1.12.0"),
        ("<=2.x", "<3"),
        ("*", ">=0.0.0"),
        ("~1.11.0", ">=1.11.0, <1.12.0"),
        ("~1", ">=1, <2"),
        ("~1.12", ">=1.12, <1.13"),
        ("~1.12.x", ">=1.12.0, <1.13.0"),
        ("~1.x", ">=1, <2"),
        ("^0", ">=0.0.0, <1.0.0"),
        ("^0.0", ">=0.0.0, <0.1.0"),
        ("^0.0.3", ">=0.0.3, <0.0.4"),
        ("^0.2", ">=0.2.0, <0.3.0"),
        ("^0.2.3", ">=0.2.3, <0.3.0"),
        ("^1.2.x", ">=1.2.0, <2.0.0"),
        ("^1.2.3", ">=1.2.3, <2.0.0"),
        ("^2.x", ">=2.0.0, <3"),
        ("^2.3", ">=2.3, <3"),
    ];
    let numbers = [0u64, 1, 2, 3, 4, 10, 11, 12, 13];
    for (range, same) in rows {
        let (range, same) = (parse(range), parse(same));
        for major in numbers {
            for minor in numbers {
                for patch in numbers {
                    for suffix in ["", "-rc.1", "+b"] {
                        let version = format!("{major}.{minor}.{patch}{suffix}").parse().unwrap();
                        assert_eq!(
                            range.matches(&version),
                            same.matches(&version),
                            "{range} / {same}: {version}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_documented_example_selects_two_minor_versions() {
    for (version, want) in [("1.10.9", false), ("1.11.0", true), ("1.12.9", true), ("1.13.0", false)] {
        assert_eq!(matches(">=1.11, <1.13", version), want);
    }
}

#[test]
fn limits_are_those_of_masterminds() {
    let long = format!("1.2.3{}", " ".repeat(508));
    assert_eq!(
        long.parse::<Constraint>().unwrap_err().to_string(),
        "constraint string is too long (max 512 bytes)"
    );
    assert!(long[..512].parse::<Constraint>().is_ok());
    assert!(vec!["1"; 32].join("||").parse::<Constraint>().is_ok());
    let groups = vec!["1"; 33].join("||").parse::<Constraint>().unwrap_err();
    assert_eq!(groups.to_string(), "too many constraint groups (max 32)");
    assert!(format!("1.2.3-{}", "a".repeat(250)).parse::<Constraint>().is_ok());
    let operand = format!("1.2.3-{}", "a".repeat(251)).parse::<Constraint>().unwrap_err();
    assert_eq!(operand.to_string(), "constraint parser error");
}

mod properties {
    use crate::{Constraint, Version};
    use proptest::prelude::*;

    fn operand() -> impl Strategy<Value = String> {
        (
            "v?",
            prop::sample::select(vec!["*", "x", "X", "0", "1", "2", "03"]),
            prop::option::of(prop::sample::select(vec!["*", "x", "0", "1", "2"])),
            prop::option::of(prop::sample::select(vec!["X", "0", "1", "2"])),
            prop::option::of("-(0|1|rc\\.1|alpha|99999999999999999999|a-b)"),
            prop::option::of("\\+(b|1\\.2)"),
        )
            .prop_map(|(v, major, minor, patch, pre, build)| {
                let mut text = format!("{v}{major}");
                if let Some(minor) = minor {
                    text = [text, minor.to_owned()].join(".");
                    text = patch.map_or(text.clone(), |patch| [text, patch.to_owned()].join("."));
                }
                text + &pre.unwrap_or_default() + &build.unwrap_or_default()
            })
    }

    fn group() -> impl Strategy<Value = String> {
        let operator =
            prop::sample::select(vec!["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^"]);
        let term = (operator, " {0,2}", operand())
            .prop_map(|(operator, blank, operand)| operator.to_owned() + &blank + &operand);
        let hyphen = (operand(), operand()).prop_map(|(a, b)| format!("{a} - {b}"));
        prop_oneof![4 => term, 1 => hyphen].prop_flat_map(|first| {
            (Just(first), prop::collection::vec(operand(), 0..2))
                .prop_map(|(first, more)| more.into_iter().fold(first, |all, next| all + ", " + &next))
        })
    }

    fn range() -> impl Strategy<Value = String> {
        prop::collection::vec(group(), 1..4).prop_map(|groups| groups.join(" || "))
    }

    fn version() -> impl Strategy<Value = Version> {
        "(0|1|2|3)\\.(0|1|2|3)\\.(0|1|2|3)(-(0|1|rc\\.1|alpha|beta))?(\\+b)?".prop_map(|v| v.parse().unwrap())
    }

    proptest! {
        #[test]
        fn what_is_displayed_parses_to_the_same(text in range()) {
            let parsed: Constraint = text.parse().unwrap();
            prop_assert_eq!(parsed.to_string().parse::<Constraint>().unwrap(), parsed);
        }

        #[test]
        fn groups_are_alternatives_and_build_metadata_play_no_part(a in range(), b in range(), version in version()) {
            let [left, right]: [Constraint; 2] = [&a, &b].map(|text| text.parse().unwrap());
            let either: Constraint = format!("{a} || {b}").parse().unwrap();
            prop_assert_eq!(either.matches(&version), left.matches(&version) || right.matches(&version));
            prop_assert_eq!(left.matches(&version), left.matches(&version.clone().without_build()));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[0-9vxX*|.,<>=!~^ +\\-a\u{e9}\t]{0,40}") {
            if let Ok(constraint) = text.parse::<Constraint>() {
                constraint.matches(&"1.2.3".parse::<Version>().unwrap());
            }
        }
    }
}
