//! Errors of versions, releases and ranges, in the words of the libraries that upstream parses them with.

use std::fmt;

use thiserror::Error;

use olm_go::Quoted;

use crate::{CONSTRAINT_BYTES_MAX, CONSTRAINT_GROUPS_MAX, RELEASE_BYTES_MAX, SKIP_RANGE_BYTES_MAX};

/// A text that is no version, release, constraint or skip range.
///
/// The texts are those of the Go libraries blang/semver v4 and Masterminds/semver v3, and of
/// operator-registry for releases, since conditions contain them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseError {
    /// A version is empty.
    #[error("Version string empty")]
    VersionEmpty,
    /// A version has fewer than three numbers.
    #[error("No Major.Minor.Patch elements found")]
    VersionElements,
    /// A version read tolerantly has fewer than three numbers and something behind them.
    #[error("Short version cannot contain PreRelease/Build meta data")]
    ShortVersion,
    /// A part of a version has a character that is not allowed there.
    #[error("Invalid character(s) found in {} {}", .part.noun(), Quoted(.text))]
    Characters {
        /// Which part.
        part: Part,
        /// Its text.
        text: String,
        /// Byte offset.
        position: usize,
    },
    /// A number of a version has leading zeros.
    #[error("{} must not contain leading zeroes {}", .part.numeric(), Quoted(.text))]
    LeadingZeroes {
        /// Which part.
        part: Part,
        /// Its text.
        text: String,
        /// Byte offset.
        position: usize,
    },
    /// A number of a version is missing.
    #[error("strconv.ParseUint: parsing \"\": invalid syntax")]
    NumberEmpty {
        /// Byte offset.
        position: usize,
    },
    /// A number of a version does not fit 64 bits.
    #[error("strconv.ParseUint: parsing {}: value out of range", Quoted(.text))]
    NumberRange {
        /// Its digits.
        text: String,
        /// Byte offset.
        position: usize,
    },
    /// A pre-release identifier is empty.
    #[error("Prerelease is empty")]
    PrereleaseEmpty {
        /// Byte offset.
        position: usize,
    },
    /// An identifier of build metadata is empty.
    #[error("Build meta data is empty")]
    BuildEmpty {
        /// Byte offset.
        position: usize,
    },
    /// A release is longer than [`RELEASE_BYTES_MAX`].
    #[error("invalid release {}: exceeds maximum length of {RELEASE_BYTES_MAX} characters", Quoted(.text))]
    ReleaseLength {
        /// The release.
        text: String,
    },
    /// Segments of a release are invalid.
    #[error("invalid release {}: {}", Quoted(.text), Segments(.segments))]
    Release {
        /// The release.
        text: String,
        /// Index and error of each invalid segment; never empty.
        segments: Vec<(usize, ParseError)>,
    },
    /// The version beside an explicit release is invalid.
    #[error("error parsing version {}: {source}", Quoted(.text))]
    ExplicitVersion {
        /// The version.
        text: String,
        /// Why.
        source: Box<ParseError>,
    },
    /// An explicit release is invalid.
    #[error("error parsing release {}: {source}", Quoted(.text))]
    ExplicitRelease {
        /// The release.
        text: String,
        /// Why.
        source: Box<ParseError>,
    },
    /// A constraint is longer than [`CONSTRAINT_BYTES_MAX`].
    #[error("constraint string is too long (max {CONSTRAINT_BYTES_MAX} bytes)")]
    ConstraintLength,
    /// A constraint has more than [`CONSTRAINT_GROUPS_MAX`] groups.
    #[error("too many constraint groups (max {CONSTRAINT_GROUPS_MAX})")]
    ConstraintGroups,
    /// A group of a constraint is not a list of terms.
    #[error("improper constraint: {}", Quoted(.group))]
    ConstraintSyntax {
        /// The text between two `||`, hyphen ranges already rewritten.
        group: String,
        /// Byte offset in the constraint; with hyphen ranges, in the rewritten constraint.
        position: usize,
    },
    /// An operand of a constraint has the form of a version but is none.
    #[error("constraint parser error")]
    ConstraintOperand {
        /// Byte offset in the constraint; with hyphen ranges, in the rewritten constraint.
        position: usize,
    },
    /// A skip range is longer than [`SKIP_RANGE_BYTES_MAX`].
    #[error("skip range is too long (max {SKIP_RANGE_BYTES_MAX} bytes)")]
    SkipRangeLength,
    /// A skip range begins with `||`.
    #[error("First element in range is '||'")]
    SkipRangeFirst,
    /// A skip range ends with `||`, or has no terms.
    #[error("Last element in range is '||'")]
    SkipRangeLast,
    /// A term of a skip range has no digit.
    #[error("Could not get version from string: {}", Quoted(.term))]
    SkipRangeVersion {
        /// The term, wildcards expanded.
        term: String,
        /// Byte offset of the term.
        position: usize,
    },
    /// What stands before the version in a term of a skip range is no comparator.
    #[error("Could not parse Range {}: Could not parse comparator {} in {}",
        Quoted(.term), Quoted(.comparator), Quoted(.joined))]
    SkipRangeComparator {
        /// The term, wildcards expanded.
        term: String,
        /// What stands before the version.
        comparator: String,
        /// The comparator and the version.
        joined: String,
        /// Byte offset of the term.
        position: usize,
    },
    /// The version in a term of a skip range is invalid.
    #[error("Could not parse Range {}: Could not parse version {} in {}: {source}",
        Quoted(.term), Quoted(.version), Quoted(.joined))]
    SkipRangeOperand {
        /// The term, wildcards expanded.
        term: String,
        /// The version.
        version: String,
        /// The comparator and the version.
        joined: String,
        /// Why.
        source: Box<ParseError>,
        /// Byte offset of the term.
        position: usize,
    },
}

