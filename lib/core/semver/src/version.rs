//! Strict semantic versions, as the blang library v4 parses them.
//!
//! Three numbers below 2^64 without leading zeros, no `v`; numeric pre-release identifiers below 2^64.

use std::{
    fmt::{self, Write},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{ParseError, Part};

/// A semantic version. Equality is that of the texts; see [`Version::cmp_precedence`] for order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    numbers: [u64; 3],
    prerelease: Vec<Identifier>,
    build: String,
}

/// One identifier of a pre-release or release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identifier {
    /// Digits only.
    Numeric(u64),
    /// Letters, digits and hyphens.
    Alphanumeric(String),
}

impl Version {
    pub(crate) fn from_parts(numbers: [u64; 3], prerelease: Vec<Identifier>) -> Self {
        Self { numbers, prerelease, build: String::new() }
    }

    /// The first number.
    pub fn major(&self) -> u64 {
        self.numbers[0]
    }

    /// The second number.
    pub fn minor(&self) -> u64 {
        self.numbers[1]
    }

    /// The third number.
    pub fn patch(&self) -> u64 {
        self.numbers[2]
    }

    pub(crate) fn numbers(&self) -> [u64; 3] {
        self.numbers
    }

    /// The identifiers of the pre-release; empty for a release version.
    pub fn prerelease(&self) -> &[Identifier] {
        &self.prerelease
    }

    /// The build metadata without the `+`; empty when there are none.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// Reads a version tolerantly: without blanks around it, a leading `v` and leading zeros, and with zeros for
    /// missing numbers.
    ///
    /// Source: blang/semver v4 `ParseTolerant`.
    ///
    /// # Errors
    /// It is no version even so.
    pub fn parse_tolerant(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let without_zeros = |part: &str| {
            let rest = if part.len() > 1 { part.trim_start_matches('0') } else { part };
            let has_digit = part.len() < 2 || rest.starts_with(|c: char| c.is_ascii_digit());
            if has_digit { rest.to_owned() } else { format!("0{rest}") }
        };
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err(ParseError::ShortVersion);
        }
        parts.resize(3, "0".to_owned());
        parts.join(".").parse()
    }

    /// The same version without build metadata.
    #[must_use]
    pub fn without_build(mut self) -> Self {
        self.build.clear();
        self
    }
}

pub(crate) fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// Parses one of the three numbers, found at `position`.
fn number(text: &str, part: Part, position: usize) -> Result<u64, ParseError> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseError::Characters { part, text: text.to_owned(), position });
    }
    unsigned(text, part, position)
}

/// Parses digits.
fn unsigned(text: &str, part: Part, position: usize) -> Result<u64, ParseError> {
    if text.is_empty() {
        return Err(ParseError::NumberEmpty { position });
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(ParseError::LeadingZeroes { part, text: text.to_owned(), position });
    }
    text.parse().map_err(|_| ParseError::NumberRange { text: text.to_owned(), position })
}

/// Parses one identifier of a pre-release or release.
pub(crate) fn identifier(text: &str, position: usize) -> Result<Identifier, ParseError> {
    if text.is_empty() {
        return Err(ParseError::PrereleaseEmpty { position });
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return unsigned(text, Part::Prerelease, position).map(Identifier::Numeric);
    }
    if !text.bytes().all(is_identifier_byte) {
        return Err(ParseError::Characters { part: Part::Prerelease, text: text.to_owned(), position });
    }
    Ok(Identifier::Alphanumeric(text.to_owned()))
}

/// The dot-separated pieces of `text`, with their positions, when the text begins at `start`.
pub(crate) fn pieces(text: &str, start: usize) -> impl Iterator<Item = (&str, usize)> {
    text.split('.').scan(start, |next, piece| {
        let position = *next;
        *next += piece.len() + 1;
        Some((piece, position))
    })
}

fn check_build(text: &str, start: usize) -> Result<(), ParseError> {
    for (piece, position) in pieces(text, start) {
        if piece.is_empty() {
            return Err(ParseError::BuildEmpty { position });
        }
        if !piece.bytes().all(is_identifier_byte) {
            return Err(ParseError::Characters { part: Part::Build, text: piece.to_owned(), position });
        }
    }
    Ok(())
}

impl FromStr for Version {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::VersionEmpty);
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ParseError::VersionElements);
        };
        let minor_at = major.len() + 1;
        let patch_at = minor_at + minor.len() + 1;
        let (major, minor) = (number(major, Part::Major, 0)?, number(minor, Part::Minor, minor_at)?);

        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [major, minor, number(patch, Part::Patch, patch_at)?];
        let prerelease = match pre {
            Some(pre) => pieces(pre, patch_at + patch.len() + 1)
                .map(|(piece, position)| identifier(piece, position))
                .collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        if let Some(build) = build {
            check_build(build, patch_at + rest.len() + 1)?;
        }
        Ok(Self { numbers, prerelease, build: build.unwrap_or_default().to_owned() })
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numeric(number) => write!(f, "{number}"),
            Self::Alphanumeric(text) => f.write_str(text),
        }
    }
}

