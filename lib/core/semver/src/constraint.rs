//! Version constraints in the dialect of the Masterminds semver library v3, as users write them in
//! `spec.source.catalog.version`.
//!
//! Terms joined by blanks or commas must all hold, groups joined by `||` are alternatives. Pre-releases match
//! only in a group that has a pre-release among its operands; then plain precedence applies to the whole
//! group. Build metadata play no part. Quirks of the original (`^*` means 0.0.0, `~0.0.0` means anything,
//! `<=*` means 0.0.x) are kept: the result is what the API promises.

mod hyphen;
mod parse;
mod scan;
#[cfg(test)]
mod tests;

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{ParseError, Version};

/// A parsed constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    groups: Vec<Group>,
}

/// Terms that must all hold; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    terms: Vec<Term>,
    /// Whether an operand has a pre-release.
    prereleases: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    operator: Operator,
    operand: Version,
    open: Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

/// From where on an operand is missing or a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Nothing is missing.
    No,
    /// The patch number is.
    Patch,
    /// The minor number is.
    Minor,
    /// The major number is.
    Any,
}

impl Constraint {
    /// Whether the version satisfies the constraint.
    pub fn matches(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| group.matches(version))
    }
}

impl Group {
    fn matches(&self, version: &Version) -> bool {
        (self.prereleases || version.prerelease().is_empty())
            && self.terms.iter().all(|term| term.matches(version))
    }
}

impl Operator {
    fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Tilde => "~",
            Self::Caret => "^",
        }
    }

    /// The operator written as `text`; none means equal.
    fn from_text(text: &[u8]) -> Option<Self> {
        Some(match text {
            b"" | b"=" => Self::Equal,
            b"!=" => Self::NotEqual,
            b">" => Self::Greater,
            b"<" => Self::Less,
            b">=" | b"=>" => Self::GreaterOrEqual,
            b"<=" | b"=<" => Self::LessOrEqual,
            b"~" | b"~>" => Self::Tilde,
            b"^" => Self::Caret,
            _ => return None,
        })
    }
}

impl Term {
    fn matches(&self, version: &Version) -> bool {
        let order = || version.cmp_precedence(&self.operand);
        match (self.operator, self.open) {
            (Operator::Equal, Open::No) => order().is_eq(),
            (Operator::Equal | Operator::Tilde, _) => self.tilde(version),
            (Operator::NotEqual, _) => self.not_equal(version),
            (Operator::Greater, _) => self.greater(version),
            (Operator::GreaterOrEqual, _) => order().is_ge(),
            (Operator::Less, _) => order().is_lt(),
            (Operator::LessOrEqual, _) => self.less_or_equal(version),
            (Operator::Caret, _) => self.caret(version),
        }
    }

    fn same_major(&self, version: &Version) -> bool {
        version.major() == self.operand.major()
    }

    fn same_minor(&self, version: &Version) -> bool {
        self.same_major(version) && version.minor() == self.operand.minor()
    }

    fn not_equal(&self, version: &Version) -> bool {
        match self.open {
            Open::No | Open::Any => version.cmp_precedence(&self.operand).is_ne(),
            Open::Minor => !self.same_major(version),
            // Within the minor version only the pre-releases are compared.
            Open::Patch => !self.same_minor(version) || version.prerelease() != self.operand.prerelease(),
        }
    }

    fn greater(&self, version: &Version) -> bool {
        match self.open {
            Open::No | Open::Any => version.cmp_precedence(&self.operand).is_gt(),
            Open::Minor => version.major() > self.operand.major(),
            Open::Patch => (version.major(), version.minor()) > (self.operand.major(), self.operand.minor()),
        }
    }

    fn less_or_equal(&self, version: &Version) -> bool {
        match self.open {
            Open::No => version.cmp_precedence(&self.operand).is_le(),
            Open::Minor => version.major() <= self.operand.major(),
            Open::Patch | Open::Any => {
                (version.major(), version.minor()) <= (self.operand.major(), self.operand.minor())
            }
        }
    }

    fn tilde(&self, version: &Version) -> bool {
        if version.cmp_precedence(&self.operand) == Ordering::Less {
            return false;
        }
        match self.open {
            Open::Minor => self.same_major(version),
            // The original takes an operand of three zeros, written or not, for "anything".
            Open::No | Open::Any if self.operand.numbers() == [0, 0, 0] => true,
            Open::No | Open::Any | Open::Patch => self.same_minor(version),
        }
    }

    fn caret(&self, version: &Version) -> bool {
        if version.cmp_precedence(&self.operand) == Ordering::Less || !self.same_major(version) {
            return false;
        }
        if self.operand.major() > 0 || self.open == Open::Minor {
            return true;
        }
        if version.minor() != self.operand.minor() {
            return false;
        }
        self.operand.minor() > 0 || self.open == Open::Patch || version.patch() == self.operand.patch()
    }
}

impl FromStr for Constraint {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse::constraint(text)
    }
}

/// The constraint in one spelling, which parses to the same constraint unless it outgrows the limits: operators
/// are always written, hyphen ranges are two terms, wildcards are left out.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, group) in self.groups.iter().enumerate() {
            let separator = if i > 0 { " || " } else { "" };
            f.write_str(separator)?;
            for (i, term) in group.terms.iter().enumerate() {
                let separator = if i > 0 { " " } else { "" };
                write!(f, "{separator}{term}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, v) = (self.operator.as_str(), &self.operand);
        match self.open {
            Open::No => write!(f, "{operator}{}.{}.{}", v.major(), v.minor(), v.patch())?,
            Open::Patch => write!(f, "{operator}{}.{}", v.major(), v.minor())?,
            Open::Minor => write!(f, "{operator}{}", v.major())?,
            Open::Any => write!(f, "{operator}*")?,
        }
        for (i, identifier) in v.prerelease().iter().enumerate() {
            write!(f, "{}{identifier}", if i > 0 { '.' } else { '-' })?;
        }
        Ok(())
    }
}

impl Serialize for Constraint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Constraint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