impl ParseError {
    /// Byte offset in the parsed text where the error was found.
    pub fn position(&self) -> usize {
        match self {
            Self::VersionEmpty
            | Self::VersionElements
            | Self::ShortVersion
            | Self::ConstraintGroups
            | Self::SkipRangeFirst
            | Self::SkipRangeLast => 0,
            Self::ReleaseLength { .. } => RELEASE_BYTES_MAX,
            Self::ConstraintLength => CONSTRAINT_BYTES_MAX,
            Self::SkipRangeLength => SKIP_RANGE_BYTES_MAX,
            Self::Release { segments, .. } => segments.first().map_or(0, |(_, error)| error.position()),
            Self::ExplicitVersion { source, .. } | Self::ExplicitRelease { source, .. } => source.position(),
            Self::Characters { position, .. }
            | Self::LeadingZeroes { position, .. }
            | Self::NumberEmpty { position }
            | Self::NumberRange { position, .. }
            | Self::PrereleaseEmpty { position }
            | Self::BuildEmpty { position }
            | Self::ConstraintSyntax { position, .. }
            | Self::ConstraintOperand { position }
            | Self::SkipRangeVersion { position, .. }
            | Self::SkipRangeComparator { position, .. }
            | Self::SkipRangeOperand { position, .. } => *position,
        }
    }
}

/// A part of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The first number.
    Major,
    /// The second number.
    Minor,
    /// The third number.
    Patch,
    /// An identifier of the pre-release, or of a release.
    Prerelease,
    /// An identifier of the build metadata.
    Build,
}

impl Part {
    fn noun(self) -> &'static str {
        match self {
            Self::Major => "major number",
            Self::Minor => "minor number",
            Self::Patch => "patch number",
            Self::Prerelease => "prerelease",
            Self::Build => "build meta data",
        }
    }

    fn numeric(self) -> &'static str {
        match self {
            Self::Major => "Major number",
            Self::Minor => "Minor number",
            Self::Patch => "Patch number",
            Self::Prerelease => "Numeric PreRelease version",
            Self::Build => "Build meta data",
        }
    }
}

struct Segments<'a>(&'a [(usize, ParseError)]);

impl fmt::Display for Segments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (index, error)) in self.0.iter().enumerate() {
            let separator = if i > 0 { "\n" } else { "" };
            write!(f, "{separator}segment {index}: {error}")?;
        }
        Ok(())
    }
}
