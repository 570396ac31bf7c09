//! From text to [`Constraint`], as `NewConstraint` in Masterminds/semver's constraints.go does it: by regular
//! expressions, of which Rust and Go take the same match.

use std::{array, sync::LazyLock};

use olm_go::Quoted;
use regex::{Captures, Regex};

use super::{Constraint, Group, Operator, Term, Wildcard};
use crate::{
    Identifier, ParseError, Version,
    limits::{CONSTRAINT_BYTES_MAX, CONSTRAINT_GROUPS_MAX, OPERAND_BYTES_MAX},
};

struct Patterns {
    /// Two operands, each with its four parts, joined by a hyphen.
    hyphen_range: Regex,
    /// All terms of a group.
    group: Regex,
    /// One of them: the operator, the operand, and its parts: three numbers and the pre-release.
    term: Regex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let (blank, number, identifiers) = (r"[\t\n\f\r ]", "[0-9xX*|]+", r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*");
    let operator = r"(!=|[<>]=?|=[<>]?|~>?|\^|)";
    let operand =
        format!(r"(v?({number})(?:\.({number})(?:\.({number}))?)?(?:-({identifiers}))?(?:\+{identifiers})?)");
    let term = format!("{operator}{blank}*{operand}");
    #[expect(
        clippy::expect_used,
        reason = "the patterns are constant; every test of constraints compiles them"
    )]
    let pattern = |text: String| Regex::new(&text).expect("a regular expression");
    Patterns {
        hyphen_range: pattern(format!("{blank}*{operand}{blank}+-{blank}+{operand}{blank}*")),
        group: pattern(format!("^{blank}*{term}{blank}*(?:(?:{blank}|,){blank}*{term}{blank}*)*$")),
        term: pattern(term),
    }
});

pub(super) fn constraint(text: &str) -> Result<Constraint, ParseError> {
    if text.len() > CONSTRAINT_BYTES_MAX {
        let message = format!("constraint string is too long (max {CONSTRAINT_BYTES_MAX} bytes)");
        return Err(ParseError::new(message));
    }
    let text = without_hyphens(text);
    if text.split("||").count() > CONSTRAINT_GROUPS_MAX {
        return Err(ParseError::new(format!("too many constraint groups (max {CONSTRAINT_GROUPS_MAX})")));
    }
    Ok(Constraint { groups: text.split("||").map(group).collect::<Result<_, _>>()? })
}

/// Rewrites hyphen ranges, `A - B`, to `>= A, <= B `: on the text, before anything else, as `rewriteRange` there.
///
/// Doing it on the text makes the same nonsense of nonsense (`>=1 - 2` fails, `1.2.3.4 - 5` becomes
/// `1.>= 2.3.4, <= 5 `), and errors quote the rewritten text.
fn without_hyphens(text: &str) -> String {
    PATTERNS.hyphen_range.captures_iter(text).fold(text.to_owned(), |rewritten, range| {
        rewritten.replacen(&range[0], &format!(">= {}, <= {} ", &range[1], &range[6]), 1)
    })
}

/// Parses the text between two `||`. Its form is checked before any operand.
fn group(text: &str) -> Result<Group, ParseError> {
    if !PATTERNS.group.is_match(text) {
        return Err(ParseError::new(format!("improper constraint: {}", Quoted(text))));
    }
    let terms = PATTERNS.term.captures_iter(text).map(|written| term(&written)).collect::<Option<Vec<_>>>();
    let terms = terms.ok_or_else(|| ParseError::new("constraint parser error"))?;
    let prereleases = terms.iter().any(|term| !term.operand.prerelease().is_empty());
    Ok(Group { terms, prereleases })
}

/// The term, missing numbers filled up; `None` when one that is there is no number, or the operand is too long.
fn term(written: &Captures<'_>) -> Option<Term> {
    let part = |index: usize| written.get(index).map_or("", |part| part.as_str());
    let is_wildcard = |index: usize| matches!(part(index), "" | "x" | "X" | "*");
    let (wildcard, count) = if is_wildcard(3) {
        (Wildcard::Any, 0)
    } else if is_wildcard(4) {
        (Wildcard::Minor, 1)
    } else if is_wildcard(5) {
        (Wildcard::Patch, 2)
    } else {
        (Wildcard::No, 3)
    };
    let numbers: [&str; 3] = array::from_fn(|index| if index < count { part(index + 3) } else { "0" });
    let prerelease = part(6);
    let length = match wildcard {
        Wildcard::No => part(2).len(),
        _ => numbers.iter().map(|number| number.len() + 1).sum::<usize>() + prerelease.len(),
    };
    if length > OPERAND_BYTES_MAX {
        return None;
    }
    let [major, minor, patch] = numbers.map(|number| number.parse().ok());
    let identifiers = prerelease.split('.').filter(|_| !prerelease.is_empty()).map(identifier);
    let operand = Version::from_parts([major?, minor?, patch?], identifiers.collect::<Option<_>>()?);
    Some(Term { operator: Operator::from_text(part(1))?, operand, wildcard })
}

/// Unlike in versions, numbers beyond 64 bits are accepted, and compared as text.
fn identifier(text: &str) -> Option<Identifier> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Identifier::Alphanumeric(text.to_owned()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return None;
    }
    Some(text.parse().map_or_else(|_| Identifier::Alphanumeric(text.to_owned()), Identifier::Numeric))
}

#[cfg(test)]
mod tests {
    #[test]
    fn hyphen_ranges_are_rewritten_as_masterminds_rewrites_them() {
        for (text, rewritten) in [
            ("1.2", "1.2"),
            ("1.2 - 1.4.5", ">= 1.2, <= 1.4.5 "),
            (" v1  -\t2.x-rc.1+b  || 3", ">= v1, <= 2.x-rc.1+b || 3"),
            ("1 - 2 || 1 - 2", ">= 1, <= 2 ||>= 1, <= 2 "),
            ("1 - 2 - 3", ">= 1, <= 2 - 3"),
            ("1.2.3 -1.4.5", "1.2.3 -1.4.5"),
            ("1.2.3- 1", "1.2.3- 1"),
            (">=1.0.0 - 2.0.0", ">=>= 1.0.0, <= 2.0.0 "),
            ("1.2.3.4 - 5", "1.>= 2.3.4, <= 5 "),
            ("é1 - 2", "é>= 1, <= 2 "),
        ] {
            assert_eq!(super::without_hyphens(text), rewritten, "{text:?}");
        }
    }
}
