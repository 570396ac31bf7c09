//! Version constraints in the dialect of the Masterminds semver library v3, as users write them in
//! `spec.source.catalog.version`.
//!
//! Terms joined by blanks or commas must all hold, groups joined by `||` are alternatives. Pre-releases match
//! only in a group that has a pre-release among its operands; then plain precedence applies to the whole
//! group. Build metadata play no part. Quirks of that library (`^*` means 0.0.0, `~0.0.0` means anything,
//! `<=*` means 0.0.x) are kept: the result is what the API promises.

mod parse;
#[cfg(test)]
mod tests;

use std::{cmp::Ordering, fmt, str::FromStr};

use crate::{ParseError, Version, version::write_identifiers};

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
    wildcard: Wildcard,
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

/// The first of the three numbers of an operand that is missing or a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    /// All three are written.
    No,
    /// The patch number.
    Patch,
    /// The minor number.
    Minor,
    /// The major number.
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
    fn from_text(text: &str) -> Option<Self> {
        Some(match text {
            "" | "=" => Self::Equal,
            "!=" => Self::NotEqual,
            ">" => Self::Greater,
            "<" => Self::Less,
            ">=" | "=>" => Self::GreaterOrEqual,
            "<=" | "=<" => Self::LessOrEqual,
            "~" | "~>" => Self::Tilde,
            "^" => Self::Caret,
            _ => return None,
        })
    }
}

impl Term {
    fn matches(&self, version: &Version) -> bool {
        let order = || version.cmp_precedence(&self.operand);
        match (self.operator, self.wildcard) {
            (Operator::Equal, Wildcard::No) => order().is_eq(),
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
        match self.wildcard {
            Wildcard::No | Wildcard::Any => version.cmp_precedence(&self.operand).is_ne(),
            Wildcard::Minor => !self.same_major(version),
            // Within the minor version only the pre-releases are compared.
            Wildcard::Patch => !self.same_minor(version) || version.prerelease() != self.operand.prerelease(),
        }
    }

    fn greater(&self, version: &Version) -> bool {
        match self.wildcard {
            Wildcard::No | Wildcard::Any => version.cmp_precedence(&self.operand).is_gt(),
            Wildcard::Minor => version.major() > self.operand.major(),
            Wildcard::Patch => {
                (version.major(), version.minor()) > (self.operand.major(), self.operand.minor())
            }
        }
    }

    fn less_or_equal(&self, version: &Version) -> bool {
        match self.wildcard {
            Wildcard::No => version.cmp_precedence(&self.operand).is_le(),
            Wildcard::Minor => version.major() <= self.operand.major(),
            Wildcard::Patch | Wildcard::Any => {
                (version.major(), version.minor()) <= (self.operand.major(), self.operand.minor())
            }
        }
    }

    fn tilde(&self, version: &Version) -> bool {
        if version.cmp_precedence(&self.operand) == Ordering::Less {
            return false;
        }
        match self.wildcard {
            Wildcard::Minor => self.same_major(version),
            // As `constraintTilde` there: an operand of three zeros, written or not, means "anything".
            Wildcard::No | Wildcard::Any if self.operand.numbers() == [0, 0, 0] => true,
            Wildcard::No | Wildcard::Any | Wildcard::Patch => self.same_minor(version),
        }
    }

    fn caret(&self, version: &Version) -> bool {
        if version.cmp_precedence(&self.operand) == Ordering::Less || !self.same_major(version) {
            return false;
        }
        if self.operand.major() > 0 || self.wildcard == Wildcard::Minor {
            return true;
        }
        if version.minor() != self.operand.minor() {
            return false;
        }
        self.operand.minor() > 0
            || self.wildcard == Wildcard::Patch
            || version.patch() == self.operand.patch()
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
        match self.wildcard {
            Wildcard::No => write!(f, "{operator}{}.{}.{}", v.major(), v.minor(), v.patch())?,
            Wildcard::Patch => write!(f, "{operator}{}.{}", v.major(), v.minor())?,
            Wildcard::Minor => write!(f, "{operator}{}", v.major())?,
            Wildcard::Any => write!(f, "{operator}*")?,
        }
        if !v.prerelease().is_empty() {
            f.write_str("-")?;
        }
        write_identifiers(f, v.prerelease())
    }
}