/// Writes identifiers with dots between them.
pub(crate) fn write_identifiers(f: &mut fmt::Formatter<'_>, identifiers: &[Identifier]) -> fmt::Result {
    for (i, identifier) in identifiers.iter().enumerate() {
        if i > 0 {
            f.write_char('.')?;
        }
        write!(f, "{identifier}")?;
    }
    Ok(())
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.prerelease.is_empty() {
            f.write_char('-')?;
            write_identifiers(f, &self.prerelease)?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_as_it_was_written() {
        for text in [
            "0.0.0",
            "1.2.3",
            "1.2.3-rc.1",
            "1.2.3-0",
            "1.2.3--",
            "1.2.3+01.a",
            "1.2.3-a-b.7+build-5",
            "18446744073709551615.0.0",
            "1.2.3-18446744073709551615",
            "1.2.3+a-b",
        ] {
            assert_eq!(text.parse::<Version>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_not_strict_with_the_originals_text_and_the_position() {
        for (text, error, position) in [
            ("", "Version string empty", 0),
            ("1", "No Major.Minor.Patch elements found", 0),
            ("1.2", "No Major.Minor.Patch elements found", 0),
            ("v1.2.3", r#"Invalid character(s) found in major number "v1""#, 0),
            ("1.x.3", r#"Invalid character(s) found in minor number "x""#, 2),
            ("1.2.3.4", r#"Invalid character(s) found in patch number "3.4""#, 4),
            ("01.2.3", r#"Major number must not contain leading zeroes "01""#, 0),
            ("1.02.3", r#"Minor number must not contain leading zeroes "02""#, 2),
            ("1.2.03", r#"Patch number must not contain leading zeroes "03""#, 4),
            ("1..3", r#"strconv.ParseUint: parsing "": invalid syntax"#, 2),
            ("1.2.", r#"strconv.ParseUint: parsing "": invalid syntax"#, 4),
            ("1.2.-a", r#"strconv.ParseUint: parsing "": invalid syntax"#, 4),
            (
                "18446744073709551616.0.0",
                r#"strconv.ParseUint: parsing "18446744073709551616": value out of range"#,
                0,
            ),
            ("1.2.3-", "Prerelease is empty", 6),
            ("1.2.3-a..b", "Prerelease is empty", 8),
            ("1.2.3-a.01", r#"Numeric PreRelease version must not contain leading zeroes "01""#, 8),
            ("1.2.3-a_b", r#"Invalid character(s) found in prerelease "a_b""#, 6),
            (
                "1.2.3-99999999999999999999",
                r#"strconv.ParseUint: parsing "99999999999999999999": value out of range"#,
                6,
            ),
            ("1.2.3+", "Build meta data is empty", 6),
            ("1.2.3-a+b+c", r#"Invalid character(s) found in build meta data "b+c""#, 8),
            (" 1.2.3", r#"Invalid character(s) found in major number " 1""#, 0),
        ] {
            let found = text.parse::<Version>().unwrap_err();
            assert_eq!((found.to_string().as_str(), found.position()), (error, position), "{text:?}");
        }
    }

    #[test]
    fn tolerant_reading_mends_what_blang_mends() {
        for (text, version) in [
            ("1.2.3", "1.2.3"),
            ("v1.2", "1.2.0"),
            ("1", "1.0.0"),
            (" 1.02.3 ", "1.2.3"),
            ("00.0.00-rc.1", "0.0.0-rc.1"),
            ("1.2.03-rc.1+build.01", "1.2.3-rc.1+build.01"),
            ("1.2.3+a", "1.2.3+a"),
            ("", "strconv.ParseUint: parsing \"\": invalid syntax"),
            ("1.", "strconv.ParseUint: parsing \"\": invalid syntax"),
            ("1..2", "strconv.ParseUint: parsing \"\": invalid syntax"),
            ("abc", "Invalid character(s) found in major number \"0abc\""),
            ("vv1", "Invalid character(s) found in major number \"0v1\""),
            ("1.2.3.4", "Invalid character(s) found in patch number \"3.4\""),
            ("1.2-rc", "Short version cannot contain PreRelease/Build meta data"),
            ("1.2.3-", "Prerelease is empty"),
            ("1.2.3-01", "Numeric PreRelease version must not contain leading zeroes \"01\""),
        ] {
            let found = Version::parse_tolerant(text).map_or_else(|e| e.to_string(), |v| v.to_string());
            assert_eq!(found, version, "{text:?}");
        }
    }

    #[test]
    fn is_a_string_in_json() {
        let version: Version = serde_json::from_str(r#""1.2.3-rc.1+b""#).unwrap();
        assert_eq!(serde_json::to_string(&version).unwrap(), r#""1.2.3-rc.1+b""#);
        assert!(serde_json::from_str::<Version>(r#""1.2""#).is_err());
    }
}
