//! Strict semantic versions, as the blang library v4 parses them.
//!
//! Three numbers below 2^64 without leading zeros, no `v`; numeric pre-release identifiers below 2^64.

use std::{
    fmt::{self, Write},
    str::FromStr,
};

use olm_go::Quoted;
use serde::{Serialize, Serializer};

use crate::ParseError;

/// A semantic version. Equality is that of the texts; see [`Version::cmp_precedence`] for order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    numbers: [u64; 3],
    prerelease: Vec<Identifier>,
    build: String,
}

/// One identifier of a pre-release or release. Numeric ones are ordered by value, others by their bytes; numeric ones are
/// lower. Of two lists that agree so far, the longer is greater.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
            return Err(ParseError::new("Short version cannot contain PreRelease/Build meta data"));
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

fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn characters(noun: &str, text: &str) -> ParseError {
    ParseError::new(format!("Invalid character(s) found in {noun} {}", Quoted(text)))
}

/// Parses one of the three numbers; errors name it.
fn number(text: &str, noun: &str) -> Result<u64, ParseError> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(characters(&noun.to_lowercase(), text));
    }
    unsigned(text, noun)
}

/// Parses digits.
fn unsigned(text: &str, noun: &str) -> Result<u64, ParseError> {
    if text.len() > 1 && text.starts_with('0') {
        return Err(ParseError::new(format!("{noun} must not contain leading zeroes {}", Quoted(text))));
    }
    text.parse().map_err(|_| {
        let problem = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        ParseError::new(format!("strconv.ParseUint: parsing {}: {problem}", Quoted(text)))
    })
}

/// Parses one identifier of a pre-release or release.
pub(crate) fn identifier(text: &str) -> Result<Identifier, ParseError> {
    if text.is_empty() {
        return Err(ParseError::new("Prerelease is empty"));
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return unsigned(text, "Numeric PreRelease version").map(Identifier::Numeric);
    }
    if !text.bytes().all(is_identifier_byte) {
        return Err(characters("prerelease", text));
    }
    Ok(Identifier::Alphanumeric(text.to_owned()))
}

fn check_build(text: &str) -> Result<(), ParseError> {
    for identifier in text.split('.') {
        if identifier.is_empty() {
            return Err(ParseError::new("Build meta data is empty"));
        }
        if !identifier.bytes().all(is_identifier_byte) {
            return Err(characters("build meta data", identifier));
        }
    }
    Ok(())
}

impl FromStr for Version {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::new("Version string empty"));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ParseError::new("No Major.Minor.Patch elements found"));
        };
        let (major, minor) = (number(major, "Major number")?, number(minor, "Minor number")?);
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [major, minor, number(patch, "Patch number")?];
        let identifiers = pre.into_iter().flat_map(|pre| pre.split('.').map(identifier));
        let prerelease = identifiers.collect::<Result<_, _>>()?;
        build.map_or(Ok(()), check_build)?;
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
    fn refuses_what_is_not_strict_with_blangs_text() {
        for (text, error) in [
            ("", "Version string empty"),
            ("1", "No Major.Minor.Patch elements found"),
            ("1.2", "No Major.Minor.Patch elements found"),
            ("v1.2.3", r#"Invalid character(s) found in major number "v1""#),
            ("1.x.3", r#"Invalid character(s) found in minor number "x""#),
            ("1.2.3.4", r#"Invalid character(s) found in patch number "3.4""#),
            ("01.2.3", r#"Major number must not contain leading zeroes "01""#),
            ("1.02.3", r#"Minor number must not contain leading zeroes "02""#),
            ("1.2.03", r#"Patch number must not contain leading zeroes "03""#),
            ("1..3", r#"strconv.ParseUint: parsing "": invalid syntax"#),
            ("1.2.", r#"strconv.ParseUint: parsing "": invalid syntax"#),
            ("1.2.-a", r#"strconv.ParseUint: parsing "": invalid syntax"#),
            (
                "18446744073709551616.0.0",
                r#"strconv.ParseUint: parsing "18446744073709551616": value out of range"#,
            ),
            ("1.2.3-", "Prerelease is empty"),
            ("1.2.3-a..b", "Prerelease is empty"),
            ("1.2.3-a.01", r#"Numeric PreRelease version must not contain leading zeroes "01""#),
            ("1.2.3-a_b", r#"Invalid character(s) found in prerelease "a_b""#),
            (
                "1.2.3-99999999999999999999",
                r#"strconv.ParseUint: parsing "99999999999999999999": value out of range"#,
            ),
            ("1.2.3+", "Build meta data is empty"),
            ("1.2.3-a+b+c", r#"Invalid character(s) found in build meta data "b+c""#),
            (" 1.2.3", r#"Invalid character(s) found in major number " 1""#),
        ] {
            assert_eq!(text.parse::<Version>().unwrap_err().to_string(), error, "{text:?}");
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
        let version: Version = "1.2.3-rc.1+b".parse().unwrap();
        assert_eq!(serde_json::to_string(&version).unwrap(), r#""1.2.3-rc.1+b""#);
    }
}
