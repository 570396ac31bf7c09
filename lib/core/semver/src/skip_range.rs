//! Ranges in the dialect of the blang semver library v4: `skipRange` of channel entries and `versionRange` of
//! `olm.package.required`.
//!
//! Terms between spaces must all hold, groups between `||` tokens are alternatives. There is no gate for
//! pre-releases: plain precedence. The quirks of that library are kept (tokens of one byte vanish, `!=1.x` never
//! holds, a letter x in a pre-release is taken for a wildcard), because catalogs were tested against them. One
//! is not: an empty group between two `||`, on which blang panics, never holds.

mod parse;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use crate::{ParseError, Version};

/// A parsed range. Displays as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipRange {
    text: String,
    groups: Vec<Vec<Term>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    comparator: Comparator,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl SkipRange {
    /// Whether the version lies in the range.
    pub fn contains(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| !group.is_empty() && group.iter().all(|term| term.holds(version)))
    }

    /// Whether there is an empty group (`1.0.0 || || 2.0.0`), which catalogs should not have: blang
    /// panics on it.
    pub fn has_empty_group(&self) -> bool {
        self.groups.iter().any(Vec::is_empty)
    }
}

impl Term {
    fn holds(&self, version: &Version) -> bool {
        let order = version.cmp_precedence(&self.version);
        match self.comparator {
            Comparator::Equal => order.is_eq(),
            Comparator::NotEqual => order.is_ne(),
            Comparator::Greater => order.is_gt(),
            Comparator::GreaterOrEqual => order.is_ge(),
            Comparator::Less => order.is_lt(),
            Comparator::LessOrEqual => order.is_le(),
        }
    }
}

impl FromStr for SkipRange {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Ok(Self { text: text.to_owned(), groups: parse::groups(text)? })
    }
}

impl fmt::Display for SkipRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
